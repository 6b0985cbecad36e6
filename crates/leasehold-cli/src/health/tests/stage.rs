//! Who reports: two candidates of one election, or one that has never reached its store.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::election::{Candidate, Election, Key, Seat};
use leasehold::participant::{State, Status};
use leasehold::store::Store;
use leasehold::store::around::Metered;
use leasehold::store::memory::MemoryStore;
use leasehold::{MemberId, Token};

use super::client::{Address, soon};
use crate::health::{Health, HealthArgs, Report, Serving};

pub(super) const KEY: &str = "/ccm/scheduler/leader";
pub(super) const TTL: Duration = Duration::from_secs(5);

/// A server on a free port of loopback.
pub(super) async fn opened() -> (Health, Address) {
    let args = HealthArgs { health: Some(SocketAddr::from(([127, 0, 0, 1], 0))), health_key_file: None };
    with(&args).await
}

pub(super) async fn with(args: &HealthArgs) -> (Health, Address) {
    let health = Health::open(args).await.unwrap().unwrap();
    let address = Address(health.listener.local_addr().unwrap());
    (health, address)
}

/// A report that is being told.
pub(super) struct Told<R> {
    pub(super) report: Arc<R>,
    pub(super) address: Address,
    pub(super) serving: Serving,
}

impl<R> Deref for Told<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.report
    }
}

impl<R: Report> Told<R> {
    pub(super) fn new((health, address): (Health, Address), report: R) -> Self {
        let report = Arc::new(report);
        let serving = health.serve(Arc::clone(&report) as Arc<dyn Report>);
        Self { report, address, serving }
    }
}

/// A candidate that leads whenever it is elected.
pub(super) struct Member {
    name: &'static str,
    pub(super) candidate: Candidate,
    elected: Arc<AtomicU64>,
    reconciled: AtomicU64,
}

impl Member {
    async fn start(store: &MemoryStore, name: &'static str) -> Told<Self> {
        let opened = opened().await;
        let store: Arc<dyn Store> = Arc::new(Metered::new(Arc::new(store.clone())));
        let elected = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&elected);
        let candidate = Election::new(store, Key::new(KEY).unwrap())
            .name(name)
            .unwrap()
            .ttl(TTL)
            .on_elected(move |leadership| {
                count.fetch_add(1, Ordering::Relaxed);
                async move {
                    leadership.lost().await;
                }
            })
            .start()
            .await
            .unwrap();
        Told::new(opened, Self { name, candidate, elected, reconciled: AtomicU64::new(0) })
    }

    pub(super) fn id(&self) -> MemberId {
        self.status().member.unwrap()
    }

    pub(super) fn reconciled(&self) -> u64 {
        self.reconciled.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Report for Member {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn key(&self) -> &Key {
        self.candidate.key()
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn status(&self) -> Status {
        self.candidate.status().borrow().clone()
    }

    fn is_leader(&self) -> Option<Token> {
        self.candidate.is_leader()
    }

    fn seat(&self) -> Seat {
        self.candidate.seat()
    }

    fn leadership_changes(&self) -> u64 {
        self.elected.load(Ordering::Relaxed)
    }

    async fn resign(&self) -> bool {
        self.candidate.resign().await
    }

    fn reconcile(&self) -> bool {
        let leads = self.is_leader().is_some();
        self.reconciled.fetch_add(leads.into(), Ordering::Relaxed);
        leads
    }
}

/// `one` leads, and `two` waits.
pub(super) struct Pair {
    pub(super) leader: Told<Member>,
    pub(super) standby: Told<Member>,
}

impl Pair {
    pub(super) async fn start() -> Self {
        let store = MemoryStore::new();
        let leader = Member::start(&store, "one").await;
        soon("one leads", async || {
            leader.elected.load(Ordering::Relaxed) > 0 && leader.is_leader().is_some()
        })
        .await;
        let standby = Member::start(&store, "two").await;
        soon("two has joined", async || standby.status().member.is_some()).await;
        Self { leader, standby }
    }
}

/// A candidate with a status of one's choice that never heard who leads, and whose resignation never ends.
pub(super) struct Alone {
    key: Key,
    pub(super) status: Mutex<Status>,
}

#[async_trait]
impl Report for Alone {
    fn name(&self) -> String {
        "alone".to_owned()
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn status(&self) -> Status {
        self.status.lock().unwrap().clone()
    }

    fn is_leader(&self) -> Option<Token> {
        None
    }

    fn seat(&self) -> Seat {
        Seat::Unknown
    }

    fn leadership_changes(&self) -> u64 {
        0
    }

    async fn resign(&self) -> bool {
        std::future::pending().await
    }

    fn reconcile(&self) -> bool {
        false
    }
}

pub(super) struct Scene;

impl Scene {
    pub(super) async fn without_session() -> Told<Alone> {
        Self::at(opened().await)
    }

    pub(super) fn at(opened: (Health, Address)) -> Told<Alone> {
        let status =
            Status { member: None, state: State::Lost, held: BTreeMap::new(), members: 0, frozen: false };
        Told::new(opened, Alone { key: Key::new(KEY).unwrap(), status: Mutex::new(status) })
    }
}
