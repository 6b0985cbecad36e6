//! The store on an etcd cluster.
//!
//! Every call is an optimistic transaction: what the decision rests on is read, the decision is made in plain Rust
//! (`sessions`, `leases`), and one etcd transaction compares all that was read and writes what was decided. Where something
//! changed in between, it is decided again. A heartbeat is one request.
//!
//! # What is durable
//!
//! What etcd confirms is on the disks of most of its members. Leases of etcd's own decide nothing: they may
//! end early or late when its leader changes. They carry only the leader keys that foreign programs look at (`mirror`).
//!
//! # When the cluster forgets
//!
//! A cluster forgets when it is made anew from a snapshot. Its id then differs, or its revision, its term or its log is
//! behind what was seen. Every transaction compares the id and the term with those in the era's record, every answer is held
//! against the highest revision that this handle has seen (`lineage`), and whoever opens the store compares the length of
//! the cluster's log with the one in the record.

mod address;
mod beats;
mod checkup;
mod client;
mod draft;
mod era;
mod failure;
mod keys;
mod leases;
mod ledger;
mod lineage;
mod listings;
mod mirror;
mod news;
mod open;
#[allow(missing_docs, unreachable_pub, unused_qualifications, dead_code, clippy::all, clippy::pedantic)]
mod proto {
    include!("etcd/proto/etcdserverpb.generated");
}
mod reader;
mod record;
mod registry;
mod sessions;
mod sweeps;
mod transact;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use tokio::sync::watch as watch_channel;

use self::beats::Beats;
use self::mirror::{Campaign, Mirrors, Native, Natives};
use self::record::{LeaseValue, decode, encode, millis, unreadable};
use self::transact::Engine;
use self::watch::{Listeners, Watched};
use super::{
    Acquired, Answer, Capabilities, Changed, Checkup, Claimed, Cursor, EndSilent, Freed, Grade, Guard, Hints,
    LeaseRecord, LeaseStore, OpenSession, Others, Profile, Pulse, Reasserted, Release, Released, Revoked,
    SessionRecord, StoreError, Thawed, Wanted, claim,
};
use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term};

/// The most items one call may carry: a few transactions that are carried out at once.
const ITEMS_MAX: usize = 4 * sweeps::CHUNK;
/// How long one call may take; and how long one that reads a whole pool, in which every request has the time of a call.
const CALL: Duration = Duration::from_secs(3);
const WHOLE: Duration = Duration::from_secs(60);

/// A store on an etcd cluster. Dropping it ends its watch.
#[derive(Debug)]
pub struct EtcdStore {
    engine: Arc<Engine>,
    mirrors: watch_channel::Sender<Arc<Mirrors>>,
    natives: Arc<Natives>,
    beats: Arc<Beats>,
    listeners: Arc<Listeners>,
    runtime: tokio::runtime::Handle,
    grade: Grade,
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.listeners.close();
    }
}

impl EtcdStore {
    fn campaign(&self, native: Option<Native>) -> Campaign {
        Campaign { mirrors: self.mirrors.borrow().clone(), native }
    }

    fn is_mirrored(&self, resource: &ResourceId) -> bool {
        self.mirrors.borrow().concern(resource)
    }

    /// An etcd lease for the leader keys that an acquisition may take.
    async fn native_for(&self, session: &MemberId, wanted: &[Wanted]) -> Result<Option<Native>, StoreError> {
        if !wanted.iter().any(|wanted| self.is_mirrored(&wanted.resource)) {
            return Ok(None);
        }
        let known = self.engine.of_session(session);
        let found = self.engine.transact(&known, |step| sessions::find(step, session)).await?;
        let Some(own) = found else { return Ok(None) };
        let ttl = Duration::from_millis(own.value.ttl_ms);
        self.natives.lease_for(&self.engine.client, session, ttl).await.map(Some)
    }

    async fn acquire_all(
        &self,
        session: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError> {
        let native = self.native_for(session, wanted).await?;
        let campaign = self.campaign(native);
        let known = self.engine.of_session(session);
        let decide = |step: &mut era::Step<'_>, pulse, wanted: &[Wanted]| {
            leases::acquire(step, &campaign, session, pulse, wanted)
        };
        let answer = self.engine.in_parts(&known, session, pulse, wanted, decide).await?;
        let won = match &answer {
            Answer::Done(outcomes) => outcomes.iter().any(
                |outcome| matches!(outcome, Acquired::Granted(term) if self.is_mirrored(&term.resource)),
            ),
            _ => false,
        };
        match native {
            Some(native) if won => self.natives.carries_keys(session, native),
            // A lost campaign leaves no lease behind.
            Some(Native { carries_keys: false, .. }) => self.natives.end(&self.engine.client, session).await,
            _ => {}
        }
        Ok(answer)
    }

