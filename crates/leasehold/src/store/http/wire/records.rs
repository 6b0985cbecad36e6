//! What goes over the line and what comes back.

use serde::{Deserialize, Serialize};

use super::{Hex, Position};
use crate::lease::{BeatNumber, MemberId, Pool, ResourceId, Term, Token};
use crate::ledger::Entry;
use crate::store::{MarkKind, Offer, Profile, Version};

/// What a call that no session makes is answered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reply<T> {
    /// The answer.
    pub value: T,
}

/// There is nothing more to say: `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Nothing;

/// What a session's own call is answered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer<T> {
    /// Done, and confirmed.
    Done {
        /// What was done.
        value: T,
    },
    /// The session has ended; nothing was changed. Final.
    Gone,
    /// The store may have forgotten something; nothing was changed.
    Frozen {
        /// What it is frozen under.
        nonce: Hex,
    },
}

/// What a session's call carries besides its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pulse {
    /// The era the session knows.
    pub era: Hex,
    /// The beat that this call raises.
    pub number: BeatNumber,
    /// The highest beat that the store has confirmed to this session.
    pub confirmed: BeatNumber,
}

/// A session to open or to reassert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// The pool it takes part in.
    pub pool: Pool,
    /// Its id, never used before.
    pub id: MemberId,
    /// How long a listener must hear no new beat before it may end the session.
    #[cfg_attr(feature = "openapi", schema(minimum = 1000, maximum = 3_600_000))]
    pub ttl_ms: u64,
    /// What it publishes about itself.
    pub profile: Profile,
}

/// A session as the store has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionRecord {
    /// Whose session it is.
    pub id: MemberId,
    /// How long a listener must hear no new beat before it may end the session.
    pub ttl_ms: u64,
    /// The highest beat raised.
    pub beat: BeatNumber,
    /// Whether it has a tombstone.
    pub ended: bool,
    /// What it publishes about itself.
    pub profile: Profile,
}

/// A lease as the store has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseRecord {
    /// The resource.
    pub resource: ResourceId,
    /// The newest token given out.
    pub token: Token,
    /// The session it was given to, unless that one released it.
    pub holder: Option<MemberId>,
    /// The TTL of that session.
    pub ttl_ms: u64,
    /// Whether the term was revoked.
    pub revoked: bool,
    /// To whom the last holder offered it.
    pub offer: Option<Offer>,
}

/// A resource a member wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Wanted {
    /// The resource.
    pub resource: ResourceId,
    /// The highest token the caller knows of; the new one is above it.
    pub floor: Token,
}

/// What became of one wanted resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Acquired {
    /// It is the caller's.
    Granted {
        /// Under this token.
        term: Term,
    },
    /// Somebody has it.
    Held {
        /// Who.
        by: MemberId,
        /// Under which token.
        token: Token,
    },
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Claimed {
    /// The session is open, and the resource is its.
    Granted {
        /// Under this token.
        term: Term,
        /// The era that the session was opened in.
        era: Hex,
    },
    /// Somebody has it. No session was opened.
    Held {
        /// Who.
        by: MemberId,
        /// Under which token.
        token: Token,
    },
}

/// A term to give back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Release {
    /// The term.
    pub term: Term,
    /// Who should take it next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
}

/// What became of one release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Released {
    /// It is free.
    Freed,
    /// The caller did not hold this term.
    NotHeld,
}

/// What became of a listener's verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum EndSilent {
    /// The session has a tombstone.
    Ended,
    /// It was heard.
    Alive {
        /// Its beat now.
        beat: BeatNumber,
    },
    /// The store knows no such session.
    Absent,
    /// Nothing ends while the store is frozen.
    Frozen {
        /// What it is frozen under.
        nonce: Hex,
    },
}

/// What became of one reasserted term.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reasserted {
    /// The store knows it (again).
    Kept,
    /// It is lost.
    Lost,
}

/// What became of a thaw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Thawed {
    /// The store is in use again.
    Thawed,
    /// It is not frozen under that nonce.
    Changed,
}

/// What became of a revocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Revoked {
    /// The term is marked.
    Marked,
    /// Nobody holds that term.
    NotHeld,
    /// Not while the store is frozen.
    Frozen {
        /// What it is frozen under.
        nonce: Hex,
    },
}

/// What became of freeing somebody else's term.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Freed {
    /// It is free.
    Freed,
    /// Something changed; nothing was done.
    Changed,
    /// Not while the store is frozen.
    Frozen {
        /// What it is frozen under.
        nonce: Hex,
    },
}

/// The era as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Era {
    /// Which one.
    pub nonce: Hex,
    /// Whether the store is frozen under it.
    pub frozen: bool,
    /// The longest TTL of any session the store has seen.
    pub ttl_max_ms: u64,
}

/// What changed since a cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Changed<T> {
    /// The era it was read in.
    pub era: Era,
    /// What changed, or everything.
    pub items: Vec<T>,
    /// Where to go on from.
    pub cursor: Position,
}

/// An operator's mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Mark {
    /// What it says.
    pub kind: MarkKind,
    /// A member's name or a resource's id.
    pub subject: String,
    /// The pinned member's name or a remark; none once removed.
    pub value: Option<String>,
    /// Counts its changes.
    pub version: Version,
}

/// What became of a compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Marked {
    /// Written.
    Set {
        /// The version now.
        version: Version,
    },
    /// Somebody else was faster.
    Conflict {
        /// The version now.
        version: Version,
    },
}

/// One row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Row {
    /// Its number.
    pub row: u64,
    /// What it says.
    pub entry: Entry,
}

/// What was found when the store was looked over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Checkup {
    /// What answers there, with its version.
    pub server: String,
    /// How well it keeps its word with these settings.
    pub grade: String,
    /// What was looked at.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    /// Whether it weakens a guarantee.
    pub weak: bool,
    /// What was found.
    pub what: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}
