//! The control plane as the fault suite handles it: members reach `leasehold serve` and nothing else.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use leasehold_testkit::{Dir, Process, free_port, wait_for};
use nix::sys::signal::Signal;

use super::servers::Server;
use super::stage::binary;

/// A running control plane on a SQLite file of its own.
pub(crate) struct ControlPlane {
    dir: Dir,
    port: u16,
    environment: Vec<(String, String)>,
    process: Option<Process>,
}

impl ControlPlane {
    fn launch(&mut self) {
        let mut command = Command::new(binary());
        command.args([
            "serve",
            "--listen",
            &format!("127.0.0.1:{}", self.port),
            "--log",
            "warn",
            "--database",
        ]);
        command.arg(format!("sqlite:{}", self.dir.join("work.db").display()));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.process = Some(Process::start(&mut command, &self.dir.join("log")));
        let port = self.port;
        wait_for("the control plane answers", || answers(port));
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("the control plane runs")
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

impl Server for ControlPlane {
    fn start_in(environment: &[(String, String)]) -> Self {
        let environment = environment.to_vec();
        let mut server = Self { dir: Dir::new(), port: free_port(), environment, process: None };
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
        if let Some(mut process) = self.process.take() {
            process.end(Signal::SIGKILL);
        }
    }

    fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    fn pause(&self) {
        self.process().signal(Signal::SIGSTOP);
    }

    fn resume(&self) {
        self.process().signal(Signal::SIGCONT);
    }
}
