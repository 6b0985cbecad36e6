//! The demo's members: this very program, run as a newcomer would run it.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold::clock::{self, Moment};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{POOL, RESOURCES};
use crate::failure::Failure;

/// How a member's process fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Runs,
    Frozen,
    Killed,
    /// It ended by itself.
    Gone,
}

/// One member's process.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) name: String,
    pub(super) fate: Fate,
    /// Since when.
    pub(super) since: Moment,
    child: Child,
    /// What it complained of.
    complaints: PathBuf,
}

impl Player {
    pub(super) fn lives(&self) -> bool {
        matches!(self.fate, Fate::Runs | Fate::Frozen)
    }
}

/// Everybody, in the order of their entrances. A name that enters again takes the place of its last bearer.
#[derive(Debug)]
pub(super) struct Cast {
    directory: PathBuf,
    store: String,
    ttl: Duration,
    players: Vec<Player>,
}

impl Cast {
    pub(super) fn new(directory: &Path, store: &Path, ttl: Duration) -> Self {
        let store = format!("sqlite:{}", store.display());
        Self { directory: directory.to_owned(), store, ttl, players: Vec::new() }
    }

    pub(super) fn players(&self) -> &[Player] {
        &self.players
    }

    pub(super) fn player(&self, name: &str) -> Option<&Player> {
        self.players.iter().find(|player| player.name == name)
    }

    /// Starts a member whose work writes into `journal`.
    pub(super) fn enter(&mut self, name: &str, journal: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::system("the demo cannot start itself again", &error);
        let program = std::env::current_exe().map_err(failed)?;
        std::fs::create_dir_all(journal).map_err(failed)?;
        let complaints = self.directory.join(format!("{name}.err"));
        let ttl = format!("{}ms", self.ttl.as_millis());
        let mut member = Command::new(&program);
        // The demo is the same whatever its viewer's environment says.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LEASEHOLD_"))
        {
            member.env_remove(name);
        }
        let child = member
            // What a killed member leaves behind goes away with the demo's own directory.
            .env("TMPDIR", &self.directory)
            .args(["run", "--store", &self.store, "--pool", POOL, "--name", name, "--ttl", &ttl])
            // Whatever ends the demo, even kill -9, ends its members: they hold the other end of this pipe.
            .args(["--log", "off", "--while-stdin", "--resources", &RESOURCES.join(","), "--"])
            .arg(&program)
            .arg("demo-work")
            .arg(journal)
            .stdin(Stdio::piped())
            // A frozen one would not notice. The system wakes and ends a stopped group that lost its parent.
            .process_group(0)
            // Nobody but the demo writes on the screen.
            .stdout(Stdio::null())
            .stderr(File::create(&complaints).map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        self.players.retain(|player| player.name != name);
        let (name, since) = (name.to_owned(), clock::now());
        self.players.push(Player { name, fate: Fate::Runs, since, child, complaints });
        Ok(())
    }

    pub(super) fn kill(&mut self, name: &str) -> Result<(), Failure> {
        self.send(name, Signal::SIGKILL, Fate::Killed)?;
        if let Some(player) = self.players.iter_mut().find(|player| player.name == name) {
            let _ = player.child.wait();
        }
        Ok(())
    }

    pub(super) fn freeze(&mut self, name: &str) -> Result<(), Failure> {
        self.send(name, Signal::SIGSTOP, Fate::Frozen)
    }

    pub(super) fn thaw(&mut self, name: &str) -> Result<(), Failure> {
        self.send(name, Signal::SIGCONT, Fate::Runs)
    }

    fn send(&mut self, name: &str, what: Signal, fate: Fate) -> Result<(), Failure> {
        let found = self.players.iter_mut().find(|player| player.name == name && player.lives());
        let Some(player) = found else { return Ok(()) };
        signal(&player.child, what)?;
        player.fate = fate;
        player.since = clock::now();
        Ok(())
    }

    /// Notices who ended by itself, and says what that one complained of.
    pub(super) fn notice(&mut self) -> Option<String> {
        for player in self.players.iter_mut().filter(|player| player.lives()) {
            if let Ok(Some(status)) = player.child.try_wait() {
                player.fate = Fate::Gone;
                player.since = clock::now();
                let complaints = std::fs::read_to_string(&player.complaints).unwrap_or_default();
                let last = complaints.lines().last().unwrap_or("without a word");
                return Some(format!("{} ended by itself ({status}): {last}", player.name));
            }
        }
        None
    }

    /// Tells everybody to leave and waits until they have; who is too slow is killed.
    pub(super) fn leave(&mut self) {
        let mut waiting: Vec<&mut Player> = self.players.iter_mut().filter(|player| player.lives()).collect();
        for player in &waiting {
            // A frozen one cannot hear that it should leave.
            let _ = signal(&player.child, Signal::SIGCONT);
            let _ = signal(&player.child, Signal::SIGTERM);
        }
        let give_up_at = clock::now().after(self.ttl + Duration::from_secs(1));
        for player in &mut waiting {
            while matches!(player.child.try_wait(), Ok(None)) {
                if clock::now() > give_up_at {
                    let _ = player.child.kill();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            player.fate = Fate::Gone;
        }
    }
}

/// Whether there is such a process, and it has not ended.
pub(super) fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn signal(child: &Child, signal: Signal) -> Result<(), Failure> {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    match kill(pid, signal) {
        // It has ended by itself, which is noticed in its own time.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(Failure::system("a member of the demo cannot be signalled", &error)),
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        for player in self.players.iter_mut().filter(|player| player.lives()) {
            // A frozen member cannot hear anything gentler. Its children end with it.
            let _ = player.child.kill();
            let _ = player.child.wait();
        }
    }
}
