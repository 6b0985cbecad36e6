//! A Redis server of one's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::{Dir, Process, free_port, wait_for};

/// What the server keeps on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persistence {
    /// Nothing, unless it is told to.
    #[default]
    Nothing,
    /// Every write, before it is answered.
    Always,
    /// Every write, within a second.
    EverySecond,
}

/// How a server is set up.
#[derive(Debug, Clone, Default)]
pub struct RedisSetup {
    /// What it keeps on the disk.
    pub persistence: Persistence,
    /// The password of its default user.
    pub password: Option<String>,
    /// More arguments.
    pub args: Vec<String>,
    /// More environment, such as a library to load first.
    pub env: Vec<(String, String)>,
    /// Whether it speaks TLS only, with the certificates that `args` name.
    pub tls: bool,
}

impl RedisSetup {
    /// The same with more arguments.
    #[must_use]
    pub fn with(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }
}

/// A running server. Dropping it kills it and removes what it kept.
#[derive(Debug)]
pub struct Redis {
    dir: Dir,
    port: u16,
    setup: RedisSetup,
    process: Option<Process>,
}

impl Redis {
    /// Starts a server that keeps nothing.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(RedisSetup::default())
    }

    /// Starts a server and waits until it answers.
    #[must_use]
    pub fn start_with(setup: RedisSetup) -> Self {
        let mut redis = Self { dir: Dir::new(), port: free_port(), setup, process: None };
        redis.launch();
        redis
    }

    /// Starts a replica of this server and waits until it follows.
    #[must_use]
    pub fn replica(&self) -> Self {
        self.replica_of_port(self.port)
    }

    /// Starts a replica that reaches this server through a port of its own, such as a [`Proxy`](crate::Proxy)'s.
    #[must_use]
    pub fn replica_of_port(&self, port: u16) -> Self {
        let mut setup = self.setup.clone().with(&["--replicaof", "127.0.0.1", &port.to_string()]);
        if let Some(password) = self.setup.password.clone() {
            setup = setup.with(&["--masterauth", &password]);
        }
        let replica = Self::start_with(setup);
        wait_for("the replica follows", || {
            replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
        });
        replica
    }

    fn launch(&mut self) {
        self.launch_unready();
        let (port, tls) = (self.port, self.setup.tls);
        wait_for("redis answers", || answers(port, tls));
    }

    fn launch_unready(&mut self) {
        let port = self.port.to_string();
        let (plain, secure) = if self.setup.tls { ("0", port.as_str()) } else { (port.as_str(), "0") };
        let mut command = Command::new("redis-server");
        command.args(["--port", plain, "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(self.dir.path());
        if self.setup.tls {
            command.args(["--tls-port", secure]);
        }
        // A replica is sent the data at once, not after a moment for others to join.
        command.args(["--repl-diskless-sync-delay", "0"]);
        match self.setup.persistence {
            Persistence::Nothing => command.args(["--appendonly", "no"]),
            Persistence::Always => command.args(["--appendonly", "yes", "--appendfsync", "always"]),
            Persistence::EverySecond => command.args(["--appendonly", "yes", "--appendfsync", "everysec"]),
        };
        if let Some(password) = &self.setup.password {
            command.args(["--requirepass", password]);
        }
        command.args(&self.setup.args).envs(self.setup.env.iter().map(|(name, value)| (name, value)));
        self.process = Some(Process::start(&mut command, &self.dir.join("log")));
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, with its password.
    #[must_use]
    pub fn url(&self) -> String {
        let user = self.setup.password.as_ref().map_or(String::new(), |password| format!(":{password}@"));
        let scheme = if self.setup.tls { "rediss" } else { "redis" };
        format!("{scheme}://{user}127.0.0.1:{}", self.port)
    }

    /// Its process.
    ///
    /// # Panics
    /// It does not run.
    #[must_use]
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("the server runs")
    }

    /// Runs a command by the server's own client, as an operator does, and gives back what it printed.
    ///
    /// # Panics
    /// The client cannot be started.
    pub fn cli(&self, args: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]).args(args);
        if let Some(password) = &self.setup.password {
            command.env("REDISCLI_AUTH", password);
        }
        let output = command.output().expect("redis-cli can be started");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.end(Signal::SIGKILL);
        }
    }

    /// Ends it as an operator does, so that it can write what it has to.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.end(Signal::SIGTERM);
        }
    }

    /// Kills it if it runs, and starts it again with what it kept, on the same port.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    /// Stops it from doing anything, though connections stay.
    pub fn pause(&self) {
        self.process().signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.process().signal(Signal::SIGCONT);
    }

    /// Makes it forget everything.
    pub fn flush_all(&self) {
        self.cli(&["FLUSHALL"]);
    }

    /// Keeps a copy of all it knows, apart from what it starts from.
    ///
    /// # Panics
    /// It cannot write it.
    pub fn dump(&self) {
        // A replica that just came is sent a dump of its own, and only one is made at a time.
        let saved = |answer: &str| match answer {
            "OK" => true,
            "ERR Background save already in progress" => false,
            other => panic!("SAVE: {other}"),
        };
        wait_for("a dump is written", || saved(&self.cli(&["SAVE"])));
        std::fs::rename(self.dump_path(), self.copy_path()).expect("a dump was written");
    }

    /// Kills it and starts it again from the copy, as an operator who restores a backup does.
    ///
    /// # Panics
    /// There is no copy.
    pub fn restore(&mut self) {
        self.kill();
        std::fs::copy(self.copy_path(), self.dump_path()).expect("a copy was kept");
        self.launch();
        std::fs::remove_file(self.dump_path()).expect("the server has read it");
    }

    /// Starts it from the copy and does not wait until it has read it, which takes it `a_key` for each key.
    ///
    /// # Panics
    /// There is no copy.
    pub fn restore_slowly(&mut self, a_key: Duration) {
        self.kill();
        std::fs::copy(self.copy_path(), self.dump_path()).expect("a copy was kept");
        let delay = a_key.as_micros().to_string();
        // It looks up from its reading after every few bytes.
        self.setup.args.extend(["--key-load-delay", &delay].map(str::to_owned));
        self.setup.args.extend(["--loading-process-events-interval-bytes", "1024"].map(str::to_owned));
        self.launch_unready();
    }

    fn dump_path(&self) -> PathBuf {
        self.dir.join("dump.rdb")
    }

    fn copy_path(&self) -> PathBuf {
        self.dir.join("copy.rdb")
    }
}

/// Whether a server answers there, and is not still reading its data. One that wants a password answers too.
fn answers(port: u16, tls: bool) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return false };
    if tls {
        return true;
    }
    let mut answer = [0; 9];
    stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
        && stream.write_all(b"PING\r\n").is_ok()
        && stream.read(&mut answer).is_ok_and(|count| count > 0 && !answer.starts_with(b"-LOADING"))
}
