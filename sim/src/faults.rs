//! What goes wrong in a run, and when: drawn from its seed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::ResourceId;
use leasehold::store::memory::Snapshot;
use leasehold::store::{Cursor, LeaseStore, MarkKind, Registry, Revoked, Version};

use crate::history::What;
use crate::machine::Machine;
use crate::network::{Network, Weather};
use crate::world::World;

/// How often what the store knows is remembered, and for how many times, for stores that fall back on it.
const REMEMBER_EVERY: Duration = Duration::from_millis(200);
const REMEMBERED_MAX: usize = 60;

/// A fault.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Crash,
    Pause,
    Leave,
    CutOff,
    /// Answers come late, and then nothing gets through any more.
    Fading,
    Outage,
    /// The store fails over to a replica that lags.
    Failover,
    /// The store falls back to before a machine was cut off, as that machine returns.
    FallBackToOne,
    /// The store crashes and loses what it has not answered.
    CrashOfTheStore,
    Storm,
    WallClock,
    /// The store loses a session's record without a trace.
    LostSession,
    Revoke,
    Drain,
}

const FAULTS: [Fault; 14] = [
    Fault::Crash,
    Fault::Pause,
    Fault::Leave,
    Fault::CutOff,
    Fault::Fading,
    Fault::Outage,
    Fault::Failover,
    Fault::FallBackToOne,
    Fault::CrashOfTheStore,
    Fault::Storm,
    Fault::WallClock,
    Fault::LostSession,
    Fault::Revoke,
    Fault::Drain,
];

/// What the store knew, moment by moment.
type Past = Arc<Mutex<VecDeque<Snapshot>>>;

fn remember(past: &Past, snapshot: Snapshot) {
    let mut past = past.lock().unwrap_or_else(PoisonError::into_inner);
    past.push_back(snapshot);
    if past.len() > REMEMBERED_MAX {
        past.pop_front();
    }
}

/// Whatever goes wrong in a run.
pub(crate) struct Trouble {
    world: Arc<World>,
    past: Past,
    /// What this run is about: some runs see every kind of fault, some the same two again and again.
    kinds: Vec<Fault>,
}

impl Trouble {
    pub(crate) fn new(world: Arc<World>) -> Self {
        let past = Past::default();
        let (remembers, its_past) = (Arc::clone(&world), Arc::clone(&past));
        tokio::spawn(async move {
            while !remembers.is_healing() {
                remember(&its_past, remembers.store.snapshot());
                remembers.look_for_the_dead().await;
                remembers.time.sleep(REMEMBER_EVERY).await;
            }
        });
        let kinds = world.random(|rng| match rng.u32(0..3) {
            0 => FAULTS.to_vec(),
            _ => (0..rng.usize(1..=4)).map(|_| FAULTS[rng.usize(0..FAULTS.len())]).collect(),
        });
        Self { world, past, kinds }
    }

    /// Lets things go wrong for a while.
    pub(crate) async fn reign(&self, machines: &mut [Machine], span: Duration) {
        let world = &self.world;
        let count = world.random(|rng| rng.u32(1..=10));
        let mut moments: Vec<Duration> =
            (0..count).map(|_| world.random(|rng| span.mul_f64(rng.f64()))).collect();
        moments.sort_unstable();
        let begun = world.time.now();
        for at in moments {
            world.time.sleep((begun + at).saturating_sub(world.time.now())).await;
            let (kind, machine) = world
                .random(|rng| (self.kinds[rng.usize(0..self.kinds.len())], rng.usize(0..machines.len())));
            self.strike(kind, &mut machines[machine]).await;
        }
        world.time.sleep((begun + span).saturating_sub(world.time.now())).await;
    }

    /// A while between nothing and `ttls` TTLs, often about as long as trust or as silence lasts: that is where it
    /// matters.
    fn while_of(&self, ttls: f64) -> Duration {
        let share = self.world.random(|rng| match rng.u32(0..6) {
            0 if ttls > 1.0 => 0.70 + 0.1 * rng.f64(),
            1 if ttls > 1.0 => 0.85 + 0.1 * rng.f64(),
            2 if ttls > 1.0 => 0.95 + 0.1 * rng.f64(),
            _ => ttls * rng.f64(),
        });
        self.world.settings.ttl.mul_f64(share)
    }

