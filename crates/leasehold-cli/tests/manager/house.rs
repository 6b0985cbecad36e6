//! A control plane, managers, and the journal that their workers write.

use std::collections::BTreeMap;
use std::path::Path;

use leasehold_testkit::free_port;
use serde_json::{Value, json};

use crate::fleet::{Plane, SITE, tell};
use crate::support::{Member, Place, leasehold, runs, wait_for, wait_until};

/// A line of the journal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) at: f64,
    pub(crate) camera: String,
    pub(crate) token: u64,
    pub(crate) runner: String,
    pub(crate) shard: usize,
    pub(crate) pid: u32,
    pub(crate) degraded: bool,
    pub(crate) zones: String,
}

impl Line {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [at, camera, token, runner, shard, pid, degraded, zones] = words[..] else { return None };
        Some(Self {
            at: at.parse().ok()?,
            camera: camera.to_owned(),
            token: token.parse().ok()?,
            runner: runner.to_owned(),
            shard: shard.parse().ok()?,
            pid: pid.parse().ok()?,
            degraded: degraded == "1",
            zones: zones.to_owned(),
        })
    }
}

/// One control plane and everything that its managers leave behind.
pub(crate) struct House {
    pub(crate) plane: Plane,
}

/// A manager that runs.
pub(crate) struct Manager {
    pub(crate) process: Member,
    pub(crate) address: String,
    pub(crate) file: String,
}

impl House {
    pub(crate) fn new(cameras: usize) -> Self {
        Self::with(Plane::start(Place::new(), &[], None), cameras)
    }

    pub(crate) fn with(plane: Plane, cameras: usize) -> Self {
        plane.populate(cameras, &[]);
        Self { plane }
    }

    /// What a manager is told, with more of it, which may say the same again in another way.
    pub(crate) fn settings(&self, name: &str, address: &str, more: &str) -> String {
        let path = |name: &str| self.plane.place.path(name).display().to_string();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manager/worker.py");
        let mut usual = BTreeMap::from([
            ("control_plane_url", json!(format!("http://{}", self.plane.address))),
            ("runner_id", json!(name)),
            ("tenant_id", json!("tenant-1")),
            ("deployment_group", json!("production")),
            ("deployment_version", json!("v1")),
            ("max_workers", json!(2)),
            ("max_cameras_per_worker", json!(8)),
            ("lease_ttl_seconds", json!(15)),
            ("lease_retry_interval_seconds", json!(1)),
            ("heartbeat_interval_seconds", json!(3)),
            ("worker_http_port", json!(0)),
            ("worker_metrics_port", json!(0)),
            ("worker_heartbeat_seconds", json!(1)),
            ("worker_heartbeat_timeout_seconds", json!(8)),
            ("worker_start_grace_seconds", json!(20)),
            ("worker_stop_grace_seconds", json!(3)),
            ("worker_hung_grace_seconds", json!(1)),
            ("listen", json!(address)),
            ("config_dir", json!(path(&format!("dir-{name}")))),
            (
                "worker_command",
                json!(["python3", script.display().to_string(), "--journal", path("journal")]),
            ),
        ]);
        usual.retain(|key, _| !more.lines().any(|line| line.starts_with(&format!("{key} "))));
        let usual: String = usual.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        format!("{usual}{more}\n")
    }

    /// Starts a manager and waits until the control plane knows it.
    pub(crate) fn manager(&self, name: &str, more: &str) -> Manager {
        let address = format!("127.0.0.1:{}", free_port());
        let file = self.plane.place.write(&format!("{name}.toml"), &self.settings(name, &address, more));
        let mut command = leasehold();
        command.args(["manager", "--config", &file]).env("HOUSE", self.plane.place.root());
        let process = self.plane.place.start(name, &mut command);
        let manager = Manager { process, address, file };
        wait_until("the manager is registered", || manager.told("registered") == json!(true));
        manager
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.plane.place.lines("journal").iter().filter_map(|line| Line::read(line)).collect()
    }

    /// Who wrote about each camera since there were so many lines.
    pub(crate) fn writers(&self, since: usize) -> BTreeMap<String, Line> {
        self.lines().into_iter().skip(since).map(|line| (line.camera.clone(), line)).collect()
    }

    /// Waits until so many cameras are worked on, by what is written from now on.
    pub(crate) fn wait_for_work(&self, cameras: usize) -> BTreeMap<String, Line> {
        let since = self.lines().len();
        wait_for(&format!("{cameras} cameras are worked on"), || {
            Some(self.writers(since)).filter(|writers| writers.len() == cameras)
        })
    }

    /// When a process wrote for the last time.
    pub(crate) fn last_of(&self, pid: u32) -> f64 {
        self.lines().iter().filter(|line| line.pid == pid).map(|line| line.at).fold(0.0, f64::max)
    }

