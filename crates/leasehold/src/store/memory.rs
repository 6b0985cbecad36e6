//! The reference store, within one process: the contract in its shortest form.
//!
//! `state` decides, as a plain value without locks or waiting; this file puts a lock and the hints around it.
//! Tests and simulations make it forget with [`MemoryStore::snapshot`] and [`MemoryStore::restore`].

mod registry;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use async_trait::async_trait;
use tokio::sync::broadcast;

use self::registry::RegistryState;
use self::state::LeaseState;
use super::{
    Acquired, Answer, Capabilities, Changed, Checkup, Claimed, Cursor, EndSilent, Finding, Freed, Grade,
    Guard, Hint, Hints, LeaseRecord, LeaseStore, OpenSession, Profile, Pulse, Reasserted, Release, Released,
    Revoked, SessionRecord, StoreError, Thawed, Wanted,
};
use crate::clock::{self, Clock, SystemClock};
use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term};

/// A store in memory; clones share it.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    shared: Arc<Mutex<Everything>>,
    changed: broadcast::Sender<Pool>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Clone, Default)]
struct Everything {
    leases: LeaseState,
    registry: RegistryState,
}

/// What a store knew at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot(LeaseState);

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// An empty store whose tokens jump by another wall clock, for simulations.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { shared: Arc::default(), changed: broadcast::channel(64).0, clock }
    }

    /// What the store knows of sessions and leases now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.lock().leases.clone())
    }

    /// Makes the store forget everything since `snapshot`, as a failover or a restored backup does: its live
    /// identity is another one afterwards.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut everything = self.lock();
        let identity = everything.leases.identity();
        everything.leases = snapshot.0.clone();
        everything.leases.become_another(identity + 1);
    }

    /// Takes the store back to `snapshot` as a crash does that loses only what was never answered: nobody can have
    /// noticed, so its identity stays.
    pub fn lose_unanswered(&self, snapshot: &Snapshot) {
        self.lock().leases = snapshot.0.clone();
    }

    /// Makes the store lose one session's record without a trace, as an eviction does.
    pub fn lose_session(&self, session: &MemberId) {
        self.lock().leases.lose_session(session);
    }

    fn lock(&self) -> MutexGuard<'_, Everything> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one call on the state and tells the pool's listeners if it changed something.
    fn decide<T>(&self, pool: Option<&Pool>, call: impl FnOnce(&mut LeaseState) -> T) -> T {
        let mut everything = self.lock();
        let before = everything.leases.sequence();
        let answer = call(&mut everything.leases);
        let pools = match pool {
            _ if everything.leases.sequence() == before => Vec::new(),
            Some(pool) => vec![pool.clone()],
            None => everything.leases.pools(),
        };
        drop(everything);
        self.tell(pools);
        answer
    }

    fn of_session<T>(&self, session: &MemberId, call: impl FnOnce(&mut LeaseState) -> T) -> T {
        let pool = self.lock().leases.pool_of(session);
        self.decide(pool.as_ref(), call)
    }

    fn tell(&self, pools: Vec<Pool>) {
        for pool in pools {
            // Nobody listening is no trouble.
            let _ = self.changed.send(pool);
        }
    }
}

