//! One instant of the whole system.

use crate::member::Member;
use crate::network::Network;
use crate::store::Store;

/// A session's id: how many were opened before it.
pub type SessionId = u8;
/// A fencing token.
pub type Token = u8;
/// Names an era. Drawn at random in truth, counted here: all that matters is that no two are the same.
pub type Nonce = u8;

/// The most sessions a world has room for.
pub const SESSIONS: usize = 6;

/// One instant of the whole system. Time is held only as what has passed or is left on somebody's clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The store.
    pub store: Store,
    /// The members.
    pub members: Vec<Member>,
    /// What is on its way between them.
    pub network: Network,
    /// The id of the next session.
    pub sessions_opened: u8,
    /// How often the store has forgotten.
    pub rollbacks: u8,
    /// How often it lost a session's record.
    pub losses: u8,
    /// How often its clock has jumped.
    pub jumps: u8,
    /// Ticks since a clock last slipped.
    pub steady: u8,
    /// Steps so far, where they are counted.
    pub steps: u16,
    /// What an observer outside of time has noted.
    pub witness: Witness,
}

/// What only an observer who forgets nothing knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Witness {
    /// The highest token ever given out.
    pub token: Token,
    /// The sessions that ever had a tombstone, as bits.
    pub ended: u8,
    /// A token was given out that was not above all before it.
    pub token_fell: bool,
    /// A session that had ended was confirmed again.
    pub revived: bool,
    /// A holder was confirmed whose term the store did not have.
    pub confirmed_in_vain: bool,
    /// A listener's verdict ended a session that trusted itself.
    pub ended_in_trust: bool,
}

impl State {
    /// How many members trust a term at this instant.
    #[must_use]
    pub fn trusting(&self) -> usize {
        self.members.iter().filter(|member| member.trusts()).count()
    }

    /// The member whose session this is.
    pub fn member_of(&mut self, session: SessionId) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.session == Some(session))
    }
}
