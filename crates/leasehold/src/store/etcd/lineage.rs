//! What a handle remembers of the cluster, so that it notices when the cluster has forgotten.
//!
//! Invariant: within one generation the highest revision never falls. An answer is held against what was known before its
//! request was sent, because answers may overtake each other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::proto::ResponseHeader;
use super::record::EraValue;
use crate::lease::Nonce;

/// What a handle remembers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Memory {
    /// Counts how often the cluster was found to be another memory.
    pub(super) generation: u64,
    cluster: Option<u64>,
    revision: i64,
    pub(super) nonce: Option<Nonce>,
    pub(super) ttl_max_ms: u64,
}

/// Shared by all calls of a handle.
#[derive(Debug, Default)]
pub(super) struct Lineage(Mutex<Memory>);

impl Lineage {
    pub(super) fn memory(&self) -> Memory {
        *self.lock()
    }

    /// Whether an answer continues what was known before it was asked for.
    pub(super) fn follows(&self, before: &Memory, header: &ResponseHeader) -> bool {
        let follows = before.cluster.is_none_or(|cluster| cluster == header.cluster_id)
            && before.revision <= header.revision;
        let mut memory = self.lock();
        if follows && memory.generation == before.generation {
            memory.cluster = Some(header.cluster_id);
            memory.revision = memory.revision.max(header.revision);
        }
        follows
    }

    /// Keeps what an accepted answer showed. `fell` says that it does not follow from what was known, which somebody has
    /// noticed by now: a new generation begins.
    pub(super) fn accept(
        &self,
        generation: u64,
        header: &ResponseHeader,
        fell: bool,
        era: &EraValue,
    ) -> bool {
        let mut memory = self.lock();
        if memory.generation != generation {
            return false;
        }
        if fell {
            memory.generation += 1;
            memory.cluster = Some(header.cluster_id);
            memory.revision = header.revision;
        }
        memory.nonce = Some(era.nonce);
        memory.ttl_max_ms = memory.ttl_max_ms.max(era.ttl_max_ms);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(cluster_id: u64, revision: i64) -> ResponseHeader {
        ResponseHeader { cluster_id, revision, member_id: 1, raft_term: 2 }
    }

    #[test]
    fn a_revision_that_falls_or_another_cluster_is_noticed_and_answers_may_overtake_each_other() {
        let lineage = Lineage::default();
        let unknown = lineage.memory();
        assert!(lineage.follows(&unknown, &header(7, 10)));
        assert!(lineage.follows(&unknown, &header(7, 9)), "it was asked before 10 was known");
        let known = lineage.memory();
        assert!(!lineage.follows(&known, &header(7, 9)), "set back");
        assert!(!lineage.follows(&known, &header(8, 11)), "another cluster");
        assert!(lineage.follows(&known, &header(7, 10)), "nothing happened");
    }
}
