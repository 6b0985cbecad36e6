//! A store that can be made to fail or to hang, call by call, and that counts its calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use leasehold::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term};
use leasehold::ledger::Entry;
use leasehold::store::memory::MemoryStore;
use leasehold::store::{
    Acquired, Answer, Capabilities, Changed, Checkup, Cursor, Declared, EndSilent, Freed, Hints, LeaseRecord,
    LeaseStore, Listing, ListingId, Mark, MarkKind, Marked, OpenSession, Profile, Pulse, Reasserted,
    Registry, Release, Released, Revoked, SessionRecord, StoreError, Thawed, Version, Wanted,
};

/// The calls that a pass reads with.
pub(crate) const READS: [&str; 5] = ["sessions", "leases", "marks", "resources", "listing"];

/// The calls that a member with nobody else around makes.
pub(crate) const EVERYTHING: [&str; 14] = [
    "sessions",
    "leases",
    "marks",
    "resources",
    "listing",
    "open",
    "beat",
    "describe",
    "acquire",
    "release",
    "close",
    "publish",
    "append",
    "collect",
];

/// What is wrong with a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Fails,
    Hangs,
}

#[derive(Debug, Default)]
struct State {
    faults: HashMap<&'static str, Fault>,
    calls: HashMap<&'static str, usize>,
}

/// A memory store with faults; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Faulty {
    store: MemoryStore,
    state: Arc<Mutex<State>>,
}

impl Faulty {
    pub(crate) fn new(store: &MemoryStore) -> Self {
        Self { store: store.clone(), state: Arc::default() }
    }

    /// From now on these calls are answered so.
    pub(crate) fn break_calls(&self, calls: &[&'static str], fault: Fault) {
        self.state.lock().unwrap().faults.extend(calls.iter().map(|call| (*call, fault)));
    }

    /// From now on every call is answered.
    pub(crate) fn mend(&self) {
        self.state.lock().unwrap().faults.clear();
    }

    /// How often this call was made.
    pub(crate) fn calls(&self, call: &str) -> usize {
        self.state.lock().unwrap().calls.get(call).copied().unwrap_or(0)
    }

    async fn meet(&self, call: &'static str) -> Result<(), StoreError> {
        let fault = {
            let mut state = self.state.lock().unwrap();
            *state.calls.entry(call).or_default() += 1;
            state.faults.get(call).copied()
        };
        match fault {
            None => Ok(()),
            Some(Fault::Fails) => Err(StoreError::unavailable("this call was made to fail")),
            Some(Fault::Hangs) => std::future::pending().await,
        }
    }
}

/// Every call meets its fault first, and goes on to the store if it has none.
macro_rules! calls {
    ($contract:ident { $($plain:item)* } $(fn $call:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl $contract for Faulty {
            $($plain)*
            $(async fn $call(&self, $($arg: $kind),*) -> Result<$answer, StoreError> {
                self.meet(stringify!($call)).await?;
                self.store.$call($($arg),*).await
            })*
        }
    };
}

calls! {
    LeaseStore {
        fn capabilities(&self) -> Capabilities {
            self.store.capabilities()
        }

        fn changes(&self, pool: &Pool) -> Hints {
            self.store.changes(pool)
        }
    }
    fn checkup() -> Checkup;
    fn open(session: &OpenSession) -> Answer<Nonce>;
    fn beat(session: &MemberId, pulse: Pulse) -> Answer<Vec<Term>>;
    fn describe(session: &MemberId, pulse: Pulse, profile: &Profile) -> Answer<()>;
    fn close(session: &MemberId) -> ();
    fn end_silent(session: &MemberId, heard: BeatNumber, era: Nonce) -> EndSilent;
    fn acquire(session: &MemberId, pulse: Pulse, wanted: &[Wanted]) -> Answer<Vec<Acquired>>;
    fn release(session: &MemberId, pulse: Pulse, terms: &[Release]) -> Answer<Vec<Released>>;
    fn revoke(pool: &Pool, term: &Term) -> Revoked;
    fn free_revoked(pool: &Pool, term: &Term, era: Nonce) -> Freed;
    fn free_orphan(pool: &Pool, holder: &MemberId, term: &Term, era: Nonce) -> Freed;
    fn reassert(session: &OpenSession, pulse: Pulse, terms: &[Term]) -> Answer<Vec<Reasserted>>;
    fn thaw(nonce: Nonce) -> Thawed;
    fn collect(session: &MemberId) -> ();
    fn sessions(pool: &Pool, since: Cursor) -> Changed<SessionRecord>;
    fn leases(pool: &Pool, since: Cursor) -> Changed<LeaseRecord>;
    fn pools() -> Vec<Pool>;
}

calls! {
    Registry {}
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
