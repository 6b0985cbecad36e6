//! Whoever goes by a view's news knows what whoever looks at all of it knows, whatever happens in the store.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use leasehold::clock::{Clock, Moment, Sleep};
use leasehold::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term, Token};
use leasehold::listen::Listener;
use leasehold::plan::{Facts, Plan, Planner};
use leasehold::store::memory::MemoryStore;
use leasehold::store::{
    Answer, Declared, LeaseStore, Listing, MarkKind, Offer, OpenSession, Profile, Pulse, Registry, Release,
    Wanted,
};
use leasehold::view::{News, View};
use proptest::prelude::*;

const TTL: Duration = Duration::from_secs(30);
const RESOURCES: usize = 8;

/// A clock that is moved by hand.
#[derive(Debug, Default)]
struct Hand(Mutex<Moment>);

impl Clock for Hand {
    fn now(&self) -> Moment {
        *self.0.lock().unwrap()
    }

    fn sleep_until(&self, _: Moment) -> Sleep {
        Box::pin(std::future::pending())
    }

    fn wall_nanos(&self) -> u64 {
        0
    }
}

fn resource(number: usize) -> ResourceId {
    ResourceId::new(format!("r{}", number % RESOURCES)).unwrap()
}

/// Something that happens in a store. Sessions and resources are given by number.
#[derive(Debug, Clone)]
enum Event {
    Open(usize, Vec<usize>),
    Describe(usize, Vec<usize>, bool),
    Close(usize),
    Vanish(usize),
    Acquire(usize, usize),
    Release(usize, usize, Option<usize>),
    Revoke(usize),
    Declare(usize, u32, bool),
    Mark(MarkKind, usize, Option<u64>),
    Forget,
    Thaw,
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let kinds = [
        MarkKind::Drain,
        MarkKind::Cordon,
        MarkKind::Pin,
        MarkKind::Pause,
        MarkKind::Floor,
        MarkKind::Quarantine,
    ];
    let listed = || prop::collection::vec(0..RESOURCES, 0..5);
    prop_oneof![
        3 => (0..5_usize, listed()).prop_map(|(who, listed)| Event::Open(who, listed)),
        1 => (0..5_usize, listed(), prop::bool::ANY).prop_map(|(who, listed, ready)| Event::Describe(who, listed, ready)),
        1 => (0..5_usize).prop_map(Event::Close),
        1 => (0..5_usize).prop_map(Event::Vanish),
        8 => (0..5_usize, 0..RESOURCES).prop_map(|(who, what)| Event::Acquire(who, what)),
        5 => (0..5_usize, 0..RESOURCES, prop::option::of(0..5_usize)).prop_map(|(who, what, to)| Event::Release(who, what, to)),
        3 => (0..RESOURCES).prop_map(Event::Revoke),
        4 => (0..RESOURCES, 0..4_u32, prop::bool::weighted(0.3)).prop_map(|(what, weight, removed)| Event::Declare(what, weight, removed)),
        4 => (prop::sample::select(kinds.to_vec()), 0..RESOURCES, prop::option::of(0..6_u64)).prop_map(|(kind, on, value)| Event::Mark(kind, on, value)),
        1 => Just(Event::Forget),
        2 => Just(Event::Thaw),
        4 => (1..40_u64).prop_map(Event::Wait),
    ]
}

struct Scene {
    store: MemoryStore,
    pool: Pool,
    clock: Hand,
    sessions: BTreeMap<usize, (OpenSession, Nonce)>,
    begun: usize,
    view: View,
    planner: Planner,
    /// One that goes by the news, and one that looks at everything each time.
    listeners: [Listener; 2],
}

impl Scene {
    fn new() -> Self {
        let pool = Pool::new("p").unwrap();
        let view = View::new(pool.clone());
        Self {
            store: MemoryStore::new(),
            clock: Hand(Mutex::new(Moment(1_000_000_000_000))),
            sessions: BTreeMap::new(),
            begun: 0,
            planner: Planner::new(view.facts(32)),
            view,
            pool,
            listeners: Default::default(),
        }
    }

    async fn publish(&self, listed: &[usize]) -> leasehold::store::ListingId {
        let listing = Listing::new(
            listed
                .iter()
                .copied()
                .map(resource)
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect(),
        );
        let listing = listing.unwrap();
        self.store.publish(&self.pool, &listing.id(), &listing).await.unwrap();
        listing.id()
    }

    fn session(&self, who: usize) -> Option<(MemberId, Pulse)> {
        let (open, era) = self.sessions.get(&who)?;
        let pulse = Pulse { era: *era, number: BeatNumber(1), confirmed: BeatNumber(0) };
        Some((open.id.clone(), pulse))
    }

    async fn lease_of(&self, what: usize) -> Option<Term> {
        let leases = self.store.leases(&self.pool, leasehold::store::Cursor::START).await.unwrap();
        let lease = leases.items.into_iter().find(|lease| lease.resource == resource(what))?;
        Some(Term { resource: lease.resource, token: lease.token })
    }

