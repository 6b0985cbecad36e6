//! The store as one machine reaches it: the reference store behind a network.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use leasehold::clock::Moment;
use leasehold::lease::{BeatNumber, Nonce};
use leasehold::ledger::Entry;
use leasehold::store::{
    Acquired, Answer, Capabilities, Changed, Checkup, Claimed, Cursor, Declared, EndSilent, Freed, Guard,
    Hint, Hints, LeaseRecord, LeaseStore, Listing, ListingId, Mark, MarkKind, Marked, OpenSession, Profile,
    Pulse, Reasserted, Registry, Release, Released, Revoked, SessionRecord, StoreError, Thawed, Version,
    Wanted,
};
use leasehold::{MemberId, Pool, ResourceId, Term};
use tokio::sync::{mpsc, oneshot};

use crate::history::What;
use crate::machine::Host;
use crate::world::World;

/// A machine's way to the store.
#[derive(Debug, Clone)]
pub(crate) struct FarStore {
    world: Arc<World>,
    host: Arc<Host>,
}

/// Carries a call over the network: what it refers to is copied, because it may arrive after its caller has stopped
/// waiting.
macro_rules! carry {
    ($self:ident, [$($name:ident),*], $store:ident => $call:expr) => {{
        $(let $name = $name.to_owned();)*
        $self
            .call(move |world: Arc<World>| {
                $(let $name = $name.clone();)*
                async move {
                    let $store = &world.store;
                    $call.await
                }
            })
            .await
    }};
}

impl FarStore {
    pub(crate) fn new(world: Arc<World>, host: Arc<Host>) -> Self {
        Self { world, host }
    }

