//! Real members with real work on any store. The proof is what the work itself wrote: every process keeps a file named after its
//! resource, its token and itself, and writes the machine's clock into it every few milliseconds.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold::clock::{self, Moment};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// How long anything may take on a busy machine; a store that has forgotten everything is frozen for a minute of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Work that wrote so recently is running.
const FRESH: Duration = Duration::from_millis(150);

pub(crate) fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_leasehold")
}

/// One stretch of work: whose, on what, under which token, from its first to its last moment.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    pub(crate) name: String,
    pub(crate) resource: String,
    pub(crate) token: u64,
    pub(crate) from: Moment,
    pub(crate) to: Moment,
}

pub(crate) struct Stage {
    directory: TempDir,
    store: String,
    ttl: Duration,
    resources: Vec<String>,
    members: BTreeMap<String, Child>,
}

impl Stage {
    /// A stage on a SQLite file of its own.
    pub(crate) fn new(ttl: Duration, resources: usize) -> Self {
        let mut stage = Self::on(String::new(), ttl, resources);
        stage.store = format!("sqlite:{}", stage.path("work.db").display());
        stage
    }

    /// A stage on the store with this URL.
    pub(crate) fn on(store: String, ttl: Duration, resources: usize) -> Self {
        let resources = (1..=resources).map(|number| format!("r{number}")).collect();
        Self { directory: tempfile::tempdir().unwrap(), store, ttl, resources, members: BTreeMap::new() }
    }

