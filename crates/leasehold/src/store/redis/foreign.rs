//! Leases of clients that know nothing of Leasehold, as far as this handle has seen them.
//!
//! Their leases end by the server's clock, which can jump. Invariant: what was seen to be theirs is not asked for before
//! the end that was seen coming has passed on our own clock, unless they were seen to let go.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{self, Moment};
use crate::lease::{MemberId, ResourceId, Token};
use crate::store::Acquired;

/// How many are remembered; those that are over are forgotten when there are more.
const SEEN_MAX: usize = 100_000;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    seen: Mutex<HashMap<ResourceId, Seen>>,
}

#[derive(Debug, Clone)]
struct Seen {
    by: MemberId,
    token: Token,
    until: Moment,
}

impl Foreign {
    /// Whether the resource is to be left alone for now, and how to say so.
    pub(super) fn holds(&self, resource: &ResourceId) -> Option<Acquired> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.get(resource).filter(|seen| seen.until > clock::now())?;
        Some(Acquired::Held { by: seen.by.clone(), token: seen.token })
    }

    /// Remembers a lease that was just answered to be somebody else's for `left` more. Counted from after the answer.
    pub(super) fn saw(&self, resource: &ResourceId, by: &MemberId, token: Token, left: Duration) {
        let now = clock::now();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= SEEN_MAX {
            seen.retain(|_, seen| seen.until > now);
        }
        seen.insert(resource.clone(), Seen { by: by.clone(), token, until: now.after(left) });
    }

    /// They let go by their own word.
    pub(super) fn let_go(&self, resource: &str) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(resource);
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
        let by = id_of("host-1-00000000");
        foreign.saw(&one, &by, Token(3), Duration::from_secs(60));
        foreign.saw(&two, &by, Token(3), Duration::ZERO);
        assert_eq!(foreign.holds(&one), Some(Acquired::Held { by, token: Token(3) }));
        assert_eq!(foreign.holds(&two), None, "its end has passed");
        foreign.let_go("one");
        assert_eq!(foreign.holds(&one), None);
    }

    #[test]
    fn a_foreigner_without_a_good_name_always_gets_the_same_one() {
        assert_eq!(id_of("api-1-17-abc").as_str(), "api-1-17-abc");
        assert_eq!(id_of("a b:c"), id_of("a b:c"));
        assert_ne!(id_of("a b:c"), id_of("a b:d"));
    }
}
