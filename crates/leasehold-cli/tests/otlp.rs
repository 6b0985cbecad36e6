//! Spans of requests, as a real little collector receives them from a real `leasehold serve`.
#![cfg(target_os = "linux")]

#[path = "support/server.rs"]
mod server;
mod support;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;

use server::{ask_with, serve, status};
use support::{Place, leasehold, ran, wait_until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Takes what is sent to it.
struct Collector {
    _runtime: tokio::runtime::Runtime,
    url: String,
    taken: Arc<Mutex<Vec<Bytes>>>,
}

impl Collector {
    fn start() -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        listener.set_nonblocking(true).expect("a listener");
        let taken = Arc::new(Mutex::new(Vec::new()));
        let taking = Arc::clone(&taken);
        let take = move |body: Bytes| async move { taking.lock().expect("the bodies").push(body) };
        let routes = Router::new().route("/v1/traces", post(take));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            axum::serve(listener, routes).await
        });
        Self { _runtime: runtime, url, taken }
    }

    fn bodies(&self) -> Vec<Bytes> {
        self.taken.lock().expect("the bodies").clone()
    }

    /// Whether a span with these ids was sent: in protobuf `trace_id` is the first field of a span, 16 bytes, and
    /// `parent_span_id` the fourth, 8 bytes.
    fn has_span(&self, trace: &str, parent: &str) -> bool {
        let trace = [&[0x0a, 16], bytes(trace).as_slice()].concat();
        let parent = [&[0x22, 8], bytes(parent).as_slice()].concat();
        let has = |body: &Bytes, part: &[u8]| body.windows(part.len()).any(|window| window == part);
        self.bodies().iter().any(|body| has(body, &trace) && has(body, &parent))
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn pools(address: &str, traceparent: &str) -> u16 {
    status(&ask_with(address, "GET", "/api/v1/pools", &format!("traceparent: {traceparent}\r\n"), ""))
}

#[test]
fn a_request_is_a_span_of_its_callers_trace() {
    let (place, collector) = (Place::new(), Collector::start());
    let (server, address) =
        serve(&place, "server", &["--otlp-endpoint", &collector.url, "--log", "warn,leasehold::serve=info"]);
    assert_eq!(pools(&address, &format!("00-{TRACE}-{PARENT}-01")), 200);
    wait_until("the span is sent", || collector.has_span(TRACE, PARENT));
    let name = b"GET /api/v1/pools";
    let named = |body: &Bytes| body.windows(name.len()).any(|window| window == name);
    assert!(collector.bodies().iter().any(named), "the span says what was asked");
    // Who does not want to be traced is not.
    let unsampled = "5bf92f3577b34da6a3ce929d0e0e4736";
    assert_eq!(pools(&address, &format!("00-{unsampled}-{PARENT}-00")), 200);
    // The last ones are sent when it stops.
    let last = "6bf92f3577b34da6a3ce929d0e0e4736";
    assert_eq!(pools(&address, &format!("00-{last}-{PARENT}-01")), 200);
    server.leave();
    assert!(collector.has_span(last, PARENT));
    assert!(!collector.has_span(unsampled, PARENT));
}

/// A collector that is away costs spans and nothing else.
#[test]
fn a_collector_that_is_away_holds_nothing_up() {
    let place = Place::new();
    let closed =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let url = format!("http://{closed}");
    let (server, address) = serve(&place, "server", &["--otlp-endpoint", &url]);
    for _ in 0..20 {
        assert_eq!(pools(&address, ""), 200);
    }
    server.leave();
}

#[test]
fn an_address_that_is_none_is_refused() {
    let place = Place::new();
    let mut serve = leasehold();
    serve.args([
        "serve",
        "--database",
        &place.url(),
        "--listen",
        "127.0.0.1:0",
        "--otlp-endpoint",
        "collector:4318",
    ]);
    let refused = ran(&mut serve);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("give the address of a collector"), "{}", refused.err);
}
