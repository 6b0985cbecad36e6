//! One step of a call on a draft: the era as it was found, and what the call makes of it.
//!
//! Invariant: a step begins by asking whether the cluster has forgotten something, and freezes the store if it has. So every
//! call compares the recorded identity with the live one in the transaction that carries it out.

use super::draft::{Draft, Stop};
use super::keys::{Key, Keys};
use super::lineage::Memory;
use super::proto::ResponseHeader;
use super::record::{EraValue, FORMAT, LeaseValue, PoolValue, SessionValue};
use crate::lease::{MemberId, Nonce, Pool};
use crate::store::{StoreError, TTL_UNKNOWN};

/// What the step is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Live<'a> {
    /// The last answer's header, if this call had one.
    pub(super) header: Option<&'a ResponseHeader>,
    /// What the handle remembers.
    pub(super) memory: Memory,
    /// Whether the cluster's answers do not follow from that.
    pub(super) fell: bool,
}

/// How a caller's era stands to the store's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Present,
    /// The store had it: the caller slept through a thaw.
    Past,
    /// The store never had it: the store has forgotten.
    Unknown,
}

/// A call being decided.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) draft: &'a mut Draft,
    pub(super) keys: &'a Keys,
    pub(super) era: EraValue,
    era_is_new: bool,
}

impl<'a> Step<'a> {
    /// Begins, and freezes the store if it has forgotten something. One that knows nothing at all may have forgotten
    /// everything.
    pub(super) fn begin(draft: &'a mut Draft, keys: &'a Keys, live: Live<'_>) -> Result<Self, Stop> {
        let found: Option<EraValue> = draft.read(&keys.era())?;
        let Some(era) = found else {
            let header = live.header.cloned().unwrap_or_default();
            let mut era = new_era(&header, true);
            era.ttl_max_ms = era.ttl_max_ms.max(live.memory.ttl_max_ms);
            let mut step = Self { draft, keys, era, era_is_new: true };
            step.add_past(live.memory.nonce)?;
            tracing::warn!(nonce = %step.era.nonce, "the etcd store knows nothing; it begins frozen");
            return Ok(step);
        };
        if era.format != FORMAT {
            return Err(another_format(era.format).into());
        }
        let mut step = Self { draft, keys, era, era_is_new: false };
        step.notice(live)?;
        Ok(step)
    }

    fn notice(&mut self, live: Live<'_>) -> Result<(), Stop> {
        let forgotten = self.has_forgotten(live)?;
        if forgotten || self.era.frozen {
            // Whoever thaws must wait for everybody that anybody remembers.
            self.raise_ttl_max(live.memory.ttl_max_ms);
            self.add_past(live.memory.nonce)?;
        }
        if forgotten {
            if let Some(header) = live.header {
                (self.era.cluster, self.era.raft_term) = (header.cluster_id, header.raft_term);
                // Its log may have begun anew; the next handle that opens says how far it is.
                self.era.raft_index = 0;
            }
            self.freeze()?;
        }
        Ok(())
    }

    /// Whether this is another cluster than the one that the era was written to, was set back, or never had the era that
    /// this handle lived through.
    fn has_forgotten(&mut self, live: Live<'_>) -> Result<bool, Stop> {
        if let Some(header) = live.header
            && (header.cluster_id != self.era.cluster || header.raft_term < self.era.raft_term)
        {
            return Ok(true);
        }
        match live.memory.nonce {
            None => Ok(false),
            Some(mine) if mine == self.era.nonce => Ok(live.fell),
            // A store that is frozen already was noticed by somebody else.
            Some(_) if self.era.frozen => Ok(false),
            Some(mine) => Ok(!self.had(mine)?),
        }
    }

    fn had(&mut self, nonce: Nonce) -> Result<bool, Stop> {
        let key = self.keys.past(nonce);
        Ok(self.draft.bytes(&key)?.is_some())
    }

