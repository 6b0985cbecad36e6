//! What a candidate tells of itself: in its log, and to those who ask over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::Token;
use leasehold::election::{Candidate, Key, Leadership, Seat};
use leasehold::ledger::Reason;
use leasehold::participant::Status;

use crate::children::Home;
use crate::health::Report;

/// The elections that this candidate won.
#[derive(Debug, Default)]
pub(super) struct Elections(AtomicU64);

impl Elections {
    pub(super) fn won(&self, key: &Key, leadership: &Leadership) {
        self.0.fetch_add(1, Ordering::Relaxed);
        let (token, member) = (leadership.token(), leadership.lease().member());
        tracing::info!(%key, %token, %member, "elected");
    }

    pub(super) async fn over(&self, key: &Key, leadership: &Leadership) {
        let reason = tokio::select! {
            biased;
            reason = leadership.lost() => reason,
            () = std::future::ready(()) => Reason::Voluntary,
        };
        tracing::info!(%key, token = %leadership.token(), reason = reason.as_str(), "no longer leading");
    }
}

/// What is told over HTTP.
pub(super) struct Told {
    pub(super) candidate: Arc<Candidate>,
    pub(super) home: Arc<Home>,
    pub(super) elections: Arc<Elections>,
    pub(super) name: String,
    pub(super) ttl: Duration,
}

#[async_trait]
impl Report for Told {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn key(&self) -> &Key {
        self.candidate.key()
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn status(&self) -> Status {
        self.candidate.status().borrow().clone()
    }

    fn is_leader(&self) -> Option<Token> {
        self.candidate.is_leader()
    }

    fn seat(&self) -> Seat {
        self.candidate.seat()
    }

    fn leadership_changes(&self) -> u64 {
        self.elections.0.load(Ordering::Relaxed)
    }

    async fn resign(&self) -> bool {
        self.candidate.resign().await
    }

    fn reconcile(&self) -> bool {
        let leads = self.candidate.is_leader().is_some();
        if leads {
            self.home.hang_up();
        }
        leads
    }
}
