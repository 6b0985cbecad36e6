//! Sessions and leases as a plain value: what each call checks and changes.
//!
//! Invariant: every method is one atomic step; it checks first and then changes, or changes nothing.

mod grant;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term, Token};
use crate::mistakes::{Mistake, made};
use crate::store::{
    Answer, Changed, Cursor, EndSilent, Era, Freed, LeaseRecord, Offer, OpenSession, Profile, Pulse,
    Reasserted, Release, Released, Revoked, SessionRecord, Thawed,
};

#[derive(Debug, Clone)]
pub(super) struct LeaseState {
    era: EraState,
    past: Vec<Nonce>,
    sessions: BTreeMap<MemberId, Session>,
    leases: BTreeMap<(Pool, ResourceId), Lease>,
    sequence: u64,
}

#[derive(Debug, Clone)]
struct EraState {
    /// The identity the record names, and the one the store really has.
    recorded: u64,
    live: u64,
    nonce: Nonce,
    frozen: bool,
    token_base: u64,
    ttl_max: Duration,
}

#[derive(Debug, Clone)]
struct Session {
    pool: Pool,
    ttl: Duration,
    beat: BeatNumber,
    ended: bool,
    reasserted: Option<Nonce>,
    profile: Profile,
    changed: u64,
}

#[derive(Debug, Clone)]
struct Lease {
    token: Token,
    holder: Option<MemberId>,
    ttl: Duration,
    revoked: bool,
    offer: Option<Offer>,
    changed: u64,
}

impl Default for LeaseState {
    fn default() -> Self {
        let era = EraState {
            recorded: 0,
            live: 0,
            nonce: Nonce::generate(),
            frozen: false,
            token_base: 0,
            ttl_max: Duration::ZERO,
        };
        Self { era, past: Vec::new(), sessions: BTreeMap::new(), leases: BTreeMap::new(), sequence: 1 }
    }
}

impl LeaseState {
    pub(super) fn identity(&self) -> u64 {
        self.era.live
    }

    pub(super) fn become_another(&mut self, identity: u64) {
        self.era.live = identity;
    }

    pub(super) fn lose_session(&mut self, session: &MemberId) {
        self.sessions.remove(session);
    }

    pub(super) fn pool_of(&self, session: &MemberId) -> Option<Pool> {
        self.sessions.get(session).map(|session| session.pool.clone())
    }

    pub(super) fn pools(&self) -> Vec<Pool> {
        let mut pools: Vec<Pool> = self.sessions.values().map(|session| session.pool.clone()).collect();
        pools.extend(self.leases.keys().map(|(pool, _)| pool.clone()));
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    /// The number of the last change.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    fn step(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn freeze(&mut self) -> Nonce {
        if made(Mistake::NoEra) {
            self.era.recorded = self.era.live;
            return self.era.nonce;
        }
        self.past.push(self.era.nonce);
        self.era.nonce = Nonce::generate();
        self.era.recorded = self.era.live;
        self.era.frozen = true;
        self.step();
        self.era.nonce
    }

    /// Freezes the store if its live identity is not the recorded one.
    fn notice(&mut self) {
        if self.era.recorded != self.era.live {
            self.freeze();
        }
    }

    /// Whether a caller that knows `era` belongs to the present one. An era the store never had means that
    /// the store has forgotten; one it had means that the caller slept through a thaw.
    fn belongs(&mut self, era: Nonce) -> bool {
        self.notice();
        // A store that is frozen already was noticed by somebody else.
        if era != self.era.nonce && !self.past.contains(&era) && !self.era.frozen {
            self.freeze();
        }
        era == self.era.nonce
    }

    /// What every call of a session checks first: era, own record, nothing forgotten; then raises the beat.
    fn raise(&mut self, id: &MemberId, pulse: Pulse) -> Answer<()> {
        let belongs = self.belongs(pulse.era);
        if made(Mistake::BeatsRevive)
            && let Some(session) = self.sessions.get_mut(id)
        {
            session.ended = false;
        }
        let nonce = self.era.nonce;
        let frozen = self.era.frozen;
        match self.sessions.get(id) {
            Some(session) if session.ended => return Answer::Gone,
            Some(session) if frozen && (session.reasserted != Some(nonce) || !belongs) => {
                return Answer::Frozen(nonce);
            }
            None if frozen => return Answer::Frozen(nonce),
            None => return Answer::Gone,
            Some(_) if !belongs => return Answer::Gone,
            Some(session) if session.beat < pulse.confirmed && !made(Mistake::NoEra) => {
                return Answer::Frozen(self.freeze());
            }
            Some(_) => {}
        }
        let step = self.step();
        if let Some(session) = self.sessions.get_mut(id)
            && session.beat < pulse.number
        {
            session.beat = pulse.number;
            session.changed = step;
        }
        Answer::Done(())
    }

    pub(super) fn open(&mut self, open: &OpenSession) -> Answer<Nonce> {
        self.notice();
        if self.sessions.get(&open.id).is_some_and(|session| session.ended) {
            return Answer::Gone;
        }
        if self.era.frozen {
            return Answer::Frozen(self.era.nonce);
        }
        if !self.sessions.contains_key(&open.id) {
            self.insert(open, BeatNumber(0), None);
        }
        Answer::Done(self.era.nonce)
    }