#[async_trait]
impl LeaseStore for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { batch_max: 1024, pushes_changes: true, grade: Grade::Volatile }
    }

    fn show_as(&self, _: &Pool, _: &ResourceId, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn guard(&self, _: &OpenSession, _: &Term) -> Option<Guard> {
        None
    }

    async fn checkup(&self) -> Result<Checkup, StoreError> {
        let end = Finding::weak("everything is gone when the process ends", "use it for tests, not for work");
        Ok(Checkup { server: "memory".to_owned(), grade: Grade::Volatile, findings: vec![end] })
    }

    async fn open(&self, session: &OpenSession) -> Result<Answer<Nonce>, StoreError> {
        Ok(self.decide(Some(&session.pool), |state| state.open(session)))
    }

    async fn beat(&self, session: &MemberId, pulse: Pulse) -> Result<Answer<Vec<Term>>, StoreError> {
        Ok(self.of_session(session, |state| state.beat(session, pulse)))
    }

    async fn describe(
        &self,
        session: &MemberId,
        pulse: Pulse,
        profile: &Profile,
    ) -> Result<Answer<()>, StoreError> {
        Ok(self.of_session(session, |state| state.describe(session, pulse, profile)))
    }

    async fn close(&self, session: &MemberId) -> Result<(), StoreError> {
        self.of_session(session, |state| state.close(session));
        Ok(())
    }

    async fn end_silent(
        &self,
        session: &MemberId,
        heard: BeatNumber,
        era: Nonce,
    ) -> Result<EndSilent, StoreError> {
        Ok(self.of_session(session, |state| state.end_silent(session, heard, era)))
    }

    async fn acquire(
        &self,
        session: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError> {
        self.of_session(session, |state| state.acquire(session, pulse, wanted))
    }

    async fn claim(&self, session: &OpenSession, wanted: &Wanted) -> Result<Answer<Claimed>, StoreError> {
        self.decide(Some(&session.pool), |state| state.claim(session, wanted))
    }

    async fn release(
        &self,
        session: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Result<Answer<Vec<Released>>, StoreError> {
        Ok(self.of_session(session, |state| state.release(session, pulse, terms)))
    }

    async fn revoke(&self, pool: &Pool, term: &Term) -> Result<Revoked, StoreError> {
        Ok(self.decide(Some(pool), |state| state.revoke(pool, term)))
    }

    async fn free_revoked(&self, pool: &Pool, term: &Term, era: Nonce) -> Result<Freed, StoreError> {
        Ok(self.decide(Some(pool), |state| state.free_revoked(pool, term, era)))
    }

    async fn free_orphan(
        &self,
        pool: &Pool,
        holder: &MemberId,
        term: &Term,
        era: Nonce,
    ) -> Result<Freed, StoreError> {
        Ok(self.decide(Some(pool), |state| state.free_orphan(pool, holder, term, era)))
    }

    async fn reassert(
        &self,
        session: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        Ok(self.decide(Some(&session.pool), |state| state.reassert(session, pulse, terms)))
    }

    async fn thaw(&self, nonce: Nonce) -> Result<Thawed, StoreError> {
        let token_base = clock::token_base(self.clock.wall_nanos());
        Ok(self.decide(None, |state| state.thaw(nonce, token_base)))
    }

    async fn collect(&self, session: &MemberId) -> Result<(), StoreError> {
        self.of_session(session, |state| state.collect(session));
        Ok(())
    }

    async fn sessions(&self, pool: &Pool, since: Cursor) -> Result<Changed<SessionRecord>, StoreError> {
        Ok(self.lock().leases.sessions(pool, since))
    }

    async fn leases(&self, pool: &Pool, since: Cursor) -> Result<Changed<LeaseRecord>, StoreError> {
        Ok(self.lock().leases.leases(pool, since))
    }

    async fn pools(&self) -> Result<Vec<Pool>, StoreError> {
        let everything = self.lock();
        let mut pools = everything.leases.pools();
        pools.extend(everything.registry.pools());
        pools.sort_unstable();
        pools.dedup();
        Ok(pools)
    }

    fn changes(&self, pool: &Pool) -> Hints {
        Box::pin(PoolHints::new(self.changed.subscribe(), pool.clone()))
    }
}

/// The hints of one pool out of those of all.
struct PoolHints {
    next: std::pin::Pin<Box<dyn Future<Output = Option<broadcast::Receiver<Pool>>> + Send>>,
    pool: Pool,
}

impl PoolHints {
    fn new(changed: broadcast::Receiver<Pool>, pool: Pool) -> Self {
        Self { next: Box::pin(next_of(changed, pool.clone())), pool }
    }
}

async fn next_of(mut changed: broadcast::Receiver<Pool>, pool: Pool) -> Option<broadcast::Receiver<Pool>> {
    loop {
        match changed.recv().await {
            Ok(other) if other != pool => {}
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return Some(changed),
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}

impl futures_core::Stream for PoolHints {
    type Item = Hint;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Option<Hint>> {
        match self.next.as_mut().poll(context) {
            Poll::Ready(Some(changed)) => {
                let pool = self.pool.clone();
                self.next = Box::pin(next_of(changed, pool));
                Poll::Ready(Some(Hint::Changed))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
