//! A server's process.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a server may take for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command; what it says goes into the file `log`.
    ///
    /// # Panics
    /// The program is not there.
    #[must_use]
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).expect("a file for the log");
        let again = file.try_clone().expect("a file for the log");
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(file).stderr(again).spawn();
        let child = child.unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        Self { child, log: log.to_owned() }
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How much processor time it has used, without its children.
    ///
    /// # Panics
    /// It has ended.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("a process");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
        // In user and in kernel mode, in hundredths of a second.
        let ticks: u64 = fields[11..13].iter().filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Sends it a signal. Who is told to stop stands still when this returns.
    pub fn signal(&self, signal: Signal) {
        // One that has ended has nothing to hear.
        let _ = kill(self.pid(), signal);
        if signal == Signal::SIGSTOP {
            wait_for("the server stands still", || self.stands_still());
        }
    }

    fn stands_still(&self) -> bool {
        let tasks =
            std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let mut states = tasks.filter_map(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            stat.rsplit_once(')')?.1.trim_start().chars().next()
        });
        // Stopped, or on the way out.
        states.all(|state| matches!(state, 'T' | 't' | 'Z' | 'X'))
    }

    /// Sends it a signal and waits until it has ended.
    pub fn end(&mut self, signal: Signal) {
        self.signal(signal);
        // A stopped process hears nothing but SIGKILL until it goes on.
        self.signal(Signal::SIGCONT);
        wait_for("the server ends", || self.ended());
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// It is not our child.
    pub fn ended(&mut self) -> bool {
        self.child.try_wait().expect("our own child").is_some()
    }

    /// What it said so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("--- the end of {}", self.log.display());
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Waits for a condition.
///
/// # Panics
/// It does not come about.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let pause = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    while !holds() {
        assert!(waited < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(pause);
        waited += pause;
    }
}

/// A loopback port that nothing listens on. Never the same twice within a process.
///
/// # Panics
/// There is none left.
#[must_use]
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Vec<u16>> = Mutex::new(Vec::new());

    let mut given = GIVEN.lock().expect("nobody panics with it");
    for _ in 0..1000 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        if !given.contains(&port) {
            given.push(port);
            return port;
        }
    }
    panic!("no free port is left");
}
