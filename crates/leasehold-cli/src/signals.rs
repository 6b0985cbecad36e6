//! What tells a long-running command to stop.

#[cfg(target_os = "linux")]
use leasehold_manager::Supervisor;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What tells this program to stop, from the moment it takes part: one that ended without a word would keep its
/// leases from others for a whole TTL.
#[cfg(unix)]
pub(crate) struct Signals {
    term: Signal,
    interrupt: Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn receive() -> Result<Self, Failure> {
        let receive =
            |kind| signal(kind).map_err(|error| Failure::system("signals cannot be received", &error));
        Ok(Self { term: receive(SignalKind::terminate())?, interrupt: receive(SignalKind::interrupt())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn receive() -> Result<Self, Failure> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) {
        // Where nothing can be heard, nothing is said.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Waits for a signal, or for the day on which children can no longer be watched. A second signal ends the
/// program at once; the deadman then ends the children.
#[cfg(target_os = "linux")]
pub(crate) async fn told_to_stop(
    supervisor: &Supervisor,
    mut signals: Signals,
    while_stdin: bool,
) -> Option<Failure> {
    tokio::select! {
        () = signals.next() => {}
        () = end_of_stdin(), if while_stdin => {}
        error = supervisor.failed() => {
            return Some(Failure::system("children can no longer be watched, so none may run", &error));
        }
    }
    was_told(signals);
    None
}

/// From here on a second signal ends the program at once.
pub(crate) fn was_told(mut signals: Signals) {
    tracing::info!("told to stop: work is stopped and handed over; a second signal ends everything at once");
    tokio::spawn(async move {
        signals.next().await;
        std::process::exit(crate::failure::code::INTERRUPTED.into());
    });
}

/// Ends when whoever started this program has closed its standard input, or is no more.
#[cfg(target_os = "linux")]
async fn end_of_stdin() {
    let (ended, end) = tokio::sync::oneshot::channel();
    // A thread of its own, because a read that nothing ends would keep the runtime from shutting down.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _: Result<(), ()> = ended.send(());
    });
    let _ = end.await;
}
