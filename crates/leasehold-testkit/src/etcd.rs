//! etcd on this machine: one node, or a cluster of three.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::Signal;

use crate::{Dir, Process, free_port, wait_for};

/// How an etcd is started.
#[derive(Debug, Clone, Default)]
pub struct EtcdOptions {
    /// Given to every member.
    pub arguments: Vec<String>,
    /// Set for every member.
    pub environment: Vec<(String, String)>,
    /// Files of a certificate and its key: clients must speak TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Given to `etcdctl`.
    pub ctl: Vec<String>,
}

/// An etcd of one node.
#[derive(Debug)]
pub struct Etcd(EtcdCluster);

impl Etcd {
    /// Starts it and waits until it answers.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(EtcdOptions::default())
    }

    /// Starts it in another way.
    #[must_use]
    pub fn start_with(options: EtcdOptions) -> Self {
        Self(EtcdCluster::of(1, options))
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.members[0].client
    }

    /// The address of a store on it.
    #[must_use]
    pub fn url(&self, prefix: &str) -> String {
        self.0.url(prefix)
    }

    /// Kills it as a power cut does.
    pub fn kill(&mut self) {
        self.0.kill(0);
    }

    /// Starts it again with what it had.
    pub fn restart(&mut self) {
        self.0.kill(0);
        self.0.start_again(0);
    }

    /// Holds it still.
    pub fn pause(&self) {
        self.0.pause(0);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.0.resume(0);
    }

    /// Runs `etcdctl` and gives back what it prints.
    #[must_use]
    pub fn ctl(&self, arguments: &[&str]) -> String {
        self.0.ctl(arguments)
    }

    /// Runs `etcdctl` with an input, whatever comes of it.
    #[must_use]
    pub fn try_ctl(&self, arguments: &[&str], input: &str) -> Output {
        self.0.try_ctl(arguments, input)
    }

    /// Keeps a snapshot of everything in a file of this name.
    pub fn save(&self, name: &str) {
        let path = self.0.dir.join(name);
        let _ = std::fs::remove_file(&path);
        let _ = self.ctl(&["snapshot", "save", path.to_str().expect("a readable path")]);
    }

    /// Puts the snapshot in the place of everything, as an operator does, and starts on it. With a new token the cluster has
    /// another id; with the usual one it has the same.
    pub fn restore(&mut self, name: &str, new_token: bool) {
        static TOKENS: AtomicU32 = AtomicU32::new(0);

        self.0.kill(0);
        let token = match new_token {
            true => format!("token-{}-{}", std::process::id(), TOKENS.fetch_add(1, Ordering::Relaxed)),
            false => "etcd-cluster".to_owned(),
        };
        let member = &self.0.members[0];
        std::fs::remove_dir_all(&member.data).expect("its data");
        let peer = format!("http://127.0.0.1:{}", member.peer);
        let restored = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore"])
            .arg(self.0.dir.join(name))
            .arg("--data-dir")
            .arg(&member.data)
            .args(["--name", &member.name, "--initial-cluster", &format!("{}={peer}", member.name)])
            .args(["--initial-advertise-peer-urls", &peer, "--initial-cluster-token", &token])
            .output()
            .expect("etcdctl");
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        self.0.start_again(0);
    }

    /// Forgets all revisions before the present one.
    pub fn compact(&self) {
        let status = self.ctl(&["get", "no-such-key", "-w", "json"]);
        let revision = status.split("\"revision\":").nth(1).expect("a revision");
        let digits: String = revision.chars().take_while(char::is_ascii_digit).collect();
        let _ = self.ctl(&["compact", &digits]);
    }

    /// Its process.
    ///
    /// # Panics
    /// It does not run.
    #[must_use]
    pub fn process(&self) -> &Process {
        self.0.members[0].process.as_ref().expect("the server runs")
    }

    /// What it said so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.0.members[0].process.as_ref().map(Process::log).unwrap_or_default()
    }
}

/// An etcd cluster.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Member>,
    options: EtcdOptions,
    dir: Dir,
}

#[derive(Debug)]
struct Member {
    name: String,
    client: u16,
    peer: u16,
    data: PathBuf,
    process: Option<Process>,
}

impl EtcdCluster {
    /// Starts three members and waits until they answer.
    #[must_use]
    pub fn start() -> Self {
        Self::of(3, EtcdOptions::default())
    }

    /// Starts as many members as asked for and waits until they answer.
    #[must_use]
    pub fn of(count: usize, options: EtcdOptions) -> Self {
        let dir = Dir::new();
        let members = (1..=count).map(|number| {
            let name = format!("n{number}");
            let data = dir.join(&name);
            Member { name, client: free_port(), peer: free_port(), data, process: None }
        });
        let mut cluster = Self { members: members.collect(), options, dir };
        for member in 0..count {
            cluster.spawn(member);
        }
        for member in 0..count {
            cluster.wait_until_well(member);
        }
        cluster
    }

