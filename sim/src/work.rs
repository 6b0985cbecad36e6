//! Work as it is in the world: prompt, slow to stop, wedged, or done before anybody expects it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::Lease;
use leasehold::clock::{Clock, Moment};
use tokio::sync::Notify;

use crate::history::Worker;
use crate::machine::Host;
use crate::world::World;

/// How often work does something to its resource.
const STEP: Duration = Duration::from_millis(100);

/// How work takes the word to stop.
#[derive(Debug, Clone, Copy)]
enum Temper {
    /// It ends at once.
    Prompt,
    /// It ends after a while.
    Slow(Duration),
    /// It does not hear.
    Wedged,
    /// It ends by itself after a while, and otherwise at once.
    Brief(Duration),
}

impl Temper {
    fn draw(world: &World, host: &Host) -> Self {
        let grace = host.settings.grace.as_millis() as u64;
        let healing = world.is_healing();
        world.random(|rng| match rng.u32(0..10) {
            0..5 => Self::Prompt,
            5..7 => Self::Slow(Duration::from_millis(rng.u64(0..=2 * grace))),
            7..9 => Self::Wedged,
            _ if healing => Self::Prompt,
            _ => Self::Brief(Duration::from_millis(rng.u64(0..=10 * grace))),
        })
    }

    /// How long it goes on once it was told to stop.
    fn delay(self) -> Duration {
        match self {
            Self::Prompt | Self::Brief(_) => Duration::ZERO,
            Self::Slow(delay) => delay,
            Self::Wedged => Duration::MAX,
        }
    }

    /// How long it lasts if nobody stops it.
    fn span(self) -> Duration {
        if let Self::Brief(span) = self { span } else { Duration::MAX }
    }
}

/// Says that work has ended, however it ends.
struct Underway {
    world: Arc<World>,
    worker: Worker,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.world.ends(&self.worker);
    }
}

fn worker_of(lease: &Lease, host: &Host) -> Worker {
    let term = leasehold::Term { resource: lease.resource().clone(), token: lease.token() };
    Worker { term, member: lease.member().clone(), machine: host.machine }
}

/// Work that is a task or a thread: it looks at its lease each time before it does something. One that can be aborted
/// may not end in any other way.
pub(crate) async fn task(world: Arc<World>, host: Arc<Host>, lease: Lease, aborts: bool) {
    let worker = worker_of(&lease, &host);
    let temper = Temper::draw(&world, &host);
    world.begins(&worker, &lease, &host, None);
    let underway = Underway { world: Arc::clone(&world), worker: worker.clone() };
    let mut last = host.clock.now().after(temper.span());
    let mut told = false;
    while lease.term().is_ok() && host.clock.now() < last {
        // Even a wedged thread comes round once nothing goes wrong any more.
        if told && !aborts && world.is_healing() {
            break;
        }
        world.acts(&worker);
        tokio::select! {
            biased;
            _ = lease.lost(), if !told => {
                told = true;
                last = last.min(host.clock.now().after(temper.delay()));
            }
            () = host.clock.sleep(STEP) => {}
        }
    }
    if matches!(temper, Temper::Wedged) && aborts {
        std::future::pending::<()>().await;
    }
    drop(underway);
}

/// A process that works by itself: it never looks at a lease, and lives until it ends, is killed, or whoever watches
/// over it sees trust end.
#[derive(Debug)]
pub(crate) struct Child {
    host: Arc<Host>,
    told: AtomicBool,
    killed: AtomicBool,
    ended: AtomicBool,
    over: Notify,
}

impl Child {
    pub(crate) fn lives(&self) -> bool {
        let trusted = self.host.trust.get().and_then(|trust| *trust.borrow());
        !self.ended.load(Ordering::Relaxed)
            && !self.killed.load(Ordering::Relaxed)
            && !self.host.gate.is_dead()
            && trusted.is_some_and(|until| self.host.clock.now() < until)
    }

    async fn run(self: Arc<Self>, world: Arc<World>, worker: Worker, temper: Temper) {
        let mut last = world.time.now().saturating_add(temper.span());
        let mut told = false;
        while self.lives() && world.time.now() < last {
            world.acts(&worker);
            world.time.sleep(STEP).await;
            if !told && self.told.load(Ordering::Relaxed) {
                told = true;
                last = last.min(world.time.now().saturating_add(temper.delay()));
            }
        }
        self.ended.store(true, Ordering::Relaxed);
        world.ends(&worker);
        self.over.notify_one();
    }
}

/// Work that is a process, and the supervisor's part in its life.
pub(crate) async fn supervise(world: Arc<World>, host: Arc<Host>, lease: Lease) {
    let worker = worker_of(&lease, &host);
    let temper = Temper::draw(&world, &host);
    let child = Arc::new(Child {
        host: Arc::clone(&host),
        told: AtomicBool::new(false),
        killed: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        over: Notify::new(),
    });
    world.begins(&worker, &lease, &host, Some(Arc::clone(&child)));
    tokio::spawn(Arc::clone(&child).run(Arc::clone(&world), worker, temper));
    tokio::select! {
        biased;
        () = child.over.notified() => return host.gate.open().await,
        _ = lease.lost() => child.told.store(true, Ordering::Relaxed),
    }
    let deadline: Moment = host.clock.now().after(host.settings.grace).min(lease.trusted_until());
    tokio::select! {
        biased;
        () = child.over.notified() => {}
        () = host.clock.sleep_until(deadline) => {
            child.killed.store(true, Ordering::Relaxed);
            child.over.notified().await;
        }
    }
    host.gate.open().await;
}
