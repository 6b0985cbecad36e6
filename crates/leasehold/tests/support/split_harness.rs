//! Two files under the suite: leases in one, the registry in the other. What is forgotten is the leases.

use std::sync::Arc;

use leasehold::lease::MemberId;
use leasehold::store::Store;
use leasehold::store::around::Split;
use leasehold::store::conformance::Harness;

use super::sqlite_file::{File, open};

/// A store on two files of its own.
pub(crate) struct TwoFiles {
    leases: File,
    registry: File,
    store: Option<Arc<dyn Store>>,
}

impl TwoFiles {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(Split::new(open(&self.leases.path()).await, open(&self.registry.path()).await))
    }
}

impl Harness for TwoFiles {
    async fn fresh() -> Self {
        let mut files = Self { leases: File::new(), registry: File::new(), store: None };
        files.store = Some(files.open().await);
        files
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self.store.as_ref().expect("the store is open"))
    }

    async fn second_handle(&self) -> Arc<dyn Store> {
        self.open().await
    }

    async fn restart(&mut self) -> bool {
        self.store = None;
        self.store = Some(self.open().await);
        true
    }

    async fn snapshot(&mut self) {
        self.leases.copy();
    }

    async fn roll_back(&mut self) {
        self.leases.put_copy_back();
    }

    fn registry_is_apart(&self) -> bool {
        true
    }

    async fn lose_session(&self, session: &MemberId) {
        self.leases.execute("DELETE FROM sessions WHERE id = ?1", [session.as_str()]);
    }
}
