//! The PostgreSQL store under the suite: a database of its own on one server.

use std::sync::Arc;

use leasehold::lease::MemberId;
use leasehold::store::Store;
use leasehold::store::conformance::Harness;

use super::postgres_server::{Database, open};

/// A store in a database of its own.
pub(crate) struct Postgres {
    database: Database,
    store: Arc<dyn Store>,
}

impl Harness for Postgres {
    async fn fresh() -> Self {
        let database = Database::fresh().await;
        let store = open(&database.url()).await;
        Self { database, store }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    async fn second_handle(&self) -> Arc<dyn Store> {
        open(&self.database.url()).await
    }

    /// Every member is started again; what happens when the server is, `postgres_store.rs` says.
    async fn restart(&mut self) -> bool {
        self.store = open(&self.database.url()).await;
        true
    }

    async fn snapshot(&mut self) {
        self.database.copy().await;
    }

    async fn roll_back(&mut self) {
        self.database.put_copy_back().await;
    }

    async fn lose_session(&self, session: &MemberId) {
        self.database.execute(format!("DELETE FROM leasehold.sessions WHERE id = '{session}'")).await;
    }
}
