//! What is special about the PostgreSQL store: servers that refuse, hang, restart, fail over and forget, and what may stand
//! in between.

#[path = "postgres/forgets.rs"]
mod forgets;
#[path = "postgres/guard.rs"]
mod guard;
#[path = "postgres/pooler.rs"]
mod pooler;
#[path = "support/postgres_server.rs"]
mod postgres_server;
#[path = "postgres/refusals.rs"]
mod refusals;
#[path = "postgres/schema.rs"]
mod schema;
#[path = "postgres/stalls.rs"]
mod stalls;
#[path = "postgres/tls.rs"]
mod tls;
#[path = "postgres/upgrade.rs"]
mod upgrade;
#[path = "postgres/whole.rs"]
mod whole;

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::lease::Nonce;
use leasehold::store::conformance::pool;
use leasehold::store::{Answer, Begin, Cursor, Era, Hints, Store, StoreError, StoreErrorKind, StoreUrl};
use leasehold_testkit::Postgres;

/// A server of a test's own with a prepared database `work`.
async fn prepared(settings: &[&str]) -> Postgres {
    let server = Postgres::start_with(settings);
    server.create("work");
    leasehold::store::migrate(&url(&server), Begin::Live).await.expect("the database can be prepared");
    server
}

fn url(server: &Postgres) -> StoreUrl {
    server.url("work").parse().expect("a good URL")
}

async fn era_of(store: &Arc<dyn Store>) -> Era {
    store.sessions(&pool("work"), Cursor::START).await.expect("the store answers").era
}

/// The era as soon as the server answers again.
async fn era_soon(store: &Arc<dyn Store>) -> Era {
    for _ in 0..600 {
        if let Ok(read) = store.sessions(&pool("work"), Cursor::START).await {
            return read.era;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server does not answer any more")
}

/// Whether there is a hint; none comes after the last of a store that is gone.
async fn hinted(hints: &mut Hints) -> bool {
    let next = std::future::poll_fn(|context| hints.as_mut().poll_next(context));
    tokio::time::timeout(Duration::from_secs(30), next).await.expect("a hint").is_some()
}

fn frozen<T: std::fmt::Debug>(answer: Answer<T>) -> Nonce {
    match answer {
        Answer::Frozen(nonce) => nonce,
        other => panic!("a store that has forgotten answered {other:?}"),
    }
}

/// Why a store cannot be opened. It must not take long, whatever the server does, and no password is in it.
async fn refusal(url: &str) -> StoreError {
    let before = clock::now();
    let url: StoreUrl = url.parse().expect("a good URL");
    let error = leasehold::store::open(&url).await.expect_err("such a server cannot be used");
    let took = clock::now().since(before);
    assert!(took < Duration::from_secs(20), "it took {took:?} to say {error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    error
}

fn assert_misconfigured(error: &StoreError, words: &str) {
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}: {error:?}");
    assert!(error.to_string().contains(words), "{error}");
}