    fn insert(&mut self, open: &OpenSession, beat: BeatNumber, reasserted: Option<Nonce>) {
        let session = Session {
            pool: open.pool.clone(),
            ttl: open.ttl,
            beat,
            ended: false,
            reasserted,
            profile: open.profile.clone(),
            changed: self.step(),
        };
        self.era.ttl_max = self.era.ttl_max.max(open.ttl);
        self.sessions.insert(open.id.clone(), session);
    }

    pub(super) fn beat(&mut self, id: &MemberId, pulse: Pulse) -> Answer<Vec<Term>> {
        match self.raise(id, pulse) {
            Answer::Done(()) => Answer::Done(self.revoked_of(id)),
            Answer::Gone => Answer::Gone,
            Answer::Frozen(nonce) => Answer::Frozen(nonce),
        }
    }

    fn revoked_of(&self, id: &MemberId) -> Vec<Term> {
        let mine = |lease: &Lease| lease.revoked && lease.holder.as_ref() == Some(id);
        self.leases
            .iter()
            .filter(|(_, lease)| mine(lease))
            .map(|((_, resource), lease)| Term { resource: resource.clone(), token: lease.token })
            .collect()
    }

    pub(super) fn describe(&mut self, id: &MemberId, pulse: Pulse, profile: &Profile) -> Answer<()> {
        let answer = self.raise(id, pulse);
        let step = self.sequence;
        if answer == Answer::Done(())
            && let Some(session) = self.sessions.get_mut(id)
        {
            session.profile = profile.clone();
            session.changed = step;
        }
        answer
    }

    pub(super) fn close(&mut self, id: &MemberId) {
        self.notice();
        self.entomb(id);
    }

    fn entomb(&mut self, id: &MemberId) {
        let step = self.sequence + 1;
        if let Some(session) = self.sessions.get_mut(id).filter(|session| !session.ended) {
            (session.ended, session.changed, self.sequence) = (true, step, step);
        }
    }

    pub(super) fn end_silent(&mut self, id: &MemberId, heard: BeatNumber, era: Nonce) -> EndSilent {
        let belongs = self.belongs(era);
        let Some(session) = self.sessions.get(id) else {
            return if self.era.frozen { EndSilent::Frozen(self.era.nonce) } else { EndSilent::Absent };
        };
        if session.ended {
            return EndSilent::Ended;
        }
        if self.era.frozen {
            return EndSilent::Frozen(self.era.nonce);
        }
        if !belongs || (session.beat != heard && !made(Mistake::VerdictWithoutCompare)) {
            return EndSilent::Alive(session.beat);
        }
        self.entomb(id);
        EndSilent::Ended
    }

