//! A machine on which a member runs, crashes, is stopped, leaves and is started again.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::participant::Running;
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
    /// What whoever watches over children is told.
    pub(crate) trust: OnceLock<watch::Receiver<Option<Moment>>>,
}

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    index: usize,
    offset: Duration,
    rate_ppm: i64,
    wall_jump_ms: Arc<AtomicI64>,
    /// Whether its work is processes, which are watched over, or tasks, which look at their lease.
    has_children: bool,
    sessions: Arc<AtomicU32>,
    present: Option<(Arc<Host>, Running)>,
}

impl Machine {
    pub(crate) fn new(index: usize, world: &World) -> Self {
        let (offset, rate_ppm, has_children) =
            world.random(|rng| (rng.u64(0..1_000_000), rng.i64(-DRIFT_MAX_PPM..=DRIFT_MAX_PPM), rng.bool()));
        Self {
            index,
            offset: Duration::from_secs(offset),
            rate_ppm,
            wall_jump_ms: Arc::default(),
            has_children,
            sessions: Arc::default(),
            present: None,
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
        let gate = Gate::new();
        let jump = Arc::clone(&self.wall_jump_ms);
        let clock = MachineClock::new(world.time, self.offset, self.rate_ppm, jump, gate.clone());
        let host =
            Arc::new(Host { machine: self.index, gate, clock: Arc::new(clock), trust: OnceLock::new() });
        let store = Arc::new(FarStore::new(Arc::clone(world), Arc::clone(&host)));
        let (sessions, index) = (Arc::clone(&self.sessions), self.index);
        let mut participant = Participant::join(store, world.pool.clone())
            .name(self.name())
            .and_then(|participant| participant.resources(&world.resources))
            .expect("ids that are ids")
            .settings(world.settings.clone())
            .clock(Arc::clone(&host.clock) as _)
            .ids(move || {
                let session = sessions.fetch_add(1, Ordering::Relaxed);
                MemberId::new(format!("m{index}-{session}")).expect("an id that is one")
            });
        if self.has_children {
            participant = participant.without_abort();
        }
        let has_children = self.has_children;
        let (its_world, its_host) = (Arc::clone(world), Arc::clone(&host));
        let running = participant
            .start(move |lease| {
                let (world, host) = (Arc::clone(&its_world), Arc::clone(&its_host));
                async move {
                    if has_children {
                        work::supervise(world, host, lease).await;
                    } else {
                        work::task(world, host, lease).await;
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
        if let Some((host, _)) = self.present.take() {
            host.gate.kill();
            world.fault(format!("machine {} crashes", self.index));
        }
    }

    /// The member's process is stopped; its children, if it has any, go on.
    pub(crate) fn pause(&self, world: &World) -> Option<Arc<Host>> {
        let (host, _) = self.present.as_ref()?;
        host.gate.pause();
        world.fault(format!("the process on machine {} is stopped", self.index));
        Some(Arc::clone(host))
    }

    pub(crate) fn resume(&self) {
        if let Some((host, _)) = &self.present {
            host.gate.resume();
        }
    }

    /// The member leaves in order.
    pub(crate) fn leave(&mut self, world: &World) {
        if let Some((host, running)) = self.present.take_if(|(host, _)| host.gate.runs()) {
            world.fault(format!("the member on machine {} leaves", self.index));
            tokio::spawn(async move {
                running.leave().await;
                drop(host);
            });
        }
    }

    pub(crate) fn set_wall_clock(&self, world: &World, jump_ms: i64) {
        self.wall_jump_ms.fetch_add(jump_ms, Ordering::Relaxed);
        world.fault(format!("the wall clock of machine {} is set by {jump_ms} ms", self.index));
    }
}
