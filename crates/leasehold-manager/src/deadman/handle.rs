//! The supervisor's side of the deadman: tells it what to watch and replaces it when it dies or falls silent.
//!
//! Invariant: if there is no deadman and none can be started, no child runs.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Moment};
use nix::sys::signal::Signal;
use tokio::sync::{mpsc, oneshot, watch};

use super::watch::{Deadline, Line, Watch};
use crate::group::GroupId;
use crate::program::Program;
use crate::spawner::Spawner;

mod ward;
mod wire;

pub(crate) use ward::Ward;
use wire::Wire;

/// How often a new deadman is tried before all children are killed.
const ATTEMPTS_MAX: usize = 3;
/// The most lines that may be unanswered at once: their answers fit into the smallest pipe there is.
const UNANSWERED_MAX: usize = 256;
/// A deadman that leaves a line unanswered for so long is replaced.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(1);
/// How often its silence is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Why no deadman can be had. Every child has been killed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the process that kills children at their deadline cannot be started, so none may run")]
pub struct DeadmanError {
    #[source]
    source: Arc<io::Error>,
}

impl From<io::Error> for DeadmanError {
    fn from(source: io::Error) -> Self {
        Self { source: Arc::new(source) }
    }
}

/// Whether there is a deadman.
#[derive(Debug, Clone)]
enum Standing {
    Watching { pid: u32 },
    Failed(DeadmanError),
}

#[derive(Debug)]
struct Call {
    line: Line,
    heard: Option<oneshot::Sender<()>>,
}

/// A handle on the deadman, which ends with the last handle.
#[derive(Debug, Clone)]
pub(crate) struct Deadman {
    calls: mpsc::UnboundedSender<Call>,
    until: watch::Sender<Option<Deadline>>,
    standing: watch::Receiver<Standing>,
}

impl Deadman {
    /// Starts a deadman and the task that talks to it.
    pub(crate) async fn start(spawner: Spawner, program: Program) -> Result<Self, DeadmanError> {
        let wire = Wire::open(&spawner, &program).await?;
        let (calls, queue) = mpsc::unbounded_channel();
        let (until, newest) = watch::channel(None);
        let (publish, standing) = watch::channel(Standing::Watching { pid: wire.pid() });
        let talk = Talk {
            spawner,
            program,
            queue,
            newest,
            standing: publish,
            told: Watch::default(),
            unanswered: VecDeque::new(),
        };
        tokio::spawn(talk.serve(wire));
        Ok(Self { calls, until, standing })
    }

    /// Moves the deadline of all children on. Never waits, never moves it back.
    pub(crate) fn extend(&self, new: Deadline) {
        self.until.send_if_modified(|until| {
            let old = until.unwrap_or(Deadline { term_at: Moment(0), kill_at: Moment(0) });
            let risen =
                Deadline { term_at: old.term_at.max(new.term_at), kill_at: old.kill_at.max(new.kill_at) };
            until.replace(risen) != Some(risen)
        });
    }

    /// The deadline of all children.
    pub(crate) fn until(&self) -> Option<Deadline> {
        *self.until.borrow()
    }

    /// A group whose leader has just been started.
    pub(crate) fn ward(&self, group: GroupId) -> Ward {
        Ward::new(self.clone(), group)
    }

    /// The process id of the present deadman.
    pub(crate) fn pid(&self) -> Option<u32> {
        match *self.standing.borrow() {
            Standing::Watching { pid } => Some(pid),
            Standing::Failed(_) => None,
        }
    }

    /// Returns when there is no deadman and none can be started.
    pub(crate) async fn failed(&self) -> DeadmanError {
        let mut standing = self.standing.clone();
        loop {
            if let Standing::Failed(error) = &*standing.borrow_and_update() {
                return error.clone();
            }
            if standing.changed().await.is_err() {
                return io::Error::other("the runtime is shutting down").into();
            }
        }
    }

    /// Says `line` after everything that was said before. What is returned ends well when a deadman has heard it.
    fn say(&self, line: Line) -> oneshot::Receiver<()> {
        let (heard, answer) = oneshot::channel();
        // Without a deadman every group has been killed already.
        let _ = self.calls.send(Call { line, heard: Some(heard) });
        answer
    }

    /// Why nobody hears what is said.
    fn silence(&self) -> DeadmanError {
        match &*self.standing.borrow() {
            Standing::Failed(error) => error.clone(),
            Standing::Watching { .. } => io::Error::other("the runtime is shutting down").into(),
        }
    }
}

