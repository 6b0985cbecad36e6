//! The check at the thing being written: a term older than the newest seen is refused.
//!
//! A fence needs no clock and no store. It protects what it stands in front of even from a holder that was
//! paused in the middle of a write and does not know that its lease is gone.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::lease::{ResourceId, Token};

/// What a fence says to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// The newest term seen so far: the write may go on.
    Admitted,
    /// A newer term has been here.
    Stale {
        /// Its token.
        newest: Token,
    },
}

/// Remembers the newest token of each resource.
///
/// ```
/// use leasehold::fence::{Admission, Fence};
/// use leasehold::{ResourceId, Token};
///
/// let fence = Fence::default();
/// let camera = ResourceId::new("cam-1")?;
/// assert_eq!(fence.admit(&camera, Token(4)), Admission::Admitted);
/// assert_eq!(fence.admit(&camera, Token(5)), Admission::Admitted);
/// assert_eq!(fence.admit(&camera, Token(4)), Admission::Stale { newest: Token(5) });
/// # Ok::<(), leasehold::lease::IdError>(())
/// ```
#[derive(Debug, Default)]
pub struct Fence {
    newest: Mutex<HashMap<ResourceId, Token>>,
}

impl Fence {
    /// Admits a write under `token` unless a newer token has been admitted for the resource.
    pub fn admit(&self, resource: &ResourceId, token: Token) -> Admission {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        match newest.get_mut(resource) {
            Some(seen) if *seen > token => Admission::Stale { newest: *seen },
            Some(seen) => {
                *seen = token;
                Admission::Admitted
            }
            None => {
                newest.insert(resource.clone(), token);
                Admission::Admitted
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_token_is_refused_and_leaves_the_fence_as_it_was() {
        let (fence, one, two) =
            (Fence::default(), ResourceId::new("one").unwrap(), ResourceId::new("two").unwrap());
        let stale = Admission::Stale { newest: Token(5) };
        for (token, said) in [(4, Admission::Admitted), (5, Admission::Admitted), (4, stale), (4, stale)] {
            assert_eq!(fence.admit(&one, Token(token)), said, "{token}");
        }
        assert_eq!(fence.admit(&one, Token(5)), Admission::Admitted, "the same term goes on");
        assert_eq!(fence.admit(&two, Token(1)), Admission::Admitted, "each resource for itself");
    }
}
