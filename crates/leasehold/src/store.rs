//! What must be agreed upon goes through here: a narrow contract that every store keeps.
//!
//! **The store remembers; members listen.** No store's clock decides anything and no time crosses these
//! traits. Expected answers are `Ok`; `Err` means the answer is *unknown* (it may still take effect, later) or
//! that something is *misconfigured*.
//!
//! # To ensure correctness
//!
//! 1. At most one session without a tombstone holds a resource.
//! 2. Tokens of a resource strictly rise: `max(stored, floor, token base of the era) + 1`, across release,
//!    takeover, deletion and re-creation of the resource and restart of the store. They stay below 2^53.
//! 3. An ended session never comes back, and a term never acts on a newer one.
//! 4. A call whose answer was lost may still take effect. Nothing is used before the store has confirmed it.
//! 5. Every call can be repeated. No call leaves a transaction open across an await.
//! 6. Each call checks, in one atomic step with what it changes (facts that are final, like a tombstone, may
//!    be read beforehand):
//!
//! | call | check |
//! |---|---|
//! | `beat(n)` | era; own record exists and has no tombstone; stored beat at least what was confirmed |
//! | `end_silent(s, b)` | era; alive; beat is still `b` |
//! | `acquire` | era; own session alive; the lease is free, **or** its holder has a tombstone: only positive, final facts free a lease, a holder that is merely absent does not |
//! | `claim` | not frozen; own session has no tombstone; the lease is free as for `acquire`: then the session is there and has it, otherwise nothing changed |
//! | `release` | era; own session alive; holder is the caller and the token is the caller's |
//! | `revoke` | not frozen; somebody without a tombstone holds exactly that term |
//! | `free_revoked` | era; the term is still held and still revoked |
//! | `free_orphan` | era; holder and token unchanged; holder's session absent |
//! | `reassert` | frozen under the same nonce; no tombstone; the stored token is lower, or the same and still the caller's; a revocation stays |
//! | `thaw` | frozen under the same nonce |
//!
//! What callers owe the store: every call carries a number that no earlier call of the session carried, a repeated
//! one too; the moment from which trust is counted is read *before* the number is drawn; and an answer to a call
//! that was sent in an older era than the session's says nothing.
//!
//! # Eras
//!
//! One record names the store's incarnation: its live identity and a [`Nonce`]. A caller says which nonce it
//! knows. Where the identity differs from the recorded one, where the caller's nonce is one the store has never
//! had, or where a stored beat is below what a caller was told was confirmed, the store has forgotten
//! something: the call **freezes** it under a new nonce and answers [`Answer::Frozen`]. While frozen nothing is
//! granted or ended; holders whose trust is unbroken [`reassert`](LeaseStore::reassert) what they hold; after a
//! whole [`ttl_max`](Era::ttl_max) of hearing the same nonce anyone [`thaw`](LeaseStore::thaw)s it, who did not
//! reassert is over, and all silence counts begin anew.

mod checkup;
mod claim;
mod error;
mod guard;
mod open;
mod record;
mod server;

pub mod around;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "http")]
pub mod http;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(feature = "conformance")]
pub mod conformance;

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;

pub use checkup::{Checkup, Finding};
pub use error::{StoreError, StoreErrorKind};
pub use guard::Guard;
pub use open::{Begin, Migrated, StoreUrl, StoreUrlError, migrate, open, prepare};
pub use record::{
    Acquired, Answer, Capabilities, Changed, Claimed, Cursor, Declared, EndSilent, Era, Freed, Grade, Hint,
    LeaseRecord, Listing, ListingError, ListingId, Mark, MarkKind, Marked, Offer, OpenSession, Others,
    Profile, Pulse, Reasserted, Release, Released, Revoked, SERVER_POOL, SessionRecord, Thawed, Version,
    Wanted,
};
pub use server::{Host, ServerUrl, ServerUrlError};

use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term};
use crate::ledger::Entry;

/// How long a store that may have forgotten everything is heard before it is thawed: no TTL that it does not know of is
/// taken to be longer.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis", feature = "etcd"))]
const TTL_UNKNOWN: std::time::Duration = std::time::Duration::from_secs(60);

/// Hints that something changed: may be late, repeated, merged or missing.
pub type Hints = Pin<Box<dyn Stream<Item = Hint> + Send>>;

