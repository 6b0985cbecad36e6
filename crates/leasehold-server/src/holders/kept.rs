//! What this replica remembers of the sessions it keeps, in case the store forgets.

use std::collections::HashMap;
use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::lease::{BeatNumber, Term};
use leasehold::store::{OpenSession, SessionRecord};
use leasehold::{MemberId, ResourceId};

use super::holder::Holder;

/// One session that is kept for a holder.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) session: OpenSession,
    /// Whom it is kept for, as the session's profile has it.
    pub(super) holder: Holder,
    pub(super) term: Term,
    pub(super) beat: BeatNumber,
    /// A moment before its last beat was raised: nobody can have ended it within a TTL of this. Unknown for what was
    /// there before this replica.
    pub(super) since: Option<Moment>,
    /// When its grant through this replica was confirmed: a read that began before need not show it.
    pub(super) granted: Option<Moment>,
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
    /// Whose end a read may not show yet that is not taken in yet, and when it came.
    lost: HashMap<MemberId, Moment>,
    /// Who held it, where that is known, and under which token.
    pub(super) lapsed: HashMap<ResourceId, Kept>,
    /// When the last read that was taken in began.
    read_began: Option<Moment>,
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

    /// Forgets a session that has ended.
    pub(super) fn lose(&mut self, id: &MemberId, now: Moment) -> Option<Kept> {
        self.lost.insert(id.clone(), now);
        let kept = self.kept.remove(id)?;
        if self.granted.get(&kept.term.resource) == Some(id) {
            self.granted.remove(&kept.term.resource);
        }
        Some(kept)
    }

    /// A read that began at this moment is taken in. Gives back when the one before it began.
    pub(super) fn take_in(&mut self, began: Moment) -> Option<Moment> {
        self.lost.retain(|_, lost| *lost >= began);
        self.read_began.replace(began)
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
        open: impl FnOnce() -> Option<(OpenSession, Holder)>,
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
            // What was read is older than what is known.
            None if self.lost.contains_key(&record.id) => {}
            None => {
                let Some((session, holder)) = open() else { return };
                let kept = Kept {
                    session,
                    holder,
                    term: term.clone(),
                    beat: record.beat,
                    since: before,
                    granted: None,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use leasehold::Token;

    use super::*;

    fn at(nanos: u64) -> Moment {
        Moment(nanos)
    }

    fn held(id: &MemberId) -> (OpenSession, Holder, Term) {
        let ttl = Duration::from_secs(30);
        let (key, idempotency, extra) = (None, None, BTreeMap::new());
        let holder = Holder { id: "tracker".parse().expect("a name"), ttl, key, idempotency, extra };
        let pool = "scenes".parse().expect("a pool");
        let session = OpenSession { pool, id: id.clone(), ttl, profile: holder.profile(1) };
        (session, holder, Term { resource: "a".parse().expect("an id"), token: Token(1) })
    }

    /// Takes in a read that shows the session alive.
    fn read(memory: &mut Memory, id: &MemberId, began: Moment) {
        let (session, holder, term) = held(id);
        let record = SessionRecord {
            id: id.clone(),
            ttl: session.ttl,
            beat: BeatNumber(1),
            ended: false,
            profile: session.profile.clone(),
        };
        let before = memory.take_in(began);
        memory.read(|| Some((session, holder)), &record, &term, before, (began, 0));
    }

    #[test]
    fn whoever_let_go_while_it_was_read_is_not_kept_again() {
        let (mut memory, id) = (Memory::default(), MemberId::generate());
        read(&mut memory, &id, at(10));
        assert!(memory.kept.contains_key(&id), "it was there before this replica");
        assert!(memory.lose(&id, at(25)).is_some());
        read(&mut memory, &id, at(20));
        assert!(!memory.kept.contains_key(&id), "the read began before its end");
        read(&mut memory, &id, at(30));
        assert!(memory.kept.contains_key(&id), "what a later read shows is believed");
    }
}
