//! The Redis store keeps the contract, in an ordinary pool and in one that is mirrored for other clients.

#[path = "support/redis_reconnect.rs"]
mod redis_reconnect;
#[path = "support/redis_server.rs"]
mod redis_server;

use std::sync::Arc;

use leasehold::lease::MemberId;
use leasehold::store::Store;
use leasehold::store::conformance::Harness;
use redis_reconnect::reconnect;
use redis_server::{OnRedis, address, open};

/// A store on a server of its own. Where `MIRRORED`, the suite's pool is the one that others can see.
struct Redis<const MIRRORED: bool>(OnRedis);

impl<const MIRRORED: bool> Redis<MIRRORED> {
    const OPTIONS: &str = if MIRRORED { "?mirror=work" } else { "" };
}

impl<const MIRRORED: bool> Harness for Redis<MIRRORED> {
    async fn fresh() -> Self {
        Self(OnRedis::with(Self::OPTIONS).await)
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0.store)
    }

    async fn second_handle(&self) -> Arc<dyn Store> {
        open(&address(&self.0.server, Self::OPTIONS)).await
    }

    /// A server that restarts freezes the store by design, so what goes on undisturbed is a new handle.
    async fn restart(&mut self) -> bool {
        self.0.store = self.second_handle().await;
        true
    }

    async fn snapshot(&mut self) {
        self.0.server.dump();
    }

    async fn roll_back(&mut self) {
        self.0.server.restore();
        reconnect(&self.0.store).await;
    }

    async fn lose_session(&self, session: &MemberId) {
        assert_eq!(self.0.server.cli(&["DEL", &format!("leasehold:session:{session}")]), "1");
    }
}

mod plain {
    use super::*;
    leasehold::conformance!(Redis<false>);
}

mod mirrored {
    use super::*;
    leasehold::conformance!(Redis<true>);
}
