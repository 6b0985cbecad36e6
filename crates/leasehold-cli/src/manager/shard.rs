//! One place for a worker: its file, its process, and what it may be working on.
//!
//! Invariant: what the file names is never ahead of the deadman. A deadline that lies earlier is confirmed by it before the file
//! is replaced, one that lies later as well: whoever reads the file can rely on being alive until then.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::Moment;
use leasehold_manager::shards::file::{CameraEntry, ShardFile};
use leasehold_manager::shards::told::Told;
use leasehold_manager::{Exit, How, Next, Policy, Restart, Said, Worker};
use tempfile::NamedTempFile;
use tokio::task::AbortHandle;

/// How long before trust ends a worker is killed, so that it is gone when it does.
const KILL_BEFORE: Duration = Duration::from_millis(20);
/// How long before that it is to have stopped by itself.
pub(super) const STOP_BEFORE: Duration = Duration::from_millis(120);
/// The longest wait before a worker is started again.
const RESTART_MAX: Duration = Duration::from_secs(30);
/// How long a shard whose workers do not come up gets no cameras.
const SILENCE_KEPT: Duration = Duration::from_secs(600);
/// How soon something is tried again that the system refused.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// Why a worker was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nothing was heard of it for too long.
    Hung,
    /// The manager ends.
    Ending,
}

/// A worker that runs.
pub(super) struct Process {
    pub(super) worker: Arc<Worker>,
    /// Which of the shard's lives this is.
    pub(super) life: u64,
    pub(super) started: Moment,
    pub(super) said: Said,
    pub(super) alive_at: Option<Moment>,
    until: Option<Moment>,
    pub(super) stopping: Option<Stop>,
    pub(super) watching: AbortHandle,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// What became of a worker that has ended.
pub(super) struct Ended {
    /// The leases that it may have been working on.
    pub(super) leases: BTreeSet<String>,
    /// Whether one of its cameras may be to blame.
    pub(super) is_crash: bool,
    pub(super) lived: Duration,
}

/// One place for a worker.
pub(super) struct Shard {
    pub(super) index: usize,
    pub(super) path: PathBuf,
    pub(super) told: Told<String>,
    /// What the file says.
    file: Option<ShardFile>,
    pub(super) process: Option<Process>,
    pub(super) starting: bool,
    policy: Policy,
    pub(super) start_at: Moment,
    pub(super) lives: u64,
    pub(super) crashes: u64,
    /// Since when it has cameras and nothing is heard of a worker.
    pub(super) silent_since: Option<Moment>,
    /// Why the file could not be written, since when.
    pub(super) unwritten: Option<(Moment, String)>,
}

impl Shard {
    pub(super) fn new(index: usize, directory: &Path) -> Self {
        Self {
            index,
            path: directory.join(format!("shard-{index}.json")),
            told: Told::new(),
            file: None,
            process: None,
            starting: false,
            policy: Policy::new(Restart::Always),
            start_at: Moment(0),
            lives: 0,
            crashes: 0,
            silent_since: None,
            unwritten: None,
        }
    }

    /// Notes whether a worker is heard of. Where none was for very long, it is worth another attempt.
    pub(super) fn note_silence(&mut self, has_cameras: bool, now: Moment) {
        let forgotten = self.silent_since.is_some_and(|since| now.since(since) > SILENCE_KEPT);
        if self.is_heard() || forgotten {
            self.silent_since = None;
        } else if has_cameras {
            self.silent_since = self.silent_since.or(Some(now));
        }
    }

    /// Whether its cameras are better off elsewhere.
    pub(super) fn is_stuck(&self, start_grace: Duration, now: Moment) -> bool {
        self.silent_since.is_some_and(|since| now.since(since) > start_grace * 2)
    }

    /// Whether it is heard of.
    pub(super) fn is_heard(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.alive_at.is_some() && process.stopping.is_none())
    }

    /// When its processes are to be dead, by the deadlines of leases; `None` if it may be working on nothing.
    pub(super) fn kill_at(&self, deadlines: &BTreeMap<String, Moment>) -> Option<Moment> {
        let may = self.told.may_work_on();
        // A lease that is not known any more has no time left.
        let moments = may.iter().map(|lease| deadlines.get(lease).copied().unwrap_or(Moment(0)));
        moments.min().map(|moment| moment.before(KILL_BEFORE))
    }

