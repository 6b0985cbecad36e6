//! Every step that anybody can take.

use crate::network::Request;
use crate::state::{Nonce, SessionId};

/// A member, by its place.
pub type Place = usize;

/// Whose clock slips in a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slip {
    /// Nobody's.
    None,
    /// This member's stands still.
    Slow(Place),
    /// This member's gains a tick.
    Fast(Place),
}

/// One step of somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Time passes.
    Tick(Slip),
    /// A member opens a session.
    Join(Place),
    /// A process dies; a newcomer without history may join in its place.
    Crash(Place),
    /// A member closes its session.
    Close(Place),
    /// A member sends a heartbeat.
    Beat(Place),
    /// A member sends its heartbeat once more, as it was.
    RepeatBeat(Place),
    /// A member asks for the resource.
    Acquire(Place),
    /// A member gives its term back.
    Release(Place),
    /// A member reasserts its term in a frozen store.
    Reassert(Place),
    /// The answer to a heartbeat or a reassertion arrives.
    TakeBeat(Place),
    /// The answer to an acquire arrives.
    TakeGrant(Place),
    /// A member reads, at once.
    Read(Place),
    /// A member sends a read.
    AskRead(Place),
    /// The store answers it.
    AnswerRead(Place),
    /// The answer arrives.
    TakeRead(Place),
    /// A member judges a session silent.
    EndSilent(Place, SessionId),
    /// A member judges a term orphaned.
    FreeOrphan(Place),
    /// A member judges a freeze over.
    Thaw(Place, Nonce),
    /// A request reaches the store. It may do so again.
    Deliver(Request),
    /// The state that the store may go back to is this one.
    Snapshot,
    /// The store goes back.
    Rollback,
    /// The store loses the record of one session.
    LoseSession(SessionId),
    /// The store's clock jumps.
    JumpClock,
    /// A tombstone is collected.
    Collect(SessionId),
}
