//! What the plan says.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lease::{MemberId, ResourceId};

/// A held resource that should change hands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// What moves.
    pub resource: ResourceId,
    /// Who lets go.
    pub from: MemberId,
    /// Who takes over.
    pub to: MemberId,
    /// The load that the offer carries: the successor takes it only if its own load and the weight are no more
    /// than this less the weight.
    pub load: u64,
    /// Why.
    pub reason: MoveReason,
    /// Whether it can be carried out at once; a later step waits for others and is there to be shown.
    pub now: bool,
}

/// Why a resource moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MoveReason {
    /// Its holder is on its way out.
    Leaving,
    /// An operator drains its holder.
    Drain,
    /// An operator pinned it to somebody else.
    Pin,
    /// Its holder may not hold it any more: not ready, a label gone, not in its listing.
    Ineligible,
    /// Its holder has more than its capacity, or must make room for what is pinned to it.
    Capacity,
    /// It evens out the load.
    Rebalance,
}

impl fmt::Display for MoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaving => "its holder is leaving",
            Self::Drain => "its holder is drained",
            Self::Pin => "it is pinned there",
            Self::Ineligible => "its holder may not hold it any more",
            Self::Capacity => "its holder is over its capacity",
            Self::Rebalance => "it evens out the load",
        })
    }
}

/// A held resource that its holder must let go with nobody to take over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drop {
    /// What is let go.
    pub resource: ResourceId,
    /// By whom.
    pub from: MemberId,
    /// Why.
    pub reason: DropReason,
}

/// Why a resource is let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DropReason {
    /// An operator paused it.
    Paused,
    /// Its holder does not list it any more, and nobody else can take it.
    Unlisted,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paused => "it is paused",
            Self::Unlisted => "its holder does not list it any more and nobody else can take it",
        })
    }
}

/// A free resource and who should take it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// What is free.
    pub resource: ResourceId,
    /// Who should take it.
    pub to: MemberId,
    /// Whether its last holder named this successor and the offer still evens out. If not, the offer is void and
    /// this is simply who has room, even if it is the one that was named.
    pub offered: bool,
}

/// A free resource that nobody can take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unplaceable {
    /// What stays free.
    pub resource: ResourceId,
    /// Why.
    pub reason: UnplaceableReason,
}

/// Why nobody can take a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum UnplaceableReason {
    /// There are no members.
    NoMembers,
    /// An operator paused it.
    Paused,
    /// No member may hold it.
    NobodyEligible,
    /// Members may hold it, but none has room.
    NoCapacity,
}

impl fmt::Display for UnplaceableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMembers => "there are no members",
            Self::Paused => "it is paused",
            Self::NobodyEligible => "no member may hold it",
            Self::NoCapacity => "no member that may hold it has room",
        })
    }
}

/// A member's fair share by weight, for people: it should have between `floor` and `ceiling`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quota {
    /// The least.
    pub floor: u64,
    /// The most.
    pub ceiling: u64,
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.floor == self.ceiling {
            self.floor.fmt(f)
        } else {
            write!(f, "{} to {}", self.floor, self.ceiling)
        }
    }
}
