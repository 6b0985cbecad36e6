//! A hot standby: one child that runs all the time, leads only while it is promoted, and outlives its demotion if it
//! obeys in time.
//!
//! Invariant: **a child is told to lead only after the deadman has confirmed that it dies by the deadline, and it is
//! free of the deadline only after it has itself said that it stopped leading.** A child that does not say so is
//! killed, whole group, by the deadline of its demotion or of all, whichever is first; by the deadman if the
//! supervisor cannot. Before its promotion and after its demotion it has no deadline, and dies with the supervisor.
//!
//! # What a child is told, and how
//!
//! Everything lies in a directory of its own that only this user can enter, so a child that changes its user is out of
//! reach. Three ways say the same. **The file says how things are; signals and events say that it is time to look.**
//! A child that first listens and then reads the file misses nothing, however early it was promoted.
//!
//! 1. **A file.** `LEASEHOLD_STATE_FILE` names it. It is there from the start and is replaced as a whole before anything
//!    else is sent. A shell can read it as it is:
//!
//!    ```text
//!    LEASEHOLD_LEADER=1       1 while it may lead, 0 while it may not
//!    LEASEHOLD_TOKEN=7        the token of this term, or of the term that has ended; missing before the first
//!    …                        whatever else the caller of `promote` says, while it may lead; between single quotes if a
//!                             shell needs them
//!    ```
//!
//! 2. **A signal**: `SIGUSR1` of a promotion and `SIGUSR2` of a demotion, or what
//!    [`Spec::promotion_signal`] and [`Spec::demotion_signal`] say. It goes to the child itself and not to its group,
//!    and only if the child has a handler for it or keeps it back to fetch it (`/proc/PID/status` says so): it would
//!    end any other process. So a shell that wraps the program should `exec` it.
//! 3. **An event.** If the child has bound a unix datagram socket at `LEASEHOLD_EVENTS_SOCKET`, one datagram is sent
//!    there: `PROMOTED=1` or `DEMOTED=1`, `TOKEN=7`, and what else the file says, a line each. One that does not fit
//!    into the socket at once is lost.
//!
//! # What a child says
//!
//! `NOTIFY_SOCKET` names a unix datagram socket, as programs know it from systemd. A message is lines of `NAME=VALUE`,
//! at most [`NOTICE_MAX`] bytes; what is not in this table is ignored.
//!
//! | message | meaning |
//! |---|---|
//! | `READY=1` | it is up |
//! | `LEADING=1`, `TOKEN=7` | it leads; nobody waits for this |
//! | `STANDBY=1`, `TOKEN=7` | it has stopped leading, with all its processes: the confirmation of its demotion |
//!
//! A confirmation counts only if it has the token of the term that ended and comes after the demotion was told.
//! Tokens rise with each promotion, so one that is late, repeated or guessed confirms nothing. The kernel names the
//! sender: whoever is not in the child's process group is ignored. A sender that has ended before it was looked up can
//! belong to anybody who may enter the directory, and is believed: so shells can send with a short-lived command.
//! While the supervisor is frozen nobody reads, and sending may block when some ten messages wait.
//!
//! A child that knows nothing of all this runs as it is, whether it leads or not. It is killed at its demotion, and the
//! caller starts it again.

use std::io;
use std::sync::Arc;

use leasehold::clock::{self, Clock, Moment, SystemClock};
use nix::sys::signal::Signal;

use crate::child::{self, Begin, Exit, Running, Tools};
use crate::deadman::{DeadmanError, Ward};
pub use crate::notices::NOTICE_MAX;
use crate::notices::Notices;
use crate::spec::Spec;
use crate::supervisor::RunError;

mod channel;
mod ear;
mod state;

use channel::Channel;
use ear::{Ear, Told};
use state::State;
pub use state::{STATE_MAX, StateError};

/// Why a child was not promoted. It has been told nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromoteError {
    /// Nobody has said until when.
    #[error("no deadline has been set, so nothing may be promoted")]
    NoDeadline,
    /// The deadline has passed.
    #[error("the deadline has passed, so nothing may be promoted")]
    TooLate,
    /// It leads already.
    #[error("the child has been promoted under token {token} and must be demoted first")]
    Leading {
        /// The token of its term.
        token: u64,
    },
    /// A confirmation could not be told from an earlier one.
    #[error("the child has been promoted under token {newest} before, so token {token} is too low")]
    OldToken {
        /// The token that was given.
        token: u64,
        /// The highest one before.
        newest: u64,
    },
    /// What should be told cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The file could not be replaced.
    #[error("the state file could not be replaced")]
    File(#[source] io::Error),
    /// Nobody would kill the child at its deadline.
    #[error(transparent)]
    Deadman(#[from] DeadmanError),
}

/// What became of a child that was to stop leading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demoted {
    /// It has confirmed, and runs on as a standby.
    Standby,
    /// It has ended by itself, or was killed because it did not confirm in time. Neither is a failure of its own.
    Exited(Exit),
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Standby,
    /// It dies by the deadline, but has not been told to lead.
    Watched,
    Leading(u64),
}

