//! How large the world is and what can go wrong in it.

use crate::state::SessionId;

/// The bounds of one run of the checker, and the faults it may use. Loss, delay, reordering, repetition and
/// pauses are always among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    /// How many members there are.
    pub members: usize,
    /// How many sessions may ever be opened: what is left after the first of each member can be used by
    /// newcomers without history after a crash, or by members whose session has ended.
    pub sessions: u8,
    /// How many calls the first session may number.
    pub numbers: u8,
    /// How many calls each later session may number.
    pub numbers_later: u8,
    /// The TTL, in ticks.
    pub ttl: u8,
    /// The margin, in ticks.
    pub margin: u8,
    /// How many ticks after its last read a listener is deaf.
    pub deaf_after: u8,
    /// Whether a member has a heartbeat and an acquire on their way at the same time.
    pub concurrent: bool,
    /// Whether a read takes time: its request and its answer are delayed like those of any other call.
    pub slow_reads: bool,
    /// Whether members without a term beat, and are listened to. What hangs on their sessions is only whether
    /// they have to open new ones.
    pub hears_all: bool,
    /// Whether members close their sessions.
    pub closes: bool,
    /// Whether members crash.
    pub crashes: bool,
    /// Whether a call to open a session can arrive again later, and tombstones are collected.
    pub collects: bool,
    /// What happens when the store forgets.
    pub forgetting: Forgetting,
    /// How often it forgets.
    pub rollbacks: u8,
    /// How often it loses the record of one session and nothing else.
    pub losses: u8,
    /// How often its own clock jumps.
    pub jumps: u8,
    /// If clocks drift: in any so many ticks at most one clock gains or loses one tick.
    pub slip_every: Option<u8>,
    /// Whether steps are counted, so that no state of a random walk repeats.
    pub counts_steps: bool,
}

/// Whether the store can tell that it went back to an earlier state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgetting {
    /// It never goes back.
    Never,
    /// It goes back, and its live identity is another one from then on.
    Seen,
    /// It goes back and looks as before: only who remembers more can tell. Connections break, so that nothing
    /// on its way arrives.
    Unseen,
}

impl World {
    /// Two members and a store that remembers.
    #[must_use]
    pub const fn two_members() -> Self {
        Self {
            members: 2,
            sessions: 2,
            numbers: 3,
            numbers_later: 3,
            ttl: 3,
            margin: 1,
            deaf_after: 2,
            concurrent: false,
            slow_reads: false,
            hears_all: false,
            closes: false,
            crashes: false,
            collects: false,
            forgetting: Forgetting::Never,
            rollbacks: 0,
            losses: 0,
            jumps: 0,
            slip_every: None,
            counts_steps: false,
        }
    }

    /// The same with a store that forgets once.
    #[must_use]
    pub const fn forgetful(forgetting: Forgetting) -> Self {
        Self { forgetting, rollbacks: 1, numbers_later: 1, ..Self::two_members() }
    }

    /// The same with so many calls for each session.
    #[must_use]
    pub const fn with_numbers(self, numbers: u8) -> Self {
        Self { numbers, numbers_later: numbers, ..self }
    }

    /// How many calls a session may number.
    #[must_use]
    pub const fn numbers_of(&self, session: SessionId) -> u8 {
        if session == 0 { self.numbers } else { self.numbers_later }
    }
}
