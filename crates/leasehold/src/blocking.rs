//! The participant for programs without an async runtime: work runs on a thread for each lease.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};

use crate::participant::{JoinError, Lease, Participant, Running, Status};

/// A member that takes part on a runtime of its own. Dropping it makes the member leave, and waits for that.
///
/// ```
/// use std::sync::Arc;
/// use leasehold::{Participant, Pool, blocking, store::memory::MemoryStore};
///
/// let builder = Participant::join(Arc::new(MemoryStore::new()), Pool::new("jobs")?).resources(["a"])?;
/// let member = blocking::start(builder, |lease| {
///     while lease.term().is_ok() && !lease.is_stopping() {
///         std::thread::sleep(std::time::Duration::from_millis(5));
///     }
/// })?;
/// while member.status().held.is_empty() {
///     std::thread::sleep(std::time::Duration::from_millis(5));
/// }
/// member.leave();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Member {
    runtime: Runtime,
    running: Option<Running>,
    status: watch::Receiver<Status>,
}

/// Starts a member whose `work` blocks. A thread cannot be aborted: the work must look at
/// [`Lease::term`] at every moment of use and return soon after [`Lease::is_stopping`].
///
/// # Errors
/// As [`Participant::start`]; a runtime that cannot be created panics, as the standard library's threads do.
///
/// # Panics
/// If the system gives no threads.
pub fn start(
    participant: Participant,
    work: impl Fn(Lease) + Send + Sync + 'static,
) -> Result<Member, JoinError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("the system gives threads");
    let work = Arc::new(work);
    let running = runtime.block_on(participant.without_abort().start(move |lease| {
        let work = Arc::clone(&work);
        async move {
            let (done, ended) = oneshot::channel::<()>();
            // A thread of its own for each lease: a shared pool would let leases wait for each other. One that
            // panics, or cannot be started, drops its end of the channel like one that returns.
            let thread = std::thread::Builder::new().name(lease.resource().to_string());
            let started = thread.spawn(move || {
                let _done = done;
                work(lease);
            });
            if let Err(error) = started {
                tracing::error!(%error, "no thread could be started for a lease");
            }
            let _ = ended.await;
        }
    }))?;
    let status = running.status();
    Ok(Member { runtime, running: Some(running), status })
}

impl Member {
    /// What the member knows of itself now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Says whether the member can work at the moment.
    pub fn set_ready(&self, ready: bool) {
        if let Some(running) = &self.running {
            running.set_ready(ready);
        }
    }

    /// Leaves in order and waits until everything has stopped.
    pub fn leave(self) {
        drop(self);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.leave());
        }
    }
}