    pub(super) fn release(
        &mut self,
        id: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Answer<Vec<Released>> {
        match self.raise(id, pulse) {
            Answer::Done(()) => {}
            Answer::Gone => return Answer::Gone,
            Answer::Frozen(nonce) => return Answer::Frozen(nonce),
        }
        let pool = self.sessions[id].pool.clone();
        Answer::Done(terms.iter().map(|release| self.give_back(id, &pool, release)).collect())
    }

    fn give_back(&mut self, id: &MemberId, pool: &Pool, release: &Release) -> Released {
        match self.held(pool, &release.term) {
            Some(holder) if holder == *id => {
                self.clear(pool, &release.term.resource, release.offer.clone());
                Released::Freed
            }
            _ => Released::NotHeld,
        }
    }

    /// Who holds exactly this term.
    fn held(&self, pool: &Pool, term: &Term) -> Option<MemberId> {
        let lease = self.leases.get(&(pool.clone(), term.resource.clone()))?;
        let exact = lease.token == term.token || made(Mistake::ReleaseWithoutToken);
        if exact { lease.holder.clone() } else { None }
    }

    fn clear(&mut self, pool: &Pool, resource: &ResourceId, offer: Option<Offer>) {
        let changed = self.step();
        if let Some(lease) = self.leases.get_mut(&(pool.clone(), resource.clone())) {
            *lease = Lease { holder: None, revoked: false, offer, changed, ..lease.clone() };
        }
    }

    pub(super) fn revoke(&mut self, pool: &Pool, term: &Term) -> Revoked {
        self.notice();
        if self.era.frozen {
            return Revoked::Frozen(self.era.nonce);
        }
        let holder = self.held(pool, term);
        if holder.is_none_or(|id| self.sessions.get(&id).is_some_and(|session| session.ended)) {
            return Revoked::NotHeld;
        }
        let changed = self.step();
        if let Some(lease) = self.leases.get_mut(&(pool.clone(), term.resource.clone())) {
            lease.revoked = true;
            lease.changed = changed;
        }
        Revoked::Marked
    }

    pub(super) fn free_revoked(&mut self, pool: &Pool, term: &Term, era: Nonce) -> Freed {
        let marked = |state: &Self| {
            state.leases.get(&(pool.clone(), term.resource.clone())).is_some_and(|l| l.revoked)
        };
        self.free(pool, term, era, |state, _| marked(state))
    }

    pub(super) fn free_orphan(&mut self, pool: &Pool, holder: &MemberId, term: &Term, era: Nonce) -> Freed {
        self.free(pool, term, era, |state, held| held == holder && !state.sessions.contains_key(holder))
    }

    fn free(
        &mut self,
        pool: &Pool,
        term: &Term,
        era: Nonce,
        may: impl FnOnce(&Self, &MemberId) -> bool,
    ) -> Freed {
        let belongs = self.belongs(era);
        if self.era.frozen {
            return Freed::Frozen(self.era.nonce);
        }
        match self.held(pool, term) {
            Some(holder) if belongs && may(self, &holder) => {
                self.clear(pool, &term.resource, None);
                Freed::Freed
            }
            _ => Freed::Changed,
        }
    }

    pub(super) fn reassert(
        &mut self,
        open: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Answer<Vec<Reasserted>> {
        self.notice();
        if self.sessions.get(&open.id).is_some_and(|session| session.ended) {
            return Answer::Gone;
        }
        if self.era.nonce != pulse.era {
            return if self.era.frozen { Answer::Frozen(self.era.nonce) } else { Answer::Gone };
        }
        if !self.era.frozen {
            return Answer::Gone;
        }
        let beat = self.sessions.get(&open.id).map_or(pulse.number, |session| session.beat.max(pulse.number));
        self.insert(open, beat, Some(self.era.nonce));
        Answer::Done(terms.iter().map(|term| self.reassert_term(open, term)).collect())
    }

    fn reassert_term(&mut self, open: &OpenSession, term: &Term) -> Reasserted {
        let key = (open.pool.clone(), term.resource.clone());
        let mut revoked = false;
        if let Some(lease) = self.leases.get(&key) {
            let mine = lease.holder.as_ref() == Some(&open.id);
            if lease.token > term.token || (lease.token == term.token && !mine) {
                return Reasserted::Lost;
            }
            revoked = lease.revoked && lease.token == term.token;
        }
        let changed = self.step();
        let holder = Some(open.id.clone());
        self.leases
            .insert(key, Lease { token: term.token, holder, ttl: open.ttl, revoked, offer: None, changed });
        Reasserted::Kept
    }

    /// `token_base` is above every token that may have been forgotten.
    pub(super) fn thaw(&mut self, nonce: Nonce, token_base: u64) -> Thawed {
        self.notice();
        if !self.era.frozen || self.era.nonce != nonce {
            return Thawed::Changed;
        }
        let step = self.step();
        for session in self.sessions.values_mut() {
            if !session.ended && session.reasserted != Some(nonce) {
                session.ended = true;
                session.changed = step;
            }
        }
        if !made(Mistake::TokensGoOn) {
            self.era.token_base = self.era.token_base.max(token_base);
        }
        self.era.frozen = false;
        Thawed::Thawed
    }

    /// A tombstone is kept while the store is frozen: it is what refuses an ended session that would reassert.
    pub(super) fn collect(&mut self, id: &MemberId) {
        self.notice();
        if self.era.frozen || !self.sessions.get(id).is_some_and(|session| session.ended) {
            return;
        }
        let step = self.step();
        for lease in self.leases.values_mut().filter(|lease| lease.holder.as_ref() == Some(id)) {
            lease.holder = None;
            lease.revoked = false;
            lease.changed = step;
        }
        self.sessions.remove(id);
    }

    pub(super) fn sessions(&mut self, pool: &Pool, since: Cursor) -> Changed<SessionRecord> {
        self.notice();
        let items = self
            .sessions
            .iter()
            .filter(|(_, session)| session.changed > since.0 && session.pool == *pool)
            .map(|(id, session)| SessionRecord {
                id: id.clone(),
                ttl: session.ttl,
                beat: session.beat,
                ended: session.ended,
                profile: session.profile.clone(),
            })
            .collect();
        self.changed(items)
    }

    pub(super) fn leases(&mut self, pool: &Pool, since: Cursor) -> Changed<LeaseRecord> {
        self.notice();
        let items = self
            .leases
            .iter()
            .filter(|((of, _), lease)| lease.changed > since.0 && of == pool)
            .map(|((_, resource), lease)| LeaseRecord {
                resource: resource.clone(),
                token: lease.token,
                holder: lease.holder.clone(),
                ttl: lease.ttl,
                revoked: lease.revoked,
                offer: lease.offer.clone(),
            })
            .collect();
        self.changed(items)
    }

    /// The era, for whoever reads something else.
    pub(super) fn era(&mut self) -> Era {
        self.notice();
        let EraState { nonce, frozen, ttl_max, .. } = self.era;
        Era { nonce, frozen, ttl_max }
    }

    fn changed<T>(&mut self, items: Vec<T>) -> Changed<T> {
        Changed { era: self.era(), items, cursor: Cursor(self.sequence) }
    }
}