#[derive(Debug)]
struct Unanswered {
    since: Moment,
    heard: Option<oneshot::Sender<()>>,
}

/// The task that talks to the deadman.
struct Talk {
    spawner: Spawner,
    program: Program,
    queue: mpsc::UnboundedReceiver<Call>,
    newest: watch::Receiver<Option<Deadline>>,
    standing: watch::Sender<Standing>,
    /// What the deadman has been told, to tell the next one.
    told: Watch,
    unanswered: VecDeque<Unanswered>,
}

impl Talk {
    async fn serve(mut self, mut wire: Wire) {
        loop {
            let Err(problem) = self.converse(&mut wire).await else {
                // No handle is left, so there is no child either, and the deadman may go.
                wire.close().await;
                return;
            };
            tracing::warn!(%problem, "the deadman is gone or silent; starting another");
            wire.discard().await;
            wire = match self.replace().await {
                Ok(wire) => wire,
                Err(error) => return self.fail(error),
            };
            let _ = self.standing.send(Standing::Watching { pid: wire.pid() });
        }
    }

    /// Returns `Ok` when no handle is left, and an error when the deadman must be replaced.
    async fn converse(&mut self, wire: &mut Wire) -> io::Result<()> {
        let mut look = tokio::time::interval(LOOK);
        loop {
            let may_speak = self.unanswered.len() < UNANSWERED_MAX;
            tokio::select! {
                biased;
                answer = wire.answer() => {
                    answer?;
                    if let Some(Unanswered { heard: Some(heard), .. }) = self.unanswered.pop_front() {
                        let _ = heard.send(());
                    }
                }
                Ok(()) = self.newest.changed(), if may_speak => self.say_until(wire).await?,
                call = self.queue.recv(), if may_speak => match call {
                    Some(call) => {
                        // A group is never watched under an older deadline than its `run` saw.
                        if self.newest.has_changed().unwrap_or(false) {
                            self.say_until(wire).await?;
                        }
                        self.say(wire, call).await?;
                    }
                    None => return Ok(()),
                },
                _ = look.tick() => self.check_silence()?,
            }
        }
    }

    async fn say_until(&mut self, wire: &mut Wire) -> io::Result<()> {
        let newest = *self.newest.borrow_and_update();
        match newest {
            Some(until) => self.say(wire, Call { line: Line::Until(until), heard: None }).await,
            None => Ok(()),
        }
    }

    async fn say(&mut self, wire: &mut Wire, Call { line, heard }: Call) -> io::Result<()> {
        self.told.hear(line);
        self.unanswered.push_back(Unanswered { since: clock::now(), heard });
        wire.say(&[line]).await
    }

    fn check_silence(&self) -> io::Result<()> {
        match self.unanswered.front() {
            Some(oldest) if clock::now().since(oldest.since) > SILENCE_MAX => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer"))
            }
            _ => Ok(()),
        }
    }

    /// A new deadman that knows all that the old one was told, answered or not.
    async fn replace(&mut self) -> io::Result<Wire> {
        let mut attempt = 1;
        let wire = loop {
            match self.successor().await {
                Ok(wire) => break wire,
                Err(error) if attempt == ATTEMPTS_MAX => return Err(error),
                Err(error) => tracing::warn!(%error, attempt, "a new deadman did not come up"),
            }
            attempt += 1;
        };
        for heard in self.unanswered.drain(..).filter_map(|unanswered| unanswered.heard) {
            let _ = heard.send(());
        }
        Ok(wire)
    }

    async fn successor(&mut self) -> io::Result<Wire> {
        let mut wire = Wire::open(&self.spawner, &self.program).await?;
        // Processes take a moment to start. The deadline is looked at after that and told before the groups: one
        // that has passed meanwhile would kill them.
        if let Some(until) = *self.newest.borrow_and_update() {
            self.told.hear(Line::Until(until));
        }
        match wire.introduce(&self.told.lines()).await {
            Ok(()) => Ok(wire),
            Err(error) => {
                wire.discard().await;
                Err(error)
            }
        }
    }

    /// Dropping the queue makes every later call fail, and with it every later `run`.
    fn fail(self, error: io::Error) {
        tracing::error!(%error, "no deadman can be started; killing every child");
        for group in self.told.groups() {
            group.signal(Signal::SIGKILL);
        }
        let _ = self.standing.send(Standing::Failed(error.into()));
    }
}
