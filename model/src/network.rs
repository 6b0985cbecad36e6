//! What is on its way: a set from which nothing has to be taken.
//!
//! A request that was sent may be applied at any later moment, any number of times, in any order, or never.
//! That one sentence is delay, repetition, reordering and loss, and it is what a sender that gave up has left
//! behind. Requests that can do nothing any more are forgotten, so that the state space stays small.

use crate::memory::Memory;
use crate::rules::Rules;
use crate::state::{Nonce, SessionId, Token};

/// What a session's call carries besides its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pulse {
    /// Whose call it is.
    pub session: SessionId,
    /// The era the session knows.
    pub era: Nonce,
    /// The beat that this call raises. No two calls of a session have the same.
    pub number: u8,
    /// The highest beat that was confirmed to the session.
    pub confirmed: u8,
}

/// A call on its way to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// Opens a session.
    Open(SessionId),
    /// Raises the beat.
    Beat(Pulse),
    /// Takes the resource if it is free.
    Acquire(Pulse, Token),
    /// Gives a term back.
    Release(Pulse, Token),
    /// The holder's own word.
    Close(SessionId),
    /// Says what a holder held when the store was frozen.
    Reassert(Pulse, Token),
    /// A listener's verdict on a session, the beat it heard and the era it heard it in.
    EndSilent(SessionId, u8, Nonce),
    /// Frees a term whose holder's session is absent.
    FreeOrphan(SessionId, Token, Nonce),
    /// Ends the freeze under a nonce.
    Thaw(Nonce),
}

impl Request {
    /// The pulse of a session's own call.
    #[must_use]
    pub const fn pulse(&self) -> Option<&Pulse> {
        match self {
            Self::Beat(pulse)
            | Self::Acquire(pulse, _)
            | Self::Release(pulse, _)
            | Self::Reassert(pulse, _) => Some(pulse),
            _ => None,
        }
    }

    /// Whose call it is, where that is a session's own.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Open(session) | Self::Close(session) => Some(*session),
            _ => self.pulse().map(|pulse| pulse.session),
        }
    }

    /// Whether it can change nothing in this memory, nor in any that comes out of it.
    fn is_spent(&self, memory: &Memory, rules: &Rules) -> bool {
        let standing = |session: SessionId| memory.sessions[usize::from(session)].standing;
        let beat = |session: SessionId| memory.sessions[usize::from(session)].beat;
        let is_raised = |pulse: &Pulse| rules.holders_number_beats && pulse.number <= beat(pulse.session);
        if let Some(session) = self.session()
            && standing(session).is_ended()
            && !matches!(self, Self::Open(_))
        {
            return rules.tombstones_are_final || !matches!(self, Self::Beat(_));
        }
        // A call of an era that is over is refused, then and for ever.
        let is_past = |era: Nonce| rules.era && memory.has_had(era) && memory.nonce != era;
        match self {
            Self::Beat(pulse) => is_past(pulse.era) || is_raised(pulse) && memory.has_had(pulse.era),
            Self::Acquire(pulse, _) => is_past(pulse.era),
            Self::Release(pulse, token) => {
                let freed = memory.lease.token > *token
                    || memory.lease.token == *token && memory.lease.holder != Some(pulse.session);
                rules.release_compares_token && freed && (is_raised(pulse) || is_past(pulse.era))
            }
            Self::Reassert(pulse, _) => memory.has_had(pulse.era) && !memory.is_frozen_under(pulse.era),
            Self::EndSilent(session, heard, era) => {
                standing(*session).is_ended()
                    || is_past(*era)
                    || rules.verdict_compares_beat && beat(*session) > *heard
            }
            Self::FreeOrphan(holder, token, era) => {
                is_past(*era) || memory.lease.token > *token || memory.lease.holder != Some(*holder)
            }
            Self::Thaw(nonce) => memory.has_had(*nonce) && !memory.is_frozen_under(*nonce),
            Self::Open(_) | Self::Close(_) => false,
        }
    }
}

/// All that is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Network {
    // Sorted, each request once.
    requests: Vec<Request>,
}

impl Network {
    /// What is on its way.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Sends a request.
    pub fn send(&mut self, request: Request) {
        if let Err(place) = self.requests.binary_search(&request) {
            self.requests.insert(place, request);
        }
    }

    /// Loses everything at once, as when all connections break.
    pub fn clear(&mut self) {
        self.requests.clear();
    }

    /// Forgets what can do nothing any more, in any of these memories, unless somebody waits for its answer.
    pub fn forget_spent(
        &mut self,
        memories: &[&Memory],
        rules: &Rules,
        is_awaited: impl Fn(&Request) -> bool,
    ) {
        self.requests.retain(|request| {
            is_awaited(request) || memories.iter().any(|memory| !request.is_spent(memory, rules))
        });
    }
}
