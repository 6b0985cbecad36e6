//! The Redis store under the suite: a server of its own, and a pool that others can see or one that they cannot.

use std::sync::Arc;

use leasehold::lease::MemberId;
use leasehold::store::Store;
use leasehold::store::conformance::Harness;

use super::redis_reconnect::reconnect;
use super::redis_server::{OnRedis, address, open};

/// A store on a server of its own, of a version. Where `MIRRORED`, the suite's pool is the one that others can see.
pub(crate) struct Redis<const MIRRORED: bool, const VERSION: u32>(OnRedis);

impl<const MIRRORED: bool, const VERSION: u32> Redis<MIRRORED, VERSION> {
    const OPTIONS: &str = if MIRRORED { "?mirror=work" } else { "" };
}

impl<const MIRRORED: bool, const VERSION: u32> Harness for Redis<MIRRORED, VERSION> {
    async fn fresh() -> Self {
        Self(match VERSION {
            1 => OnRedis::of_version_1().await,
            _ => OnRedis::with(Self::OPTIONS).await,
        })
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
