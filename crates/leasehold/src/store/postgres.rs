//! The store on a PostgreSQL server.
//!
//! Every call is one statement that calls one function of the schema `leasehold` (`postgres/migrations`): one transaction,
//! one round trip, no state of the connection, so that a pooler in transaction mode may stand in between. What decides is
//! in those functions; the files here say what goes into them and what their answers mean.
//!
//! # What is durable
//!
//! What decides ownership is on the server's disk when it is answered, and on a synchronous standby's, if there is one.
//! Heartbeats wait for the server's own disk only. What decides nothing is not waited for: ledger lines, the clearing up after ended
//! sessions, what is reported of work.
//!
//! # When the server forgets
//!
//! Every call compares the recorded identity (server, timeline, start of its process, database) with the real one, the
//! transaction that wrote the era's row with the one that it says wrote it, and the position of the write-ahead log with
//! the highest this handle has seen. What does not fit freezes the store. So does a restart: for one TTL nothing new is
//! granted, while work goes on.

mod address;
mod announce;
mod call;
mod checkup;
mod connect;
mod failure;
mod lanes;
mod leases;
mod listen;
mod migrate;
mod reads;
mod registry;
mod seen;
mod sessions;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::address::Address;
use self::announce::Mouth;
use self::failure::Failure;
use self::lanes::Lanes;
use self::listen::Ears;
use self::registry::LEDGER_MAX;
use self::seen::Seen;
use super::{
    Acquired, Answer, Begin, Capabilities, Changed, Checkup, Claimed, Cursor, EndSilent, Freed, Grade, Guard,
    Hints, LeaseRecord, LeaseStore, Migrated, OpenSession, Profile, Pulse, Reasserted, Release, Released,
    Revoked, ServerUrl, SessionRecord, StoreError, Thawed, Wanted,
};
use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term};

/// The most items one call may carry: the locks of a batch are not held for longer than that takes.
const ITEMS_MAX: usize = 1024;

/// How many connections of each kind a handle uses at most, and how long one call may take. A heartbeat may wait for longer than
/// any other call lasts: it waits behind one that holds its session's row.
const BEATS: (usize, Duration) = (4, Duration::from_secs(3));
const WRITES: (usize, Duration) = (4, Duration::from_millis(2400));
const READS: (usize, Duration) = (2, Duration::from_secs(3));

/// A store on a PostgreSQL server. Dropping it lets go of its connections, after what was sent on them.
#[derive(Debug)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    listener: AbortHandle,
    grade: Grade,
}

/// What the handle and its tasks share.
#[derive(Debug)]
struct Shared {
    address: Address,
    beats: Lanes,
    writes: Lanes,
    reads: Lanes,
    seen: Seen,
    ears: Ears,
    mouth: Mouth,
    /// How many rows the ledger keeps.
    rows_max: AtomicU64,
}

impl PostgresStore {
    /// Opens the store on the first server of `url` that may write, in a database that [`migrate`](crate::store::migrate)
    /// has prepared.
    ///
    /// # Errors
    /// *Misconfigured* where the server refuses us, may only be read, is too old, or the database is missing, not prepared or
    /// prepared for another version. *Unavailable* where trying again may help.
    pub async fn open(url: &ServerUrl) -> Result<Self, StoreError> {
        let lanes = |(count, limit)| Lanes::new(count, limit);
        let shared = Arc::new(Shared {
            address: Address::of(url)?,
            beats: lanes(BEATS),
            writes: lanes(WRITES),
            reads: lanes(READS),
            seen: Seen::default(),
            ears: Ears::default(),
            mouth: Mouth::default(),
            rows_max: AtomicU64::new(LEDGER_MAX),
        });
        shared.check_schema().await.map_err(Failure::at_open)?;
        let (tried, mut trying) = watch::channel(false);
        let listener = tokio::spawn(listen::serve(Arc::clone(&shared), tried)).abort_handle();
        // From here on the listener ends with the store, also if opening it fails.
        let mut store = Self { shared, listener, grade: Grade::MayLoseWrites };
        let _ = trying.wait_for(|tried| *tried).await;
        store.grade = store.shared.look_over().await.map_err(Failure::at_open)?.grade;
        Ok(store)
    }

