//! Leases of clients that know nothing of Leasehold, as far as this handle has seen them.
//!
//! Their leases end by the server's clock, which can jump. Invariant: what was seen to be theirs is not asked for before
//! the end that was seen coming has passed on our own clock, unless they were seen to let go.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{self, Moment};
use crate::lease::{MemberId, ResourceId, Token};
use crate::store::Acquired;

/// How many are remembered; those that are over are forgotten when there are more.
const SEEN_MAX: usize = 100_000;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    seen: HashMap<ResourceId, Seen>,
    /// When it was heard that somebody let go.
    let_go: HashMap<String, Moment>,
}

#[derive(Debug, Clone)]
struct Seen {
    by: MemberId,
    token: Token,
    until: Moment,
}

impl Foreign {
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the resource is to be left alone for now, and how to say so.
    pub(super) fn holds(&self, resource: &ResourceId) -> Option<Acquired> {
        let memory = self.lock();
        let seen = memory.seen.get(resource).filter(|seen| seen.until > clock::now())?;
        Some(Acquired::Held { by: seen.by.clone(), token: seen.token })
    }

    /// Remembers a lease that was just answered to be somebody else's for `left` more, counted from after the answer. The
    /// question was sent at `sent`: if they were heard to let go since, the answer may be older than that.
    pub(super) fn saw(
        &self,
        resource: &ResourceId,
        by: &MemberId,
        token: Token,
        left: Duration,
        sent: Moment,
    ) {
        let now = clock::now();
        let mut memory = self.lock();
        if memory.let_go.remove(resource.as_str()).is_some_and(|heard| heard >= sent) {
            return;
        }
        if memory.seen.len() >= SEEN_MAX {
            memory.seen.retain(|_, seen| seen.until > now);
        }
        memory.seen.insert(resource.clone(), Seen { by: by.clone(), token, until: now.after(left) });
    }

    /// They let go by their own word.
    pub(super) fn let_go(&self, resource: &str) {
        let now = clock::now();
        let mut memory = self.lock();
        memory.seen.remove(resource);
        if memory.let_go.len() >= SEEN_MAX {
            // No question is that old.
            memory.let_go.retain(|_, heard| now.since(*heard) < super::CALL_MAX);
        }
        memory.let_go.insert(resource.to_owned(), now);
    }
}

/// Who a foreigner is, as an id: what it wrote, or else a name made from it.
pub(super) fn id_of(value: &str) -> MemberId {
    MemberId::new(value).unwrap_or_else(|_| {
        let hash = crate::plan::rendezvous::hash_id(value);
        MemberId::new(format!("foreign-{hash:016x}")).unwrap_or_else(|_| MemberId::generate())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_left_alone_until_its_end_or_until_they_let_go() {
        let foreign = Foreign::default();
        let (one, two): (ResourceId, ResourceId) = ("one".parse().unwrap(), "two".parse().unwrap());
        let (by, long) = (id_of("host-1-00000000"), Duration::from_secs(60));
        let held = Some(Acquired::Held { by: by.clone(), token: Token(3) });
        foreign.saw(&one, &by, Token(3), long, clock::now());
        foreign.saw(&two, &by, Token(3), Duration::ZERO, clock::now());
        assert_eq!(foreign.holds(&one), held);
        assert_eq!(foreign.holds(&two), None, "its end has passed");
        let sent = clock::now();
        foreign.let_go("one");
        assert_eq!(foreign.holds(&one), None);
        foreign.saw(&one, &by, Token(3), long, sent);
        assert_eq!(foreign.holds(&one), None, "they let go while the answer was on its way");
        foreign.saw(&one, &by, Token(3), long, clock::now());
        assert_eq!(foreign.holds(&one), held, "they took it again");
    }

    #[test]
    fn a_foreigner_without_a_good_name_always_gets_the_same_one() {
        assert_eq!(id_of("api-1-17-abc").as_str(), "api-1-17-abc");
        assert_eq!(id_of("a b:c"), id_of("a b:c"));
        assert_ne!(id_of("a b:c"), id_of("a b:d"));
    }
}
