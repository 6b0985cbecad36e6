//! The reference store under the suite: what it knows can be kept and put back.

use std::sync::Arc;

use leasehold::lease::MemberId;
use leasehold::store::Store;
use leasehold::store::conformance::Harness;
use leasehold::store::memory::{MemoryStore, Snapshot};

/// A store, and what it knew when it was last asked to remember.
pub(crate) struct Memory {
    store: MemoryStore,
    kept: Option<Snapshot>,
}

impl Harness for Memory {
    async fn fresh() -> Self {
        Self { store: MemoryStore::new(), kept: None }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn second_handle(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn restart(&mut self) -> bool {
        false
    }

    async fn snapshot(&mut self) {
        self.kept = Some(self.store.snapshot());
    }

    async fn roll_back(&mut self) {
        self.store.restore(self.kept.as_ref().expect("something was kept"));
    }

    async fn lose_session(&self, session: &MemberId) {
        self.store.lose_session(session);
    }
}
