//! Calls on their way to a thread: heartbeats before the rest, and a limit on both.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many calls may wait.
const WAITING_MAX: usize = 16_384;

/// What waits for one thread.
pub(super) struct Queue<J> {
    waiting: Mutex<Waiting<J>>,
    came: Condvar,
}

impl<J> fmt::Debug for Queue<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.lock();
        f.debug_struct("Queue")
            .field("urgent", &waiting.urgent.len())
            .field("rest", &waiting.rest.len())
            .field("closed", &waiting.closed)
            .finish_non_exhaustive()
    }
}

struct Waiting<J> {
    urgent: VecDeque<J>,
    rest: VecDeque<J>,
    /// Whether the last batch was urgent: then the rest has its turn, however many heartbeats there are.
    rest_is_next: bool,
    /// For how many whoever takes them sleeps, unless one is urgent; `None` while nobody sleeps. To wake somebody costs a call of the
    /// system even if nobody is there.
    awaited: Option<usize>,
    closed: bool,
}

impl<J> Waiting<J> {
    fn len(&self) -> usize {
        self.urgent.len() + self.rest.len()
    }

    fn suffices(&self, wanted: usize) -> bool {
        self.closed || !self.urgent.is_empty() || self.rest.len() >= wanted.max(1)
    }

    /// Whether somebody is to be woken, who then sleeps no more.
    fn wakes(&mut self) -> bool {
        let wakes = self.awaited.is_some_and(|wanted| self.suffices(wanted));
        if wakes {
            self.awaited = None;
        }
        wakes
    }
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        let (urgent, rest) = Default::default();
        let waiting = Waiting { urgent, rest, rest_is_next: false, awaited: None, closed: false };
        Self { waiting: Mutex::new(waiting), came: Condvar::new() }
    }
}

impl<J> Queue<J> {
    /// Puts a job in; `false` if nobody will take it.
    pub(super) fn push(&self, job: J, urgent: bool) -> bool {
        let mut waiting = self.lock();
        if waiting.closed || waiting.len() >= WAITING_MAX {
            return false;
        }
        if urgent {
            waiting.urgent.push_back(job)
        } else {
            waiting.rest.push_back(job)
        }
        let wakes = waiting.wakes();
        drop(waiting);
        if wakes {
            self.came.notify_one();
        }
        true
    }

    /// Waits for jobs and takes up to `max`, all urgent or none; `None` once the queue is closed and empty.
    pub(super) fn take(&self, max: usize) -> Option<Vec<J>> {
        self.take_together(max, 1, Duration::ZERO)
    }

    /// The same, with some patience for `wanted` of them once there is one.
    pub(super) fn take_together(&self, max: usize, wanted: usize, patience: Duration) -> Option<Vec<J>> {
        let mut waiting = self.lock();
        while !waiting.suffices(1) {
            waiting.awaited = Some(1);
            waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if !waiting.suffices(wanted) && !patience.is_zero() {
            let few = |waiting: &mut Waiting<J>| {
                let few = !waiting.suffices(wanted);
                waiting.awaited = few.then_some(wanted);
                few
            };
            let waited = self.came.wait_timeout_while(waiting, patience, few);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.awaited = None;
        if waiting.len() == 0 {
            return None;
        }
        let rest_has_turn = waiting.rest_is_next && !waiting.rest.is_empty();
        let urgent = !waiting.urgent.is_empty() && !rest_has_turn;
        waiting.rest_is_next = urgent;
        let from = if urgent { &mut waiting.urgent } else { &mut waiting.rest };
        let count = from.len().min(max);
        Some(from.drain(..count).collect())
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Takes nothing more in; what waits is still taken out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.came.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a queue when its thread ends, however it ends; what still waits there is dropped unanswered.
pub(super) struct CloseOnExit<'q, J>(pub(super) &'q Queue<J>);

impl<J> Drop for CloseOnExit<'_, J> {
    fn drop(&mut self) {
        self.0.close();
        while self.0.take(usize::MAX).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_jobs_come_first_and_the_rest_is_not_starved() {
        let queue = Queue::default();
        for job in ["a", "b"] {
            assert!(queue.push(job, false));
        }
        for job in ["x", "y", "z"] {
            assert!(queue.push(job, true));
        }
        assert_eq!(queue.take(2), Some(vec!["x", "y"]));
        assert_eq!(queue.take(1), Some(vec!["a"]));
        assert_eq!(queue.take(9), Some(vec!["z"]));
        assert_eq!(queue.take(9), Some(vec!["b"]));
    }

    #[test]
    fn who_is_patient_takes_those_who_come_together() {
        let queue = Queue::default();
        let long = Duration::from_secs(60);
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| queue.take_together(9, 3, long));
            for job in ["a", "b", "c"] {
                assert!(queue.push(job, false));
            }
            assert_eq!(taken.join().expect("taken"), Some(vec!["a", "b", "c"]));
        });
        assert!(queue.push("d", false));
        assert_eq!(queue.take_together(9, 3, Duration::from_millis(1)), Some(vec!["d"]), "no more came");
        assert!(queue.push("e", false) && queue.push("x", true));
        assert_eq!(queue.take_together(9, 3, long), Some(vec!["x"]), "a heartbeat waits for nobody");
        queue.close();
        assert_eq!(queue.take_together(9, 3, long), Some(vec!["e"]), "nobody else will come");
        assert_eq!(queue.take_together(9, 3, long), None);
    }

    #[test]
    fn whoever_sleeps_is_woken_by_as_many_as_it_sleeps_for() {
        let (queue, long) = (Queue::default(), Duration::from_secs(60));
        let sleeps_for = |wanted: usize| {
            while queue.lock().awaited != Some(wanted) {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| queue.take_together(9, 2, long));
            sleeps_for(1);
            assert!(queue.push("a", false));
            sleeps_for(2);
            assert!(queue.push("b", false));
            assert_eq!(taken.join().expect("taken"), Some(vec!["a", "b"]));
            assert_eq!(queue.lock().awaited, None, "nobody sleeps");
            let taken = scope.spawn(|| queue.take_together(9, 2, long));
            sleeps_for(1);
            assert!(queue.push("c", false));
            sleeps_for(2);
            assert!(queue.push("x", true));
            assert_eq!(taken.join().expect("taken"), Some(vec!["x"]), "by a heartbeat at once");
            assert_eq!(queue.take(9), Some(vec!["c"]));
            let taken = scope.spawn(|| queue.take(9));
            sleeps_for(1);
            queue.close();
            assert_eq!(taken.join().expect("taken"), None, "by the end as well");
        });
    }

    #[test]
    fn a_closed_queue_gives_out_what_it_has_and_takes_nothing_in() {
        let queue = Queue::default();
        assert!(queue.push(1, false));
        queue.close();
        assert!(!queue.push(2, false));
        assert_eq!(queue.take(9), Some(vec![1]));
        assert_eq!(queue.take(9), None);
    }
}
