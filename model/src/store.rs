//! The store: what it remembers, and what each call checks and changes in one atomic step.

use crate::memory::{Lease, Memory, Session, Standing};
use crate::network::{Pulse, Request};
use crate::rules::Rules;
use crate::state::{Nonce, SESSIONS, SessionId, Token, Witness};

/// What a call was answered, and the beat that the answer confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Answer {
    /// What became of it.
    pub outcome: Outcome,
    /// The beat the session may count as confirmed.
    pub beat: u8,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done, and confirmed. An acquire that found the resource with somebody else is no more than that.
    Done,
    /// The resource is the caller's.
    Granted(Token),
    /// It was the caller's already.
    Mine(Token),
    /// The term was reasserted.
    Kept,
    /// The session was reasserted, its term was not.
    Lost,
    /// The session has ended.
    Gone,
    /// Nothing was changed, and nothing will be until a thaw.
    Frozen(Nonce),
}

impl Outcome {
    /// Whether the session lives and its beat was confirmed.
    #[must_use]
    pub const fn is_confirmed(self) -> bool {
        !matches!(self, Self::Gone | Self::Frozen(_))
    }
}

/// The store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Store {
    /// What it remembers.
    pub memory: Memory,
    /// Its live identity.
    pub identity: u8,
    /// How many nonces were drawn.
    pub nonces_drawn: u8,
    /// The earlier memory that it may go back to.
    pub snapshot: Option<Box<Memory>>,
}

/// A store at work under certain rules, and what the observer notes about it.
pub(crate) struct Desk<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) rules: &'a Rules,
    pub(crate) ttl: u8,
    pub(crate) witness: &'a mut Witness,
}

