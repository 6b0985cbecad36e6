//! The participant for programs without an async runtime: work runs on a thread for each lease.

use std::sync::Arc;

use tokio::runtime::Runtime;

use crate::participant::{JoinError, Lease, Participant, Running, Status};

/// A member that takes part on a runtime of its own. Dropping it makes the member leave.
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
    running: Running,
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
            // A panic in the work is reported as the work's end, like any other.
            let _ = tokio::task::spawn_blocking(move || work(lease)).await;
        }
    }))?;
    Ok(Member { runtime, running })
}

impl Member {
    /// What the member knows of itself now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.running.status().borrow().clone()
    }

    /// Says whether the member can work at the moment.
    pub fn set_ready(&self, ready: bool) {
        self.running.set_ready(ready);
    }

    /// Leaves in order and waits until everything has stopped.
    pub fn leave(self) {
        self.runtime.block_on(self.running.leave());
    }
}
