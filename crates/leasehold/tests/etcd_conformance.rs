//! The etcd store keeps the contract.

#[path = "support/etcd_server.rs"]
mod etcd_server;

use std::sync::Arc;

use etcd_server::{Place, open};
use leasehold::lease::MemberId;
use leasehold::store::Store;
use leasehold::store::conformance::Harness;

struct Etcd {
    place: Place,
    store: Arc<dyn Store>,
}

impl Harness for Etcd {
    async fn fresh() -> Self {
        let place = Place::new().await;
        let store = open(&place.url).await;
        Self { place, store }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    async fn second_handle(&self) -> Arc<dyn Store> {
        open(&self.place.url).await
    }

    async fn restart(&mut self) -> bool {
        self.place.alone().restart();
        true
    }

    async fn snapshot(&mut self) {
        self.place.alone().save("snapshot");
    }

    async fn roll_back(&mut self) {
        self.place.alone().restore("snapshot", true);
    }

    async fn lose_session(&self, session: &MemberId) {
        self.place.delete(&format!("session/work/{session}"));
    }
}

leasehold::conformance!(Etcd);