impl Store {
    /// A store in its first era.
    #[must_use]
    pub fn new() -> Self {
        let memory = Memory {
            sessions: [Session::default(); SESSIONS],
            lease: Lease::default(),
            nonce: 0,
            frozen: false,
            nonces: 1,
            identity: 0,
            token_base: 0,
        };
        Self { memory, identity: 0, nonces_drawn: 1, snapshot: None }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Desk<'_> {
    /// Applies a request. `None` where nobody waits for the answer.
    pub(crate) fn apply(&mut self, request: &Request) -> Option<Answer> {
        let outcome = match *request {
            Request::Open(session) => self.open(session),
            Request::Beat(pulse) => self.beat(&pulse),
            Request::Acquire(pulse, floor) => self.acquire(&pulse, floor),
            Request::Reassert(pulse, token) => self.reassert(&pulse, token),
            Request::Release(pulse, token) => {
                self.release(&pulse, token);
                return None;
            }
            Request::Close(session) => {
                self.end(session, Standing::Over);
                return None;
            }
            Request::EndSilent(session, heard, era) => {
                self.end_silent(session, heard, era);
                return None;
            }
            Request::FreeOrphan(holder, token, era) => {
                self.free_orphan(holder, token, era);
                return None;
            }
            Request::Thaw(nonce) => {
                self.thaw(nonce);
                return None;
            }
        };
        if let Some(session) = request.session()
            && outcome.is_confirmed()
            && self.witness.ended & (1 << session) != 0
        {
            self.witness.revived = true;
        }
        let pulse = request.pulse()?;
        let beat = if self.rules.holders_number_beats {
            pulse.number
        } else {
            self.store.memory.session(pulse.session).beat
        };
        Some(Answer { outcome, beat })
    }

    /// Freezes the store if it is seen to have forgotten. What a caller misses in a store that is frozen is
    /// no news, and must not begin the wait anew: only another identity does.
    fn notice(&mut self, forgot: bool) {
        let is_another = self.store.memory.identity != self.store.identity;
        if self.rules.era && (is_another || forgot && !self.store.memory.frozen) {
            let nonce = self.store.nonces_drawn;
            self.store.nonces_drawn += 1;
            let memory = &mut self.store.memory;
            memory.nonce = nonce;
            memory.nonces |= 1 << nonce;
            memory.frozen = true;
            memory.identity = self.store.identity;
        }
    }

    /// What every reader does before it reads.
    pub(crate) fn look(&mut self) {
        self.notice(false);
    }

    /// The checks of a session's own call, and the beat. `Some` is the answer if the call is refused.
    fn refuse(&mut self, pulse: &Pulse) -> Option<Outcome> {
        let record = *self.store.memory.session(pulse.session);
        let fell = self.rules.confirmed_is_compared
            && record.standing == Standing::Alive
            && record.beat < pulse.confirmed;
        self.notice(fell || !self.store.memory.has_had(pulse.era));
        let memory = &self.store.memory;
        if record.standing != Standing::Alive {
            return Some(Outcome::Gone);
        }
        if self.rules.era && (pulse.era != memory.nonce || record.era != memory.nonce) {
            return Some(if memory.frozen { Outcome::Frozen(memory.nonce) } else { Outcome::Gone });
        }
        None
    }

    fn raise(&mut self, pulse: &Pulse) {
        let by_holder = self.rules.holders_number_beats;
        let session = self.store.memory.session(pulse.session);
        session.beat = if by_holder { session.beat.max(pulse.number) } else { session.beat + 1 };
        session.age = 0;
    }

    fn open(&mut self, id: SessionId) -> Outcome {
        self.notice(false);
        let (nonce, frozen) = (self.store.memory.nonce, self.store.memory.frozen);
        let session = self.store.memory.session(id);
        match session.standing {
            Standing::Alive => Outcome::Done,
            Standing::Silent | Standing::Over => Outcome::Gone,
            Standing::Absent if frozen => Outcome::Frozen(nonce),
            Standing::Absent => {
                *session = Session { standing: Standing::Alive, era: nonce, ..Session::default() };
                Outcome::Done
            }
        }
    }

    fn beat(&mut self, pulse: &Pulse) -> Outcome {
        let session = self.store.memory.session(pulse.session);
        if !self.rules.tombstones_are_final && session.standing.is_ended() {
            session.standing = Standing::Alive;
        }
        if let Some(refusal) = self.refuse(pulse) {
            return refusal;
        }
        self.raise(pulse);
        Outcome::Done
    }

    fn acquire(&mut self, pulse: &Pulse, floor: Token) -> Outcome {
        if let Some(refusal) = self.refuse(pulse) {
            return refusal;
        }
        if self.store.memory.frozen {
            return Outcome::Frozen(self.store.memory.nonce);
        }
        let is_late = pulse.number <= self.store.memory.session(pulse.session).beat;
        if self.rules.grants_raise_beat {
            self.raise(pulse);
        }
        let lease = self.store.memory.lease;
        if lease.holder == Some(pulse.session) {
            return Outcome::Mine(lease.token);
        }
        if is_late && self.rules.grants_need_new_numbers {
            return Outcome::Done;
        }
        if let Some(holder) = lease.holder {
            if !self.frees(holder) {
                return Outcome::Done;
            }
            self.end(holder, Standing::Over);
        }
        let token = lease.token.max(floor).max(self.store.memory.token_base) + 1;
        self.store.memory.lease = Lease { token, holder: Some(pulse.session) };
        self.witness.token_fell |= token <= self.witness.token;
        self.witness.token = self.witness.token.max(token);
        Outcome::Granted(token)
    }

    /// Whether what this session held is free.
    fn frees(&mut self, holder: SessionId) -> bool {
        let record = *self.store.memory.session(holder);
        record.standing.is_ended()
            || !self.rules.only_tombstones_free && record.standing == Standing::Absent
            || !self.rules.listeners_decide && record.age >= self.ttl
    }

    fn release(&mut self, pulse: &Pulse, token: Token) {
        let lease = &mut self.store.memory.lease;
        let is_named = lease.token == token || !self.rules.release_compares_token;
        if lease.holder == Some(pulse.session) && is_named {
            lease.holder = None;
        }
        if self.refuse(pulse).is_none() && !self.store.memory.frozen {
            self.raise(pulse);
        }
    }

    fn end(&mut self, id: SessionId, how: Standing) {
        let session = self.store.memory.session(id);
        if session.standing == Standing::Alive {
            session.standing = how;
            self.witness.ended |= 1 << id;
        }
    }

    fn end_silent(&mut self, id: SessionId, heard: u8, era: Nonce) {
        if self.is_open(era) {
            let beat = self.store.memory.session(id).beat;
            if beat == heard || !self.rules.verdict_compares_beat {
                self.end(id, Standing::Silent);
            }
        }
    }

    fn free_orphan(&mut self, holder: SessionId, token: Token, era: Nonce) {
        let is_open = self.is_open(era);
        let is_absent = self.store.memory.session(holder).standing == Standing::Absent;
        let lease = &mut self.store.memory.lease;
        if is_open && is_absent && lease.holder == Some(holder) && lease.token == token {
            lease.holder = None;
        }
    }

    /// Whether a listener's word counts: in the era in which it listened, and not while frozen.
    fn is_open(&mut self, era: Nonce) -> bool {
        self.notice(!self.store.memory.has_had(era));
        !self.rules.era || !self.store.memory.frozen && self.store.memory.nonce == era
    }

    fn reassert(&mut self, pulse: &Pulse, token: Token) -> Outcome {
        self.notice(false);
        let memory = &mut self.store.memory;
        let standing = memory.session(pulse.session).standing;
        if standing.is_ended() || !memory.is_frozen_under(pulse.era) {
            return Outcome::Gone;
        }
        let session = memory.session(pulse.session);
        session.standing = Standing::Alive;
        session.era = pulse.era;
        let lease = &mut memory.lease;
        let is_kept = token > lease.token || token == lease.token && lease.holder == Some(pulse.session);
        if is_kept {
            *lease = Lease { token, holder: Some(pulse.session) };
        }
        if self.rules.reassert_raises_beat {
            self.raise(pulse);
        }
        if is_kept { Outcome::Kept } else { Outcome::Lost }
    }

    fn thaw(&mut self, nonce: Nonce) {
        self.notice(false);
        if !self.store.memory.is_frozen_under(nonce) {
            return;
        }
        for id in (0..).take(SESSIONS) {
            if self.store.memory.session(id).era != nonce {
                self.end(id, Standing::Over);
            }
        }
        self.store.memory.frozen = false;
        if self.rules.token_base_after_thaw {
            self.store.memory.token_base = self.witness.token;
        }
    }
}
