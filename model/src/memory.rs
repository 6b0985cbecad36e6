//! What the store remembers, and may forget.

use crate::state::{Nonce, SESSIONS, SessionId, Token};

/// Whether a session lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Standing {
    /// No record: never opened, or lost.
    #[default]
    Absent,
    /// It lives.
    Alive,
    /// It has a tombstone, by a listener's verdict.
    Silent,
    /// It has a tombstone, for another reason.
    Over,
}

impl Standing {
    /// Whether there is a tombstone.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Silent | Self::Over)
    }
}

/// The record of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Session {
    /// Whether it lives.
    pub standing: Standing,
    /// The highest beat raised.
    pub beat: u8,
    /// The era it was opened in or has reasserted under.
    pub era: Nonce,
    /// Ticks since the last beat on the store's clock, for a store that decides by it.
    pub age: u8,
}

/// The record of the one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lease {
    /// The newest token given out.
    pub token: Token,
    /// To whom, unless it was released.
    pub holder: Option<SessionId>,
}

/// What the store remembers, and may forget.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Memory {
    /// The sessions.
    pub sessions: [Session; SESSIONS],
    /// The resource.
    pub lease: Lease,
    /// The present era.
    pub nonce: Nonce,
    /// Whether the store is frozen under it.
    pub frozen: bool,
    /// The eras there were, as bits.
    pub nonces: u64,
    /// The identity the store had when the era began.
    pub identity: u8,
    /// Tokens of this era are above it.
    pub token_base: Token,
}

impl Memory {
    /// Whether it remembers that era.
    #[must_use]
    pub const fn has_had(&self, nonce: Nonce) -> bool {
        self.nonces & (1 << nonce) != 0
    }

    /// Whether it is frozen under that nonce.
    #[must_use]
    pub const fn is_frozen_under(&self, nonce: Nonce) -> bool {
        self.frozen && self.nonce == nonce
    }

    pub(crate) fn session(&mut self, id: SessionId) -> &mut Session {
        &mut self.sessions[usize::from(id)]
    }
}