    /// From now on the store is found by another URL.
    pub(crate) fn moved_to(&mut self, store: &str) {
        store.clone_into(&mut self.store);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn enter(&mut self, name: &str) {
        self.enter_by(name, &self.store.clone(), &[]);
    }

    /// A member that reaches the store by a way of its own, and with more in its environment.
    pub(crate) fn enter_by(&mut self, name: &str, store: &str, environment: &[(&str, &str)]) {
        let journal = self.path(&format!("{name}.journal"));
        std::fs::create_dir_all(&journal).unwrap();
        let child = Command::new(binary())
            .args(["run", "--store", store, "--pool", "jobs", "--name", name])
            .envs(environment.iter().copied())
            .args(["--ttl", &format!("{}ms", self.ttl.as_millis()), "--log", "warn"])
            .args(["--resources", &self.resources.join(","), "--", binary(), "demo-work"])
            .arg(journal)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.members.insert(name.to_owned(), child);
    }

    pub(crate) fn signal(&self, name: &str, signal: Signal) {
        let pid = i32::try_from(self.members[name].id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits until a member's process has ended.
    pub(crate) fn reap(&mut self, name: &str) -> std::process::ExitStatus {
        let mut child = self.members.remove(name).unwrap();
        self.until(&format!("{name} ends"), |_| child.try_wait().unwrap().is_some());
        child.wait().unwrap()
    }

    /// Everything that everybody's work wrote.
    pub(crate) fn stretches(&self) -> Vec<Stretch> {
        let mut stretches: BTreeMap<(String, String, u64), (Moment, Moment)> = BTreeMap::new();
        for entry in std::fs::read_dir(self.directory.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "journal") {
                continue;
            }
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            for file in std::fs::read_dir(&path).unwrap() {
                let file = file.unwrap().path();
                let words: Vec<&str> = file.file_name().unwrap().to_str().unwrap().split('.').collect();
                let [resource, token, _pid] = words[..] else { panic!("{}", file.display()) };
                let moments = std::fs::read(&file).unwrap();
                // Who has only just begun has written nothing yet.
                let Some((from, to)) = moments.split_at_checked(8) else { continue };
                let moment = |bytes: &[u8]| Moment(u64::from_le_bytes(bytes.try_into().unwrap()));
                let (from, to) = (moment(from), moment(to));
                let key = (name.clone(), resource.to_owned(), token.parse().unwrap());
                let stretch = stretches.entry(key).or_insert((from, to));
                *stretch = (stretch.0.min(from), stretch.1.max(to));
            }
        }
        let stretch = |((name, resource, token), (from, to))| Stretch { name, resource, token, from, to };
        stretches.into_iter().map(stretch).collect()
    }

    /// Who is working on what at this moment.
    pub(crate) fn running(&self) -> BTreeMap<String, String> {
        let now = clock::now();
        let fresh = self.stretches().into_iter().filter(|stretch| now.since(stretch.to) < FRESH);
        fresh.map(|stretch| (stretch.resource, stretch.name)).collect()
    }

    /// How many pieces of work each of these is working on.
    pub(crate) fn shares(&self, names: &[&str]) -> Vec<usize> {
        let running = self.running();
        names.iter().map(|name| running.values().filter(|owner| owner == name).count()).collect()
    }

    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = clock::now().after(PATIENCE);
        while !holds(self) {
            assert!(clock::now() < deadline, "waited in vain until {what}; running: {:?}", self.running());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(crate) fn until_everything_is_worked_on(&self) {
        self.until("everything is worked on", |stage| stage.running().len() == stage.resources.len());
    }

    /// Watches for so long, and gives the longest that any resource's work wrote nothing.
    pub(crate) fn longest_rest_during(&self, time: Duration) -> Duration {
        let (end, mut longest) = (clock::now().after(time), Duration::ZERO);
        while clock::now() < end {
            let now = clock::now();
            let mut last: BTreeMap<&str, Moment> =
                self.resources.iter().map(|id| (&**id, Moment(0))).collect();
            let stretches = self.stretches();
            for stretch in &stretches {
                let latest = last.entry(&stretch.resource).or_default();
                *latest = stretch.to.max(*latest);
            }
            longest = last.values().map(|last| now.since(*last)).fold(longest, Duration::max);
            std::thread::sleep(Duration::from_millis(20));
        }
        longest
    }

    /// Waits until the work is shared out in these numbers, in any order, and stays so for a while.
    pub(crate) fn until_shared(&self, names: &[&str], wanted: &[usize]) {
        let mut since = clock::now();
        self.until(&format!("{names:?} share {wanted:?}"), |stage| {
            let mut shares = stage.shares(names);
            shares.sort_unstable();
            if shares != wanted {
                since = clock::now();
            }
            clock::now().since(since) > Duration::from_millis(500)
        });
    }

    /// No resource was ever worked on by two at once, and tokens rose with every change of hands.
    pub(crate) fn verify(&self) {
        let mut stretches = self.stretches();
        assert!(!stretches.is_empty(), "nothing was worked on");
        stretches.sort_by(|one, two| (&one.resource, one.from).cmp(&(&two.resource, two.from)));
        for pair in stretches.windows(2).filter(|pair| pair[0].resource == pair[1].resource) {
            assert!(pair[0].to < pair[1].from, "worked on by two at once: {pair:?}");
            assert!(pair[0].token < pair[1].token, "the token did not rise: {pair:?}");
        }
    }

    /// The same by the ledger, as `leasehold verify` judges it: what the members themselves recorded.
    pub(crate) fn verify_ledger(&self) {
        let judged =
            Command::new(binary()).args(["verify", "--store", &self.store, "--pool", "jobs"]).output();
        let judged = judged.unwrap();
        let said = String::from_utf8_lossy(&judged.stdout);
        assert!(judged.status.success(), "{said}{}", String::from_utf8_lossy(&judged.stderr));
        assert!(said.contains("overlap 0 s"), "{said}");
    }

    /// When this member's work last wrote.
    pub(crate) fn last_work_of(&self, name: &str) -> Moment {
        let its = self.stretches().into_iter().filter(|stretch| stretch.name == name);
        its.map(|stretch| stretch.to).max().unwrap_or_default()
    }

    /// The longest that any resource which `name` was working on was left alone before the next owner began.
    pub(crate) fn longest_gap_after(&self, name: &str, last: Moment) -> Duration {
        let stretches = self.stretches();
        let cut = stretches.iter().filter(|stretch| stretch.name == name && stretch.to >= last.before(FRESH));
        let gap = |cut: &Stretch| {
            let next = stretches.iter().filter(|s| s.resource == cut.resource && s.token > cut.token);
            next.map(|next| next.from).min().map(|from| from.since(cut.to))
        };
        cut.filter_map(gap).max().unwrap_or_default()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in self.members.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
