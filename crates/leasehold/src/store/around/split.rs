//! Two stores as one: one decides ownership, the other keeps what surrounds it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use futures_core::Stream;

use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term};
use crate::ledger::Entry;
use crate::store::{
    Acquired, Answer, Capabilities, Changed, Checkup, Claimed, Cursor, Declared, EndSilent, Finding, Freed,
    Guard, Hint, Hints, LeaseRecord, LeaseStore, Listing, ListingId, Mark, MarkKind, Marked, OpenSession,
    Profile, Pulse, Reasserted, Registry, Release, Released, Revoked, SessionRecord, Store, StoreError,
    Thawed, Version, Wanted,
};

/// Leases of one store, the registry of another. Clones share both.
///
/// Listings stay with the leases: which of them are still needed is told by the sessions there. Marks and declared
/// resources come with the era and the cursors of the registry. That era decides nothing, as nobody holds anything there: a
/// registry that is frozen is used as it is, and a new era tells readers to begin anew.
#[derive(Debug, Clone)]
pub struct Split {
    leases: Arc<dyn Store>,
    registry: Arc<dyn Store>,
}

impl Split {
    /// Takes leases from the first and everything else from the second.
    pub fn new(leases: Arc<dyn Store>, registry: Arc<dyn Store>) -> Self {
        Self { leases, registry }
    }
}

macro_rules! split {
    ($contract:ident { $($own:item)* } $($half:ident { $(fn $call:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)* })*) => {
        #[async_trait]
        impl $contract for Split {
            $($own)*
            $($(async fn $call(&self, $($arg: $kind),*) -> Result<$answer, StoreError> {
                self.$half.$call($($arg),*).await
            })*)*
        }
    };
}

split! {
    LeaseStore {
        fn capabilities(&self) -> Capabilities {
            let capabilities = self.leases.capabilities();
            let pushes_changes = capabilities.pushes_changes && self.registry.capabilities().pushes_changes;
            Capabilities { pushes_changes, ..capabilities }
        }

        fn show_as(&self, pool: &Pool, resource: &ResourceId, key: &str) -> Result<(), StoreError> {
            self.leases.show_as(pool, resource, key)
        }

        fn guard(&self, holder: &OpenSession, term: &Term) -> Option<Guard> {
            self.leases.guard(holder, term)
        }

        /// The grade is that of the leases: it says how well ownership is kept.
        async fn checkup(&self) -> Result<Checkup, StoreError> {
            let mut checkup = self.leases.checkup().await?;
            let registry = self.registry.checkup().await?;
            checkup.server = format!("{}, and {} for the registry", checkup.server, registry.server);
            let told = |finding: Finding| Finding { what: format!("registry: {}", finding.what), ..finding };
            checkup.findings.extend(registry.findings.into_iter().map(told));
            Ok(checkup)
        }

        async fn pools(&self) -> Result<Vec<Pool>, StoreError> {
            let mut pools = self.leases.pools().await?;
            pools.extend(self.registry.pools().await?);
            pools.sort_unstable();
            pools.dedup();
            Ok(pools)
        }

        fn changes(&self, pool: &Pool) -> Hints {
            Box::pin(Both(Some(self.leases.changes(pool)), Some(self.registry.changes(pool))))
        }
    }
    leases {
        fn open(session: &OpenSession) -> Answer<Nonce>;
        fn beat(session: &MemberId, pulse: Pulse) -> Answer<Vec<Term>>;
        fn describe(session: &MemberId, pulse: Pulse, profile: &Profile) -> Answer<()>;
        fn close(session: &MemberId) -> ();
        fn retire(session: &MemberId) -> ();
        fn end_silent(session: &MemberId, heard: BeatNumber, era: Nonce) -> EndSilent;
        fn acquire(session: &MemberId, pulse: Pulse, wanted: &[Wanted]) -> Answer<Vec<Acquired>>;
        fn claim(session: &OpenSession, wanted: &Wanted) -> Answer<Claimed>;
        fn release(session: &MemberId, pulse: Pulse, terms: &[Release]) -> Answer<Vec<Released>>;
        fn revoke(pool: &Pool, term: &Term) -> Revoked;
        fn free_revoked(pool: &Pool, term: &Term, era: Nonce) -> Freed;
        fn free_orphan(pool: &Pool, holder: &MemberId, term: &Term, era: Nonce) -> Freed;
        fn reassert(session: &OpenSession, pulse: Pulse, terms: &[Term]) -> Answer<Vec<Reasserted>>;
        fn thaw(nonce: Nonce) -> Thawed;
        fn collect(session: &MemberId) -> ();
        fn collect_known(session: &MemberId, held: &[ResourceId]) -> ();
        fn sessions(pool: &Pool, since: Cursor) -> Changed<SessionRecord>;
        fn leases(pool: &Pool, since: Cursor) -> Changed<LeaseRecord>;
    }
}

split! {
    Registry {
        fn keep_rows(&self, most: u64) {
            self.registry.keep_rows(most);
        }
    }
    leases {
        fn publish(pool: &Pool, id: &ListingId, listing: &Listing) -> ();
        fn listing(pool: &Pool, id: &ListingId) -> Option<Listing>;
        fn collect_listings(pool: &Pool) -> ();
    }
    registry {
        fn marks(pool: &Pool, since: Cursor) -> Changed<Mark>;
        fn set_mark(pool: &Pool, kind: MarkKind, subject: &str, value: Option<&str>, expected: Version) -> Marked;
        fn resources(pool: &Pool, since: Cursor) -> Changed<Declared>;
        fn declare(pool: &Pool, declared: &Declared) -> Marked;
        fn append(pool: &Pool, entries: &[Entry]) -> ();
        fn ledger(pool: &Pool, resource: Option<&ResourceId>, after: u64, limit: usize) -> Vec<(u64, Entry)>;
    }
}

/// The hints of both. They end when both have ended.
struct Both(Option<Hints>, Option<Hints>);

impl Stream for Both {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        let Self(one, two) = &mut *self;
        for hints in [one, two] {
            match hints.as_mut().map(|open| open.as_mut().poll_next(context)) {
                Some(Poll::Ready(Some(hint))) => return Poll::Ready(Some(hint)),
                Some(Poll::Ready(None)) => *hints = None,
                Some(Poll::Pending) | None => {}
            }
        }
        if self.0.is_none() && self.1.is_none() { Poll::Ready(None) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Grade;
    use crate::store::memory::MemoryStore;

    #[tokio::test]
    async fn a_checkup_tells_of_both_and_says_which() {
        let split = Split::new(Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
        let checkup = split.checkup().await.expect("both answer");
        assert_eq!(checkup.server, "memory, and memory for the registry");
        assert_eq!(checkup.grade, Grade::Volatile);
        let found: Vec<_> = checkup.findings.iter().map(|finding| finding.what.as_str()).collect();
        let end = "everything is gone when the process ends";
        assert_eq!(found, [end, &format!("registry: {end}")]);
    }
}
