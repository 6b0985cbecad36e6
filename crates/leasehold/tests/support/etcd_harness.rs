//! The etcd store under the suite: a server that nobody else uses meanwhile.

use std::sync::Arc;

use leasehold::lease::MemberId;
use leasehold::store::Store;
use leasehold::store::conformance::Harness;

use super::etcd_server::{Place, open};

/// A store on a server that nobody else uses meanwhile.
pub(crate) struct Etcd {
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
