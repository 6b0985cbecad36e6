//! The ledger: what happened to every lease, so that "never two owners" can be proved afterwards.
//!
//! Every entry is a structured log line and, where the store keeps a ledger, a row. Nothing is decided by it.

pub(crate) mod endpoints;
mod recorder;
pub mod replay;
pub mod verify;

use std::fmt;

pub use recorder::{Note, Recorder};
use serde::{Deserialize, Serialize};

use crate::clock::Moment;
use crate::lease::{MemberId, MemberName, ResourceId, Token};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A member opened its session.
    Joined,
    /// A member closed its session.
    Left,
    /// A lease was granted.
    Acquired,
    /// A lease was granted whose last holder had not released it.
    TakenOver,
    /// An attempt to acquire failed.
    AcquireFailed,
    /// A heartbeat was confirmed.
    Renewed,
    /// A lease was renewed, for those who are told of it: its first renewal, and one now and then.
    Extended,
    /// A heartbeat went unconfirmed.
    RenewFailed,
    /// Work under a lease began.
    Started,
    /// Work under a lease ended.
    Stopped,
    /// A lease was given back.
    Released,
    /// A session ended by silence, and with it this lease.
    Expired,
    /// A holder learned, from the store or from its own clock, that a lease is no longer its own.
    Lost,
    /// A term was revoked.
    Revoked,
    /// The store was found to have forgotten something.
    Frozen,
    /// Terms were reasserted in a frozen store.
    Reasserted,
    /// A frozen store went back into use.
    Thawed,
    /// A lease was asked for that somebody else holds.
    Refused,
    /// An operator set or removed a mark.
    Marked,
    /// A resource that kept killing its worker was set aside.
    Quarantined,
    /// Whoever guards the resource let a write under the token through.
    Accepted,
}

impl Event {
    /// The word in logs and rows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Left => "left",
            Self::Acquired => "acquired",
            Self::TakenOver => "taken_over",
            Self::AcquireFailed => "acquire_failed",
            Self::Renewed => "renewed",
            Self::Extended => "extended",
            Self::RenewFailed => "renew_failed",
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Lost => "lost",
            Self::Revoked => "revoked",
            Self::Frozen => "frozen",
            Self::Reasserted => "reasserted",
            Self::Thawed => "thawed",
            Self::Refused => "refused",
            Self::Marked => "marked",
            Self::Quarantined => "quarantined",
            Self::Accepted => "accepted",
        }
    }

    /// Whether only a holder writes this, about its own term.
    #[must_use]
    pub fn is_of_term(self) -> bool {
        let begins = matches!(self, Self::Acquired | Self::TakenOver | Self::Started);
        begins || matches!(self, Self::Stopped | Self::Released | Self::Lost | Self::Revoked)
    }

    /// What happened, for the text of a log line.
    fn sentence(self) -> &'static str {
        match self {
            Self::Joined => "member joined",
            Self::Left => "member left",
            Self::Acquired => "lease acquired",
            Self::TakenOver => "lease taken over",
            Self::AcquireFailed => "lease not acquired",
            Self::Renewed => "leases renewed",
            Self::Extended => "lease renewed",
            Self::RenewFailed => "heartbeat not confirmed",
            Self::Started => "work started",
            Self::Stopped => "work stopped",
            Self::Released => "lease released",
            Self::Expired => "session ended by silence",
            Self::Lost => "lease lost",
            Self::Revoked => "lease revoked",
            Self::Frozen => "the store may have forgotten something and is frozen",
            Self::Reasserted => "leases reasserted",
            Self::Thawed => "the store is in use again",
            Self::Refused => "lease is held by another",
            Self::Marked => "marked by an operator",
            Self::Quarantined => "resource set aside",
            Self::Accepted => "write accepted",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The work asked for it.
    Voluntary,
    /// The member left.
    Shutdown,
    /// The plan moved it.
    Rebalance,
    /// The session fell silent, or trust ran out.
    TtlExpiry,
    /// The resource was paused.
    SessionPaused,
    /// The resource is no longer listed.
    SessionDeleted,
    /// An operator revoked it.
    Revoked,
    /// The store's answer to an acquisition came too late to be used.
    Unconfirmed,
    /// A heartbeat stayed unconfirmed for longer than the pool allows.
    Uncertain,
    /// The store gave the lease to somebody else.
    Superseded,
}

impl Reason {
    /// The word in logs and rows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Voluntary => "voluntary",
            Self::Shutdown => "shutdown",
            Self::Rebalance => "rebalance",
            Self::TtlExpiry => "ttl_expiry",
            Self::SessionPaused => "session_paused",
            Self::SessionDeleted => "session_deleted",
            Self::Revoked => "revoked",
            Self::Unconfirmed => "unconfirmed",
            Self::Uncertain => "uncertain",
            Self::Superseded => "superseded",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Entry {
    /// Wall time in nanoseconds since 1970, for people.
    pub wall_nanos: u64,
    /// The writer's own clock, comparable between entries of one boot.
    pub at: Moment,
    /// The boot of the machine that `at` was read on.
    pub boot: String,
    /// Counts this member's rows about its terms, so that a missing one shows; other rows carry the number of the
    /// last one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Who writes.
    pub member: MemberId,
    /// The writer's stable name.
    pub name: MemberName,
    /// What happened.
    pub event: Event,
    /// To which resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceId>,
    /// Under which token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Until when the writer trusts itself, on its own clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_until: Option<Moment>,
    /// The TTL in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The other member concerned: the successor, the last holder, the one that fell silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<MemberId>,
    /// Anything else worth knowing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
