//! A store on a private Redis server.

use std::sync::Arc;

use leasehold::store::{self, Begin, Store, StoreUrl};
use leasehold_testkit::Redis;

/// A server, and an open store on it.
pub(crate) struct OnRedis {
    pub(crate) server: Redis,
    pub(crate) store: Arc<dyn Store>,
}

impl OnRedis {
    /// An empty store whose first era is live. `options` are added to the address.
    pub(crate) async fn with(options: &str) -> Self {
        let server = Redis::start();
        let url = address(&server, options);
        store::migrate(&url, Begin::Live).await.expect("an empty server can be prepared");
        let store = open(&url).await;
        Self { server, store }
    }

    /// An empty store whose first era was written by version 1.
    #[allow(dead_code, reason = "only some of the tests that share this file go back so far")]
    pub(crate) async fn of_version_1() -> Self {
        let server = Redis::start();
        let said = server.cli(&["INFO", "replication"]);
        let id = said.lines().find_map(|line| line.strip_prefix("master_replid:")).expect("it has one");
        let era = ["identity", id.trim(), "nonce", "0123456789abcdef", "frozen", "0", "token_base", "0"];
        let rest = ["ttl_max", "0", "seq", "1", "mirror", "endpoints", "poll", "poll"];
        server.cli(&[&["HSET", "leasehold:era", "version", "1"], &era[..], &rest[..]].concat());
        let store = open(&address(&server, "")).await;
        Self { server, store }
    }
}

/// The address of a store on `server`.
pub(crate) fn address(server: &Redis, options: &str) -> StoreUrl {
    format!("{}{options}", server.url()).parse().expect("a good address")
}

/// Opens a store that must not be refused.
pub(crate) async fn open(url: &StoreUrl) -> Arc<dyn Store> {
    store::open(url).await.expect("the store can be opened")
}
