//! The life of one resource's child: started, watched, paused, started again, stopped in time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Clock, Moment, SystemClock};
use leasehold::ledger::{Event, Recorder};
use leasehold::participant::{OnUncertain, Settings, State};
use leasehold::store::{MarkKind, Store};
use leasehold::{Lease, Term};
use leasehold_manager::{Exit, Next, Policy, Restart, Running, Spec, Supervisor};

use super::{KILL_BEFORE, Leases, command, extend_to};
use crate::failure::chain;
use crate::operate::{put_mark, quarantine_note};

/// How long to wait after a child could not be started at all.
const START_AGAIN: Duration = Duration::from_secs(1);

/// What the children of all resources share.
pub(super) struct Children {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) leases: Leases,
    pub(super) store: Arc<dyn Store>,
    pub(super) recorder: Recorder,
    pub(super) command: Vec<OsString>,
    pub(super) socket: PathBuf,
    pub(super) restart: Restart,
    pub(super) settings: Settings,
}

/// What becomes of a child.
enum Fate {
    /// It ended by itself.
    Ended(Exit),
    /// It was stopped, and is gone.
    Stopped,
}

impl Children {
    /// Keeps a child running for as long as the lease stands. Ends only when the child is gone.
    pub(super) async fn keep(self: Arc<Self>, lease: Lease) {
        self.leases.insert(&lease);
        let mut policy = Policy::new(self.restart);
        let mut quarantined = false;
        while !lease.is_stopping() {
            if let Some(until) = lease.common_deadline() {
                extend_to(&self.supervisor, &self.settings, until);
            }
            let wait = match self.supervisor.run(self.spec(&lease)).await {
                Ok(child) => match self.live(&lease, &child).await {
                    Fate::Stopped => break,
                    Fate::Ended(exit) => self.after(&lease, &mut policy, exit, &mut quarantined).await,
                },
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
        self.leases.remove(&lease);
    }

    fn spec(&self, lease: &Lease) -> Spec {
        let words = command::fill(&self.command, lease);
        let (program, args) = words.split_first().map_or((OsString::new(), &[][..]), |(p, a)| (p.clone(), a));
        Spec::new(program, args.iter().cloned())
            .pool(lease.pool().as_str())
            .resource(lease.resource().as_str())
            .token(lease.token().0)
            .member(lease.member().as_str())
            .socket(&self.socket)
    }

    /// Watches a child until it ends or must end; pauses it while the lease is uncertain, if the pool says so.
    async fn live(&self, lease: &Lease, child: &Running) -> Fate {
        let pauses = self.settings.on_uncertain == OnUncertain::Pause;
        let mut state = State::Held;
        loop {
            tokio::select! {
                exit = child.exited() => return Fate::Ended(exit),
                _ = lease.lost() => {
                    child.stop(self.kill_at(lease)).await;
                    return Fate::Stopped;
                }
                () = lease.changed(state), if pauses => {
                    state = lease.state();
                    match state {
                        State::Held => child.resume(),
                        State::Uncertain => child.pause(),
                        State::Lost => {}
                    }
                }
            }
        }
    }

    fn kill_at(&self, lease: &Lease) -> Moment {
        clock::now().after(self.settings.grace).min(lease.trusted_until().before(KILL_BEFORE))
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
