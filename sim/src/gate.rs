//! Whether a process runs: it may be stopped for a while, or be dead.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

/// How often something may wake a process in one run, which is many times what any run takes that ends.
pub(crate) const WAKINGS_MAX: u64 = 1_000_000;

/// How often processes may still be woken: a run that never ends uses it up.
#[derive(Debug)]
pub(crate) struct Wakings {
    left: AtomicU64,
    used_up: Notify,
}

impl Wakings {
    pub(crate) fn new(most: u64) -> Self {
        Self { left: AtomicU64::new(most), used_up: Notify::new() }
    }

    /// Ends when there are none left.
    pub(crate) async fn used_up(&self) {
        self.used_up.notified().await;
    }

    /// Takes one, if there is one left.
    fn take(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok();
        if !taken {
            self.used_up.notify_one();
        }
        taken
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    Paused,
    Dead,
}

/// What everything that wakes a process goes through: its timers, the store's answers and the hints. A process that
/// cannot be woken does nothing, which is what a stopped one does.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: watch::Sender<State>,
    wakings: Arc<Wakings>,
}

impl Gate {
    pub(crate) fn new(wakings: Arc<Wakings>) -> Self {
        Self(Arc::new(Shared { state: watch::Sender::new(State::Runs), wakings }))
    }

    fn become_state(&self, new: State) {
        self.0.state.send_if_modified(|state| {
            let change = *state != State::Dead && *state != new;
            if change {
                *state = new;
            }
            change
        });
    }

    pub(crate) fn pause(&self) {
        self.become_state(State::Paused);
    }

    pub(crate) fn resume(&self) {
        self.become_state(State::Runs);
    }

    /// For good: a process that is started again is another one.
    pub(crate) fn kill(&self) {
        self.become_state(State::Dead);
    }

    pub(crate) fn runs(&self) -> bool {
        *self.0.state.borrow() == State::Runs
    }

    pub(crate) fn is_dead(&self) -> bool {
        *self.0.state.borrow() == State::Dead
    }

    /// Ends when the process runs; never, if it is dead or the run has gone on for too long.
    pub(crate) async fn open(&self) {
        if !self.0.wakings.take() {
            return std::future::pending().await;
        }
        if !self.runs() {
            self.opened().await;
        }
    }

    /// Boxed, because it is seldom waited for and all that waits would have to have room for it.
    fn opened(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            let mut state = self.0.state.subscribe();
            if state.wait_for(|state| *state == State::Runs).await.is_err() {
                std::future::pending().await
            }
        })
    }
}