    async fn release_all(
        &self,
        session: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Result<Answer<Vec<Released>>, StoreError> {
        let campaign = self.campaign(None);
        let known = self.engine.of_session(session);
        let decide = |step: &mut era::Step<'_>, pulse, terms: &[Release]| {
            leases::release(step, &campaign, session, pulse, terms)
        };
        let answer = self.engine.in_parts(&known, session, pulse, terms, decide).await?;
        let mirrored = terms.iter().any(|release| self.is_mirrored(&release.term.resource));
        let still = self.engine.transact(&known, |step| match step.pool_of(session)? {
            Some(pool) => mirror::holds_any(step, &campaign, session, &pool),
            None => Ok(true),
        });
        if mirrored && !still.await? {
            self.natives.end(&self.engine.client, session).await;
        }
        Ok(answer)
    }
}

/// Gives a call its deadline.
async fn within<T>(call: impl Future<Output = Result<T, StoreError>> + Send) -> Result<T, StoreError> {
    bounded(CALL, call).await
}

/// Gives a call on everything in a pool its deadline.
async fn on_the_whole<T>(call: impl Future<Output = Result<T, StoreError>> + Send) -> Result<T, StoreError> {
    bounded(WHOLE, call).await
}

async fn bounded<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, StoreError>> + Send,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::unavailable(format!(
            "etcd has not answered within {} s; the call may still take effect",
            limit.as_secs()
        ))),
    }
}

fn within_limit(items: usize) -> Result<(), StoreError> {
    if items <= ITEMS_MAX {
        return Ok(());
    }
    Err(StoreError::misconfigured(format!("a call carries {items} items; at most {ITEMS_MAX} are allowed")))
}

