//! The life of one child: from its stub to the last process of its group.
//!
//! Invariant: whoever learns that a child has exited learns it after its leader was reaped and no process of its
//! group runs any more. Dropping a [`Running`] kills the group.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Clock, Moment, SystemClock};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::{oneshot, watch};

use crate::deadman::{Deadman, Ward};
use crate::group::{Group, GroupId};
use crate::output::{Printer, Stream};
use crate::program::Program;
use crate::spawner::Spawner;
use crate::spec::Spec;
use crate::stub;
use crate::supervisor::RunError;

/// How soon to look whether the last processes of a killed group are gone.
const LOOK_MIN: Duration = Duration::from_millis(2);
/// The longest wait between two looks: each may read all of `/proc`.
const LOOK_MAX: Duration = Duration::from_millis(50);

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It ended by itself with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It ended, but somebody else in this process reaped it.
    Unknown,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(f, "signal {signal}"),
                Err(_) => write!(f, "signal {number}"),
            },
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// The end of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// How it ended.
    pub how: How,
    /// How long it ran.
    pub ran_for: Duration,
    /// Whether it had been asked to stop.
    pub asked: bool,
}

impl Exit {
    /// Whether it ended by itself and with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.how == How::Code(0)
    }
}

/// A child that has been started. Dropping it kills its whole process group.
#[derive(Debug)]
pub struct Running {
    group: Arc<Group>,
    stop_by: watch::Sender<Option<Moment>>,
    exit: watch::Receiver<Option<Exit>>,
}

impl Running {
    /// The child's process id, which is also the number of its process group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.group.id().number()
    }

    /// Whether a process that runs now belongs to the child's process group.
    #[must_use]
    pub fn has(&self, process: u32) -> bool {
        i32::try_from(process).is_ok_and(|pid| self.group.id().has(Pid::from_raw(pid)) == Some(true))
    }

    /// Waits until the child has exited and nothing of its group runs.
    pub async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        let ended = exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
        // Only a runtime that shuts down ends a life without an exit, and it kills the group.
        ended.unwrap_or(Exit { how: How::Unknown, ran_for: Duration::ZERO, asked: true })
    }

    /// Asks the group to end (`SIGTERM`), kills it at `kill_at`, and returns when nothing of it runs.
    ///
    /// # Cancellation
    ///
    /// Once polled, the stop goes on without the caller. Of several deadlines the earliest counts.
    pub async fn stop(&self, kill_at: Moment) -> Exit {
        self.stop_by.send_if_modified(|stop_by| {
            let earliest = stop_by.map_or(kill_at, |old| old.min(kill_at));
            stop_by.replace(earliest) != Some(earliest)
        });
        self.exited().await
    }

    /// Sends `SIGHUP` to the child itself, if it has a handler for it: look again at what you do. `false` if it has
    /// none and was therefore not told.
    pub fn signal_hangup(&self) -> bool {
        self.tell(Signal::SIGHUP)
    }

    /// Sends `signal` to the child itself, if it is prepared for it. `false` if it was not sent.
    pub(crate) fn tell(&self, signal: Signal) -> bool {
        self.group.tell_leader(signal)
    }

    /// The number of the child's process group.
    pub(crate) fn group(&self) -> GroupId {
        self.group.id()
    }

    /// Pauses every process of the group (`SIGSTOP`).
    pub fn pause(&self) {
        self.group.signal(Signal::SIGSTOP);
    }

    /// Lets every process of the group go on (`SIGCONT`).
    pub fn resume(&self) {
        self.group.signal(Signal::SIGCONT);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.group.signal(Signal::SIGKILL);
    }
}

/// What it takes to run a child.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) program: Program,
    pub(crate) spawner: Spawner,
    pub(crate) deadman: Deadman,
    pub(crate) printer: Printer,
}

/// What a child begins as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It works, under the deadline of all.
    Work,
    /// It leads nothing, so no deadline is needed.
    Standby,
    /// It works, under a deadline of its own.
    Lasting(Moment),
}

/// Starts a child. Its life is a task of its own, so that a caller that goes away leaves nothing behind.
pub(crate) async fn run(tools: Tools, spec: Spec, begin: Begin) -> Result<(Running, Arc<Ward>), RunError> {
    let (answer, started) = oneshot::channel();
    tokio::spawn(async move {
        match Life::begin(&tools, &spec, begin).await {
            Ok((life, running)) => {
                // If nobody waits for it any more, this drops it, which kills the group.
                let _ = answer.send(Ok((running, Arc::clone(&life.ward))));
                drop(tools);
                life.lead().await;
            }
            Err(error) => {
                let _ = answer.send(Err(error));
            }
        }
    });
    started.await.unwrap_or(Err(RunError::ShuttingDown))
}

struct Life {
    leader: Child,
    group: Arc<Group>,
    ward: Arc<Ward>,
    /// The thread that forked the leader must live as long as it does.
    _spawner: Spawner,
    children: unix::Signal,
    stop_by: watch::Receiver<Option<Moment>>,
    exit: watch::Sender<Option<Exit>>,
    started: Moment,
    asked: bool,
}