    /// Has the deadman kill the worker then.
    pub(super) async fn last_until(&mut self, kill_at: Option<Moment>) -> bool {
        let Some(process) = &mut self.process else { return true };
        if process.until == kill_at {
            return true;
        }
        match process.worker.until(kill_at).await {
            Ok(()) => {
                process.until = kill_at;
                true
            }
            // Without a deadman every worker has been killed, and its exit is noticed.
            Err(_) => false,
        }
    }

    /// Whether the file says this, but for deadlines.
    pub(super) fn says(&self, cameras: &[CameraEntry], like: &ShardFile) -> bool {
        let plain = |entry: &CameraEntry| CameraEntry {
            trusted_until_boottime: 0.0,
            trusted_until: String::new(),
            degraded: false,
            ..entry.clone()
        };
        self.file.as_ref().is_some_and(|file| {
            file.heartbeat_seconds == like.heartbeat_seconds
                && file.reload == like.reload
                && file.cameras.len() == cameras.len()
                && file.cameras.iter().zip(cameras).all(|(one, other)| plain(one) == plain(other))
        })
    }

    /// Whether the file says exactly this.
    pub(super) fn is_written(&self, file: &ShardFile) -> bool {
        self.file.as_ref() == Some(file)
    }

    /// Replaces the file.
    pub(super) fn write(&mut self, file: ShardFile, now: Moment) -> bool {
        match replace(&self.path, &serde_json::to_vec_pretty(&file).unwrap_or_default()) {
            Ok(()) => {
                self.file = Some(file);
                self.unwritten = None;
                true
            }
            Err(error) => {
                if self.unwritten.is_none() {
                    tracing::error!(
                        shard_id = self.index, path = %self.path.display(), %error,
                        "the worker's configuration cannot be written: it keeps what it has until its deadline; make room, \
                         or make the directory writable"
                    );
                }
                let since = self.unwritten.as_ref().map_or(now, |(since, _)| *since);
                self.unwritten = Some((since, error.to_string()));
                false
            }
        }
    }

    /// A worker has been started.
    pub(super) fn began(
        &mut self,
        worker: Arc<Worker>,
        until: Option<Moment>,
        now: Moment,
        watching: AbortHandle,
    ) {
        self.starting = false;
        self.process = Some(Process {
            worker,
            life: self.lives,
            started: now,
            said: Said::default(),
            alive_at: None,
            until,
            stopping: None,
            watching,
        });
    }

    /// No process of the worker runs any more.
    pub(super) fn ended(&mut self, exit: Exit, now: Moment) -> Ended {
        let leases = self.told.may_work_on();
        self.told.gone();
        let process = self.process.take();
        let stopping = process.as_ref().and_then(|process| process.stopping);
        let overdue = process.as_ref().and_then(|process| process.until).is_some_and(|until| now >= until);
        // A command that could not be executed says nothing about cameras, nor does a kill at the deadline.
        let is_program = matches!(exit.how, How::Code(125..=127));
        let is_crash = match stopping {
            Some(Stop::Ending) => false,
            Some(Stop::Hung) => true,
            None => !overdue && !is_program,
        };
        if is_crash {
            self.crashes += 1;
        }
        let wait = match self.policy.on_exit(Exit { asked: false, ..exit }) {
            Next::Again(wait) | Next::Quarantine(wait) => wait.min(RESTART_MAX),
            Next::Finished => Duration::ZERO,
        };
        self.start_at = now.after(wait);
        tracing::warn!(
            event = "worker_ended", shard_id = self.index, how = %exit.how, restart_ms = wait.as_millis(),
            "a worker has ended"
        );
        Ended { leases, is_crash, lived: exit.ran_for }
    }

    /// What took it down is gone, so it begins anew.
    pub(super) fn forgive(&mut self, now: Moment) {
        self.policy = Policy::new(Restart::Always);
        self.start_at = now;
    }

    /// Asks the worker to end, and kills it after a while or at its deadline.
    pub(super) fn stop(&mut self, why: Stop, kill_at: Moment) {
        let Some(process) = &mut self.process else { return };
        if process.stopping.is_some() {
            return;
        }
        process.stopping = Some(why);
        let worker = Arc::clone(&process.worker);
        tokio::spawn(async move { worker.child().stop(kill_at).await });
    }
}

/// Replaces a file as a whole. Only its owner can read it.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    new.write_all(content)?;
    new.persist(path)?;
    Ok(())
}