#[async_trait]
impl LeaseStore for EtcdStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { batch_max: ITEMS_MAX, pushes_changes: true, grade: self.grade }
    }

    fn show_as(&self, pool: &Pool, resource: &ResourceId, key: &str) -> Result<(), StoreError> {
        let mut mirrors = Mirrors::clone(&self.mirrors.borrow());
        mirrors.add(pool, resource, key, &self.engine.keys)?;
        self.mirrors.send_replace(Arc::new(mirrors));
        Ok(())
    }

    fn guard(&self, holder: &OpenSession, term: &Term) -> Option<Guard> {
        let key = self.engine.keys.lease(&holder.pool, &term.resource);
        let value = encode(&LeaseValue::granted(&holder.id, millis(holder.ttl), term.token)).ok()?;
        Some(Guard::Etcd { key, value })
    }

    async fn checkup(&self) -> Result<Checkup, StoreError> {
        // It asks every endpoint in turn.
        let looking = checkup::look_over(&self.engine.client);
        tokio::time::timeout(CALL * 3, looking)
            .await
            .unwrap_or_else(|_| Err(StoreError::unavailable("etcd has not answered; try again")))
    }

    async fn open(&self, session: &OpenSession) -> Result<Answer<Nonce>, StoreError> {
        let keys = &self.engine.keys;
        let known = [keys.era(), keys.pool_of(&session.id), keys.session(&session.pool, &session.id)];
        within(self.engine.transact(&known, |step| sessions::open(step, session))).await
    }

    async fn beat(&self, session: &MemberId, pulse: Pulse) -> Result<Answer<Vec<Term>>, StoreError> {
        let (beats, mirrors) = (Arc::clone(&self.beats), Arc::clone(&self.mirrors.borrow()));
        let session = session.clone();
        let beat = self.runtime.spawn(async move { within(beats.beat(mirrors, &session, pulse)).await });
        beat.await.unwrap_or_else(|_| Err(StoreError::unavailable("the store on etcd has stopped")))
    }

    async fn describe(
        &self,
        session: &MemberId,
        pulse: Pulse,
        profile: &Profile,
    ) -> Result<Answer<()>, StoreError> {
        let known = self.engine.of_session(session);
        let describe = self.engine.transact(&known, |step| sessions::describe(step, session, pulse, profile));
        within(describe).await
    }

    async fn close(&self, session: &MemberId) -> Result<(), StoreError> {
        within(async {
            let known = self.engine.of_session(session);
            self.engine.transact(&known, |step| sessions::close(step, session)).await?;
            self.natives.end(&self.engine.client, session).await;
            Ok(())
        })
        .await
    }

    async fn end_silent(
        &self,
        session: &MemberId,
        heard: BeatNumber,
        era: Nonce,
    ) -> Result<EndSilent, StoreError> {
        within(self.engine.transact(&[], |step| sessions::end_silent(step, session, heard, era))).await
    }

    async fn acquire(
        &self,
        session: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError> {
        within_limit(wanted.len())?;
        within(self.acquire_all(session, pulse, wanted)).await
    }

    async fn claim(&self, session: &OpenSession, wanted: &Wanted) -> Result<Answer<Claimed>, StoreError> {
        let look = within(self.engine.transact(&[], |step| leases::find(step, session, wanted)));
        claim::in_steps(self, look, session, wanted).await
    }

    async fn release(
        &self,
        session: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Result<Answer<Vec<Released>>, StoreError> {
        within_limit(terms.len())?;
        within(self.release_all(session, pulse, terms)).await
    }

    async fn revoke(&self, pool: &Pool, term: &Term) -> Result<Revoked, StoreError> {
        within(self.engine.transact(&[], |step| leases::revoke(step, pool, term))).await
    }

    async fn free_revoked(&self, pool: &Pool, term: &Term, era: Nonce) -> Result<Freed, StoreError> {
        let campaign = self.campaign(None);
        let free = self.engine.transact(&[], |step| leases::free_revoked(step, &campaign, pool, term, era));
        within(free).await
    }

    async fn free_orphan(
        &self,
        pool: &Pool,
        holder: &MemberId,
        term: &Term,
        era: Nonce,
    ) -> Result<Freed, StoreError> {
        let campaign = self.campaign(None);
        let free =
            self.engine.transact(&[], |step| leases::free_orphan(step, &campaign, pool, holder, term, era));
        within(free).await
    }

    async fn reassert(
        &self,
        session: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        within(self.engine.reassert(session, pulse, terms)).await
    }

    async fn thaw(&self, nonce: Nonce) -> Result<Thawed, StoreError> {
        within(self.engine.thaw(nonce)).await
    }

    async fn collect(&self, session: &MemberId) -> Result<(), StoreError> {
        on_the_whole(self.engine.collect(session, None)).await
    }

    async fn collect_known(&self, session: &MemberId, held: &[ResourceId]) -> Result<(), StoreError> {
        on_the_whole(self.engine.collect(session, Some(held))).await
    }

    async fn sessions(&self, pool: &Pool, since: Cursor) -> Result<Changed<SessionRecord>, StoreError> {
        on_the_whole(self.engine.changed(&self.engine.keys.sessions(pool), since, reader::session)).await
    }

    async fn sessions_if_quiet(
        &self,
        pool: &Pool,
        since: Cursor,
        others: Others,
    ) -> Result<Option<Changed<SessionRecord>>, StoreError> {
        within(self.engine.sessions_if_quiet(pool, since, others)).await
    }

    async fn leases(&self, pool: &Pool, since: Cursor) -> Result<Changed<LeaseRecord>, StoreError> {
        let prefix = self.engine.keys.leases(pool);
        let read = self.engine.changed(&prefix, since, |name, kv| {
            let resource = name.parse().map_err(|_| unreadable(&kv.key))?;
            Ok(decode::<LeaseValue>(&kv.key, &kv.value)?.shown(resource))
        });
        on_the_whole(read).await
    }

    async fn pools(&self) -> Result<Vec<Pool>, StoreError> {
        within(self.engine.pools()).await
    }

    fn changes(&self, pool: &Pool) -> Hints {
        self.listeners.listen(pool, || {
            let watched = Watched { keys: self.engine.keys.clone(), mirrors: self.mirrors.subscribe() };
            let (engine, listeners) = (Arc::clone(&self.engine), Arc::clone(&self.listeners));
            self.runtime.spawn(watch::serve(engine, watched, listeners)).abort_handle()
        })
    }
}
