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

/// After so many words of letting go, the old ones are forgotten.
const HEARD_MAX: usize = 10_000;

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
        let late = memory.let_go.remove(resource.as_str()).is_some_and(|heard| heard >= sent);
        let until = if late { now } else { now.after(left) };
        memory.seen.insert(resource.clone(), Seen { by: by.clone(), token, until });
    }

    /// Remembers a lease that somebody else has seen to be theirs: it is due to be looked at.
    pub(super) fn heard(&self, resource: &ResourceId, by: &MemberId, token: Token) {
        let seen = Seen { by: by.clone(), token, until: clock::now() };
        self.lock().seen.entry(resource.clone()).or_insert(seen);
    }

    /// Up to `count` leases whose end has come or that they let go of.
    pub(super) fn due(&self, count: usize) -> Vec<ResourceId> {
        let now = clock::now();
        let memory = self.lock();
        let due = memory.seen.iter().filter(|(_, seen)| seen.until <= now);
        due.map(|(resource, _)| resource.clone()).take(count).collect()
    }

    /// It is not theirs any more.
    pub(super) fn forget(&self, resource: &ResourceId) {
        self.lock().seen.remove(resource);
    }

    /// They let go by their own word.
    pub(super) fn let_go(&self, resource: &str) {
        let now = clock::now();
        let mut memory = self.lock();
        if let Some(seen) = memory.seen.get_mut(resource) {
            seen.until = now;
        }
        if memory.let_go.len() >= HEARD_MAX {
            // No question is that old.
            memory.let_go.retain(|_, heard| now.since(*heard) < super::CALL_MAX);
        }
        memory.let_go.insert(resource.to_owned(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_left_alone_until_its_end_or_until_they_let_go() {
        let foreign = Foreign::default();
        let (one, two): (ResourceId, ResourceId) = ("one".parse().unwrap(), "two".parse().unwrap());
        let (by, long) = (MemberId::new("host-1-00000000").unwrap(), Duration::from_secs(60));
        let held = Some(Acquired::Held { by: by.clone(), token: Token(3) });
        foreign.saw(&one, &by, Token(3), long, clock::now());
        foreign.saw(&two, &by, Token(3), Duration::ZERO, clock::now());
        assert_eq!(foreign.holds(&one), held);
        assert_eq!(foreign.holds(&two), None, "its end has passed");
        assert_eq!(foreign.due(9), std::slice::from_ref(&two));
        foreign.forget(&two);
        assert_eq!(foreign.due(9), []);
        let sent = clock::now();
        foreign.let_go("one");
        assert_eq!((foreign.holds(&one), foreign.due(9)), (None, vec![one.clone()]));
        foreign.saw(&one, &by, Token(3), long, sent);
        assert_eq!(foreign.holds(&one), None, "they let go while the answer was on its way");
        foreign.saw(&one, &by, Token(3), long, clock::now());
        assert_eq!(foreign.holds(&one), held, "they took it again");
    }
}
