//! `--standby`: the command runs from the start, and is told when it leads and when it no longer does.
//!
//! Invariant: the seat goes back only after the command has confirmed that it stopped leading, or is gone.

use std::ffi::OsString;
use std::time::Duration;

use leasehold::clock::{self, Clock, SystemClock};
use leasehold::election::{Candidate, Leadership};
use leasehold::store::Store;
use leasehold_manager::{Demoted, Exit, Next, Policy, Restart, Standby};
use tokio::sync::Mutex;

use super::lead::{NOT_STARTED, what_is_told};
use super::report::Elections;
use crate::children::{Home, hang_up_on};
use crate::failure::chain;

/// How a command that had stood by was lost.
enum Loss {
    /// It ended by itself.
    Ended(Exit),
    /// It was killed because it did not confirm that it had stopped leading. That is no failure of its own.
    Killed,
}

/// What it takes to keep a command standing by.
pub(super) struct HotStandby<'a> {
    home: &'a Home,
    store: &'a dyn Store,
    command: &'a [OsString],
    elections: &'a Elections,
    /// Here, so that it can be stopped in order by whoever stops waiting for it.
    standby: Mutex<Option<Standby>>,
}

impl<'a> HotStandby<'a> {
    pub(super) fn new(
        home: &'a Home,
        store: &'a dyn Store,
        command: &'a [OsString],
        elections: &'a Elections,
    ) -> Self {
        Self { home, store, command, elections, standby: Mutex::new(None) }
    }

    /// Keeps the command running and campaigns while it runs.
    pub(super) async fn campaign(&self, candidate: &Candidate) {
        let mut policy = Policy::new(Restart::Always);
        loop {
            let exit = match self.live(candidate).await {
                Loss::Killed => continue,
                Loss::Ended(exit) => exit,
            };
            let (Next::Again(wait) | Next::Quarantine(wait)) = policy.on_exit(exit) else { continue };
            tracing::warn!(key = %candidate.key(), exit = %exit.how, again_in = ?wait, "the command ended; without it this is no candidate");
            SystemClock.sleep(wait).await;
        }
    }

    /// The life of one process.
    async fn live(&self, candidate: &Candidate) -> Loss {
        let key = candidate.key();
        let spec = self.home.spec_without_lease(self.command, key.pool(), key.seat());
        let spec = spec.env("LEASEHOLD_ELECTION", key.as_str());
        let mut place = self.standby.lock().await;
        let standby = match self.home.supervisor().run_standby(spec).await {
            Ok(standby) => place.insert(standby),
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(%key, error, "the command was not started");
                return Loss::Ended(NOT_STARTED);
            }
        };
        loop {
            let leadership = tokio::select! {
                exit = standby.child().exited() => return Loss::Ended(exit),
                leadership = candidate.campaign() => leadership,
            };
            self.elections.won(key, &leadership);
            let lost = self.lead(candidate, &leadership, standby).await;
            self.elections.over(key, &leadership).await;
            if let Some(lost) = lost {
                return lost;
            }
        }
    }

    /// Has the command lead until it must not; answers how it was lost, if it was.
    async fn lead(
        &self,
        candidate: &Candidate,
        leadership: &Leadership,
        standby: &mut Standby,
    ) -> Option<Loss> {
        let lease = leadership.lease();
        let _admitted = self.home.admit(lease);
        let mut hangups = self.home.hangups();
        self.home.extend_for(lease);
        let mut told = what_is_told(candidate.key(), lease, self.store);
        told.push(("LEASEHOLD_MEMBER", lease.member().to_string()));
        let pairs: Vec<(&str, &str)> = told.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if let Err(error) = standby.promote(lease.token().0, &pairs).await {
            let error = chain(&error);
            tracing::warn!(key = %candidate.key(), error, "the command was not told to lead; another may");
            return None;
        }
        loop {
            tokio::select! {
                exit = standby.child().exited() => return Some(Loss::Ended(exit)),
                Ok(()) = hangups.changed() => hang_up_on(standby.child()),
                _ = leadership.lost() => break,
            }
        }
        match standby.demote(self.home.kill_at(lease)).await {
            Demoted::Standby => None,
            Demoted::Exited(exit) => {
                tracing::warn!(key = %candidate.key(), exit = %exit.how, "the command did not confirm that it stopped leading; it is gone");
                Some(Loss::Killed)
            }
        }
    }

    /// Stops the command, when nobody campaigns for it any more.
    pub(super) async fn stop(&self, grace: Duration) {
        if let Some(standby) = self.standby.lock().await.take() {
            standby.child().stop(clock::now().after(grace)).await;
        }
    }
}
