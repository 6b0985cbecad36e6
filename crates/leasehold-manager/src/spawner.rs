//! The one thread that starts processes.
//!
//! Invariant: this thread lives as long as any child. A parent-death signal fires when the *thread* that forked
//! the child ends, so a child forked from a runtime's worker could be killed at any moment.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::SigSet;
use tokio::sync::oneshot;

#[derive(Debug)]
struct Order {
    command: Command,
    answer: oneshot::Sender<io::Result<Child>>,
}

/// A handle on the thread, which ends with the last handle.
#[derive(Debug, Clone)]
pub(crate) struct Spawner {
    orders: mpsc::Sender<Order>,
}

impl Spawner {
    pub(crate) fn start() -> io::Result<Self> {
        let (orders, queue) = mpsc::channel();
        thread::Builder::new().name("leasehold-spawn".to_owned()).spawn(move || serve(&queue))?;
        Ok(Self { orders })
    }

    /// Starts `command` from the permanent thread.
    pub(crate) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (answer, child) = oneshot::channel();
        let ended = || io::Error::other("the thread that starts processes has ended");
        self.orders.send(Order { command, answer }).map_err(|_| ended())?;
        child.await.unwrap_or_else(|_| Err(ended()))
    }
}

fn serve(queue: &mpsc::Receiver<Order>) {
    // Children inherit the mask of this thread, and should find no signal blocked.
    if let Err(errno) = SigSet::empty().thread_set_mask() {
        tracing::warn!(%errno, "children may start with signals blocked");
    }
    while let Ok(mut order) = queue.recv() {
        if let Err(Ok(mut unwanted)) = order.answer.send(order.command.spawn()) {
            let _ = unwanted.kill();
            let _ = unwanted.wait();
        }
    }
}
