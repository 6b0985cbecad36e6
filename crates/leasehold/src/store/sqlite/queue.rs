//! Calls on their way to a thread: heartbeats before the rest, and a limit on both.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
    closed: bool,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        let waiting =
            Waiting { urgent: VecDeque::new(), rest: VecDeque::new(), rest_is_next: false, closed: false };
        Self { waiting: Mutex::new(waiting), came: Condvar::new() }
    }
}

impl<J> Queue<J> {
    /// Puts a job in; `false` if nobody will take it.
    pub(super) fn push(&self, job: J, urgent: bool) -> bool {
        let mut waiting = self.lock();
        if waiting.closed || waiting.urgent.len() + waiting.rest.len() >= WAITING_MAX {
            return false;
        }
        if urgent {
            waiting.urgent.push_back(job)
        } else {
            waiting.rest.push_back(job)
        }
        drop(waiting);
        self.came.notify_one();
        true
    }

    /// Waits for jobs and says how many there are; `None` once the queue is closed and empty.
    pub(super) fn wait(&self) -> Option<usize> {
        self.some_wait().map(|waiting| waiting.urgent.len() + waiting.rest.len())
    }

    fn some_wait(&self) -> Option<MutexGuard<'_, Waiting<J>>> {
        let mut waiting = self.lock();
        while waiting.urgent.is_empty() && waiting.rest.is_empty() {
            if waiting.closed {
                return None;
            }
            waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        Some(waiting)
    }

    /// Waits for jobs and takes up to `max`, all urgent or none; `None` once the queue is closed and empty.
    pub(super) fn take(&self, max: usize) -> Option<Vec<J>> {
        let mut waiting = self.some_wait()?;
        let rest_has_turn = waiting.rest_is_next && !waiting.rest.is_empty();
        let urgent = !waiting.urgent.is_empty() && !rest_has_turn;
        waiting.rest_is_next = urgent;
        let from = if urgent { &mut waiting.urgent } else { &mut waiting.rest };
        let count = from.len().min(max);
        Some(from.drain(..count).collect())
    }

    /// Whether anything waits.
    pub(super) fn has_more(&self) -> bool {
        let waiting = self.lock();
        !waiting.urgent.is_empty() || !waiting.rest.is_empty()
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
    fn a_closed_queue_gives_out_what_it_has_and_takes_nothing_in() {
        let queue = Queue::default();
        assert!(queue.push(1, false));
        queue.close();
        assert!(!queue.push(2, false));
        assert_eq!(queue.take(9), Some(vec![1]));
        assert_eq!(queue.take(9), None);
    }
}
