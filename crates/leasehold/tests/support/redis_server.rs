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
}

/// The address of a store on `server`.
pub(crate) fn address(server: &Redis, options: &str) -> StoreUrl {
    format!("{}{options}", server.url()).parse().expect("a good address")
}

/// Opens a store that must not be refused.
pub(crate) async fn open(url: &StoreUrl) -> Arc<dyn Store> {
    store::open(url).await.expect("the store can be opened")
}
