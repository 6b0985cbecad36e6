//! What a candidate does by itself whenever it is elected.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::office::{Campaigning, Leadership, Office};
use crate::clock::Clock;
use crate::ledger::Reason;

pub(super) type Elected = Arc<dyn Fn(Leadership) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;
pub(super) type Demoted = Arc<dyn Fn(Reason) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What a candidate does whenever it is elected.
pub(super) struct Leading {
    pub(super) elected: Elected,
    pub(super) demoted: Option<Demoted>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) grace: Duration,
}

impl Leading {
    pub(super) async fn forever(self, office: Arc<Office>) {
        let _campaigning = Campaigning::begin(&office);
        loop {
            let leadership = Arc::clone(&office).campaign().await;
            let reason = self.lead(&office, leadership).await;
            if let Some(demoted) = &self.demoted {
                demoted(reason).await;
            }
        }
    }

    /// Leads until the leader returns, drops its leadership or must stop; one that does not stop in time is dropped.
    async fn lead(&self, office: &Office, leadership: Leadership) -> Reason {
        let lease = leadership.lease().clone();
        let mut leader = Aborted(tokio::spawn((self.elected)(leadership)));
        let stop = async {
            tokio::select! {
                biased;
                reason = lease.lost() => reason,
                () = office.given_back(lease.token()) => Reason::Voluntary,
            }
        };
        let (reason, outcome) = tokio::select! {
            biased;
            outcome = &mut leader.0 => (Reason::Voluntary, outcome),
            reason = stop => {
                let deadline = self.clock.now().after(self.grace).min(lease.trusted_until());
                tokio::select! {
                    biased;
                    outcome = &mut leader.0 => (reason, outcome),
                    () = self.clock.sleep_until(deadline) => {
                        leader.0.abort();
                        (reason, (&mut leader.0).await)
                    }
                }
            }
        };
        if outcome.is_err_and(|error| error.is_panic()) {
            tracing::error!(pool = %lease.pool(), token = %lease.token(), "the leader panicked; the seat goes back");
        }
        reason
    }
}

/// A task that ends with its owner.
#[derive(Debug)]
pub(super) struct Aborted(pub(super) JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}
