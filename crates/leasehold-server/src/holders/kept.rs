//! What this replica remembers of the sessions it keeps, in case the store forgets.

use std::collections::HashMap;
use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::lease::{BeatNumber, Term};
use leasehold::store::{OpenSession, SessionRecord};
use leasehold::{MemberId, ResourceId};

/// One session that is kept for a holder.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) session: OpenSession,
    pub(super) term: Term,
    pub(super) beat: BeatNumber,
    /// A moment before its last beat was raised: nobody can have ended it within a TTL of this. Unknown for what was
    /// there before this replica.
    pub(super) since: Option<Moment>,
    /// Wall time of its last renewal, for people.
    pub(super) wall_nanos: u64,
    /// When the ledger was last told that it is renewed.
    pub(super) told: Moment,
    /// When others were last told that it is renewed, if they ever were.
    pub(super) extended: Option<Moment>,
    /// Since when it is known here without its grant being known to be in the ledger; `None` once that is known.
    pub(super) unproven: Option<Moment>,
}

impl Kept {
    /// Whether nobody can have been granted its resource yet.
    pub(super) fn stands(&self, now: Moment) -> bool {
        let ttl = self.session.ttl;
        self.since.is_some_and(|since| now.since(since) < ttl - ttl / 10)
    }
}

/// All of them, and which resources were left without a word.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) kept: HashMap<MemberId, Kept>,
    /// Who was granted a resource last, through this replica. It may be kept no more.
    granted: HashMap<ResourceId, MemberId>,
    /// Who held it, where that is known, and under which token.
    pub(super) lapsed: HashMap<ResourceId, Kept>,
    /// When the last read that was taken in began.
    pub(super) read_began: Option<Moment>,
}

impl Memory {
    /// Keeps a session that was just granted its resource.
    pub(super) fn keep(&mut self, kept: Kept) {
        self.granted.insert(kept.term.resource.clone(), kept.session.id.clone());
        self.kept.insert(kept.session.id.clone(), kept);
    }

    /// The session that holds a resource, if this replica granted it so lately that nobody can have ended it.
    pub(super) fn holding(&self, resource: &ResourceId, now: Moment) -> Option<&Kept> {
        let kept = self.kept.get(self.granted.get(resource)?)?;
        (kept.term.resource == *resource && kept.stands(now)).then_some(kept)
    }

    /// Forgets a session.
    pub(super) fn lose(&mut self, id: &MemberId) -> Option<Kept> {
        let kept = self.kept.remove(id)?;
        if self.granted.get(&kept.term.resource) == Some(id) {
            self.granted.remove(&kept.term.resource);
        }
        Some(kept)
    }

    /// Forgets those that are not worth keeping.
    pub(super) fn retain(&mut self, worth: impl Fn(&MemberId, &Kept) -> bool) {
        let Self { kept, granted, .. } = self;
        kept.retain(|id, kept| worth(id, kept));
        granted.retain(|_, id| kept.contains_key(id));
    }

    /// A renewal through this replica was confirmed; its request came at `began`. Says whether the ledger should be told,
    /// which it is at most once in `every`.
    pub(super) fn renewed(
        &mut self,
        session: &MemberId,
        beat: BeatNumber,
        began: Moment,
        wall_nanos: u64,
        every: Duration,
    ) -> bool {
        let Some(kept) = self.kept.get_mut(session) else { return false };
        kept.beat = kept.beat.max(beat);
        kept.since = Some(kept.since.map_or(began, |since| since.max(began)));
        kept.wall_nanos = wall_nanos;
        let due = began.since(kept.told) >= every && kept.unproven.is_none();
        if due {
            kept.told = began;
        }
        due
    }

    /// Whether others are to be told that a lease is renewed, which they are at most once in `every`.
    pub(super) fn tells(&mut self, session: &MemberId, now: Moment, every: Duration) -> bool {
        let Some(kept) = self.kept.get_mut(session).filter(|kept| kept.unproven.is_none()) else {
            return false;
        };
        let due = kept.extended.is_none_or(|before| now.since(before) >= every);
        if due {
            kept.extended = Some(now);
        }
        due
    }

    /// Whose grants should be in the ledger by now, if they ever come.
    pub(super) fn unproven(&self, now: Moment, settled: Duration) -> Vec<MemberId> {
        let due = |kept: &Kept| kept.unproven.is_some_and(|since| now.since(since) >= settled);
        self.kept.iter().filter(|(_, kept)| due(kept)).map(|(id, _)| id.clone()).collect()
    }

    /// The ledger has its grant, or gets it now. `None` if it has ended, or somebody else saw to that.
    pub(super) fn prove(&mut self, session: &MemberId) -> Option<Kept> {
        let kept = self.kept.get_mut(session)?;
        kept.unproven.take()?;
        Some(kept.clone())
    }

    /// A session was read that holds `term`. The read before this one began at `before`.
    pub(super) fn read(
        &mut self,
        open: impl FnOnce() -> OpenSession,
        record: &SessionRecord,
        term: &Term,
        before: Option<Moment>,
        (at, wall_nanos): (Moment, u64),
    ) {
        match self.kept.get_mut(&record.id) {
            Some(kept) if kept.beat >= record.beat => {}
            Some(kept) => {
                kept.beat = record.beat;
                kept.since = kept.since.max(before);
                kept.wall_nanos = wall_nanos;
            }
            None => {
                let session = open();
                let kept = Kept {
                    session,
                    term: term.clone(),
                    beat: record.beat,
                    since: before,
                    wall_nanos,
                    told: Moment::default(),
                    extended: None,
                    unproven: Some(at),
                };
                self.kept.insert(record.id.clone(), kept);
            }
        }
    }
}