impl Life {
    async fn begin(tools: &Tools, spec: &Spec, begin: Begin) -> Result<(Self, Running), RunError> {
        let failed = |source| RunError::Spawn { command: spec.shown(), source };
        let go_by = match begin {
            Begin::Work => tools.deadman.until().ok_or(RunError::NoDeadline)?.term_at,
            Begin::Standby => Moment(u64::MAX),
            Begin::Lasting(until) => until,
        };
        if clock::now() >= go_by {
            return Err(RunError::TooLate);
        }
        let children = unix::signal(SignalKind::child()).map_err(failed)?;
        let mut leader = tools.spawner.spawn(spec.stub(&tools.program)).await.map_err(failed)?;
        let group = match Group::of(&leader) {
            Ok(group) => Arc::new(group),
            Err(error) => {
                let _ = leader.kill().and_then(|()| leader.wait());
                return Err(failed(error));
            }
        };
        let (stop, stop_by) = watch::channel(None);
        let (exit, exited) = watch::channel(None);
        let mut life = Self {
            leader,
            group: Arc::clone(&group),
            ward: Arc::new(tools.deadman.ward(group.id())),
            _spawner: tools.spawner.clone(),
            children,
            stop_by,
            exit,
            started: clock::now(),
            asked: false,
        };
        match life.go(tools, spec, begin, go_by).await {
            Ok(()) => Ok((life, Running { group, stop_by: stop, exit: exited })),
            Err(error) => {
                life.end().await;
                Err(error)
            }
        }
    }

    /// Lets the stub become its command, once the deadman knows the group.
    async fn go(&mut self, tools: &Tools, spec: &Spec, begin: Begin, go_by: Moment) -> Result<(), RunError> {
        self.pass_on_output(&tools.printer, spec.label())
            .map_err(|source| RunError::Spawn { command: spec.shown(), source })?;
        match begin {
            Begin::Work => self.ward.watch().await?,
            Begin::Standby => self.ward.free().await?,
            Begin::Lasting(until) => self.ward.lasting(until).await?,
        }
        self.started = clock::now();
        if let Some(mut input) = self.leader.stdin.take() {
            // A stub that has ended already cannot be told, and its exit is noticed like any other.
            let _ = input.write_all(stub::go(go_by).as_bytes());
        }
        Ok(())
    }

    fn pass_on_output(&mut self, printer: &Printer, label: &str) -> io::Result<()> {
        if let Some(out) = self.leader.stdout.take() {
            printer.pass_on(ChildStdout::from_std(out)?, Stream::Out, label);
        }
        if let Some(err) = self.leader.stderr.take() {
            printer.pass_on(ChildStderr::from_std(err)?, Stream::Err, label);
        }
        Ok(())
    }

    /// Waits for the leader's exit, or brings it about.
    async fn lead(mut self) {
        let mut kill_at = None;
        let mut wanted = true;
        while !self.group.leader_has_exited() {
            tokio::select! {
                () = next_child_signal(&mut self.children) => {}
                changed = self.stop_by.changed(), if wanted => {
                    wanted = changed.is_ok();
                    kill_at = *self.stop_by.borrow_and_update();
                    self.ask_to_end(kill_at, wanted);
                }
                () = SystemClock.sleep_until(kill_at.unwrap_or_default()), if kill_at.is_some() => {
                    kill_at = None;
                    self.group.signal(Signal::SIGKILL);
                }
            }
        }
        self.end().await;
    }

    fn ask_to_end(&mut self, kill_at: Option<Moment>, wanted: bool) {
        // The one who dropped the child has killed it.
        if let (Some(kill_at), true) = (kill_at, wanted) {
            if !self.asked {
                self.group.ask_to_end();
            }
            self.ward.stopping(kill_at);
        }
        self.asked = true;
    }

    /// Kills what is left of the group, and reaps the leader when nobody watches its number any more.
    async fn end(mut self) {
        self.group.signal(Signal::SIGKILL);
        while !self.group.leader_has_exited() {
            next_child_signal(&mut self.children).await;
        }
        let ran_for = clock::now().since(self.started);
        self.ward.forget().await;
        let how = how(self.group.reap(&mut self.leader));
        let mut wait = LOOK_MIN;
        while !self.group.is_gone() {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LOOK_MAX);
        }
        self.exit.send_replace(Some(Exit { how, ran_for, asked: self.asked }));
    }
}

impl Drop for Life {
    /// A runtime that shuts down drops this at any point.
    fn drop(&mut self) {
        self.group.signal(Signal::SIGKILL);
    }
}

async fn next_child_signal(children: &mut unix::Signal) {
    if children.recv().await.is_none() {
        tokio::time::sleep(LOOK_MIN).await;
    }
}

fn how(status: io::Result<ExitStatus>) -> How {
    match status.map(|status| (status.code(), status.signal())) {
        Ok((Some(code), _)) => How::Code(code),
        Ok((None, Some(signal))) => How::Signal(signal),
        _ => How::Unknown,
    }
}
