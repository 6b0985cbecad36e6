//! One write of a leader: what it rests on, and what it changes. It becomes one transaction of etcd.
//!
//! Invariant: a step takes effect only while its leader is the leader and what it was planned from is still so. Both are
//! judged by etcd together with the write, so neither a pause nor a lost answer can come in between.

use leasehold::store::Guard;

use crate::etcd::{Compare, Write};

/// A write to be made.
#[derive(Debug)]
pub struct Step {
    /// What it does, for the log.
    pub what: String,
    /// What must still be so.
    pub rests_on: Vec<Compare>,
    /// What then changes.
    pub writes: Vec<Write>,
}

impl Step {
    /// The conditions of its transaction: those of the step, and that this leadership still stands. `None` if the guard is
    /// that of another store.
    #[must_use]
    pub fn conditions(&self, guard: &Guard) -> Option<Vec<Compare>> {
        let Guard::Etcd { key, value } = guard else { return None };
        let mut conditions = vec![Compare::Is(key.clone(), value.clone())];
        conditions.extend_from_slice(&self.rests_on);
        Some(conditions)
    }
}
