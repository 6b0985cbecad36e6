//! A line to the store: counts what is asked over it, and can be cut.
//!
//! A member whose line is cut gets no more answers, as if its machine had died, and knows nothing of it.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold::clock::{self, Moment};
use leasehold::store::StoreError;
use leasehold::store::around::Manner;

/// How many calls were made over all lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<AtomicU64>);

impl Tally {
    pub(super) fn calls(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Whole,
    /// It is cut as soon as the next heartbeat was confirmed: nobody can have been heard later than that.
    Ending,
    Cut(Moment),
}

/// One line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    tally: Tally,
    state: Arc<Mutex<State>>,
}

impl Line {
    pub(super) fn new(tally: &Tally) -> Self {
        Self { tally: tally.clone(), state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it cut after the next confirmed heartbeat.
    pub(super) fn cut(&self) {
        *self.state() = State::Ending;
    }

    /// Makes it whole again.
    pub(super) fn mend(&self) {
        *self.state() = State::Whole;
    }

    /// When it was cut, if it is.
    pub(super) fn cut_at(&self) -> Option<Moment> {
        match *self.state() {
            State::Cut(at) => Some(at),
            _ => None,
        }
    }
}

impl Manner for Line {
    async fn around<T: Send>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        if self.cut_at().is_some() {
            return pending().await;
        }
        self.tally.0.fetch_add(1, Ordering::Relaxed);
        let answer = answer.await;
        if call == "beat" && answer.is_ok() {
            let mut state = self.state();
            if *state == State::Ending {
                *state = State::Cut(clock::now());
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Whether a store that answers at once is heard.
    fn asks(line: &Line, call: &'static str) -> bool {
        line.around(call, async { Ok(()) }).now_or_never().is_some()
    }

    #[test]
    fn a_line_is_cut_after_a_heartbeat_and_can_be_mended() {
        let tally = Tally::default();
        let line = Line::new(&tally);
        assert!(asks(&line, "beat") && line.cut_at().is_none());
        line.cut();
        assert!(asks(&line, "sessions") && line.cut_at().is_none(), "it waits for a heartbeat");
        assert!(asks(&line, "beat") && line.cut_at().is_some());
        assert!(!asks(&line, "beat"));
        assert_eq!(tally.calls(), 3, "what was never asked is not counted");
        line.mend();
        assert!(asks(&line, "beat"));
    }
}
