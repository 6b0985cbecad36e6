//! The control plane as a listener: who is silent is ended, what is orphaned freed, a frozen store thawed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::lease::Term;
use leasehold::ledger::{Event, Reason};
use leasehold::listen::Silence;
use leasehold::store::{
    Cursor, EndSilent, Hints, MarkKind, Marked, OpenSession, SessionRecord, StoreError, Thawed, Version,
};
use leasehold::{MemberId, ResourceId};
use tokio::sync::watch;

use super::desk::{Desk, Known};
use super::holder::Holder;
use super::proof::Proof;
use crate::own::server_pool;

/// How often a pool is read in which somebody could fall silent: never so seldom that we are deaf.
const LISTEN_MIN: Duration = Duration::from_millis(250);
const LISTEN_MAX: Duration = Duration::from_secs(1);
/// How often a pool is read in which nobody is.
const IDLE: Duration = Duration::from_secs(5);
/// How long hints are gathered.
const GATHER: Duration = Duration::from_millis(200);
/// How often silences are written down.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// The most silences that are written down.
const TOLD_MAX: usize = 5000;
/// How long the tombstone of a session that we keep is kept: its id was used for one claim.
const TOMBSTONE: Duration = Duration::from_secs(10);
/// The same for members, whose late calls it must still refuse.
const TOMBSTONE_OF_MEMBER: Duration = Duration::from_secs(600);
/// How many tombstones are forgotten at once, as requests are not to wait behind them, and for how long in one pass, as somebody may
/// fall silent meanwhile. They are as many as the leases that were released: there is no other limit that keeps pace.
const COLLECT_AT_ONCE: usize = 128;
const COLLECT_FOR: Duration = Duration::from_millis(150);
/// The most that are looked for in one pass.
const COLLECT_MAX: usize = 16_384;
/// The TTL that a holder may have of whom nothing is known.
pub(super) const TTL_USUAL: Duration = Duration::from_secs(36);

/// The silences of a pool as they are written down for other replicas and the next start.
#[derive(Debug, Default)]
struct Told {
    /// Whether those of others were read.
    heard: bool,
    version: Version,
    at: leasehold::clock::Moment,
    any: bool,
}

/// Listens to a pool until told to stop.
pub(super) async fn listen(desk: Arc<Desk>, mut stop: watch::Receiver<bool>) {
    let mut hints = desk.store.changes(&desk.pool);
    let (mut told, mut proof) = (Told::default(), Proof::default());
    while !*stop.borrow() {
        let heard = async {
            let pause = desk.hear(&mut told).await?;
            desk.prove(&mut proof).await.map(|()| pause)
        };
        let pause = match heard.await {
            Ok(pause) => pause,
            Err(error) => {
                tracing::debug!(pool = desk.pool.as_str(), %error, "the pool cannot be heard at the moment");
                LISTEN_MIN
            }
        };
        tokio::select! {
            _ = stop.changed() => {}
            hinted = next(&mut hints) => {
                // A stream of hints that has ended would be ready for ever.
                desk.clock.sleep(if hinted { GATHER } else { pause }).await;
            }
            () = desk.clock.sleep(pause) => {}
        }
    }
    let known = desk.fresh().await;
    if let Ok(known) = known {
        let silences = known.listener.silences(4);
        drop(known);
        let _ = desk.tell(&mut told, silences).await;
    }
}

/// Waits for a hint; `false` once there will be no more.
async fn next(hints: &mut Hints) -> bool {
    std::future::poll_fn(|context| hints.as_mut().poll_next(context)).await.is_some()
}

