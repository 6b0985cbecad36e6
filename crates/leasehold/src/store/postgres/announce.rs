//! Hints for others, after the change they are about.
//!
//! A transaction of its own for them waits for no disk, and those who have something to announce at the same time share one. A hint that
//! is lost delays others until they read by themselves.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Shared;
use super::lanes::Param;
use crate::clock::{self, Clock, Moment, SystemClock};

/// How long a call that is done waits until its hint is under way.
const ANNOUNCE_MAX: Duration = Duration::from_millis(250);
/// How soon after one announcement the next may be, so that those who change much share them.
const GATHER: Duration = Duration::from_millis(5);
const ANNOUNCE: &str = "SELECT set_config('synchronous_commit', 'off', true), count(pg_notify('leasehold', pool)) \
     FROM unnest($1) AS pool";

/// What is to be announced.
#[derive(Debug, Default)]
pub(super) struct Mouth {
    /// Pools with changes; the empty name stands for all.
    due: Mutex<BTreeSet<String>>,
    /// When the next may be.
    turn: tokio::sync::Mutex<Moment>,
}

impl Shared {
    /// Tells the other handles that something changed in a pool, or in all if it has no name. Ends when they are told, so that a program
    /// that ends after its last call was heard.
    pub(super) async fn announce(&self, pool: &str) {
        self.mouth.due.lock().unwrap_or_else(PoisonError::into_inner).insert(pool.to_owned());
        if tokio::time::timeout(ANNOUNCE_MAX, self.say_what_is_due()).await.is_err() {
            tracing::debug!(pool, "a hint was not taken in time; members read");
        }
    }

    async fn say_what_is_due(&self) {
        let mut turn = self.mouth.turn.lock().await;
        // Whoever had the turn before may have said this one's as well.
        if self.mouth.due.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return;
        }
        SystemClock.sleep_until(*turn).await;
        let due = std::mem::take(&mut *self.mouth.due.lock().unwrap_or_else(PoisonError::into_inner));
        *turn = clock::now().after(GATHER);
        let pools = Param::Texts(due.into_iter().map(Some).collect());
        if let Err(failure) = self.reads.ask(&self.address, ANNOUNCE, &[pools]).await {
            tracing::debug!(error = %failure.in_use(), "a hint is lost; members read");
        }
    }
}