    async fn strike(&self, kind: Fault, machine: &mut Machine) {
        let world = &self.world;
        // What has left for a while comes back, sometimes while its last process is still leaving.
        let returns = world.random(|rng| rng.bool());
        if !machine.is_up() && (matches!(kind, Fault::Leave) || returns) {
            return machine.start(world).await;
        }
        match kind {
            Fault::Crash => machine.crash(world),
            Fault::Leave => machine.leave(world),
            Fault::Pause => self.pause(machine),
            Fault::CutOff => self.cut_off(machine.index()),
            Fault::Fading => self.fade(machine.index()).await,
            Fault::Outage => self.outage(self.while_of(2.0)),
            Fault::Failover => self.fail_over(),
            Fault::FallBackToOne => self.fall_back_to(machine.index()).await,
            Fault::CrashOfTheStore => self.crash_the_store(),
            Fault::Storm => self.storm(machine.index()),
            Fault::WallClock => {
                let jump = world.random(|rng| rng.i64(-3_600_000..=3_600_000));
                machine.set_wall_clock(world, jump);
            }
            Fault::LostSession => self.lose_a_session().await,
            Fault::Revoke => self.revoke(),
            Fault::Drain => self.drain(machine.name()),
        }
    }

    /// Undoes something after a while, unless everything is mended by then.
    fn later(&self, after: Duration, undo: impl FnOnce(&World) + Send + 'static) {
        let world = Arc::clone(&self.world);
        tokio::spawn(async move {
            world.time.sleep(after).await;
            if !world.is_healing() {
                undo(&world);
            }
        });
    }

    fn pause(&self, machine: &Machine) {
        let (hosts, index) = (machine.pause(&self.world), machine.index());
        self.later(self.while_of(2.5), move |world| {
            for host in hosts {
                host.gate.resume();
            }
            world.fault(format!("the processes on machine {index} go on"));
        });
    }

    async fn fade(&self, index: usize) {
        let world = &self.world;
        let timeout = world.settings.call_timeout;
        let fading = |network: &Network| Weather { slow_answer: 900, slow_max: timeout, ..network.weather };
        world.network(|network| network.local.insert(index, fading(network)));
        world.fault(format!("what machine {index} gets is slow"));
        world.time.sleep(self.while_of(1.0)).await;
        world.network(|network| network.local.remove(&index));
        self.cut_off(index);
    }

    fn cut_off(&self, index: usize) {
        let (requests, answers) = self.world.random(|rng| match rng.u32(0..4) {
            0 => (true, false),
            1 => (false, true),
            _ => (true, true),
        });
        self.world.network(|network| network.cut(index, requests, answers));
        self.world.happened(What::CutOff(index));
        self.later(self.while_of(2.5), move |world| world.reconnect(index));
    }

    async fn fall_back_to(&self, index: usize) {
        let before = self.world.store.snapshot();
        self.world.network(|network| network.cut(index, true, true));
        self.world.happened(What::CutOff(index));
        let away = self.world.random(|rng| self.world.settings.ttl.mul_f64(1.0 + rng.f64()));
        self.world.time.sleep(away).await;
        self.fall_back(&before);
        self.world.reconnect(index);
    }

    fn outage(&self, span: Duration) {
        self.world.network(|network| network.store_down = true);
        self.world.happened(What::StoreDown);
        self.later(span, |world| {
            world.network(|network| network.store_down = false);
            world.happened(What::StoreUp);
        });
    }

    fn fail_over(&self) {
        self.outage(self.while_of(0.5));
        let remembered = {
            let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
            let back = self.world.random(|rng| rng.usize(0..past.len().max(1)));
            past.get(past.len().saturating_sub(back + 1)).cloned()
        };
        if let Some(snapshot) = remembered {
            self.fall_back(&snapshot);
        }
    }

    fn fall_back(&self, snapshot: &Snapshot) {
        self.world.network(|network| network.crashes += 1);
        self.world.store.restore(snapshot);
        self.world.forget_the_dead();
        self.world.fault("the store fails over and forgets");
    }

