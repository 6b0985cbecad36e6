//! The check at the thing being written: a term older than the newest seen is refused.
//!
//! A lease alone cannot stop a process that was frozen at the wrong moment. What it writes to can: every write carries the
//! token of its term, and the fence knows the newest one.
//!
//! [`Fence`] decides, and is pure: it takes tokens and moments and gives verdicts. [`Gate`] stands around it and asks an
//! [`Authority`] who was granted what; [`PoolAuthority`] is a pool in any store, behind a Leasehold server too. [`Message`]
//! reads the token out of a message, and [`guard`] puts the same rule inside the things that people write to.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//! use leasehold::fence::{Gate, Message, PoolAuthority};
//! use leasehold::{Pool, ResourceId, store};
//!
//! async fn consume(payload: &[u8]) -> Result<bool, Box<dyn std::error::Error>> {
//!     let store = store::open(&"http://127.0.0.1:7400".parse()?).await?;
//!     let gate = Gate::new(Arc::new(PoolAuthority::new(store, Pool::new("scenes")?)), Duration::from_secs(10));
//!     let message = Message::read(payload)?;
//!     Ok(gate.admit(&ResourceId::new("scene-01")?, message.offered).await.is_admitted())
//! }
//! ```
//!
//! Invariants:
//! 1. What passes for a resource never goes back: once a token has passed, or the authority has named it, none below it does.
//! 2. With an authority, nothing passes that the authority did not name as the newest at some moment of the last
//!    [`lifetime`](Rules::lifetime), counted from before it was asked, and never for as long as the lease's own TTL.
//! 3. Only the authority raises what is known. A message with any number in it does not shut the others out.

mod authority;
mod counts;
mod gate;
pub mod guard;
mod mark;
mod message;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use authority::{Authority, Newest, PoolAuthority};
pub use counts::Counts;
pub use gate::Gate;
pub use message::{Message, Unreadable};

use self::mark::Mark;
use crate::clock::Moment;
use crate::lease::{ResourceId, Token};

/// The most resources that a fence remembers.
const MARKS_MAX: usize = 100_000;

/// What a write says of its term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// Nothing.
    Missing,
    /// Something that is no token.
    Malformed,
    /// Its token.
    Token(Token),
}

/// Why a write is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A newer term was granted.
    Stale {
        /// Its token.
        newest: Token,
    },
    /// No term of that token was granted, as far as can be found out.
    Future {
        /// The newest token that was granted.
        newest: Token,
    },
    /// It carries no token.
    Unversioned,
    /// What it carries is no token.
    Malformed,
    /// The authority does not answer, and what it said last is too old.
    Unconfirmed,
    /// There are more resources than can be remembered.
    Crowded,
}

impl Refusal {
    /// The reason in one word, for metrics and logs.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Stale { .. } => "stale",
            Self::Future { .. } => "future_token",
            Self::Unversioned => "unversioned",
            Self::Malformed => "malformed",
            Self::Unconfirmed => "unconfirmed",
            Self::Crowded => "crowded",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { newest } => write!(f, "a newer term was granted, under token {newest}"),
            Self::Future { newest } => write!(f, "no such term was granted; the newest has token {newest}"),
            Self::Unversioned => f.write_str("it carries no token"),
            Self::Malformed => f.write_str("what it carries is no token"),
            Self::Unconfirmed => f.write_str("nobody can say at the moment whether its term is the newest"),
            Self::Crowded => f.write_str("there are too many resources to remember one more"),
        }
    }
}

/// What a fence says to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// The write may go on.
    Admitted,
    /// It must not.
    Refused(Refusal),
}

impl Admission {
    /// Whether the write may go on.
    #[must_use]
    pub fn is_admitted(self) -> bool {
        self == Self::Admitted
    }
}

/// What a fence can say at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Judgement {
    /// The last word.
    Now(Admission),
    /// The authority has to be asked first, from this moment on.
    Ask,
}

/// How a fence judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// How long what the authority said counts, from before it was asked; a fifth of the lease's TTL if that is less. `None`: there
    /// is no authority, and whoever comes first with a higher token is believed.
    pub lifetime: Option<Duration>,
    /// For a migration: what carries no token, or none that can be read, passes. It is counted all the same.
    pub allow_unversioned: bool,
}

