//! What a verdict says, for programs and for people.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::lease::{MemberId, MemberName, ResourceId, Token};

/// What the rows of a pool show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// The moment of the first row.
    pub begins: When,
    /// From the first row to the last.
    #[serde(rename = "span_s", serialize_with = "as_seconds")]
    pub span: Duration,
    /// How many different rows were read.
    pub rows: usize,
    /// How many rows are missing at least: members number theirs about terms, and the others show the holes.
    pub missing: u64,
    /// How many boots of machines wrote them. Between several, moments are compared by wall clocks.
    pub machines: usize,
    /// Each resource that a row names.
    pub resources: Vec<ResourceReport>,
    /// Everything that must not be.
    pub violations: Vec<Violation>,
    /// What would be an overlap, if no row were missing.
    pub undecided: Vec<Undecided>,
}

impl Verdict {
    /// Whether nothing was found that must not be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// How long resources were believed by two at once, all together.
    #[must_use]
    pub fn overlap(&self) -> Duration {
        self.sum(|report| report.overlap)
    }

    /// How long resources had no owner, all together.
    #[must_use]
    pub fn unowned(&self) -> Duration {
        self.sum(|report| report.unowned)
    }

    /// How long resources had no owner without a row that says why.
    #[must_use]
    pub fn unexplained(&self) -> Duration {
        let gaps = self.resources.iter().flat_map(|report| &report.gaps);
        total(gaps.filter(|gap| gap.why == Why::Unknown).map(|gap| gap.length))
    }

    /// How many terms there were.
    #[must_use]
    pub fn terms(&self) -> usize {
        self.resources.iter().map(|report| report.terms).sum()
    }

    /// Work that was found to have stopped only after its trust had ended.
    pub fn late_stops(&self) -> impl Iterator<Item = &LateStop> {
        self.resources.iter().flat_map(|report| &report.late_stops)
    }

    /// How moments were compared, in words.
    #[must_use]
    pub fn compared(&self) -> String {
        match self.machines {
            0 | 1 => "one machine".to_owned(),
            many => format!("{many} machines, compared by their wall clocks"),
        }
    }

    fn sum(&self, of: impl Fn(&ResourceReport) -> Duration) -> Duration {
        total(self.resources.iter().map(of))
    }
}

/// The verdict in one line.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (overlap, unowned) = (seconds(self.overlap()), seconds(self.unowned()));
        write!(
            f,
            "overlap {overlap}, unowned {unowned}, violations {}: {} resources, {} terms, {} rows, {}",
            self.violations.len(),
            self.resources.len(),
            self.terms(),
            self.rows,
            self.compared()
        )?;
        if !self.undecided.is_empty() {
            write!(f, ", {} undecided", self.undecided.len())?;
        }
        match self.missing {
            0 => Ok(()),
            1 => f.write_str(", 1 row missing"),
            missing => write!(f, ", {missing} rows missing"),
        }
    }
}

/// What the rows show about one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ResourceReport {
    /// Which.
    pub resource: ResourceId,
    /// How many terms were held.
    pub terms: usize,
    /// How many writes were let through, as far as whoever guards it records them.
    pub writes: usize,
    /// How long two terms were believed at once.
    #[serde(rename = "overlap_s", serialize_with = "as_seconds")]
    pub overlap: Duration,
    /// How long it had an owner.
    #[serde(rename = "owned_s", serialize_with = "as_seconds")]
    pub owned: Duration,
    /// How long it had none, from the first row that names it to the last row of the pool.
    #[serde(rename = "unowned_s", serialize_with = "as_seconds")]
    pub unowned: Duration,
    /// Each stretch without an owner, in order.
    pub gaps: Vec<Gap>,
    /// Work that was found to have stopped only after its trust had ended.
    pub late_stops: Vec<LateStop>,
}

impl ResourceReport {
    /// The longest stretch without an owner.
    #[must_use]
    pub fn worst_gap(&self) -> Option<&Gap> {
        self.gaps.iter().max_by_key(|gap| gap.length)
    }
}

/// A moment of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct When {
    /// How long after the first row.
    #[serde(rename = "since_start_s", serialize_with = "as_seconds")]
    pub since_start: Duration,
    /// The same as wall time in nanoseconds since 1970, as good as the wall clock of whoever wrote.
    pub wall_nanos: u64,
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:.3} s", self.since_start.as_secs_f64())
    }
}

/// One holder's time with a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tenure {
    /// Under which token.
    pub token: Token,
    /// Who.
    pub member: MemberId,
    /// Its stable name.
    pub name: MemberName,
    /// From when it was believed.
    pub from: When,
    /// Until when: its work had stopped, or its trust had ended.
    pub until: When,
}

impl fmt::Display for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, member, name, from, until } = self;
        write!(f, "{name} ({member}) under token {token} from {from} to {until}")
    }
}

/// A write that was let through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Write {
    /// Under which token.
    pub token: Token,
    /// Who let it through.
    pub guard: MemberName,
    /// When.
    pub at: When,
}

