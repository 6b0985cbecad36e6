//! Sentinels that watch over a Redis server and its replicas.

use std::process::Command;

use crate::{Dir, Process, Redis, free_port, wait_for};

/// How many sentinels there are, and how many must agree.
const COUNT: usize = 3;
const QUORUM: usize = 2;

/// Three sentinels that agree on who the primary is. Dropping them ends them.
#[derive(Debug)]
pub struct Sentinels {
    ports: Vec<u16>,
    service: String,
    _processes: Vec<Process>,
    _dir: Dir,
}

impl Sentinels {
    /// Starts sentinels that know `primary` as `service`, and waits until they know each other and its replicas.
    ///
    /// # Panics
    /// They cannot be started.
    #[must_use]
    pub fn start(primary: &Redis, service: &str, replicas: usize) -> Self {
        let dir = Dir::new();
        let ports: Vec<u16> = (0..COUNT).map(|_| free_port()).collect();
        let processes = ports.iter().map(|port| {
            let config = dir.join(&format!("sentinel-{port}.conf"));
            let text = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {service} 127.0.0.1 {} {QUORUM}\n\
                 sentinel down-after-milliseconds {service} 1000\nsentinel failover-timeout {service} 5000\n",
                dir.path().display(),
                primary.port()
            );
            std::fs::write(&config, text).expect("our own directory");
            let mut command = Command::new("redis-server");
            command.arg(&config).arg("--sentinel");
            Process::start(&mut command, &dir.join(&format!("log-{port}")))
        });
        let processes = processes.collect();
        let sentinels = Self { ports, service: service.to_owned(), _processes: processes, _dir: dir };
        for port in &sentinels.ports {
            wait_for("the sentinels know each other and the replicas", || {
                let said = sentinels.cli(*port, &["SENTINEL", "MASTER", service]);
                let number = |name: &str| {
                    let mut words = said.lines().skip_while(|line| *line != name);
                    words.nth(1).and_then(|number| number.parse::<usize>().ok()).unwrap_or(0)
                };
                number("num-other-sentinels") == COUNT - 1 && number("num-slaves") == replicas
            });
        }
        sentinels
    }

    /// The address of the service.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{}", hosts.join(","), self.service)
    }

    /// The port of the primary, as the sentinels say.
    #[must_use]
    pub fn primary(&self) -> Option<u16> {
        let said = self.cli(self.ports[0], &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.service]);
        said.lines().nth(1).and_then(|port| port.parse().ok())
    }

    /// Waits until all agree that the primary is another than the one at `old`.
    pub fn wait_for_another(&self, old: u16) {
        wait_for("the sentinels agree on another primary", || {
            self.ports.iter().all(|port| {
                let said = self.cli(*port, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.service]);
                said.lines().nth(1).is_some_and(|port| port != old.to_string())
            })
        });
    }

    fn cli(&self, port: u16, args: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-h", "127.0.0.1", "-p", &port.to_string()]).args(args);
        let output = command.output().expect("redis-cli can be started");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}