    async fn happen(&mut self, event: &Event) {
        match event {
            Event::Open(who, listed) => self.open(*who, listed).await,
            Event::Describe(who, listed, ready) => {
                let Some((id, pulse)) = self.session(*who) else { return };
                let listing = Some(self.publish(listed).await);
                let profile = Profile { listing, ready: *ready, ..self.sessions[who].0.profile.clone() };
                let _ = self.store.describe(&id, pulse, &profile).await.unwrap();
            }
            Event::Close(who) => {
                let Some((open, _)) = self.sessions.remove(who) else { return };
                self.store.close(&open.id).await.unwrap();
            }
            Event::Vanish(who) => {
                let Some((open, _)) = self.sessions.remove(who) else { return };
                self.store.lose_session(&open.id);
                self.view.lose_session(&open.id);
            }
            Event::Acquire(who, what) => {
                let Some((id, pulse)) = self.session(*who) else { return };
                let wanted = [Wanted { resource: resource(*what), floor: Token(0) }];
                let _ = self.store.acquire(&id, pulse, &wanted).await.unwrap();
            }
            Event::Release(who, what, to) => {
                let (Some((id, pulse)), Some(term)) = (self.session(*who), self.lease_of(*what).await) else {
                    return;
                };
                let to = to.and_then(|to| self.session(to));
                let offer = to.map(|(to, _)| Offer { to, load: u64::MAX });
                let _ = self.store.release(&id, pulse, &[Release { term, offer }]).await.unwrap();
            }
            Event::Revoke(what) => {
                let Some(term) = self.lease_of(*what).await else { return };
                let _ = self.store.revoke(&self.pool, &term).await.unwrap();
            }
            Event::Declare(what, weight, removed) => {
                let version =
                    self.view.declared().get(&resource(*what)).map(|known| known.version).unwrap_or_default();
                let declared = Declared {
                    weight: *weight,
                    removed: *removed,
                    version,
                    ..Declared::new(resource(*what))
                };
                let _ = self.store.declare(&self.pool, &declared).await.unwrap();
            }
            Event::Mark(kind, on, value) => {
                let about_members = matches!(kind, MarkKind::Drain | MarkKind::Cordon);
                let subject = if about_members { format!("m{}", on % 5) } else { resource(*on).to_string() };
                let value =
                    value.map(
                        |value| if *kind == MarkKind::Pin { format!("m{value}") } else { value.to_string() },
                    );
                let version = self.view.version_of_mark(*kind, &subject);
                let _ = self
                    .store
                    .set_mark(&self.pool, *kind, &subject, value.as_deref(), version)
                    .await
                    .unwrap();
            }
            Event::Forget => self.store.restore(&self.store.snapshot()),
            Event::Thaw => {
                if let Some(era) = self.view.era() {
                    let _ = self.store.thaw(era.nonce).await.unwrap();
                }
            }
            Event::Wait(seconds) => {
                let mut now = self.clock.0.lock().unwrap();
                *now = now.after(Duration::from_secs(*seconds));
            }
        }
    }

    async fn open(&mut self, who: usize, listed: &[usize]) {
        if self.sessions.contains_key(&who) {
            return;
        }
        self.begun += 1;
        let profile = Profile {
            name: format!("m{who}").parse().unwrap(),
            capacity: None,
            labels: BTreeMap::new(),
            ready: true,
            settled: true,
            leaving: false,
            listing: Some(self.publish(listed).await),
            plan_version: 1,
            flaps: 0,
            version: None,
        };
        let id = MemberId::new(format!("m{who}-{}", self.begun)).unwrap();
        let open = OpenSession { pool: self.pool.clone(), id, ttl: TTL, profile };
        if let Answer::Done(era) = self.store.open(&open).await.unwrap() {
            self.sessions.insert(who, (open, era));
        }
    }

    async fn read(&mut self) -> Result<(), TestCaseError> {
        let refreshed = self.view.refresh(&self.store, &self.clock).await.unwrap();
        let whole = self.view.facts(32);
        self.view.inform(&mut self.planner, &refreshed.news, self.view.members());
        prop_assert_eq!(self.planner.plan(), Plan::compute(&whole));
        let mut known: Facts = self.planner.facts().clone();
        known.resources.sort_by_key(|resource| resource.id.clone());
        prop_assert_eq!(known, whole);
        for (listener, news) in self.listeners.iter_mut().zip([&refreshed.news, &News::Anything]) {
            listener.hear(&self.view, refreshed.at, news);
        }
        let [one, two] = &self.listeners;
        for later in [0, 29, 30, 31] {
            let now = refreshed.at.after(Duration::from_secs(later));
            prop_assert_eq!(one.orphans(now), two.orphans(now));
            prop_assert_eq!(one.revoked(now), two.revoked(now));
            prop_assert_eq!(one.next_due(TTL, None), two.next_due(TTL, None));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn who_goes_by_the_news_knows_everything(
        events in prop::collection::vec((event(), prop::bool::weighted(0.7)), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut scene = Scene::new();
            for (event, reads) in events {
                scene.happen(&event).await;
                if reads {
                    scene.read().await?;
                }
            }
            scene.read().await
        })?;
    }
}
