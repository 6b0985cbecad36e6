//! What the work of all members did: who began with a resource when, and who had it before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold::ResourceId;
use leasehold::clock::{self, Moment};
use leasehold::participant::Lease;
use tokio::sync::watch;

/// A resource went from one member to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// Who had it before.
    pub(super) from: usize,
    /// When that one's work ended, if it did.
    pub(super) ended: Option<Moment>,
    /// Who has it now.
    pub(super) to: usize,
    /// When the first step was done.
    pub(super) began: Moment,
}

#[derive(Debug, Default)]
struct Kept {
    /// Who worked on it last, and until when.
    last: HashMap<ResourceId, (usize, Option<Moment>)>,
    changes: Vec<Change>,
}

/// Clones are the same journal.
#[derive(Debug, Clone)]
pub(super) struct Journal {
    kept: Arc<Mutex<Kept>>,
    steps: watch::Sender<u64>,
}

impl Journal {
    pub(super) fn new() -> Self {
        Self { kept: Arc::default(), steps: watch::Sender::new(0) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work of a lease: one step, and then nothing until the lease is lost.
    pub(super) async fn work(self, who: usize, lease: Lease) {
        self.begins(lease.resource(), who, clock::now());
        lease.lost().await;
        self.ends(lease.resource(), who, clock::now());
    }

    fn begins(&self, resource: &ResourceId, who: usize, at: Moment) {
        let mut kept = self.kept();
        if let Some((from, ended)) = kept.last.insert(resource.clone(), (who, None))
            && from != who
        {
            kept.changes.push(Change { from, ended, to: who, began: at });
        }
        drop(kept);
        self.steps.send_modify(|steps| *steps += 1);
    }

    fn ends(&self, resource: &ResourceId, who: usize, at: Moment) {
        let mut kept = self.kept();
        if let Some((last, ended)) = kept.last.get_mut(resource)
            && *last == who
        {
            *ended = Some(at);
        }
    }

    /// How many resources anybody ever worked on.
    pub(super) fn owned(&self) -> usize {
        self.kept().last.len()
    }

    /// Who works on it, or did last.
    pub(super) fn owner(&self, resource: &ResourceId) -> Option<usize> {
        self.kept().last.get(resource).map(|(who, _)| *who)
    }

    /// Who worked last on what.
    pub(super) fn owners(&self) -> Vec<usize> {
        self.kept().last.values().map(|(who, _)| *who).collect()
    }

    pub(super) fn changes(&self) -> Vec<Change> {
        self.kept().changes.clone()
    }

    /// Ends as soon as something holds that only changes when somebody begins to work.
    pub(super) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let mut steps = self.steps.subscribe();
        // The sender lives as long as this journal.
        let _ = steps.wait_for(|_| holds(self)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_who_had_it_before_and_until_when() {
        let (journal, r) = (Journal::new(), ResourceId::new("r").expect("an id"));
        journal.begins(&r, 1, Moment(10));
        journal.ends(&r, 1, Moment(20));
        // The same member again is no change.
        journal.begins(&r, 1, Moment(25));
        journal.ends(&r, 1, Moment(30));
        journal.begins(&r, 2, Moment(35));
        // What is over for long says nothing of the present.
        journal.ends(&r, 1, Moment(40));
        journal.begins(&r, 3, Moment(50));
        let first = Change { from: 1, ended: Some(Moment(30)), to: 2, began: Moment(35) };
        let second = Change { from: 2, ended: None, to: 3, began: Moment(50) };
        assert_eq!(journal.changes(), [first, second]);
        assert_eq!((journal.owned(), journal.owner(&r)), (1, Some(3)));
    }
}
