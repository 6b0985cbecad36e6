//! Whether a process runs: it may be stopped for a while, or be dead.

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    Paused,
    Dead,
}

/// What everything that wakes a process goes through: its timers, the store's answers and the hints. A process that
/// cannot be woken does nothing, which is what a stopped one does.
#[derive(Debug, Clone)]
pub(crate) struct Gate(watch::Sender<State>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(State::Runs))
    }

    fn become_state(&self, new: State) {
        self.0.send_if_modified(|state| {
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
        *self.0.borrow() == State::Runs
    }

    pub(crate) fn is_dead(&self) -> bool {
        *self.0.borrow() == State::Dead
    }

    /// Ends when the process runs; never, if it is dead.
    pub(crate) async fn open(&self) {
        if self.runs() {
            return;
        }
        let mut state = self.0.subscribe();
        if state.wait_for(|state| *state == State::Runs).await.is_err() {
            std::future::pending().await
        }
    }
}
