//! What a manager counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often calls were made and how long they took, in seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Times(Arc<Mutex<BTreeMap<&'static str, (u64, f64)>>>);

impl Times {
    pub(super) fn took(&self, op: &'static str, time: Duration) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, sum) = times.entry(op).or_default();
        *count += 1;
        *sum += time.as_secs_f64();
    }

    pub(super) fn all(&self) -> BTreeMap<&'static str, (u64, f64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a manager counts.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// How often a camera became ours.
    pub(super) owners: u64,
    /// How often a worker crashed or hung.
    pub(super) crashes: u64,
    operations: BTreeMap<(&'static str, &'static str), u64>,
    lost: BTreeMap<&'static str, u64>,
    times: Times,
}

impl Figures {
    pub(super) fn did(&mut self, op: &'static str, result: &'static str) {
        *self.operations.entry((op, result)).or_default() += 1;
    }

    pub(super) fn lost(&mut self, reason: &'static str) {
        *self.lost.entry(reason).or_default() += 1;
    }

    pub(super) fn times(&self) -> Times {
        self.times.clone()
    }

    pub(super) fn operations(&self) -> &BTreeMap<(&'static str, &'static str), u64> {
        &self.operations
    }

    pub(super) fn losses(&self) -> &BTreeMap<&'static str, u64> {
        &self.lost
    }
}
