//! A store with something around every call: a deadline, a measure, a fault. And two stores as one.
//!
//! Invariant: what is around a call never changes what it means. An answer passes through as it is; a call that is
//! given up is *unknown*, and may still take effect.

mod bounded;
#[cfg(feature = "conformance")]
mod faulty;
mod metered;
mod split;

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;

use super::{
    Acquired, Answer, Capabilities, Changed, Checkup, Claimed, Cursor, Declared, EndSilent, Freed, Guard,
    Hints, LeaseRecord, LeaseStore, Listing, ListingId, Mark, MarkKind, Marked, OpenSession, Others, Profile,
    Pulse, Reasserted, Registry, Release, Released, Revoked, SessionRecord, Store, StoreError, Thawed,
    Version, Wanted,
};
use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term};
use crate::ledger::Entry;

pub use bounded::{Bounded, Deadline};
#[cfg(feature = "conformance")]
pub use faulty::{Fault, Faults, Faulty};
pub use metered::{Measure, Metered};
pub use split::Split;

/// What is done around every call.
pub trait Manner: std::fmt::Debug + Send + Sync + 'static {
    /// Has the call answered, or does not. `call` is its name in the contract.
    fn around<T: Send>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// The most items that one call of the inner store may get, if larger ones are to be split.
    fn batch_max(&self, inner: &Capabilities) -> Option<usize> {
        let _ = inner;
        None
    }
}

/// A store whose calls are made in a certain manner. Clones share it.
#[derive(Debug)]
pub struct Around<M> {
    store: Arc<dyn Store>,
    manner: Arc<M>,
}

impl<M> Clone for Around<M> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), manner: Arc::clone(&self.manner) }
    }
}

impl<M: Manner> Around<M> {
    /// Puts a manner around a store.
    pub fn with(store: Arc<dyn Store>, manner: M) -> Self {
        Self { store, manner: Arc::new(manner) }
    }

    /// The manner.
    #[must_use]
    pub fn manner(&self) -> &M {
        &self.manner
    }

    /// The parts that are sent one after the other. Nothing at all is sent as one empty part.
    fn parts<'a, T>(&self, items: &'a [T]) -> impl Iterator<Item = &'a [T]> + Send + use<'a, T, M>
    where
        T: Sync,
    {
        let most = self.manner.batch_max(&self.store.capabilities()).unwrap_or(usize::MAX).max(1);
        let empty = items.is_empty().then_some(items);
        items.chunks(most).chain(empty)
    }
}

/// Sends a batch part by part. The first part that is not done speaks for the whole: what came before it is found in
/// the view, like everything whose answer was lost.
macro_rules! in_parts {
    ($self:ident, $call:ident($($before:expr),*; $items:ident)) => {{
        let mut answers = Vec::with_capacity($items.len());
        for part in $self.parts($items) {
            let answer = $self.store.$call($($before,)* part);
            match $self.manner.around(stringify!($call), answer).await? {
                Answer::Done(done) => answers.extend(done),
                other => return Ok(other),
            }
        }
        Ok(Answer::Done(answers))
    }};
}

macro_rules! around {
    ($contract:ident { $($own:item)* } $(fn $call:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl<M: Manner> $contract for Around<M> {
            $($own)*
            $(async fn $call(&self, $($arg: $kind),*) -> Result<$answer, StoreError> {
                self.manner.around(stringify!($call), self.store.$call($($arg),*)).await
            })*
        }
    };
}

around! {
    LeaseStore {
        fn capabilities(&self) -> Capabilities {
            self.store.capabilities()
        }

        fn show_as(&self, pool: &Pool, resource: &ResourceId, key: &str) -> Result<(), StoreError> {
            self.store.show_as(pool, resource, key)
        }

        fn guard(&self, holder: &OpenSession, term: &Term) -> Option<Guard> {
            self.store.guard(holder, term)
        }

        fn changes(&self, pool: &Pool) -> Hints {
            self.store.changes(pool)
        }

        async fn acquire(
            &self,
            session: &MemberId,
            pulse: Pulse,
            wanted: &[Wanted],
        ) -> Result<Answer<Vec<Acquired>>, StoreError> {
            in_parts!(self, acquire(session, pulse; wanted))
        }

        async fn release(
            &self,
            session: &MemberId,
            pulse: Pulse,
            terms: &[Release],
        ) -> Result<Answer<Vec<Released>>, StoreError> {
            in_parts!(self, release(session, pulse; terms))
        }

        async fn reassert(
            &self,
            session: &OpenSession,
            pulse: Pulse,
            terms: &[Term],
        ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
            in_parts!(self, reassert(session, pulse; terms))
        }
    }
    fn checkup() -> Checkup;
    fn open(session: &OpenSession) -> Answer<Nonce>;
    fn beat(session: &MemberId, pulse: Pulse) -> Answer<Vec<Term>>;
    fn describe(session: &MemberId, pulse: Pulse, profile: &Profile) -> Answer<()>;
    fn close(session: &MemberId) -> ();
    fn retire(session: &MemberId) -> ();
    fn end_silent(session: &MemberId, heard: BeatNumber, era: Nonce) -> EndSilent;
    fn claim(session: &OpenSession, wanted: &Wanted) -> Answer<Claimed>;
    fn revoke(pool: &Pool, term: &Term) -> Revoked;
    fn free_revoked(pool: &Pool, term: &Term, era: Nonce) -> Freed;
    fn free_orphan(pool: &Pool, holder: &MemberId, term: &Term, era: Nonce) -> Freed;
    fn thaw(nonce: Nonce) -> Thawed;
    fn collect(session: &MemberId) -> ();
    fn collect_known(session: &MemberId, held: &[ResourceId]) -> ();
    fn sessions(pool: &Pool, since: Cursor) -> Changed<SessionRecord>;
    fn sessions_if_quiet(pool: &Pool, since: Cursor, others: Others) -> Option<Changed<SessionRecord>>;
    fn leases(pool: &Pool, since: Cursor) -> Changed<LeaseRecord>;
    fn pools() -> Vec<Pool>;
}

around! {
    Registry {
        fn keep_rows(&self, most: u64) {
            self.store.keep_rows(most);
        }
    }
    fn marks(pool: &Pool, since: Cursor) -> Changed<Mark>;
    fn set_mark(pool: &Pool, kind: MarkKind, subject: &str, value: Option<&str>, expected: Version) -> Marked;
    fn resources(pool: &Pool, since: Cursor) -> Changed<Declared>;
    fn declare(pool: &Pool, declared: &Declared) -> Marked;
    fn publish(pool: &Pool, id: &ListingId, listing: &Listing) -> ();
    fn listing(pool: &Pool, id: &ListingId) -> Option<Listing>;
    fn collect_listings(pool: &Pool) -> ();
    fn append(pool: &Pool, entries: &[Entry]) -> ();
    fn ledger(pool: &Pool, resource: Option<&ResourceId>, after: u64, limit: usize) -> Vec<(u64, Entry)>;
}
