//! A RabbitMQ server of one's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::{Dir, Process, free_port, wait_for};

/// The script that does not insist on being root.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// How long it may take to greet whoever connects.
const GREETING_MAX: Duration = Duration::from_secs(2);

/// How a server is set up.
#[derive(Debug, Clone, Default)]
pub struct RabbitMqSetup {
    /// The certificate and its key in PEM: with them the server speaks TLS only.
    pub tls: Option<(String, String)>,
}

/// A running server with the user `guest` and its usual password, which keeps durable queues and what was confirmed in them.
/// Dropping it kills it and removes what it kept.
#[derive(Debug)]
pub struct RabbitMq {
    dir: Dir,
    port: u16,
    distribution: u16,
    names: u16,
    setup: RabbitMqSetup,
    mapper: Option<Process>,
    process: Option<Process>,
}

impl RabbitMq {
    /// Starts a server and waits until it answers, which takes it ten seconds or so.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(RabbitMqSetup::default())
    }

    /// The same, set up otherwise.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    pub fn start_with(setup: RabbitMqSetup) -> Self {
        let (port, distribution, names) = (free_port(), free_port(), free_port());
        let mut server =
            Self { dir: Dir::new(), port, distribution, names, setup, mapper: None, process: None };
        server.configure();
        server.launch();
        server
    }

    fn configure(&self) {
        for name in ["home", "mnesia", "log", "conf"] {
            std::fs::create_dir_all(self.dir.join(name)).expect("a directory in our own");
        }
        let listen = if self.setup.tls.is_some() {
            format!(
                "listeners.tcp = none\nlisteners.ssl.1 = 127.0.0.1:{}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n",
                self.port,
                self.path("conf/cert.pem"),
                self.path("conf/key.pem")
            )
        } else {
            format!("listeners.tcp.1 = 127.0.0.1:{}\n", self.port)
        };
        if let Some((certificate, key)) = &self.setup.tls {
            self.write("conf/cert.pem", certificate);
            self.write("conf/key.pem", key);
        }
        self.write("conf/enabled_plugins", "[].\n");
        self.write("conf/rabbitmq.conf", &format!("{listen}log.console = true\nlog.file = false\n"));
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).expect("our own directory");
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn launch(&mut self) {
        // One's own in the foreground: the server would leave one behind that outlives it.
        let mut mapper = Command::new("epmd");
        mapper.args(["-address", "127.0.0.1", "-port", &self.names.to_string()]);
        self.mapper = Some(Process::start(&mut mapper, &self.dir.join("epmd.log")));
        wait_for("epmd answers", || answers(self.names));

        let quiet = "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}";
        let mut command = Command::new(SERVER);
        command
            // The script starts processes of its own: they go together.
            .process_group(0)
            .current_dir(self.dir.path())
            .env("HOME", self.dir.join("home"))
            .env("ERL_EPMD_PORT", self.names.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODENAME", "lh@localhost")
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.port.to_string())
            .env("RABBITMQ_DIST_PORT", self.distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", self.dir.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", self.dir.join("log"))
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_CONFIG_FILE", self.dir.join("conf/rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", self.dir.join("conf/enabled_plugins"))
            .env("RABBITMQ_PID_FILE", self.dir.join("pid"))
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", quiet);
        if self.setup.tls.is_some() {
            command.env_remove("RABBITMQ_NODE_PORT").env_remove("RABBITMQ_NODE_IP_ADDRESS");
        }
        self.process = Some(Process::start(&mut command, &self.dir.join("server.log")));
        let is_plain = self.setup.tls.is_none();
        wait_for("rabbitmq answers", || if is_plain { greets(self.port) } else { answers(self.port) });
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, with its user and password.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.setup.tls.is_some() { "amqps" } else { "amqp" };
        format!("{scheme}://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            if let Some(machine) = machine(&self.dir.join("pid")) {
                let _ = kill(machine, Signal::SIGKILL);
            }
            let group = Pid::from_raw(i32::try_from(process.id()).expect("a process id"));
            // Those that have ended need not be told.
            let _ = killpg(group, Signal::SIGKILL);
            process.end(Signal::SIGKILL);
        }
        if let Some(mut mapper) = self.mapper.take() {
            mapper.end(Signal::SIGKILL);
        }
    }

    /// Kills it if it runs, and starts it again with what it kept, on the same port.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The process that the script became the parent of.
fn machine(pid_file: &Path) -> Option<Pid> {
    std::fs::read_to_string(pid_file).ok()?.trim().parse().ok().map(Pid::from_raw)
}

fn answers(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Whether it speaks its protocol: it listens a while before it does.
fn greets(port: u16) -> bool {
    let greeting = || -> std::io::Result<u8> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(GREETING_MAX))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut first = [0];
        stream.read_exact(&mut first)?;
        Ok(first[0])
    };
    // A frame with a method.
    greeting().is_ok_and(|first| first == 1)
}