/// Remembers the newest token of each resource: the highest that passed, and the highest that the authority named.
///
/// Without an authority it needs no clock and no store:
///
/// ```
/// use leasehold::fence::{Admission, Fence, Refusal};
/// use leasehold::{ResourceId, Token};
///
/// let fence = Fence::default();
/// let camera = ResourceId::new("cam-1")?;
/// assert_eq!(fence.admit(&camera, Token(4)), Admission::Admitted);
/// assert_eq!(fence.admit(&camera, Token(5)), Admission::Admitted);
/// assert_eq!(fence.admit(&camera, Token(4)), Admission::Refused(Refusal::Stale { newest: Token(5) }));
/// # Ok::<(), leasehold::lease::IdError>(())
/// ```
///
/// With one, see [`Gate`].
#[derive(Debug, Default)]
pub struct Fence {
    rules: Rules,
    marks: Mutex<Marks>,
    counts: counts::Counters,
}

#[derive(Debug, Default)]
struct Marks {
    of: HashMap<ResourceId, Mark>,
    /// When the authority last began to say everything that it knows.
    said_at: Option<Moment>,
    /// The shortest TTL of all.
    ttl_min: Option<Duration>,
}

impl Fence {
    /// A fence that has seen nothing.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Admits a write under `token` unless a newer one is known. For a fence without an authority: with one, what has to be
    /// asked for is refused.
    pub fn admit(&self, resource: &ResourceId, token: Token) -> Admission {
        self.settle(resource, Offered::Token(token), Moment::default())
    }

    /// What can be said at once, at the moment `now`.
    pub fn judge(&self, resource: &ResourceId, offered: Offered, now: Moment) -> Judgement {
        self.weigh(resource, offered, now, false)
    }

    /// The last word, when the authority has been asked since the write came, whether it answered or not.
    pub fn settle(&self, resource: &ResourceId, offered: Offered, now: Moment) -> Admission {
        match self.weigh(resource, offered, now, true) {
            Judgement::Now(admission) => admission,
            Judgement::Ask => self.counts.count(Admission::Refused(Refusal::Unconfirmed)),
        }
    }

    fn weigh(&self, resource: &ResourceId, offered: Offered, now: Moment, asked: bool) -> Judgement {
        // Nobody is ever granted token 0.
        let token = match offered {
            Offered::Token(token) if token.0 > 0 => token,
            Offered::Missing => return Judgement::Now(self.unversioned(Refusal::Unversioned)),
            _ => return Judgement::Now(self.unversioned(Refusal::Malformed)),
        };
        let mut marks = self.marks();
        let said_at = marks.said_at;
        let judgement = match marks.of.get_mut(resource) {
            Some(mark) => mark.judge(&self.rules, token, now, said_at, asked),
            None => {
                let mut mark = Mark::default();
                let judgement = mark.judge(&self.rules, token, now, said_at, asked);
                // What nobody was ever granted is not worth remembering: anybody can name it.
                if judgement == Judgement::Now(Admission::Admitted) {
                    if marks.of.len() >= MARKS_MAX {
                        return Judgement::Now(self.counts.count(Admission::Refused(Refusal::Crowded)));
                    }
                    marks.of.insert(resource.clone(), mark);
                }
                judgement
            }
        };
        drop(marks);
        if let Judgement::Now(admission) = judgement {
            let _ = self.counts.count(admission);
        }
        judgement
    }

    fn unversioned(&self, refusal: Refusal) -> Admission {
        if self.rules.allow_unversioned {
            self.counts.count_unversioned();
            return Admission::Admitted;
        }
        self.counts.count(Admission::Refused(refusal))
    }

    /// Takes in what the authority said when it was asked at the moment `asked`: every resource whose newest term changed since it
    /// last said so. Answers those of which it has forgotten something: the fence knows higher tokens.
    pub fn learn(&self, said: &[Newest], asked: Moment) -> Vec<(ResourceId, Token)> {
        let mut marks = self.marks();
        let mut forgotten = Vec::new();
        for newest in said {
            if !marks.of.contains_key(&newest.resource) && marks.of.len() >= MARKS_MAX {
                continue;
            }
            marks.ttl_min = marks.ttl_min.into_iter().chain(newest.ttl).min();
            let mark = marks.of.entry(newest.resource.clone()).or_default();
            if let Some(floor) = mark.learn(newest) {
                forgotten.push((newest.resource.clone(), floor));
            }
        }
        marks.said_at = marks.said_at.max(Some(asked));
        forgotten
    }

    /// For how long everything that was said counts.
    pub(crate) fn lifetime(&self) -> Option<Duration> {
        let shortest = self.marks().ttl_min.map(|ttl| ttl / mark::PART);
        self.rules.lifetime.map(|lifetime| shortest.map_or(lifetime, |shortest| lifetime.min(shortest)))
    }

    /// The newest token known of a resource.
    #[must_use]
    pub fn newest(&self, resource: &ResourceId) -> Option<Token> {
        self.marks().of.get(resource).map(Mark::highest)
    }

    /// How often it said what.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.snapshot()
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