/// Something that must not be. Each is one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "violation", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Violation {
    /// Two terms of one resource were believed at once.
    Overlap {
        /// The resource.
        resource: ResourceId,
        /// The one that was there.
        first: Tenure,
        /// The one that came.
        second: Tenure,
        /// How long.
        #[serde(rename = "length_s", serialize_with = "as_seconds")]
        length: Duration,
    },
    /// Two members had one token.
    TokenShared {
        /// The resource.
        resource: ResourceId,
        /// The one.
        first: Tenure,
        /// The other.
        second: Tenure,
    },
    /// A later grant had a token that was no higher.
    TokenFell {
        /// The resource.
        resource: ResourceId,
        /// The earlier grant.
        first: Tenure,
        /// The later one.
        second: Tenure,
    },
    /// A write was let through after one of a newer term.
    StaleWrite {
        /// The resource.
        resource: ResourceId,
        /// The newest before it.
        newest: Write,
        /// The one that should have been refused.
        stale: Write,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { resource, first, second, length } => {
                write!(f, "{resource} had two owners for {}: {first}, and {second}", seconds(*length))
            }
            Self::TokenShared { resource, first, second } => {
                write!(f, "{resource} was held under one token by two: {first}, and {second}")
            }
            Self::TokenFell { resource, first, second } => {
                write!(f, "{resource} got a token that did not rise: {first}, then {second}")
            }
            Self::StaleWrite { resource, newest, stale } => write!(
                f,
                "{resource} took a stale write: {} let one through under token {} at {}, after one under token {} at {}",
                stale.guard, stale.token, stale.at, newest.token, newest.at
            ),
        }
    }
}

/// A moment of which the rows do not say whether there were two owners: the later one was granted a lease that was
/// free, and of the earlier one there is no row after that. It had given the lease back and the rows that say so are
/// missing, or else two were believed at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Undecided {
    /// The resource.
    pub resource: ResourceId,
    /// The one that was there, and until when it trusted itself.
    pub first: Tenure,
    /// The one that came.
    pub second: Tenure,
    /// How long it would have been.
    #[serde(rename = "length_s", serialize_with = "as_seconds")]
    pub length: Duration,
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, first, second, length } = self;
        write!(f, "{resource} for up to {}: {first}, and {second}", seconds(*length))
    }
}

/// A stretch of time in which a resource had no owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Gap {
    /// From when.
    pub from: When,
    /// How long.
    #[serde(rename = "length_s", serialize_with = "as_seconds")]
    pub length: Duration,
    /// Why.
    pub why: Why,
    /// Who had it before.
    pub after: Option<MemberName>,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}: {}", seconds(self.length), self.from, self.why)?;
        match &self.after {
            Some(after) => write!(f, " ({after} had it)"),
            None => Ok(()),
        }
    }
}

/// Why a resource had no owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// Nobody had held it yet.
    BeforeFirstGrant,
    /// It was handed over.
    Handoff,
    /// Its holder left.
    Shutdown,
    /// Its holder was silent, or ran out of trust.
    TtlExpiry,
    /// Its holder's work ended by itself.
    Voluntary,
    /// An operator paused it.
    Paused,
    /// It was no longer listed.
    Unlisted,
    /// An operator revoked it.
    Revoked,
    /// The store said that it is not its holder's any more.
    Superseded,
    /// The store had forgotten something, and nothing changed hands.
    StoreFrozen,
    /// No row says why.
    Unknown,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeFirstGrant => "before the first grant",
            Self::Handoff => "handoff",
            Self::Shutdown => "shutdown",
            Self::TtlExpiry => "silence",
            Self::Voluntary => "the work ended by itself",
            Self::Paused => "paused",
            Self::Unlisted => "no longer listed",
            Self::Revoked => "revoked",
            Self::Superseded => "lost by the store's word",
            Self::StoreFrozen => "the store was frozen",
            Self::Unknown => "no row says why",
        })
    }
}

/// Work that was found to have stopped only after its trust had ended, as that of a frozen process is when it wakes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LateStop {
    /// Whose, and until when it was trusted.
    pub tenure: Tenure,
    /// How long after that it was found stopped.
    #[serde(rename = "late_s", serialize_with = "as_seconds")]
    pub late: Duration,
}

impl fmt::Display for LateStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped {} after trust ended: {}", seconds(self.late), self.tenure)
    }
}

/// A duration in words: `0 s` only if it is nothing at all.
#[must_use]
pub fn seconds(duration: Duration) -> String {
    if duration.is_zero() {
        "0 s".to_owned()
    } else if duration < Duration::from_millis(1) {
        format!("{:.9} s", duration.as_secs_f64())
    } else {
        format!("{:.3} s", duration.as_secs_f64())
    }
}

/// A sum that stays within bounds whatever is added.
pub(super) fn total(durations: impl Iterator<Item = Duration>) -> Duration {
    durations.fold(Duration::ZERO, Duration::saturating_add)
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