    fn crash_the_store(&self) {
        if self.world.network(|network| network.store_mute) {
            return;
        }
        let snapshot = self.world.store.snapshot();
        self.world.network(|network| {
            network.store_mute = true;
            network.crashes += 1;
        });
        self.world.fault("the store takes calls in and answers none");
        let world = Arc::clone(&self.world);
        let span = self.while_of(0.3);
        tokio::spawn(async move {
            world.time.sleep(span).await;
            if world.is_healing() {
                return;
            }
            world.store.lose_unanswered(&snapshot);
            world.forget_the_dead();
            world.network(|network| {
                network.store_mute = false;
                network.crashes += 1;
            });
            world.fault("the store has crashed, lost what it did not answer, and is back");
        });
    }

    fn storm(&self, index: usize) {
        let storm = self.world.random(|rng| self.world.network(|network| network.weather.storm(rng)));
        self.world.network(|network| network.local.insert(index, storm));
        self.world.fault(format!("much that machine {index} sends or gets is slow or lost"));
        self.later(self.while_of(5.0), move |world| {
            world.network(|network| network.local.remove(&index));
            world.fault(format!("machine {index} has the network that the others have"));
        });
    }

    async fn lose_a_session(&self) {
        let Ok(sessions) = self.world.store.sessions(&self.world.pool, Cursor::START).await else { return };
        let living: Vec<_> = sessions.items.iter().filter(|session| !session.ended).collect();
        if !living.is_empty() {
            let lost = &living[self.world.random(|rng| rng.usize(0..living.len()))].id;
            self.world.store.lose_session(lost);
            self.world.fault(format!("the store loses the record of {lost}"));
        }
    }

    /// An operator takes a lease away. Where its holder does not give it back, the others free it in their time.
    fn revoke(&self) {
        let world = Arc::clone(&self.world);
        tokio::spawn(async move {
            let Ok(leases) = world.store.leases(&world.pool, Cursor::START).await else { return };
            let held: Vec<_> = leases.items.iter().filter(|lease| lease.holder.is_some()).collect();
            if held.is_empty() || world.network(|network| network.store_mute) {
                return;
            }
            let lease = held[world.random(|rng| rng.usize(0..held.len()))];
            let term = leasehold::Term { resource: lease.resource.clone(), token: lease.token };
            if let Ok(Revoked::Marked) = world.store.revoke(&world.pool, &term).await {
                world.fault(format!("an operator revokes {} token {}", term.resource, term.token));
            }
        });
    }

    fn drain(&self, name: String) {
        let world = Arc::clone(&self.world);
        let span = self.while_of(4.0);
        tokio::spawn(async move {
            world.mark(&name, true).await;
            world.time.sleep(span).await;
            world.mark(&name, false).await;
        });
    }
}

impl World {
    /// Drains a member, or lets it work again.
    pub(crate) async fn mark(&self, name: &str, drained: bool) {
        let Ok(marks) = self.store.marks(&self.pool, Cursor::START).await else { return };
        let present = marks.items.iter().find(|mark| mark.kind == MarkKind::Drain && mark.subject == name);
        let version = present.map_or(Version(0), |mark| mark.version);
        let value = drained.then_some("simulated");
        if present.is_some_and(|mark| mark.value.is_some()) != drained {
            let _ = self.store.set_mark(&self.pool, MarkKind::Drain, name, value, version).await;
            self.fault(format!("{name} is {}", if drained { "drained" } else { "no longer drained" }));
        }
    }

    fn reconnect(&self, machine: usize) {
        self.network(|network| network.reconnect(machine));
        self.happened(What::Reconnected(machine));
    }

    /// Everything that can be mended is.
    pub(crate) async fn mend(&self, machines: &mut [Machine], world: &Arc<Self>) {
        self.begin_healing();
        self.network(|network| {
            network.weather = Weather::CALM;
            network.local.clear();
            network.deaf_store.clear();
            network.deaf_machine.clear();
            network.store_down = false;
            network.store_mute = false;
        });
        for machine in machines {
            machine.resume();
            self.mark(&machine.name(), false).await;
            if !machine.is_up() {
                machine.start(world).await;
            }
        }
    }

    /// The resources of a run.
    pub(crate) fn resources(count: usize) -> Vec<ResourceId> {
        (0..count).map(|number| ResourceId::new(format!("r{number}")).expect("an id that is one")).collect()
    }
}
