//! Events as a stream, from a server at work.

mod told;

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::Store;
use leasehold_server::{Running, Settings};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use told::{all_here, events, hand_over, judge, open};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn serve(store: &Arc<dyn Store>) -> Running {
    leasehold_server::start(Settings::at("127.0.0.1:0".parse().unwrap()), Arc::clone(store)).await.unwrap()
}

/// A client of the stream: whole events only, as the standard wants it.
struct Client {
    response: Response,
    text: String,
}

/// One event of the stream.
#[derive(Debug, Default, PartialEq)]
struct Said {
    id: Option<String>,
    kind: Option<String>,
    data: String,
}

impl Client {
    async fn listen(server: &Running, query: &str, last: Option<&str>) -> Self {
        let mut request = reqwest::Client::builder()
            .tls_backend_preconfigured(rustls_free())
            .build()
            .unwrap()
            .get(format!("http://{}/api/v1/events?{query}", server.address()));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        Self { response: request.send().await.unwrap(), text: String::new() }
    }

    async fn next(&mut self) -> Said {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let mut said = Said::default();
                for line in block.lines() {
                    match line.split_once(':').map(|(key, value)| (key, value.trim_start())) {
                        Some(("id", value)) => said.id = Some(value.to_owned()),
                        Some(("event", value)) => said.kind = Some(value.to_owned()),
                        Some(("data", value)) => said.data.push_str(value),
                        _ => {}
                    }
                }
                if said != Said::default() {
                    return said;
                }
                continue;
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("something comes");
            let chunk = chunk.unwrap().expect("the stream has no end");
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next `count` events.
    async fn take(&mut self, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        while events.len() < count {
            let said = self.next().await;
            let event: Value = serde_json::from_str(&said.data).unwrap();
            assert_eq!(said.id, Some(event["row"].to_string()));
            assert_eq!(said.kind, None);
            events.push(event);
        }
        events
    }
}

fn rustls_free() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}

// proves R150, C54
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_back_misses_nothing_and_hears_nothing_twice() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    let server = serve(&store).await;
    let mut client = Client::listen(&server, "pool=scenes", None).await;
    assert_eq!(client.response.headers()["content-type"], "text/event-stream");
    hand_over(&store, "scenes").await;
    let first = events(&*store, "scenes").await.len();
    // It hears half of it while it happens, and goes.
    let mut heard = client.take(first / 2).await;
    drop(client);
    hand_over(&store, "scenes").await;
    hand_over(&store, "elsewhere").await;
    let mut rest = events(&*store, "scenes").await.len() - heard.len();
    while rest > 0 {
        // And comes back again and again.
        let last = heard.last().unwrap()["row"].to_string();
        let mut client = Client::listen(&server, "pool=scenes&after=0", Some(&last)).await;
        let count = rest.min(3);
        heard.extend(client.take(count).await);
        rest -= count;
    }
    judge(&*store, &["scenes"], &heard).await;
    assert_eq!(heard.len(), events(&*store, "scenes").await.len(), "nothing twice");

    // Live, from where it was, of one resource.
    let last = heard.last().unwrap()["row"].to_string();
    let mut client = Client::listen(&server, "pool=scenes&resource=lobby", Some(&last)).await;
    hand_over(&store, "scenes").await;
    let lobby = client.take(4).await;
    let kinds: Vec<&str> = lobby.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["acquired", "started", "stopped", "released"]);
    assert!(lobby.iter().all(|event| event["resource"] == "lobby"));
    drop(client);
    server.stop().await;
    assert!(!all_here(&*store, &["scenes"], &heard).await, "there was more meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_is_said_and_what_is_wrong_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    hand_over(&store, "scenes").await;
    let server = serve(&store).await;
    let all = events(&*store, "scenes").await;
    // A row that this ledger does not have any more, as after a long absence.
    let mut client = Client::listen(&server, "pool=scenes", Some("999999")).await;
    let said = client.next().await;
    assert_eq!((said.kind.as_deref(), said.id), (Some("gap"), None));
    assert_eq!(client.take(1).await[0]["id"], all[0].id, "whatever there is, is new to it");
    let mut client = Client::listen(&server, &format!("pool=scenes&after={}", all[1].row), None).await;
    assert_eq!(client.take(1).await[0]["id"], all[2].id);
    for (query, last) in [
        ("pool=_leasehold", None),
        ("pool=scenes&resource=a/b", None),
        ("pool=scenes&after=x", None),
        ("resource=a", None),
        ("pool=scenes", Some("x")),
    ] {
        let client = Client::listen(&server, query, last).await;
        assert_eq!(client.response.status(), StatusCode::UNPROCESSABLE_ENTITY, "{query}");
    }
    server.stop().await;
}