impl Desk {
    /// Hears the pool, gives its verdicts, and says how long it may rest.
    async fn hear(&self, told: &mut Told) -> Result<Duration, StoreError> {
        if !told.heard {
            let (version, silences) = self.told().await?;
            told.version = version;
            told.heard = true;
            self.lately().await?.listener.resume(silences);
        }
        let now = self.clock.now();
        let (silent, orphans, revoked, ended, thawable, era, silences, pause) = {
            let mut known = self.fresh().await?;
            self.take_in(&mut known);
            let listener = &known.listener;
            let is_ours = |session: &&SessionRecord| Holder::is_of(&session.profile);
            let members = known.view.ended_for(now, TOMBSTONE_OF_MEMBER).filter(|session| !is_ours(session));
            let ended = members.chain(known.view.ended_for(now, TOMBSTONE).filter(is_ours));
            let ended: Vec<MemberId> = ended.take(COLLECT_MAX).map(|session| session.id.clone()).collect();
            (
                self.silent(&known, now),
                listener.orphans(now),
                self.revoked(&known, now),
                known.view.named_by(&ended),
                listener.thawable(now, TTL_USUAL),
                known.view.era(),
                listener.silences(4),
                self.pause(&known, now),
            )
        };
        if let Some(nonce) = thawable
            && self.call(self.store.thaw(nonce)).await? == Thawed::Thawed
        {
            let mut row = self.rows.row(&self.me, &self.name, Event::Thawed);
            row.detail = Some(format!("era {nonce}"));
            self.rows.write(&self.pool, row);
        }
        if let Some(era) = era.filter(|era| !era.frozen) {
            for (session, beat) in silent {
                if self.call(self.store.end_silent(&session, beat, era.nonce)).await? == EndSilent::Ended {
                    self.expired(&session);
                }
            }
            for (holder, term) in orphans {
                let _ = self.call(self.store.free_orphan(&self.pool, &holder, &term, era.nonce)).await?;
            }
            for term in revoked {
                let _ = self.call(self.store.free_revoked(&self.pool, &term, era.nonce)).await?;
            }
            self.collect(ended).await?;
        }
        let due = now.since(told.at) >= TELL_EVERY && (told.any || !silences.is_empty());
        if due {
            told.at = now;
            self.tell(told, silences).await?;
        }
        Ok(pause)
    }

    /// Forgets sessions that ended a while ago. Not sooner: a tombstone that goes between two reads of a view is missed by it.
    async fn collect(&self, ended: BTreeMap<MemberId, Vec<ResourceId>>) -> Result<(), StoreError> {
        let ended: Vec<_> = ended.into_iter().collect();
        let (until, mut collected) = (self.clock.now().after(COLLECT_FOR), 0);
        for few in ended.chunks(COLLECT_AT_ONCE) {
            if self.clock.now() > until {
                break;
            }
            let collecting =
                few.iter().map(|(session, held)| self.call(self.store.collect_known(session, held)));
            for answer in join_all(collecting).await {
                answer?;
            }
            collected += few.len();
        }
        if collected > 0 {
            self.lose(ended.iter().take(collected).map(|(session, _)| session)).await;
        }
        Ok(())
    }

    /// Takes what was read in: for the listener, and in case the store forgets.
    fn take_in(&self, known: &mut Known) {
        let Known { view, listener, read, news, .. } = known;
        let Some((began, at)) = *read else { return };
        listener.hear(view, at, &std::mem::take(news));
        let (now, wall_nanos) = (self.clock.now(), self.clock.wall_nanos());
        let mut memory = self.memory();
        let before = memory.take_in(began);
        let frozen = view.era().is_some_and(|era| era.frozen);
        memory.retain(|id, kept| match view.sessions().get(id) {
            Some(session) => !session.ended,
            None => kept.granted.is_some_and(|granted| granted >= began) || frozen && kept.stands(now),
        });
        let mut active = 0_u32;
        for (resource, lease) in view.leases() {
            let Some(id) = view.holder(resource) else { continue };
            active += 1;
            let Some(session) = view.sessions().get(id) else { continue };
            let open = || {
                let holder = Holder::of(&session.profile)?;
                let (pool, profile) = (self.pool.clone(), session.profile.clone());
                Some((OpenSession { pool, id: id.clone(), ttl: session.ttl, profile }, holder))
            };
            let term = Term { resource: resource.clone(), token: lease.token };
            memory.read(open, session, &term, before, (now, wall_nanos));
        }
        metrics::gauge!("active_leases_total", "pool" => self.pool.to_string()).set(active);
    }

    /// How long the pool may go unread.
    fn pause(&self, known: &Known, now: leasehold::clock::Moment) -> Duration {
        let Some(shortest) = known.view.living().map(|session| session.ttl).min() else {
            let frozen = known.view.era().is_some_and(|era| era.frozen);
            return if frozen { LISTEN_MAX } else { IDLE };
        };
        let due = known.listener.next_due(TTL_USUAL, None).map_or(LISTEN_MAX, |due| due.since(now));
        due.min(shortest / 6).clamp(LISTEN_MIN, LISTEN_MAX)
    }

    fn expired(&self, session: &MemberId) {
        let kept = {
            let mut memory = self.memory();
            let kept = memory.lose(session, self.clock.now());
            if let Some(kept) = &kept {
                memory.lapsed.insert(kept.term.resource.clone(), kept.clone());
            }
            kept
        };
        metrics::counter!("lease_lost_total", "reason" => "ttl_expiry").increment(1);
        let mut row = self.rows.row(&self.me, &self.name, Event::Expired);
        row.other = Some(session.clone());
        row.reason = Some(Reason::TtlExpiry);
        row.resource = kept.as_ref().map(|kept| kept.term.resource.clone());
        row.token = kept.as_ref().map(|kept| kept.term.token);
        row.detail = kept.as_ref().and_then(|kept| kept.holder.detail());
        self.rows.write(&self.pool, row);
    }