    /// The lease of a camera.
    pub(crate) fn lease(&self, camera: &str) -> Option<Value> {
        let (code, leases) = self.plane.ask("GET", &format!("/api/v1/leases/camera/{camera}/"), &Value::Null);
        let active = leases.as_array()?.iter().find(|lease| lease["status"] == "active").cloned();
        active.filter(|_| code == 200)
    }

    /// Waits for the next line about a camera that is as wanted.
    pub(crate) fn wait_for_line(&self, what: &str, wanted: impl Fn(&Line) -> bool) -> Line {
        let since = self.lines().len();
        wait_for(what, || self.lines().into_iter().skip(since).find(&wanted))
    }

    /// How a worker behaves from now on.
    pub(crate) fn behave(&self, manager: &str, shard: usize, words: &str) {
        self.plane.place.write(&format!("behave-{manager}-{shard}"), words);
    }

    /// Changes a camera.
    pub(crate) fn camera(&self, name: &str, url: &str, zones: &Value) {
        let body = json!({"rtsp_url": url, "zones": zones});
        self.plane.expect(200, "PUT", &format!("{SITE}/cameras/{name}/"), &body);
    }

    /// What was written about each camera, in the order of the moments at which it was.
    fn stories(&self) -> BTreeMap<String, Vec<Line>> {
        let mut lines = self.lines();
        lines.sort_by(|one, other| one.at.total_cmp(&other.at));
        let mut stories: BTreeMap<String, Vec<Line>> = BTreeMap::new();
        for line in lines {
            stories.entry(line.camera.clone()).or_default().push(line);
        }
        stories
    }

    /// Once a token has written about a camera no older one does, and two processes that worked on it at once would have
    /// taken turns within a second.
    pub(crate) fn assert_one_owner_at_a_time(&self) {
        for (camera, story) in self.stories() {
            let (mut newest, mut last) = (story[0].clone(), BTreeMap::new());
            for line in story {
                assert!(newest.token <= line.token, "{camera}: {line:?} was written after {newest:?}");
                let before = last.insert(line.pid, line.at).unwrap_or(0.0);
                let is_turn = newest.pid != line.pid && line.at - before < 1.0;
                assert!(!is_turn, "{camera}: {line:?} was written at once with {newest:?}");
                newest = line;
            }
        }
    }

    /// What a fence would refuse, because a higher token had written before, was marked. How much it was.
    pub(crate) fn assert_stale_output_is_marked(&self) -> usize {
        let (mut newest, mut refused) = (BTreeMap::new(), 0);
        // As a consumer gets it: in the order in which it arrived.
        for line in self.lines() {
            let highest = newest.entry(line.camera.clone()).or_insert(line.token);
            if line.token < *highest {
                assert!(line.degraded, "{line:?} came after token {highest}");
                refused += 1;
            }
            *highest = line.token.max(*highest);
        }
        refused
    }

    /// For how long a camera was without a worker at most when it went from one runner to another, since so many lines.
    pub(crate) fn longest_handover(&self, since: usize) -> f64 {
        let (mut last, mut longest) = (BTreeMap::<String, Line>::new(), 0.0_f64);
        for (number, line) in self.lines().into_iter().enumerate() {
            let before =
                last.get(&line.camera).filter(|before| number >= since && before.runner != line.runner);
            if let Some(before) = before {
                longest = longest.max(line.at - before.at);
            }
            last.insert(line.camera.clone(), line);
        }
        longest
    }

    /// Nothing of what the workers of this house started is left.
    pub(crate) fn assert_no_orphans(&self) {
        let journal = self.plane.place.path("journal").display().to_string();
        let is_ours = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let home = self.plane.place.root().display().to_string();
            let has = |text: &[u8], part: &str| String::from_utf8_lossy(text).contains(part);
            (has(&words, &journal) || has(&environment, &home)) && runs(*pid)
        };
        wait_until("every process of every worker is gone", || {
            let all = std::fs::read_dir("/proc").expect("processes").flatten();
            let pids = all.filter_map(|one| one.file_name().to_str()?.parse::<u32>().ok());
            !pids.into_iter().any(|pid| is_ours(&pid))
        });
    }
}

impl Manager {
    /// All that it tells of itself.
    pub(crate) fn status(&self) -> Value {
        tell(&self.address, "GET", "/v1/workers", "", &Value::Null).map_or(Value::Null, |(_, said)| said)
    }

    pub(crate) fn told(&self, field: &str) -> Value {
        self.status()[field].clone()
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> (u16, Value) {
        tell(&self.address, method, path, "", &Value::Null).expect("an answer")
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        self.process.signal(signal);
    }

    /// The process ids of its workers.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let workers = self.told("workers");
        let pids = workers.as_array().into_iter().flatten();
        pids.filter_map(|worker| u32::try_from(worker["pid"].as_u64()?).ok()).collect()
    }
}
