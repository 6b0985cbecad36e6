//! What the tests share: the real program, a place for its files, members that run, and waiting for conditions.

// Each test binary uses its own part of this.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use leasehold::clock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// How long a condition may take to come about on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(40);
/// Work that writes `resource token name` into the journal `$0` again and again; `$1` is the member's name.
pub const TICK: &str = "while :; do echo $LEASEHOLD_RESOURCE $LEASEHOLD_TOKEN $1 >> $0; sleep 0.1; done";

/// Every command.
pub const COMMANDS: [&str; 32] = [
    "demo",
    "run",
    "poll",
    "elect",
    "serve",
    "manager",
    "fence",
    "keys",
    "deploy",
    "check",
    "status",
    "show",
    "plan",
    "explain",
    "events",
    "verify",
    "migrate",
    "doctor",
    "bench",
    "drain",
    "undrain",
    "cordon",
    "uncordon",
    "pin",
    "unpin",
    "pause",
    "resume",
    "revoke",
    "resign",
    "top",
    "completions",
    "man",
];

/// The program, in an environment that says nothing about Leasehold.
pub fn leasehold() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LEASEHOLD_"))
    {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// How a command ended and what it said.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Waits for a condition.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let give_up_at = clock::now().after(PATIENCE);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(clock::now() < give_up_at, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// A directory with a store and a journal in it.
pub struct Place {
    directory: TempDir,
    pub store: PathBuf,
    elsewhere: Option<String>,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = directory.path().join("work.db");
        Self { directory, store, elsewhere: None }
    }

    /// A place for files whose store is elsewhere.
    pub fn on(url: String) -> Self {
        Self { elsewhere: Some(url), ..Self::new() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn url(&self) -> String {
        self.elsewhere.clone().unwrap_or_else(|| format!("sqlite:{}", self.store.display()))
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).expect("a file");
        self.path(name).display().to_string()
    }

    /// The names of everything in the directory.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root()).expect("the directory").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    pub fn lines(&self, name: &str) -> Vec<String> {
        std::fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Runs a subcommand on the store.
    pub fn ask(&self, words: &[&str]) -> Ran {
        ran(leasehold().arg(words[0]).args(["--store", &self.url()]).args(&words[1..]))
    }

    /// What a subcommand on the store prints; it must succeed.
    pub fn told(&self, words: &[&str]) -> String {
        let ran = self.ask(words);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}: {}", ran.out);
        ran.out
    }

    pub fn json(&self, words: &[&str]) -> Value {
        let text = self.told(&[words, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Who owns what, by names, as `status` says it. Nothing as long as there is no store.
    pub fn owners(&self, pool: &str) -> BTreeMap<String, String> {
        let ran = self.ask(&["status", "--pool", pool, "--json"]);
        let Ok(report) = serde_json::from_str::<Value>(&ran.out) else { return BTreeMap::new() };
        let resources = report["pools"][0]["resources"].as_array().cloned().unwrap_or_default();
        let owned = resources.iter().filter_map(|r| Some((text(&r["resource"])?, text(&r["owner"])?)));
        owned.collect()
    }

    /// The ledger's rows.
    pub fn events(&self, pool: &str) -> Vec<Value> {
        let ran = self.ask(&["events", "--pool", pool, "--json", "--limit", "10000"]);
        ran.out.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
    }

    /// Who wrote last about each resource, and under which token.
    pub fn workers(&self) -> BTreeMap<String, (String, u64)> {
        let ticks = self.ticks();
        ticks.into_iter().map(|(resource, token, name)| (resource, (name, token))).collect()
    }

    /// What work wrote: resource, token, name, in the order it was written.
    pub fn ticks(&self) -> Vec<(String, u64, String)> {
        let parse = |line: String| {
            let words: Vec<&str> = line.split(' ').collect();
            Some((words.first()?.to_string(), words.get(1)?.parse().ok()?, words.get(2)?.to_string()))
        };
        self.lines("journal").into_iter().filter_map(parse).collect()
    }

    /// Waits until work on `resource` has written so many lines more.
    pub fn more_ticks(&self, resource: &str, more: usize) {
        let count = || self.ticks().iter().filter(|(id, _, _)| id == resource).count();
        let before = count();
        wait_until(&format!("{more} more lines about {resource}"), || count() >= before + more);
    }

    /// One file, in which the system kept the order: once a token has written, no older one does.
    pub fn assert_one_owner_at_a_time(&self) {
        let mut newest: BTreeMap<String, u64> = BTreeMap::new();
        for (resource, token, name) in self.ticks() {
            let seen = newest.entry(resource.clone()).or_insert(token);
            assert!(*seen <= token, "{name} wrote about {resource} under {token} after {seen} had");
            *seen = token;
        }
    }

    /// A member of `jobs` that ticks.
    pub fn member(&self, name: &str, options: &[&str]) -> Member {
        let journal = self.path("journal").display().to_string();
        self.run(name, options, &["sh", "-c", TICK, &journal, name])
    }

    /// A member of `jobs` that runs `command`. Options that are given again win.
    pub fn run(&self, name: &str, options: &[&str], command: &[&str]) -> Member {
        let mut run = leasehold();
        run.args(["run", "--store", &self.url(), "--pool", "jobs", "--name", name]).args(options);
        self.start(name, run.arg("--").args(command))
    }

    /// Starts a command with its output in `NAME.out` and `NAME.err`.
    pub fn start(&self, name: &str, command: &mut Command) -> Member {
        let file = |kind: &str| File::create(self.path(&format!("{name}.{kind}"))).expect("a file");
        let child = command.stdout(file("out")).stderr(file("err")).spawn().expect("the program runs");
        Member { child, err: self.path(&format!("{name}.err")) }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// A `leasehold run` that goes on. Dropping it kills it; its children end with it.
pub struct Member {
    child: Child,
    err: PathBuf,
}

impl Member {
    /// Starts a command whose output goes where it says.
    pub fn of(command: &mut Command) -> Self {
        Self { child: command.spawn().expect("the program runs"), err: PathBuf::new() }
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        kill(pid, signal).expect("a process to signal");
    }

    /// How much processor time it has used, without its children.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("a process");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
        // In user and in kernel mode, in hundredths of a second.
        let ticks = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum::<u64>();
        Duration::from_millis(ticks * 10)
    }

    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the member ends", || self.child.try_wait().expect("a child"))
    }

    /// Tells it to leave and waits until it has.
    pub fn leave(mut self) {
        self.signal(Signal::SIGTERM);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.err.display(), self.log());
        }
    }
}

/// The state letter of a process; nothing if there is none.
pub fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

pub fn runs(pid: u32) -> bool {
    state_of(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}
