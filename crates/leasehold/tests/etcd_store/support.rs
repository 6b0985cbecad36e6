//! What these tests have in common.

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{Clock, SystemClock};
use leasehold::store::conformance::pool;
use leasehold::store::{Begin, Cursor, Era, Hints, Store, StoreError, StoreErrorKind, StoreUrl};

pub(crate) fn url(text: &str) -> StoreUrl {
    text.parse().expect("a good URL")
}

/// A store that begins live.
pub(crate) async fn live(text: &str) -> Arc<dyn Store> {
    leasehold::store::migrate(&url(text), Begin::Live).await.expect("a store can be created");
    open(text).await
}

pub(crate) async fn open(text: &str) -> Arc<dyn Store> {
    leasehold::store::open(&url(text)).await.expect("the store can be opened")
}

/// Why a store cannot be opened; it must be said in bounded time.
pub(crate) async fn refusal(text: &str) -> StoreError {
    let url = url(text);
    let opening = leasehold::store::open(&url);
    let answer = tokio::time::timeout(Duration::from_secs(30), opening).await.expect("in bounded time");
    answer.expect_err("such a server cannot be used")
}

pub(crate) fn expect(error: &StoreError, kind: StoreErrorKind, words: &str) {
    let said = chain(error);
    assert_eq!(error.kind(), kind, "{said}");
    assert!(said.contains(words), "{said:?} does not say {words:?}");
}

/// An error with its causes.
pub(crate) fn chain(error: &StoreError) -> String {
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}

pub(crate) async fn era_of(store: &Arc<dyn Store>) -> Era {
    store.sessions(&pool("work"), Cursor::START).await.expect("the store answers").era
}

/// What comes of a call, and how long it took.
pub(crate) async fn timed<T>(call: impl Future<Output = T>) -> (T, Duration) {
    let before = SystemClock.now();
    let answer = call.await;
    (answer, SystemClock.now().since(before))
}

/// Repeats a call until it is answered.
pub(crate) async fn eventually<T>(what: &str, mut call: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = SystemClock.now();
    loop {
        if let Some(answer) = call().await {
            return answer;
        }
        assert!(SystemClock.now().since(begun) < Duration::from_secs(60), "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Whether there is another hint in time.
pub(crate) async fn next_hint(hints: &mut Hints, within: Duration) -> bool {
    let next = poll_fn(|context| hints.as_mut().poll_next(context));
    tokio::time::timeout(within, next).await.is_ok_and(|hint| hint.is_some())
}

/// How many requests of a kind the server has handled.
pub(crate) fn handled(port: u16, method: &str) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("etcd listens");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("etcd reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("etcd answers");
    let of_method = format!("grpc_method=\"{method}\"");
    let lines = text.lines().filter(|line| line.starts_with("grpc_server_handled_total"));
    let counts = lines.filter(|line| line.contains(&of_method)).filter_map(|line| line.rsplit(' ').next());
    counts.filter_map(|count| count.parse::<u64>().ok()).sum()
}