    /// The silences that other replicas, or this one before it was started, have heard.
    async fn told(&self) -> Result<(Version, Vec<Silence>), StoreError> {
        let marks = self.call(self.store.marks(&server_pool(), Cursor::START)).await?;
        let mine = |mark: &&leasehold::store::Mark| {
            mark.kind == MarkKind::Silence && mark.subject == self.pool.as_str()
        };
        let Some(mark) = marks.items.iter().find(mine) else { return Ok((Version(0), Vec::new())) };
        let silences = mark.value.as_deref().and_then(|value| serde_json::from_str(value).ok());
        Ok((mark.version, silences.unwrap_or_default()))
    }

    /// Writes silences down. Where another replica was faster, its own will do.
    async fn tell(&self, told: &mut Told, mut silences: Vec<Silence>) -> Result<(), StoreError> {
        silences.sort_unstable_by_key(|silence| std::cmp::Reverse(silence.millis));
        silences.truncate(TOLD_MAX);
        told.any = !silences.is_empty();
        let value = serde_json::to_string(&silences).unwrap_or_default();
        let pool = server_pool();
        let set =
            self.store.set_mark(&pool, MarkKind::Silence, self.pool.as_str(), Some(&value), told.version);
        match self.call(set).await? {
            Marked::Set(version) | Marked::Conflict(version) => told.version = version,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use leasehold::Pool;
    use leasehold::clock::{Clock, Moment, Sleep};
    use leasehold::store::Store;
    use leasehold::store::memory::MemoryStore;

    use super::*;
    use crate::holders::outage::Outage;
    use crate::holders::{Caller, Claim, Shared};
    use crate::ledger::Rows;
    use crate::settings::Limits;

    /// A clock that is set by hand.
    #[derive(Debug)]
    struct Hand(AtomicU64);

    impl Hand {
        fn goes_on(&self, by: Duration) {
            self.0.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
        }
    }

    impl Clock for Hand {
        fn now(&self) -> Moment {
            Moment(self.0.load(Ordering::SeqCst))
        }

        fn sleep_until(&self, _: Moment) -> Sleep {
            Box::pin(std::future::ready(()))
        }

        fn wall_nanos(&self) -> u64 {
            self.now().0
        }
    }

    fn desk(store: &Arc<dyn Store>, clock: &Arc<Hand>, pool: &Pool) -> Desk {
        let (store, clock): (_, Arc<dyn Clock>) = (Arc::clone(store), Arc::clone(clock) as _);
        let name: leasehold::MemberName = "here".parse().unwrap();
        let shared = Shared {
            rows: Rows::new(Arc::clone(&store), Arc::clone(&clock)),
            store,
            clock,
            limits: Limits::default(),
            me: MemberId::generate_for(&name),
            name,
            outage: Arc::new(Outage::new(Duration::ZERO)),
            desks: Default::default(),
            stop: watch::Sender::new(false),
        };
        Desk::new(&shared, pool.clone())
    }

    #[tokio::test]
    async fn tombstones_are_forgotten_as_fast_as_leases_are_released() {
        const MANY: usize = 2000;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let clock = Arc::new(Hand(AtomicU64::new(1_000_000_000_000)));
        let pool: Pool = "scenes".parse().unwrap();
        let desk = desk(&store, &clock, &pool);
        for number in 0..MANY {
            let resource: ResourceId = format!("scene-{}", number % 3).parse().unwrap();
            let holder = Holder {
                id: "tracker".parse().unwrap(),
                ttl: Duration::from_secs(30),
                key: None,
                idempotency: None,
                extra: BTreeMap::new(),
            };
            let claimed = desk.claim(&resource, holder, 1, MemberId::generate_in_order()).await.unwrap();
            assert!(matches!(claimed, Claim::Granted(_)), "{number}: {claimed:?}");
            let caller = Caller { holder_id: "tracker", session: None, token: None, key: None };
            desk.release(&resource, &caller).await.unwrap().expect("it was held");
        }
        let mut told = Told::default();
        let left = async || store.sessions(&pool, Cursor::START).await.unwrap().items.len();
        desk.hear(&mut told).await.unwrap();
        clock.goes_on(TOMBSTONE - Duration::from_millis(1));
        desk.hear(&mut told).await.unwrap();
        assert_eq!(left().await, MANY, "a view that is read seldom may not have seen them yet");
        clock.goes_on(Duration::from_millis(1));
        desk.hear(&mut told).await.unwrap();
        assert_eq!((left().await, desk.lately().await.unwrap().view.sessions().len()), (0, 0));
    }
}