    /// One call: the request travels, the store decides, the answer travels. Each of the three may come to nothing,
    /// and none of them stops because the caller has.
    async fn call<T, F, W>(&self, call: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(Arc<World>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<T, StoreError>> + Send,
    {
        self.host.gate.open().await;
        let fate = self.world.fate(self.host.machine);
        if fate.refused {
            return Err(StoreError::unavailable("the connection was refused".to_owned()));
        }
        let (answer, answered) = oneshot::channel();
        let (world, machine) = (Arc::clone(&self.world), self.host.machine);
        tokio::spawn(async move {
            world.time.sleep(fate.request_delay).await;
            if fate.request_lost || !world.network(|network| network.hears(machine)) {
                return;
            }
            if fate.twice {
                let _ = call(Arc::clone(&world)).await;
            }
            let decided = call(Arc::clone(&world)).await;
            let crashes = world.network(|network| network.crashes);
            world.time.sleep(fate.answer_delay).await;
            if !fate.answer_lost && world.network(|network| network.answers(machine, crashes)) {
                let _ = answer.send(decided);
            }
        });
        let decided = match answered.await {
            Ok(decided) => decided,
            Err(_) => std::future::pending().await,
        };
        self.host.gate.open().await;
        decided
    }
}

#[async_trait]
impl LeaseStore for FarStore {
    fn capabilities(&self) -> Capabilities {
        self.world.store.capabilities()
    }

    fn show_as(&self, pool: &Pool, resource: &ResourceId, key: &str) -> Result<(), StoreError> {
        self.world.store.show_as(pool, resource, key)
    }

    fn guard(&self, holder: &OpenSession, term: &Term) -> Option<Guard> {
        self.world.store.guard(holder, term)
    }

    async fn checkup(&self) -> Result<Checkup, StoreError> {
        carry!(self, [], store => store.checkup())
    }

    async fn open(&self, session: &OpenSession) -> Result<Answer<Nonce>, StoreError> {
        carry!(self, [session], store => store.open(&session))
    }

    async fn beat(&self, session: &MemberId, pulse: Pulse) -> Result<Answer<Vec<Term>>, StoreError> {
        carry!(self, [session], store => store.beat(&session, pulse))
    }

    async fn describe(
        &self,
        session: &MemberId,
        pulse: Pulse,
        profile: &Profile,
    ) -> Result<Answer<()>, StoreError> {
        carry!(self, [session, profile], store => store.describe(&session, pulse, &profile))
    }

    async fn close(&self, session: &MemberId) -> Result<(), StoreError> {
        carry!(self, [session], store => store.close(&session))
    }

    async fn end_silent(
        &self,
        session: &MemberId,
        heard: BeatNumber,
        era: Nonce,
    ) -> Result<EndSilent, StoreError> {
        carry!(self, [session], store => store.end_silent(&session, heard, era))
    }

    async fn acquire(
        &self,
        session: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError> {
        carry!(self, [session, wanted], store => store.acquire(&session, pulse, &wanted))
    }

    async fn claim(&self, session: &OpenSession, wanted: &Wanted) -> Result<Answer<Claimed>, StoreError> {
        carry!(self, [session, wanted], store => store.claim(&session, &wanted))
    }

    async fn release(
        &self,
        session: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Result<Answer<Vec<Released>>, StoreError> {
        carry!(self, [session, terms], store => store.release(&session, pulse, &terms))
    }

    async fn revoke(&self, pool: &Pool, term: &Term) -> Result<Revoked, StoreError> {
        carry!(self, [pool, term], store => store.revoke(&pool, &term))
    }

    async fn free_revoked(&self, pool: &Pool, term: &Term, era: Nonce) -> Result<Freed, StoreError> {
        carry!(self, [pool, term], store => store.free_revoked(&pool, &term, era))
    }

    async fn free_orphan(
        &self,
        pool: &Pool,
        holder: &MemberId,
        term: &Term,
        era: Nonce,
    ) -> Result<Freed, StoreError> {
        carry!(self, [pool, holder, term], store => store.free_orphan(&pool, &holder, &term, era))
    }

    async fn reassert(
        &self,
        session: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        carry!(self, [session, terms], store => store.reassert(&session, pulse, &terms))
    }

    async fn thaw(&self, nonce: Nonce) -> Result<Thawed, StoreError> {
        carry!(self, [], store => store.thaw(nonce))
    }

    async fn collect(&self, session: &MemberId) -> Result<(), StoreError> {
        carry!(self, [session], store => store.collect(&session))
    }

    async fn sessions(&self, pool: &Pool, since: Cursor) -> Result<Changed<SessionRecord>, StoreError> {
        carry!(self, [pool], store => store.sessions(&pool, since))
    }

    async fn leases(&self, pool: &Pool, since: Cursor) -> Result<Changed<LeaseRecord>, StoreError> {
        carry!(self, [pool], store => store.leases(&pool, since))
    }

    async fn pools(&self) -> Result<Vec<Pool>, StoreError> {
        carry!(self, [], store => store.pools())
    }

    fn changes(&self, pool: &Pool) -> Hints {
        let mut hints = self.world.store.changes(pool);
        let (sender, receiver) = mpsc::channel(64);
        let (world, host) = (Arc::clone(&self.world), Arc::clone(&self.host));
        tokio::spawn(async move {
            while std::future::poll_fn(|context| hints.as_mut().poll_next(context)).await.is_some() {
                host.gate.open().await;
                for _ in 0..world.copies_of_a_hint(host.machine) {
                    if sender.send(Hint::Changed).await.is_err() {
                        return;
                    }
                }
            }
        });
        Box::pin(FarHints(receiver))
    }
}

struct FarHints(mpsc::Receiver<Hint>);

impl futures_core::Stream for FarHints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        self.0.poll_recv(context)
    }
}

#[async_trait]
impl Registry for FarStore {
    async fn marks(&self, pool: &Pool, since: Cursor) -> Result<Changed<Mark>, StoreError> {
        carry!(self, [pool], store => store.marks(&pool, since))
    }

    async fn set_mark(
        &self,
        pool: &Pool,
        kind: MarkKind,
        subject: &str,
        value: Option<&str>,
        expected: Version,
    ) -> Result<Marked, StoreError> {
        let value = value.map(str::to_owned);
        carry!(self, [pool, subject, value], store => store.set_mark(&pool, kind, &subject, value.as_deref(), expected))
    }

    async fn resources(&self, pool: &Pool, since: Cursor) -> Result<Changed<Declared>, StoreError> {
        carry!(self, [pool], store => store.resources(&pool, since))
    }

    async fn declare(&self, pool: &Pool, declared: &Declared) -> Result<Marked, StoreError> {
        carry!(self, [pool, declared], store => store.declare(&pool, &declared))
    }

    async fn publish(&self, pool: &Pool, id: &ListingId, listing: &Listing) -> Result<(), StoreError> {
        carry!(self, [pool, id, listing], store => store.publish(&pool, &id, &listing))
    }

    async fn listing(&self, pool: &Pool, id: &ListingId) -> Result<Option<Listing>, StoreError> {
        carry!(self, [pool, id], store => store.listing(&pool, &id))
    }

    async fn collect_listings(&self, pool: &Pool) -> Result<(), StoreError> {
        carry!(self, [pool], store => store.collect_listings(&pool))
    }

    /// The ledger is kept where it is written, like a log: no network comes between.
    async fn append(&self, _: &Pool, entries: &[Entry]) -> Result<(), StoreError> {
        let truly = |moment: Moment| {
            let nanos = self.host.clock.true_time(moment).as_nanos();
            Moment(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        for entry in entries {
            let mut entry = entry.clone();
            entry.at = truly(entry.at);
            entry.trusted_until = entry.trusted_until.map(truly);
            self.world.happened(What::Wrote(Box::new(entry)));
        }
        Ok(())
    }

    async fn ledger(
        &self,
        pool: &Pool,
        resource: Option<&ResourceId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Entry)>, StoreError> {
        self.world.store.ledger(pool, resource, after, limit).await
    }
}