/// A child that runs as a hot standby. Dropping it kills its whole process group.
///
/// The module describes [what it is told and what it says](crate::standby).
#[derive(Debug)]
pub struct Standby {
    running: Running,
    ward: Arc<Ward>,
    channel: Channel,
    ear: Ear,
    promotion: Option<Signal>,
    demotion: Option<Signal>,
    stage: Stage,
    newest: Option<u64>,
}

/// Starts a child that leads nothing.
pub(crate) async fn run(tools: Tools, spec: Spec) -> Result<Standby, RunError> {
    let (promotion, demotion) = spec.signals();
    let (channel, socket) = Channel::open().map_err(RunError::Channel)?;
    let (running, ward) = child::run(tools, channel.introduce(spec), Begin::Standby).await?;
    let ear = Ear::listen(Notices::of(socket, running.group()));
    Ok(Standby { running, ward, channel, ear, promotion, demotion, stage: Stage::Standby, newest: None })
}

impl Standby {
    /// The child itself: its process id, its exit, and how to stop it.
    #[must_use]
    pub fn child(&self) -> &Running {
        &self.running
    }

    /// Waits until the child says that it is up. It may never say so.
    pub async fn ready(&self) {
        self.ear.ready().await;
    }

    /// Waits until the child says that it leads the term it was promoted for. It may never say so.
    pub async fn leading(&self) {
        self.ear.leading().await;
    }

    /// Puts the child under the common deadline, then tells it to lead under `token`. `pairs` are told with it.
    ///
    /// A child that has ended cannot be told, and its exit is noticed like any other.
    ///
    /// # Errors
    ///
    /// If no deadline lies ahead, it leads already, the token is none above the one before, a pair cannot be written, or
    /// nobody can watch it. Then it was told nothing.
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves the child untold but perhaps under the deadline; promote or demote it.
    pub async fn promote(&mut self, token: u64, pairs: &[(&str, &str)]) -> Result<(), PromoteError> {
        if let Stage::Leading(token) = self.stage {
            return Err(PromoteError::Leading { token });
        }
        if let Some(newest) = self.newest.filter(|newest| token <= *newest) {
            return Err(PromoteError::OldToken { token, newest });
        }
        let state = State::leading(token, pairs)?;
        self.check_deadline()?;
        self.stage = Stage::Watched;
        self.ward.watch().await?;
        // Invariant: from here on the deadman kills it, whatever happens to this process.
        let told = self.check_deadline().and_then(|()| self.tell_to_lead(token, &state));
        if told.is_err() {
            self.free().await;
        }
        told
    }

    /// Tells the child to stop leading, and returns when it has confirmed and has no deadline any more, or is gone:
    /// without a confirmation its group is killed at `by`. Of a child that does not lead nothing is asked.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped the child is killed at `by`.
    pub async fn demote(&mut self, by: Moment) -> Demoted {
        match self.stage {
            Stage::Standby => return Demoted::Standby,
            Stage::Watched => {}
            Stage::Leading(token) => {
                self.ward.demoting(by);
                self.tell_to_stop(token);
                tokio::select! {
                    biased;
                    exit = self.running.exited() => return Demoted::Exited(exit),
                    () = self.ear.stopped() => {}
                    () = SystemClock.sleep_until(by) => return Demoted::Exited(self.running.stop(by).await),
                }
            }
        }
        self.free().await
    }

    fn check_deadline(&self) -> Result<(), PromoteError> {
        let until = self.ward.until().ok_or(PromoteError::NoDeadline)?;
        if clock::now() >= until.term_at { Err(PromoteError::TooLate) } else { Ok(()) }
    }

    fn tell_to_lead(&mut self, token: u64, state: &State) -> Result<(), PromoteError> {
        self.ear.expect(Told::Promoted(token));
        self.channel.write(state).map_err(PromoteError::File)?;
        self.newest = Some(token);
        self.stage = Stage::Leading(token);
        self.call(state, self.promotion);
        Ok(())
    }

    fn tell_to_stop(&self, token: u64) {
        let state = State::standby(Some(token));
        self.ear.expect(Told::Demoted(token));
        if let Err(error) = self.channel.write(&state) {
            tracing::warn!(%error, "the state file of a standby still says that it leads");
        }
        self.call(&state, self.demotion);
    }

    /// Lets the child know that its state is another one, also if it is paused.
    fn call(&self, state: &State, signal: Option<Signal>) {
        self.channel.send(state);
        if let Some(signal) = signal {
            self.running.tell(signal);
        }
        self.running.resume();
    }

    /// Lifts the deadline from a child that does not lead.
    async fn free(&mut self) -> Demoted {
        self.stage = Stage::Standby;
        self.ear.expect(Told::Nothing);
        match self.ward.free().await {
            Ok(()) => Demoted::Standby,
            // Without a deadman every child has been killed.
            Err(_) => Demoted::Exited(self.running.exited().await),
        }
    }
}
