//! The control plane as the fault suite handles it: members reach `leasehold serve` and nothing else.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use leasehold_testkit::{Dir, Postgres, Process, free_port, wait_for};
use nix::sys::signal::Signal;

use super::servers::Server;
use super::stage::binary;

/// What a control plane keeps everything in.
pub(crate) trait Behind {
    fn start_in(environment: &[(String, String)]) -> Self;
    /// As `--database` has it.
    fn url(&self) -> String;
    /// Ends it without a word.
    fn kill(&mut self);
    /// Has it run again, on what it has on its disk.
    fn restart(&mut self);
}

/// A SQLite file of its own, which is nobody's process.
pub(crate) struct File(Dir);

impl Behind for File {
    fn start_in(_: &[(String, String)]) -> Self {
        Self(Dir::new())
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.0.join("work.db").display())
    }

    fn kill(&mut self) {}

    fn restart(&mut self) {}
}

impl Behind for Postgres {
    fn start_in(environment: &[(String, String)]) -> Self {
        <Self as Server>::start_in(environment)
    }

    fn url(&self) -> String {
        self.url("work")
    }

    fn kill(&mut self) {
        self.kill();
    }

    fn restart(&mut self) {
        self.restart();
    }
}

/// A running control plane and what is behind it; what happens to the one happens to both, but for pauses.
pub(crate) struct ControlPlane<B> {
    dir: Dir,
    behind: B,
    port: u16,
    environment: Vec<(String, String)>,
    process: Option<Process>,
}

impl<B: Behind> ControlPlane<B> {
    fn launch(&mut self) {
        let mut command = Command::new(binary());
        let listen = format!("127.0.0.1:{}", self.port);
        command.args(["serve", "--listen", &listen, "--log", "warn", "--database", &self.behind.url()]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.process = Some(Process::start(&mut command, &self.dir.join("log")));
        let port = self.port;
        wait_for("the control plane answers", || answers(port));
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("the control plane runs")
    }

    fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.end(Signal::SIGKILL);
        }
    }
}

fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return false };
    let mut answer = [0; 12];
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && &answer == b"HTTP/1.1 200"
}

impl<B: Behind> Server for ControlPlane<B> {
    fn start_in(environment: &[(String, String)]) -> Self {
        let (dir, behind, port) = (Dir::new(), B::start_in(environment), free_port());
        let mut server = Self { dir, behind, port, environment: environment.to_vec(), process: None };
        server.launch();
        server
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn url(&self, port: u16) -> String {
        format!("http://127.0.0.1:{port}")
    }

    fn kill(&mut self) {
        self.end();
        self.behind.kill();
    }

    fn restart(&mut self) {
        self.end();
        self.behind.restart();
        self.launch();
    }

    fn pause(&self) {
        self.process().signal(Signal::SIGSTOP);
    }

    fn resume(&self) {
        self.process().signal(Signal::SIGCONT);
    }
}
