//! Events at a receiver of HTTP requests.

mod told;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use leasehold_server::events::settings::{EventsSettings, SinkSettings, WebhookRules};
use leasehold_server::events::sink::EventSink;
use leasehold_server::events::webhook::{SIGNATURE, TIMESTAMP, WebhookSink, sign};
use leasehold_server::events::{Relays, sink};
use serde_json::Value;
use told::{Log, all_here, events, eventually, hand_over, judge, open};

const SECRET: &str = "a secret of some length";

/// A receiver that fails now and then.
#[derive(Clone, Default)]
struct Receiver {
    requests: Arc<AtomicUsize>,
    moved: Arc<AtomicUsize>,
    arrived: Arc<Mutex<Vec<Value>>>,
}

async fn hook(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let timestamp = header(TIMESTAMP);
    assert!(timestamp.parse::<u64>().is_ok_and(|seconds| seconds > 1_700_000_000));
    if header(SIGNATURE) != sign(SECRET.as_bytes(), timestamp, &body) {
        return StatusCode::UNAUTHORIZED;
    }
    let request = receiver.requests.fetch_add(1, Ordering::SeqCst);
    // The first three, and one in three later on: some of those after it has taken the events.
    if request < 3 {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    receiver.arrived.lock().unwrap().extend(serde_json::from_slice::<Vec<Value>>(&body).unwrap());
    if request % 3 == 0 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
}

async fn elsewhere() -> impl IntoResponse {
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/moved")])
}

async fn moved(State(receiver): State<Receiver>) -> StatusCode {
    receiver.moved.fetch_add(1, Ordering::SeqCst);
    StatusCode::OK
}

async fn receive() -> (Receiver, String) {
    let receiver = Receiver::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/hook", post(hook))
        .route("/elsewhere", post(elsewhere))
        .route("/moved", post(moved))
        .with_state(receiver.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (receiver, address.to_string())
}

fn rules(address: &str) -> WebhookRules {
    WebhookRules { allow: vec![format!("http://{address}/")], ..WebhookRules::default() }
}

fn settings(directory: &Path, url: &str) -> SinkSettings {
    let file = directory.join("secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    SinkSettings::parse(&format!("{url}#secret_file={}", file.display())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_events_arrive_though_the_receiver_fails_now_and_then() {
    let (receiver, address) = receive().await;
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    let sinks = vec![settings(directory.path(), &format!("http://{address}/hook?token=hush"))];
    let settings = EventsSettings { sinks, webhooks: rules(&address) };
    let relays = Relays::start(Arc::clone(&store), &settings).await.unwrap();
    let arrived = || receiver.arrived.lock().unwrap().clone();
    for _ in 0..3 {
        hand_over(&store, "scenes").await;
        eventually("events arrive", || async { all_here(&*store, &["scenes"], &arrived()).await }).await;
    }
    relays.stop().await;
    judge(&*store, &["scenes"], &arrived()).await;
    assert!(receiver.requests.load(Ordering::SeqCst) > 5);
}

// proves U22
#[tokio::test]
async fn nobody_is_followed_elsewhere_and_nothing_secret_is_told() {
    let (receiver, address) = receive().await;
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    hand_over(&store, "scenes").await;
    let events = events(&*store, "scenes").await;
    let of = |path: &str| {
        let url = format!("http://user:hush-hush@{address}{path}?token=hush-hush");
        WebhookSink::new(&settings(directory.path(), &url), &rules(&address)).unwrap()
    };
    let (log, _guard) = Log::catch();
    let error = of("/elsewhere").publish(&events).await.expect_err("a redirection is no confirmation");
    assert_eq!(receiver.moved.load(Ordering::SeqCst), 0);
    let nobody =
        format!("http://user:hush-hush@127.0.0.1:{}/?token=hush-hush", leasehold_testkit::free_port());
    let allow = vec![nobody.clone()];
    let rules = WebhookRules { allow, ..WebhookRules::default() };
    let away = sink(&settings(directory.path(), &nobody), &rules).unwrap();
    let away = away.publish(&events).await.expect_err("nobody is there");
    let said = format!("{error} {error:?} {away} {away:?} {}", log.text());
    assert!(!said.contains("hush-hush") && !said.contains(SECRET), "{said}");
    assert!(error.to_string().contains("307"), "{error}");
}