    fn spawn(&mut self, place: usize) {
        let peer_url = |member: &Member| format!("http://127.0.0.1:{}", member.peer);
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        let all: Vec<String> =
            self.members.iter().map(|member| format!("{}={}", member.name, peer_url(member))).collect();
        let member = &self.members[place];
        let (client, peer) = (format!("{scheme}://127.0.0.1:{}", member.client), peer_url(member));
        let mut command = Command::new("etcd");
        command
            .args(["--name", &member.name, "--unsafe-no-fsync", "--logger", "zap", "--log-level", "warn"])
            .arg("--data-dir")
            .arg(&member.data)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &all.join(",")]);
        if let Some((cert, key)) = &self.options.tls {
            command.arg("--cert-file").arg(cert).arg("--key-file").arg(key);
        }
        command.args(&self.options.arguments).envs(self.options.environment.iter().cloned());
        let log = self.dir.join(&format!("{}.log", member.name));
        self.members[place].process = Some(Process::start(&mut command, &log));
    }

    fn wait_until_well(&mut self, place: usize) {
        wait_for("etcd answers", || {
            let member = &mut self.members[place];
            let log = member.process.as_ref().map(Process::log).unwrap_or_default();
            assert!(!member.process.as_mut().is_none_or(Process::ended), "etcd has ended:\n{log}");
            let asked = self.ctl_of(place, &["get", "no-such-key"]).output().expect("etcdctl");
            // One that asks who we are answers too.
            let said = String::from_utf8_lossy(&asked.stderr);
            asked.status.success() || said.contains("user name is empty")
        });
    }

    fn ctl_of(&self, place: usize, arguments: &[&str]) -> Command {
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        let endpoint = format!("{scheme}://127.0.0.1:{}", self.members[place].client);
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &endpoint, "--command-timeout", "3s"]);
        if self.options.tls.is_some() {
            command.args(["--insecure-transport=false", "--insecure-skip-tls-verify"]);
        }
        command.args(&self.options.ctl).args(arguments);
        command
    }

    /// Runs `etcdctl` on the first member that runs and gives back what it prints.
    ///
    /// # Panics
    /// It fails.
    #[must_use]
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = self.try_ctl(arguments, "");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs `etcdctl` with an input, whatever comes of it.
    ///
    /// # Panics
    /// It cannot be run.
    #[must_use]
    pub fn try_ctl(&self, arguments: &[&str], input: &str) -> Output {
        use std::io::Write;
        use std::process::Stdio;

        let place = self.members.iter().position(|member| member.process.is_some()).expect("one that runs");
        let mut command = self.ctl_of(place, arguments);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("etcdctl");
        // One that reads nothing has ended already.
        let _ = child.stdin.take().expect("its input").write_all(input.as_bytes());
        child.wait_with_output().expect("etcdctl")
    }

    /// Where its members listen.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.client).collect()
    }

    /// The address of a store on it.
    #[must_use]
    pub fn url(&self, prefix: &str) -> String {
        let hosts: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.client)).collect();
        let scheme = if self.options.tls.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://{}/{prefix}", hosts.join(","))
    }

    /// Which member leads.
    ///
    /// # Panics
    /// None does.
    #[must_use]
    pub fn leader(&self) -> usize {
        let leads = |place: usize| {
            let output = self.ctl_of(place, &["endpoint", "status"]).output().expect("etcdctl");
            let status = String::from_utf8_lossy(&output.stdout).into_owned();
            // The endpoint, its id, version, size, whether it leads.
            status.split(", ").nth(4) == Some("true")
        };
        let mut found = None;
        wait_for("a leader is elected", || {
            found = (0..self.members.len()).find(|place| leads(*place));
            found.is_some()
        });
        found.expect("a leader")
    }

    /// Kills a member as a power cut does.
    pub fn kill(&mut self, place: usize) {
        if let Some(mut process) = self.members[place].process.take() {
            process.end(Signal::SIGKILL);
        }
    }

    /// Starts a killed member with what it had, and waits until it answers.
    pub fn start_again(&mut self, place: usize) {
        self.spawn(place);
        self.wait_until_well(place);
    }

    /// Holds a member still.
    pub fn pause(&self, place: usize) {
        self.signal(place, Signal::SIGSTOP);
    }

    /// Lets a member go on.
    pub fn resume(&self, place: usize) {
        self.signal(place, Signal::SIGCONT);
    }

    fn signal(&self, place: usize, signal: Signal) {
        if let Some(process) = &self.members[place].process {
            process.signal(signal);
        }
    }
}
