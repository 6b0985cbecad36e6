//! The world of one run: the store, the network, who works on what, and everything that happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::participant::Settings;
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Cursor, LeaseStore};
use leasehold::{Lease, MemberId, Pool, ResourceId};

use crate::gate::{Gate, Wakings};
use crate::history::{Happened, What, Worker};
use crate::machine::Host;
use crate::network::{Fate, Network, Weather};
use crate::time::{MachineClock, TrueTime};
use crate::work::Child;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) time: TrueTime,
    /// Those of the members with the longest TTL.
    pub(crate) settings: Settings,
    pub(crate) pool: Pool,
    pub(crate) resources: Vec<ResourceId>,
    pub(crate) store: MemoryStore,
    pub(crate) wakings: Arc<Wakings>,
    healing: AtomicBool,
    network: Mutex<Network>,
    rng: Mutex<fastrand::Rng>,
    events: Mutex<Vec<Happened>>,
    working: Mutex<BTreeMap<ResourceId, Vec<Working>>>,
    dead: Mutex<BTreeSet<MemberId>>,
}

/// Work that is under way.
#[derive(Debug, Clone)]
struct Working {
    worker: Worker,
    lease: Lease,
    host: Arc<Host>,
    child: Option<Arc<Child>>,
}

impl Working {
    /// A process works as long as it lives; a task as long as it finds its lease held.
    fn believes(&self) -> bool {
        if self.host.gate.is_dead() {
            return false;
        }
        match &self.child {
            Some(child) => child.lives(),
            None => self.lease.term().is_ok(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(
        mut rng: fastrand::Rng,
        settings: Settings,
        pool: Pool,
        resources: Vec<ResourceId>,
        wakings: Wakings,
    ) -> Self {
        let time = TrueTime::begin();
        let wakings = Arc::new(wakings);
        let weather = Weather::of_run(&mut rng, settings.call_timeout);
        let clock =
            MachineClock::new(time, Duration::ZERO, 0, Arc::default(), Gate::new(Arc::clone(&wakings)));
        Self {
            time,
            settings,
            pool,
            resources,
            store: MemoryStore::with_clock(Arc::new(clock)),
            wakings,
            healing: AtomicBool::new(false),
            network: Mutex::new(Network::new(weather)),
            rng: Mutex::new(rng),
            events: Mutex::default(),
            working: Mutex::default(),
            dead: Mutex::default(),
        }
    }

    pub(crate) fn happened(&self, what: What) {
        lock(&self.events).push(Happened { at: self.time.now(), what });
    }

    pub(crate) fn fault(&self, what: impl Into<String>) {
        self.happened(What::Fault(what.into()));
    }

    pub(crate) fn take_events(&self) -> Vec<Happened> {
        std::mem::take(&mut *lock(&self.events))
    }

    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut lock(&self.rng))
    }

    pub(crate) fn network<T>(&self, look: impl FnOnce(&mut Network) -> T) -> T {
        look(&mut lock(&self.network))
    }

    pub(crate) fn fate(&self, machine: usize) -> Fate {
        self.random(|rng| self.network(|network| network.fate(machine, rng)))
    }

    pub(crate) fn copies_of_a_hint(&self, machine: usize) -> u32 {
        let (weather, connected) = self.network(|network| {
            (network.weather_of(machine), !network.store_down && !network.deaf_machine.contains(&machine))
        });
        let happens = |chance: u32| chance > 0 && self.random(|rng| rng.u32(0..1000)) < chance;
        match connected && !happens(weather.hint_lost) {
            true => 1 + u32::from(happens(weather.hint_twice)),
            false => 0,
        }
    }

    pub(crate) fn is_healing(&self) -> bool {
        self.healing.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_healing(&self) {
        self.healing.store(true, Ordering::Relaxed);
        self.happened(What::Healing);
    }

    /// Waits until the store has heard of the longest TTL: what it is rolled back to later must know of it, as what
    /// lies beside a file does.
    pub(crate) async fn know_the_longest_ttl(&self, ttl: Duration) {
        while !self
            .store
            .sessions(&self.pool, Cursor::START)
            .await
            .is_ok_and(|known| known.era.ttl_max >= ttl)
        {
            self.time.sleep(Duration::from_millis(50)).await;
        }
    }

    /// Looks whether the store shows a session alive that it has shown as ended.
    pub(crate) async fn look_for_the_dead(&self) {
        let Ok(sessions) = self.store.sessions(&self.pool, Cursor::START).await else { return };
        let mut dead = lock(&self.dead);
        for session in sessions.items {
            if session.ended {
                dead.insert(session.id);
            } else if dead.remove(&session.id) {
                self.happened(What::Returned(session.id));
            }
        }
    }

    /// The store has fallen back: what it knew of ends does not count any more.
    pub(crate) fn forget_the_dead(&self) {
        lock(&self.dead).clear();
    }

    pub(crate) fn begins(&self, worker: &Worker, lease: &Lease, host: &Arc<Host>, child: Option<Arc<Child>>) {
        self.happened(What::Began(worker.clone(), self.others(worker)));
        let working = Working { worker: worker.clone(), lease: lease.clone(), host: Arc::clone(host), child };
        lock(&self.working).entry(worker.term.resource.clone()).or_default().push(working);
    }

    pub(crate) fn acts(&self, worker: &Worker) {
        self.happened(What::Acted(worker.clone(), self.others(worker)));
    }

    pub(crate) fn ends(&self, worker: &Worker) {
        if let Some(working) = lock(&self.working).get_mut(&worker.term.resource) {
            working.retain(|other| other.worker != *worker);
        }
        self.happened(What::Ended(worker.clone()));
    }

    /// Who else believes that the worker's resource is its own.
    fn others(&self, worker: &Worker) -> Vec<Worker> {
        self.believers(&worker.term.resource, |other| other != worker)
    }

    /// Who believes that a resource is its own, of those that count.
    fn believers(&self, resource: &ResourceId, counts: impl Fn(&Worker) -> bool) -> Vec<Worker> {
        let working = lock(&self.working);
        let here = working.get(resource).into_iter().flatten();
        let believers = here.filter(|working| counts(&working.worker) && working.believes());
        believers.map(|working| working.worker.clone()).collect()
    }

    /// What is not yet as it should be among machines that all run: a resource without exactly one worker, or a load
    /// that is not even.
    pub(crate) fn is_amiss(&self, machines: usize) -> Option<String> {
        let mut loads = vec![0_u32; machines];
        for resource in &self.resources {
            let believers = self.believers(resource, |_| true);
            let [worker] = believers.as_slice() else {
                return Some(format!("{resource} has {} workers", believers.len()));
            };
            loads[worker.machine] += 1;
        }
        let (least, most) = (loads.iter().min().copied()?, loads.iter().max().copied()?);
        (most - least > 1).then(|| format!("the loads are {loads:?}"))
    }
}
