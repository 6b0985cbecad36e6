//! What goes into a store and what comes out: sessions and leases here, the rest in `registry`.

mod registry;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use registry::{
    Declared, Listing, ListingError, ListingId, Mark, MarkKind, Marked, SERVER_POOL, Version,
};

use crate::lease::{BeatNumber, MemberId, MemberName, Nonce, Pool, ResourceId, Term, Token};

/// An answer to a session's own call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Answer<T> {
    /// Done, and confirmed.
    Done(T),
    /// The session has ended; nothing was changed. Final.
    Gone,
    /// The store may have forgotten something: nothing was changed, and nothing will be until it is thawed.
    Frozen(Nonce),
}

/// What a session's call carries besides its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// The era the session knows.
    pub era: Nonce,
    /// The beat that this call raises.
    pub number: BeatNumber,
    /// The highest beat that the store has confirmed to this session.
    pub confirmed: BeatNumber,
}

/// A session to open or to reassert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    /// The pool it takes part in.
    pub pool: Pool,
    /// Its id, never used before.
    pub id: MemberId,
    /// How long a listener must hear no new beat before it may end the session.
    pub ttl: Duration,
    /// What it publishes about itself.
    pub profile: Profile,
}

/// What a member publishes about itself for everybody's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Profile {
    /// The stable name.
    pub name: MemberName,
    /// The most weight it takes; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// Labels that resources may require. One that is always there is `name`, with the stable name unless this says
    /// otherwise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether it can work at all at the moment.
    pub ready: bool,
    /// Whether it has been here long enough for work to be moved to it.
    pub settled: bool,
    /// Whether it is on its way out and wants to hold nothing.
    #[serde(default)]
    pub leaving: bool,
    /// What its own source lists, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listing: Option<ListingId>,
    /// The newest plan it can compute. All use the lowest that is published.
    pub plan_version: u16,
    /// How often this name came back shortly after it had gone.
    #[serde(default)]
    pub flaps: u32,
    /// The version of the program, for people who roll one out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A session as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// Whose session it is.
    pub id: MemberId,
    /// How long a listener must hear no new beat before it may end the session.
    pub ttl: Duration,
    /// The highest beat raised.
    pub beat: BeatNumber,
    /// Whether it has a tombstone.
    pub ended: bool,
    /// What it publishes about itself.
    pub profile: Profile,
}

/// A lease as the store has it. The record outlives its holder: it keeps the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The resource.
    pub resource: ResourceId,
    /// The newest token given out.
    pub token: Token,
    /// The session it was given to, unless that one released it. A holder with a tombstone holds nothing.
    pub holder: Option<MemberId>,
    /// The TTL of that session.
    pub ttl: Duration,
    /// Whether the term was revoked.
    pub revoked: bool,
    /// To whom the last holder offered it.
    pub offer: Option<Offer>,
}

/// Advice left with a release: who should take the resource next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Offer {
    /// The named successor.
    pub to: MemberId,
    /// What the donor held, by weight, when it let go; the successor takes it only if that evens out.
    pub load: u64,
}

/// A resource a member wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The resource.
    pub resource: ResourceId,
    /// The highest token the caller knows of; the new one is above it.
    pub floor: Token,
}

/// What became of one wanted resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Acquired {
    /// It is the caller's.
    Granted(Term),
    /// Somebody has it (perhaps the caller itself, under an older grant).
    Held {
        /// Who.
        by: MemberId,
        /// Under which token.
        token: Token,
    },
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Claimed {
    /// The session is open, and the resource is its.
    Granted {
        /// The term.
        term: Term,
        /// The era that the session was opened in.
        era: Nonce,
    },
    /// Somebody has it (perhaps this very session, by a claim whose answer was lost). No session was opened.
    Held {
        /// Who.
        by: MemberId,
        /// Under which token.
        token: Token,
    },
}

/// A term to give back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The term. Once this was sent, it is dead to its holder.
    pub term: Term,
    /// Who should take it next.
    pub offer: Option<Offer>,
}

/// What became of one release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Released {
    /// It is free.
    Freed,
    /// The caller did not hold this term (any more); nothing was changed.
    NotHeld,
}

/// What became of a listener's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum EndSilent {
    /// The session has a tombstone.
    Ended,
    /// It was heard: this is its beat now.
    Alive(BeatNumber),
    /// The store knows no such session. That is not an end.
    Absent,
    /// Nothing ends while the store is frozen.
    Frozen(Nonce),
}

/// What became of one reasserted term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Reasserted {
    /// The store knows it (again).
    Kept,
    /// The store has a newer term, or knows that this very term is free or somebody else's: it is lost.
    Lost,
}

/// What became of a thaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Thawed {
    /// The store is in use again.
    Thawed,
    /// It is not frozen under that nonce.
    Changed,
}

/// What became of a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Revoked {
    /// The term is marked.
    Marked,
    /// Nobody holds that term.
    NotHeld,
    /// The store is frozen under this nonce: holders that reassert would not hear of it.
    Frozen(Nonce),
}

/// What became of freeing somebody else's term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Freed {
    /// It is free.
    Freed,
    /// Something changed; nothing was done.
    Changed,
    /// Nothing ends while the store is frozen.
    Frozen(Nonce),
}

/// Where a reader stands in a store's changes. `Cursor::START` asks for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

impl Cursor {
    /// Before everything.
    pub const START: Self = Self(0);
}

/// How far all but sessions were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Others {
    /// Leases.
    pub leases: Cursor,
    /// Operators' marks.
    pub marks: Cursor,
    /// Declared resources.
    pub declared: Cursor,
}

/// The era as a reader sees it, in the same instant as what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Era {
    /// Which one.
    pub nonce: Nonce,
    /// Whether the store is frozen under it.
    pub frozen: bool,
    /// The longest TTL of any session the store has seen.
    pub ttl_max: Duration,
}

/// What changed since a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed<T> {
    /// The era it was read in. A reader that meets a new one starts again from `Cursor::START`.
    pub era: Era,
    /// What changed, or everything if the cursor was `START`.
    pub items: Vec<T>,
    /// Where to go on from.
    pub cursor: Cursor,
}

/// A sign that something changed in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// Read again.
    Changed,
    /// Somebody who is no member touched what shows who holds what: read again, and whoever holds something gives a
    /// sign of life now, by whose answer it learns what became of it.
    Doubted,
}

/// How well a store keeps its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Grade {
    /// Gone when the process ends.
    Volatile,
    /// May lose recent writes in a failover.
    MayLoseWrites,
    /// What is confirmed survives a crash of the one node.
    DurableOnOneNode,
    /// What is confirmed survives a failover.
    DurableAndLinearizable,
}

impl Grade {
    /// The word used in JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Volatile => "volatile",
            Self::MayLoseWrites => "may-lose-writes",
            Self::DurableOnOneNode => "durable-on-one-node",
            Self::DurableAndLinearizable => "durable-and-linearizable",
        }
    }

    /// The grade with that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Volatile, Self::MayLoseWrites, Self::DurableOnOneNode, Self::DurableAndLinearizable]
            .into_iter()
            .find(|grade| grade.as_str() == word)
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Volatile => "volatile",
            Self::MayLoseWrites => "may lose recent writes",
            Self::DurableOnOneNode => "durable on one node",
            Self::DurableAndLinearizable => "durable and linearizable",
        })
    }
}

/// What a store can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The most items one call may carry.
    pub batch_max: usize,
    /// Whether changes made by other processes are pushed rather than found by reading.
    pub pushes_changes: bool,
    /// How well it keeps its word.
    pub grade: Grade,
}
