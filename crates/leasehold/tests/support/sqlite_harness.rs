//! The SQLite store under the suite: a file in a directory of its own.

use std::sync::Arc;

use leasehold::lease::MemberId;
use leasehold::store::Store;
use leasehold::store::conformance::Harness;

use super::sqlite_file::{File, open};

/// A store on a file of its own.
pub(crate) struct Sqlite {
    file: File,
    store: Option<Arc<dyn Store>>,
}

impl Harness for Sqlite {
    async fn fresh() -> Self {
        let file = File::new();
        let store = Some(open(&file.path()).await);
        Self { file, store }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self.store.as_ref().expect("the store is open"))
    }

    async fn second_handle(&self) -> Arc<dyn Store> {
        open(&self.file.path()).await
    }

    async fn restart(&mut self) -> bool {
        self.store = None;
        self.store = Some(open(&self.file.path()).await);
        true
    }

    async fn snapshot(&mut self) {
        self.file.copy();
    }

    async fn roll_back(&mut self) {
        self.file.put_copy_back();
    }

    async fn lose_session(&self, session: &MemberId) {
        // Nobody changes rows while there are notes; whoever reads settles them.
        self.store().pools().await.expect("the store answers");
        self.file.execute("DELETE FROM sessions WHERE id = ?1", [session.as_str()]);
    }
}
