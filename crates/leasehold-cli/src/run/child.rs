//! The life of one resource's child: started, watched, paused, started again, stopped in time.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{Clock, SystemClock};
use leasehold::ledger::{Event, Recorder};
use leasehold::participant::Settings;
use leasehold::store::{MarkKind, Store};
use leasehold::{Lease, Term};
use leasehold_manager::{Exit, Next, Policy, Restart};

use crate::children::{Fate, Home};
use crate::failure::chain;
use crate::operate::{put_mark, quarantine_note};

/// How long to wait after a child could not be started at all.
const START_AGAIN: Duration = Duration::from_secs(1);

/// What the children of all resources share.
pub(super) struct Children {
    pub(super) home: Arc<Home>,
    pub(super) store: Arc<dyn Store>,
    pub(super) recorder: Recorder,
    pub(super) command: Vec<OsString>,
    pub(super) restart: Restart,
    pub(super) settings: Settings,
}

impl Children {
    /// Keeps a child running for as long as the lease stands. Ends only when the child is gone.
    pub(super) async fn keep(self: Arc<Self>, lease: Lease) {
        let _admitted = self.home.admit(&lease);
        let mut policy = Policy::new(self.restart);
        let mut quarantined = false;
        while !lease.is_stopping() {
            let spec = self.home.spec(&self.command, &lease);
            let wait = match self.home.run(&lease, spec).await {
                Ok(Fate::Stopped) => break,
                Ok(Fate::Ended(exit)) => self.after(&lease, &mut policy, exit, &mut quarantined).await,
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(resource = %lease.resource(), error, "the command was not started");
                    Some(START_AGAIN)
                }
            };
            let again = async {
                match wait {
                    Some(wait) => SystemClock.sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = again => {}
                _ = lease.lost() => break,
            }
        }
        if quarantined {
            self.mark_quarantine(&lease, None).await;
        }
    }

    /// How long to wait before the child is started again; `None` if it never is.
    async fn after(
        &self,
        lease: &Lease,
        policy: &mut Policy,
        exit: Exit,
        quarantined: &mut bool,
    ) -> Option<Duration> {
        let resource = lease.resource();
        match policy.on_exit(exit) {
            Next::Again(wait) => {
                tracing::info!(%resource, exit = %exit.how, again_in = ?wait, "the command ended");
                if std::mem::take(quarantined) {
                    self.mark_quarantine(lease, None).await;
                }
                Some(wait)
            }
            Next::Finished => {
                tracing::info!(%resource, exit = %exit.how, "the command is done; its lease stays here so that nobody repeats it");
                None
            }
            Next::Quarantine(wait) => {
                let said = quarantine_note(lease.token(), &format!("{}; next try in {wait:?}", exit.how));
                let term = Term { resource: resource.clone(), token: lease.token() };
                self.recorder.note(lease.member(), Event::Quarantined).term(&term).error(&said).write();
                self.mark_quarantine(lease, Some(&said)).await;
                *quarantined = true;
                Some(wait)
            }
        }
    }

    /// Lets `status` and `show` say why nothing runs. Not worth failing for.
    async fn mark_quarantine(&self, lease: &Lease, value: Option<&str>) {
        let subject = lease.resource().as_str();
        let mark = put_mark(&*self.store, lease.pool(), MarkKind::Quarantine, subject, value);
        if let Ok(Err(error)) = tokio::time::timeout(self.settings.call_timeout, mark).await {
            tracing::debug!(resource = subject, error = chain(&error), "the quarantine could not be marked");
        }
    }
}
