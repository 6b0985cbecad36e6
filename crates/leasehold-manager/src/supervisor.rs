//! The supervisor: runs children until a deadline that its owner keeps moving on.

use std::fmt;
use std::io;
use std::time::Duration;

use leasehold::clock::Moment;

use crate::child::{self, Begin, Running, Tools};
use crate::deadman::{Deadline, Deadman, DeadmanError};
use crate::output::Output;
use crate::program::Program;
use crate::spawner::Spawner;
use crate::spec::Spec;
use crate::standby::{self, Standby};
use crate::worker::{self, Worker};

/// Why there is no supervisor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// No thread could be started.
    #[error("the thread that starts children cannot be started")]
    Thread(#[source] io::Error),
    /// No deadman could be started.
    #[error(transparent)]
    Deadman(#[from] DeadmanError),
}

/// Why a child was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Nobody has said until when.
    #[error("no deadline has been set, so nothing may run")]
    NoDeadline,
    /// The deadline has passed.
    #[error("the deadline has passed, so nothing more may be started")]
    TooLate,
    /// The system would not start a process.
    #[error("no process could be started for {command}")]
    Spawn {
        /// The command.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is nowhere to tell a standby of its promotion.
    #[error("no directory or socket could be made to tell the child of its promotion")]
    Channel(#[source] io::Error),
    /// Nobody would kill the child at its deadline.
    #[error(transparent)]
    Deadman(#[from] DeadmanError),
    /// The runtime is shutting down.
    #[error("the program is ending, so nothing more is started")]
    ShuttingDown,
}

/// Runs children until a deadline.
///
/// # Guarantees
///
/// No process of a child's process group runs after the deadline last given to [`Supervisor::extend`], or after
/// the earlier one given to [`Running::stop`], even if this process is killed or frozen; except for the moment
/// that the kernel takes to let the deadman run, so leave a margin. The same holds of a [`Standby`] from its
/// promotion until it has itself confirmed its demotion; before and after, it ends with this process.
///
/// # Assumptions
///
/// `main` begins with [`hidden_command`](crate::hidden_command). Nobody else in this process reaps children that
/// they did not start. The runtime has its I/O and its timers enabled.
pub struct Supervisor {
    tools: Tools,
    output: Output,
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("deadman", &self.deadman_pid()).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Starts the deadman and the thread that starts children.
    ///
    /// # Errors
    ///
    /// If the system refuses either.
    pub async fn start(program: Program, output: Output) -> Result<Self, SupervisorError> {
        let spawner = Spawner::start().map_err(SupervisorError::Thread)?;
        let deadman = Deadman::start(spawner.clone(), program.clone()).await?;
        let printer = output.printer();
        Ok(Self { tools: Tools { program, spawner, deadman, printer }, output })
    }

    /// Moves the deadline of all children on: at `term_at` they are asked to end, at `kill_at` they are killed.
    ///
    /// Never waits, and never moves a deadline back: to end a child earlier, stop it. Call it after each
    /// confirmed heartbeat.
    pub fn extend(&self, term_at: Moment, kill_at: Moment) {
        self.tools.deadman.extend(Deadline { term_at, kill_at });
    }

    /// Starts a child. It is watched by the deadman before its command runs.
    ///
    /// A command that cannot be executed is not an error here: its child says so on its standard error and exits
    /// with code 127 or 126.
    ///
    /// # Errors
    ///
    /// If no deadline lies ahead, the system refuses a process, or nobody can watch it.
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends what it had started.
    pub async fn run(&self, spec: Spec) -> Result<Running, RunError> {
        Ok(child::run(self.tools.clone(), spec, Begin::Work).await?.0)
    }

    /// Starts a child that leads nothing until it is [promoted](Standby::promote), and so needs no deadline. It ends
    /// with this process all the same.
    ///
    /// # Errors
    ///
    /// If the system refuses a process, a directory or a socket, or nobody can watch it.
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends what it had started.
    pub async fn run_standby(&self, spec: Spec) -> Result<Standby, RunError> {
        standby::run(self.tools.clone(), spec).await
    }

    /// Starts a child with a deadline of its own, or with none as long as it works on nothing, and listens to what it says.
    ///
    /// # Errors
    ///
    /// If the deadline has passed, the system refuses a process, a directory or a socket, or nobody can watch it.
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends what it had started.
    pub async fn run_worker(&self, spec: Spec, until: Option<Moment>) -> Result<Worker, RunError> {
        worker::run(self.tools.clone(), spec, until).await
    }

    /// Waits until children can no longer be watched. All have been killed then, and none can be started.
    pub async fn failed(&self) -> DeadmanError {
        self.tools.deadman.failed().await
    }

    /// The process id of the deadman, if there is one.
    #[must_use]
    pub fn deadman_pid(&self) -> Option<u32> {
        self.tools.deadman.pid()
    }

    /// Ends the supervision after all children have been stopped, and waits at most `limit` for what they said to
    /// be written.
    pub async fn finish(self, limit: Duration) {
        let Self { tools, output } = self;
        drop(tools);
        output.finish(limit).await;
    }
}
