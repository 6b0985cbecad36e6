//! A worker: one child that works on several things at once, each with a deadline of its own, and says what it works on.
//!
//! Invariant: **the deadman kills its whole group at the deadline last confirmed by [`Worker::until`].** Whoever gives it
//! something new to work on has the deadline confirmed first; whoever moves the deadline on knows that the worker has let go
//! of everything that ends earlier.
//!
//! # What a worker says
//!
//! `NOTIFY_SOCKET` names a unix datagram socket, as programs know it from systemd. A message is lines of `NAME=VALUE`.
//!
//! | message | meaning |
//! |---|---|
//! | `READY=1` | it is up |
//! | `WATCHDOG=1` | it is alive |
//! | `STATUS=…` | how it is, for people |
//! | `APPLIED=7` | it works on exactly what generation 7 of its configuration says |
//!
//! Anything else is ignored, and what cannot be read is counted.

use std::io;
use std::time::Duration;

use leasehold::clock::{self, Moment};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::child::{self, Begin, Running, Tools};
use crate::deadman::{DeadmanError, Ward};
use crate::directory::private_directory;
use crate::notices::{self, Notices};
use crate::spec::Spec;
use crate::supervisor::RunError;

/// The most characters of a status that are kept.
const STATUS_MAX: usize = 200;
/// How long to wait after a message could not be received.
const RECEIVE_AGAIN: Duration = Duration::from_millis(50);

/// All that a worker has said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// That it is up.
    pub ready: bool,
    /// When it was last heard of.
    pub alive_at: Option<Moment>,
    /// The newest generation that it works on.
    pub applied: Option<u64>,
    /// How it is.
    pub status: String,
    /// How many messages could not be read.
    pub strange: u64,
}

impl Said {
    /// Takes in a message.
    fn hear(&mut self, message: &[u8], now: Moment) {
        let Ok(text) = std::str::from_utf8(message) else {
            self.strange = self.strange.saturating_add(1);
            return;
        };
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.split_once('=') {
                Some(("READY", "1")) => (self.ready, self.alive_at) = (true, Some(now)),
                Some(("WATCHDOG", "1")) => self.alive_at = Some(now),
                Some(("STATUS", said)) => {
                    self.status =
                        said.chars().filter(|letter| !letter.is_control()).take(STATUS_MAX).collect();
                }
                Some(("APPLIED", generation)) => match generation.parse() {
                    // One that comes late says nothing new.
                    Ok(generation) => {
                        self.applied = self.applied.max(Some(generation));
                        self.alive_at = Some(now);
                    }
                    Err(_) => self.strange = self.strange.saturating_add(1),
                },
                Some(("READY" | "WATCHDOG", _)) | None => self.strange = self.strange.saturating_add(1),
                Some(_) => {}
            }
        }
    }
}

/// A worker that runs. Dropping it kills its whole process group.
#[derive(Debug)]
pub struct Worker {
    running: Running,
    ward: std::sync::Arc<Ward>,
    said: watch::Receiver<Said>,
    listening: AbortHandle,
    _directory: TempDir,
}

/// Starts a worker that is killed at `until`, if that is said.
pub(crate) async fn run(tools: Tools, spec: Spec, until: Option<Moment>) -> Result<Worker, RunError> {
    let directory = private_directory().map_err(RunError::Channel)?;
    let path = directory.path().join("notify");
    let socket = notices::open(&path).map_err(RunError::Channel)?;
    let begin = until.map_or(Begin::Standby, Begin::Lasting);
    let (running, ward) = child::run(tools, spec.env("NOTIFY_SOCKET", path), begin).await?;
    let (says, said) = watch::channel(Said::default());
    let listening = tokio::spawn(listen(Notices::of(socket, running.group()), says)).abort_handle();
    Ok(Worker { running, ward, said, listening, _directory: directory })
}

impl Worker {
    /// The child itself: its process id, its exit, and how to stop it.
    #[must_use]
    pub fn child(&self) -> &Running {
        &self.running
    }

    /// What it says.
    #[must_use]
    pub fn said(&self) -> watch::Receiver<Said> {
        self.said.clone()
    }

    /// Returns when the worker is killed at this moment and no other; with `None` only with this process, or by its own stop.
    ///
    /// # Errors
    ///
    /// Nobody can watch it. It has been killed.
    pub async fn until(&self, until: Option<Moment>) -> Result<(), DeadmanError> {
        match until {
            Some(until) => self.ward.lasting(until).await,
            None => self.ward.free().await,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(notices: Notices, says: watch::Sender<Said>) {
    loop {
        match notices.when_there(|| notices.receive()).await {
            Ok(Some(message)) => says.send_modify(|said| said.hear(&message, clock::now())),
            Ok(None) => says.send_modify(|said| said.strange = said.strange.saturating_add(1)),
            Err(error) => pause(&error).await,
        }
    }
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "a message of a worker could not be received");
    tokio::time::sleep(RECEIVE_AGAIN).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(messages: &[&[u8]]) -> Said {
        let mut said = Said::default();
        for (number, message) in messages.iter().enumerate() {
            said.hear(message, Moment(number as u64));
        }
        said
    }

    // proves C50
    #[test]
    fn a_worker_is_heard_line_by_line() {
        let said = heard(&[b"READY=1\nSTATUS=four cameras\n", b"WATCHDOG=1\nAPPLIED=7", b"X_OWN=1"]);
        let expected = Said {
            ready: true,
            alive_at: Some(Moment(1)),
            applied: Some(7),
            status: "four cameras".to_owned(),
            strange: 0,
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn a_word_that_comes_late_takes_nothing_back() {
        assert_eq!(heard(&[b"APPLIED=7", b"APPLIED=6"]).applied, Some(7));
    }

    #[test]
    fn what_cannot_be_read_is_counted_and_changes_nothing() {
        let strange: [&[u8]; 7] =
            [b"\xff\xfe", b"READY", b"READY=yes", b"WATCHDOG=", b"APPLIED=", b"APPLIED=-1", b"APPLIED=7x"];
        assert_eq!(heard(&strange), Said { strange: 7, ..Said::default() });
        let long = format!("STATUS={}\x1b[31m", "x".repeat(10_000));
        assert_eq!(heard(&[long.as_bytes()]).status.len(), STATUS_MAX);
    }
}