    /// Creates the schema in the database, or brings it up to date.
    pub(super) async fn migrate(url: &ServerUrl, begin: Begin) -> Result<Migrated, StoreError> {
        migrate::migrate(&Address::of(url)?, begin).await
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Shared {
    async fn check_schema(&self) -> Result<(), Failure> {
        let sql = "SELECT newest, oldest FROM leasehold.schema_range()";
        let row = self.reads.ask(&self.address, sql, &[]).await?;
        migrate::check(call::column(&row, "newest")?, call::column(&row, "oldest")?)
    }
}

#[async_trait]
impl LeaseStore for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { batch_max: ITEMS_MAX, pushes_changes: self.shared.ears.pushes(), grade: self.grade }
    }

    fn show_as(&self, _: &Pool, _: &ResourceId, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn guard(&self, holder: &OpenSession, term: &Term) -> Option<Guard> {
        Some(Guard::of_row("leasehold.leases", " FOR SHARE", holder, term))
    }

    async fn checkup(&self) -> Result<Checkup, StoreError> {
        self.shared.look_over().await.map_err(Failure::in_use)
    }

    async fn open(&self, session: &OpenSession) -> Result<Answer<Nonce>, StoreError> {
        self.shared.open_session(session).await
    }

    async fn beat(&self, session: &MemberId, pulse: Pulse) -> Result<Answer<Vec<Term>>, StoreError> {
        self.shared.beat(session, pulse).await
    }

    async fn describe(
        &self,
        session: &MemberId,
        pulse: Pulse,
        profile: &Profile,
    ) -> Result<Answer<()>, StoreError> {
        self.shared.describe(session, pulse, profile).await
    }

    async fn close(&self, session: &MemberId) -> Result<(), StoreError> {
        self.shared.close(session).await
    }

    async fn end_silent(
        &self,
        session: &MemberId,
        heard: BeatNumber,
        era: Nonce,
    ) -> Result<EndSilent, StoreError> {
        self.shared.end_silent(session, heard, era).await
    }

    async fn acquire(
        &self,
        session: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError> {
        self.shared.acquire(session, pulse, wanted).await
    }

    async fn claim(&self, session: &OpenSession, wanted: &Wanted) -> Result<Answer<Claimed>, StoreError> {
        self.shared.claim(session, wanted).await
    }

    async fn release(
        &self,
        session: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Result<Answer<Vec<Released>>, StoreError> {
        self.shared.release(session, pulse, terms).await
    }

    async fn revoke(&self, pool: &Pool, term: &Term) -> Result<Revoked, StoreError> {
        self.shared.revoke(pool, term).await
    }

    async fn free_revoked(&self, pool: &Pool, term: &Term, era: Nonce) -> Result<Freed, StoreError> {
        self.shared.free(pool, term, None, era).await
    }

    async fn free_orphan(
        &self,
        pool: &Pool,
        holder: &MemberId,
        term: &Term,
        era: Nonce,
    ) -> Result<Freed, StoreError> {
        self.shared.free(pool, term, Some(holder), era).await
    }

    async fn reassert(
        &self,
        session: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        self.shared.reassert(session, pulse, terms).await
    }

    async fn thaw(&self, nonce: Nonce) -> Result<Thawed, StoreError> {
        self.shared.thaw(nonce).await
    }

    async fn collect(&self, session: &MemberId) -> Result<(), StoreError> {
        self.shared.collect(session).await
    }

    async fn sessions(&self, pool: &Pool, since: Cursor) -> Result<Changed<SessionRecord>, StoreError> {
        self.shared.sessions(pool, since).await
    }

    async fn leases(&self, pool: &Pool, since: Cursor) -> Result<Changed<LeaseRecord>, StoreError> {
        self.shared.leases(pool, since).await
    }

    async fn pools(&self) -> Result<Vec<Pool>, StoreError> {
        self.shared.pools().await
    }

    fn changes(&self, pool: &Pool) -> Hints {
        self.shared.ears.hints(pool)
    }
}
