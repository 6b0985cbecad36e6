//! A machine on which a member runs, crashes, is stopped, leaves and is started again.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::participant::{Running, Settings};
use leasehold::{MemberId, Participant};
use tokio::sync::watch;

use crate::gate::Gate;
use crate::store::FarStore;
use crate::time::{DRIFT_MAX_PPM, MachineClock};
use crate::work;
use crate::world::World;

/// One process on a machine: what the member in it lives by.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) machine: usize,
    pub(crate) gate: Gate,
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) settings: Settings,
    /// What whoever watches over children is told.
    pub(crate) trust: OnceLock<watch::Receiver<Option<Moment>>>,
}

/// What the work on a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Tasks: they look at their lease, and can be aborted.
    Tasks,
    /// Threads: they look at their lease, and cannot.
    Threads,
    /// Processes: they look at nothing, and are watched over.
    Children,
}

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    index: usize,
    settings: Settings,
    offset: Duration,
    rate_ppm: i64,
    wall_jump_ms: Arc<AtomicI64>,
    kind: Kind,
    sessions: Arc<AtomicU32>,
    present: Option<(Arc<Host>, Running)>,
    /// Processes that are on their way out.
    leaving: Vec<Arc<Host>>,
}

impl Machine {
    pub(crate) fn new(index: usize, settings: Settings, world: &World) -> Self {
        let (offset, rate_ppm, kind) = world.random(|rng| {
            let kind = [Kind::Tasks, Kind::Threads, Kind::Children][rng.usize(0..3)];
            let rate_ppm = match rng.u32(0..4) {
                0 => -DRIFT_MAX_PPM,
                1 => DRIFT_MAX_PPM,
                _ => rng.i64(-DRIFT_MAX_PPM..=DRIFT_MAX_PPM),
            };
            (rng.u64(0..1_000_000), rate_ppm, kind)
        });
        Self {
            index,
            settings,
            offset: Duration::from_secs(offset),
            rate_ppm,
            wall_jump_ms: Arc::default(),
            kind,
            sessions: Arc::default(),
            present: None,
            leaving: Vec::new(),
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The name under which its members are known.
    pub(crate) fn name(&self) -> String {
        format!("m{}", self.index)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.present.is_some()
    }

    pub(crate) async fn start(&mut self, world: &Arc<World>) {
        let gate = Gate::new(Arc::clone(&world.wakings));
        let jump = Arc::clone(&self.wall_jump_ms);
        let clock = MachineClock::new(world.time, self.offset, self.rate_ppm, jump, gate.clone());
        let host = Arc::new(Host {
            machine: self.index,
            gate,
            clock: Arc::new(clock),
            settings: self.settings.clone(),
            trust: OnceLock::new(),
        });
        let store = Arc::new(FarStore::new(Arc::clone(world), Arc::clone(&host)));
        let (sessions, index) = (Arc::clone(&self.sessions), self.index);
        let mut participant = Participant::join(store, world.pool.clone())
            .name(self.name())
            .and_then(|participant| participant.resources(&world.resources))
            .expect("ids that are ids")
            .settings(self.settings.clone())
            .clock(Arc::clone(&host.clock) as _)
            .ids(move || {
                let session = sessions.fetch_add(1, Ordering::Relaxed);
                MemberId::new(format!("m{index}-{session}")).expect("an id that is one")
            });
        if self.kind != Kind::Tasks {
            participant = participant.without_abort();
        }
        let kind = self.kind;
        let (its_world, its_host) = (Arc::clone(world), Arc::clone(&host));
        let running = participant
            .start(move |lease| {
                let (world, host) = (Arc::clone(&its_world), Arc::clone(&its_host));
                async move {
                    match kind {
                        Kind::Tasks => work::task(world, host, lease, true).await,
                        Kind::Threads => work::task(world, host, lease, false).await,
                        Kind::Children => work::supervise(world, host, lease).await,
                    }
                }
            })
            .await
            .expect("settings that fit together");
        let _ = host.trust.set(running.trusted_until());
        world.fault(format!("machine {index} is started"));
        self.present = Some((host, running));
    }

    /// The machine stops between two instructions and everything on it is gone.
    pub(crate) fn crash(&mut self, world: &World) {
        for host in self.leaving.drain(..) {
            host.gate.kill();
        }
        if let Some((host, _)) = self.present.take() {
            host.gate.kill();
            world.fault(format!("machine {} crashes", self.index));
        }
    }

    /// The member's process is stopped, and those on their way out with it; children, if there are any, go on.
    pub(crate) fn pause(&self, world: &World) -> Vec<Arc<Host>> {
        let hosts: Vec<Arc<Host>> = self.hosts().cloned().collect();
        for host in &hosts {
            host.gate.pause();
        }
        world.fault(format!("the processes on machine {} are stopped", self.index));
        hosts
    }

    pub(crate) fn resume(&self) {
        for host in self.hosts() {
            host.gate.resume();
        }
    }

    fn hosts(&self) -> impl Iterator<Item = &Arc<Host>> {
        self.present.iter().map(|(host, _)| host).chain(&self.leaving)
    }

    /// The member leaves in order.
    pub(crate) fn leave(&mut self, world: &World) {
        if let Some((host, running)) = self.present.take_if(|(host, _)| host.gate.runs()) {
            world.fault(format!("the member on machine {} leaves", self.index));
            self.leaving.push(host);
            tokio::spawn(running.leave());
        }
    }

    pub(crate) fn set_wall_clock(&self, world: &World, jump_ms: i64) {
        self.wall_jump_ms.fetch_add(jump_ms, Ordering::Relaxed);
        world.fault(format!("the wall clock of machine {} is set by {jump_ms} ms", self.index));
    }
}