    fn add_past(&mut self, nonce: Option<Nonce>) -> Result<(), Stop> {
        if let Some(nonce) = nonce.filter(|nonce| *nonce != self.era.nonce)
            && !self.had(nonce)?
        {
            self.draft.put(self.keys.past(nonce), &true)?;
        }
        Ok(())
    }

    pub(super) fn standing(&mut self, era: Nonce) -> Result<Standing, Stop> {
        Ok(match era {
            era if era == self.era.nonce => Standing::Present,
            era if self.had(era)? => Standing::Past,
            _ => Standing::Unknown,
        })
    }

    /// Begins a new era in which nothing is granted or ended until it is thawed.
    pub(super) fn freeze(&mut self) -> Result<Nonce, Stop> {
        self.draft.put(self.keys.past(self.era.nonce), &true)?;
        self.era.nonce = Nonce::generate();
        self.era.frozen = true;
        self.era_is_new = true;
        tracing::warn!(nonce = %self.era.nonce, "the store may have forgotten something; it is frozen");
        Ok(self.era.nonce)
    }

    /// Goes on in the same era, with tokens above every one that may have been forgotten.
    pub(super) fn thaw(&mut self, token_base: u64) {
        self.era.frozen = false;
        self.era.token_base = self.era.token_base.max(token_base);
        self.era_is_new = true;
    }

    pub(super) fn raise_ttl_max(&mut self, ttl_ms: u64) {
        if self.era.ttl_max_ms < ttl_ms {
            self.era.ttl_max_ms = ttl_ms;
            self.era_is_new = true;
        }
    }

    /// Says how far the cluster's own log is. A log that is shorter than it was belongs to a cluster that was made from a
    /// snapshot, even if nobody is left who remembers the old one.
    pub(super) fn note_index(&mut self, index: u64) -> Result<(), Stop> {
        if index < self.era.raft_index {
            self.freeze()?;
        } else if index - self.era.raft_index < INDEX_STEP && self.era.raft_index > 0 {
            return Ok(());
        }
        self.era.raft_index = index;
        self.era_is_new = true;
        Ok(())
    }

    /// Writes the era if the step made something of it, and says what it is now.
    pub(super) fn finish(self) -> Result<EraValue, Stop> {
        if self.era_is_new {
            self.draft.put(self.keys.era(), &self.era)?;
        }
        Ok(self.era)
    }

    /// The pool of a member's session, if the store ever heard of it.
    pub(super) fn pool_of(&mut self, id: &MemberId) -> Result<Option<Pool>, Stop> {
        let found: Option<PoolValue> = self.draft.peek(&self.keys.pool_of(id))?;
        Ok(found.map(|found| found.pool))
    }

    /// A session that what follows rests on.
    pub(super) fn session(&mut self, pool: &Pool, id: &MemberId) -> Result<Option<SessionValue>, Stop> {
        self.draft.read(&self.keys.session(pool, id))
    }

    pub(super) fn put_session(
        &mut self,
        pool: &Pool,
        id: &MemberId,
        value: &SessionValue,
    ) -> Result<(), Stop> {
        self.draft.put(self.keys.session(pool, id), value)
    }

    /// A lease that what follows rests on.
    pub(super) fn lease(&mut self, key: &Key) -> Result<Option<LeaseValue>, Stop> {
        self.draft.read(key)
    }
}

/// How far the log may go on before the era says so.
const INDEX_STEP: u64 = 1000;

/// The first era of a store.
pub(super) fn new_era(header: &ResponseHeader, frozen: bool) -> EraValue {
    let ttl_max_ms = if frozen { super::record::millis(TTL_UNKNOWN) } else { 0 };
    EraValue {
        format: FORMAT,
        cluster: header.cluster_id,
        raft_term: header.raft_term,
        raft_index: 0,
        nonce: Nonce::generate(),
        frozen,
        token_base: 0,
        ttl_max_ms,
    }
}

/// The store was written by another version.
pub(super) fn another_format(format: u32) -> StoreError {
    StoreError::misconfigured(format!(
        "the etcd store was written by another version (format {format}, this one knows {FORMAT}); use that version"
    ))
}