/// Sessions and leases: everything that decides ownership.
#[async_trait]
pub trait LeaseStore: fmt::Debug + Send + Sync + 'static {
    /// What this store can do and how well it keeps its word.
    fn capabilities(&self) -> Capabilities;

    /// Shows who holds a resource to programs of another make too, under this key, where they can look: etcd, from the
    /// next call on. Elsewhere nothing is shown.
    ///
    /// # Errors
    /// The key cannot be used for that.
    fn show_as(&self, pool: &Pool, resource: &ResourceId, key: &str) -> Result<(), StoreError>;

    /// What holds in this store's own server for as long as nobody was granted a newer term, for whoever writes to the
    /// same server. `None` where a write cannot depend on it.
    fn guard(&self, holder: &OpenSession, term: &Term) -> Option<Guard>;

    /// Looks at the store's real settings and says how well it keeps its word with them.
    async fn checkup(&self) -> Result<Checkup, StoreError>;

    /// Opens a session and answers the nonce of the era it was opened in. Opening the same living session
    /// again changes nothing. `Gone` if this id has a tombstone.
    async fn open(&self, session: &OpenSession) -> Result<Answer<Nonce>, StoreError>;

    /// Raises the beat to `pulse.number` (a number at or below the stored one changes nothing): one step whatever
    /// the session holds. Answers the terms that were revoked; those are not extended. `Gone` if the session has a tombstone or is
    /// unknown in an era that the store remembers. Never creates, never revives. In a frozen store only a session
    /// that reasserted under the present nonce is answered `Done`.
    async fn beat(&self, session: &MemberId, pulse: Pulse) -> Result<Answer<Vec<Term>>, StoreError>;

    /// Replaces what the session publishes about itself.
    async fn describe(
        &self,
        session: &MemberId,
        pulse: Pulse,
        profile: &Profile,
    ) -> Result<Answer<()>, StoreError>;

    /// The holder's own word: a tombstone, and with it everything the session holds is free. Works in a frozen
    /// store too. Closing an absent session changes nothing.
    async fn close(&self, session: &MemberId) -> Result<(), StoreError>;

    /// The holder's own word about a session that claimed, under an id that nobody uses again: what it holds is free. A tombstone
    /// is left of it or, where nobody can have read that it was there, nothing at all.
    async fn retire(&self, session: &MemberId) -> Result<(), StoreError> {
        self.close(session).await
    }

    /// A listener's verdict: a tombstone if the beat is still the one heard in this era.
    async fn end_silent(
        &self,
        session: &MemberId,
        heard: BeatNumber,
        era: Nonce,
    ) -> Result<EndSilent, StoreError>;

    /// Takes what is free. Each item is atomic, the batch is not; `outcomes[i]` answers item `i`. Raises the beat.
    async fn acquire(
        &self,
        session: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError>;

    /// Opens a session and takes one resource with it, or opens nothing because somebody has it. `Gone` if this id has a
    /// tombstone; nothing is claimed from a frozen store.
    ///
    /// It is the session's beat number 1: its next call carries 2. Whoever repeats a claim under the same id counts trust
    /// from before the *first* one was sent, as a session that is there already stays as it is.
    ///
    /// A [guard](Self::guard) of what was claimed may hold only from the next read of the pool on.
    ///
    /// Where a store cannot do this in one step, a claim that lost a race leaves a session for a moment, which holds
    /// nothing and is closed; one whose answer was lost may leave it for as long as its TTL.
    async fn claim(&self, session: &OpenSession, wanted: &Wanted) -> Result<Answer<Claimed>, StoreError>;

    /// Frees exactly the named terms; a named successor is advice to the others. Raises the beat. In a frozen
    /// store only a session that reasserted under the present nonce is answered `Done`: what is confirmed has
    /// raised the beat, always.
    async fn release(
        &self,
        session: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Result<Answer<Vec<Released>>, StoreError>;

    /// Marks a term as revoked: from now on the holder's beats do not extend it. Not while frozen, because a
    /// reassertion extends trust and does not hear of it.
    async fn revoke(&self, pool: &Pool, term: &Term) -> Result<Revoked, StoreError>;

    /// Frees a revoked term. The caller has waited a whole TTL of the holder since its own
    /// [`revoke`](Self::revoke) was confirmed, or since it read that the term is revoked, and has seen the store under `era`, and not
    /// frozen, all that time.
    async fn free_revoked(&self, pool: &Pool, term: &Term, era: Nonce) -> Result<Freed, StoreError>;

    /// Frees a lease whose holder's session is absent (neither alive nor a tombstone). The caller has heard
    /// this holder and token unchanged, and the session absent, for a whole TTL.
    async fn free_orphan(
        &self,
        pool: &Pool,
        holder: &MemberId,
        term: &Term,
        era: Nonce,
    ) -> Result<Freed, StoreError>;

    /// After a freeze: a holder whose trust is unbroken says what it holds. Re-creates its session where the
    /// store forgot it. `pulse.era` is the nonce the store is frozen under; raises the beat. A store that is not
    /// frozen under that nonce answers `Gone`.
    async fn reassert(
        &self,
        session: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError>;

    /// Ends a freeze: sessions that did not reassert under `nonce` get tombstones, and tokens continue above
    /// every token this store may have forgotten. The caller has heard `nonce` for a whole `ttl_max`.
    async fn thaw(&self, nonce: Nonce) -> Result<Thawed, StoreError>;

    /// Clears the leases of a session that has a tombstone and forgets the tombstone. A frozen store keeps it: it
    /// is what refuses an ended session that would reassert.
    async fn collect(&self, session: &MemberId) -> Result<(), StoreError>;

    /// The same by a caller who has read the pool after the session's end, and found that it held these and nothing else: who
    /// would have to search for them need not. What is left out is an orphan from then on.
    async fn collect_known(&self, session: &MemberId, held: &[ResourceId]) -> Result<(), StoreError> {
        let _ = held;
        self.collect(session).await
    }

    /// Who is there, ended ones included, and each one's beat. With a cursor, what changed since; for a moment perhaps
    /// more than that, never less.
    async fn sessions(&self, pool: &Pool, since: Cursor) -> Result<Changed<SessionRecord>, StoreError>;

    /// The same, if nothing is new among leases, marks and declared resources: one small question for who reads a quiet pool
    /// again and again. `None`: something may be, so everything is to be read; and that is all that a store can say to whom
    /// this would save nothing.
    async fn sessions_if_quiet(
        &self,
        pool: &Pool,
        since: Cursor,
        others: Others,
    ) -> Result<Option<Changed<SessionRecord>>, StoreError> {
        let _ = (pool, since, others);
        Ok(None)
    }

    /// Who holds what, freed ones included. With a cursor, what changed since; for a moment perhaps more than that, never
    /// less.
    async fn leases(&self, pool: &Pool, since: Cursor) -> Result<Changed<LeaseRecord>, StoreError>;

    /// Every pool in which the store knows a session, a lease or a declared resource.
    async fn pools(&self) -> Result<Vec<Pool>, StoreError>;

    /// Hints that something changed in a pool. Reconnects by itself; ends only with the store.
    ///
    /// A call that changed nothing gives none: a hint wakes every member, and one that asks again in vain would wake
    /// itself.
    fn changes(&self, pool: &Pool) -> Hints;
}

/// What surrounds ownership: operators' marks, declared resources, listings and the ledger.
///
/// Nothing here decides a race. Writes are compare-and-set on a version; `Version(0)` means absent.
#[async_trait]
pub trait Registry: fmt::Debug + Send + Sync + 'static {
    /// Operators' marks, removed ones included (their `value` is `None`).
    async fn marks(&self, pool: &Pool, since: Cursor) -> Result<Changed<Mark>, StoreError>;

    /// Sets or, with no value, removes a mark if its version is still `expected`.
    async fn set_mark(
        &self,
        pool: &Pool,
        kind: MarkKind,
        subject: &str,
        value: Option<&str>,
        expected: Version,
    ) -> Result<Marked, StoreError>;

    /// Declared resources, removed ones included.
    async fn resources(&self, pool: &Pool, since: Cursor) -> Result<Changed<Declared>, StoreError>;

    /// Declares, changes or (with `removed`) removes a resource if its version is still `declared.version`.
    async fn declare(&self, pool: &Pool, declared: &Declared) -> Result<Marked, StoreError>;

    /// Keeps a listing under its id. The same content has the same id, so members that list the same share one.
    async fn publish(&self, pool: &Pool, id: &ListingId, listing: &Listing) -> Result<(), StoreError>;

    /// The listing with this id, if the store still has it.
    async fn listing(&self, pool: &Pool, id: &ListingId) -> Result<Option<Listing>, StoreError>;

    /// Forgets listings that no living session of the pool publishes.
    async fn collect_listings(&self, pool: &Pool) -> Result<(), StoreError>;

    /// Appends rows to the ledger. A store that cannot keep a ledger drops them. A `renewed` row takes the place, and
    /// the number, of the one its member wrote before, which said nothing that it does not say: heartbeats neither
    /// fill the ledger nor push anything out of it.
    async fn append(&self, pool: &Pool, entries: &[Entry]) -> Result<(), StoreError>;

    /// How many rows the ledger is to keep from now on, as far as this handle appends to it. Stores that are no database keep
    /// as many as they do.
    fn keep_rows(&self, most: u64) {
        let _ = most;
    }

    /// Up to `limit` rows after row number `after` in the order they were appended, oldest first; with a
    /// resource, only its rows.
    async fn ledger(
        &self,
        pool: &Pool,
        resource: Option<&ResourceId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Entry)>, StoreError>;
}

/// Both halves of a store.
pub trait Store: LeaseStore + Registry {}

impl<S: LeaseStore + Registry> Store for S {}
