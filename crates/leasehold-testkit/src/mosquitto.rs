//! A mosquitto broker of one's own.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::{Dir, Process, free_port, wait_for};

/// How a broker is set up.
#[derive(Debug, Clone, Default)]
pub struct MosquittoSetup {
    /// The one user and its password; without it anybody may come in.
    pub user: Option<(String, String)>,
    /// The certificate and its key in PEM: with them the broker speaks TLS only.
    pub tls: Option<(String, String)>,
    /// Nothing is kept across restarts, and the disk left alone: for measuring.
    pub fleeting: bool,
}

/// A running MQTT broker, which keeps sessions and their messages across restarts. Dropping it kills it and removes what it
/// kept.
#[derive(Debug)]
pub struct Mosquitto {
    dir: Dir,
    port: u16,
    setup: MosquittoSetup,
    process: Option<Process>,
}

impl Mosquitto {
    /// Starts a broker that lets anybody in.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(MosquittoSetup::default())
    }

    /// Starts a broker and waits until it answers.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    pub fn start_with(setup: MosquittoSetup) -> Self {
        let mut broker = Self { dir: Dir::new(), port: free_port(), setup, process: None };
        broker.configure();
        broker.launch();
        broker
    }

    fn configure(&self) {
        let data = self.dir.sub("data");
        let mut lines = vec![
            format!("listener {} 127.0.0.1", self.port),
            format!("allow_anonymous {}", self.setup.user.is_none()),
            // What is sent to a session is on the disk at once: a killed broker saves nothing on its way out.
            format!("persistence {}", !self.setup.fleeting),
            format!("persistence_location {}/", data.display()),
            "autosave_interval 1".to_owned(),
            "autosave_on_changes true".to_owned(),
            "max_queued_messages 0".to_owned(),
            "log_dest stderr".to_owned(),
        ];
        if let Some((owner, _)) = self.dir.owner() {
            // Started as root it becomes the user of this name, who must reach its own files.
            lines.push(format!("user {}", user_name(owner)));
        }
        if let Some((user, password)) = &self.setup.user {
            let path = self.dir.join("passwords");
            let made = Command::new("mosquitto_passwd")
                .arg("-b")
                .arg("-c")
                .arg(&path)
                .args([user, password])
                .status();
            assert!(made.is_ok_and(|status| status.success()), "mosquitto_passwd cannot be run");
            self.dir.give(&path);
            lines.push(format!("password_file {}", path.display()));
        }
        if let Some((certificate, key)) = &self.setup.tls {
            for (name, option, text) in [("cert.pem", "certfile", certificate), ("key.pem", "keyfile", key)] {
                let path = self.write(name, text);
                lines.push(format!("{option} {path}"));
            }
        }
        self.write("conf", &(lines.join("\n") + "\n"));
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.dir.join(name);
        std::fs::write(&path, text).expect("our own directory");
        self.dir.give(&path);
        path.display().to_string()
    }

    fn launch(&mut self) {
        let mut command = Command::new(program("mosquitto"));
        command.arg("-c").arg(self.dir.join("conf"));
        self.process = Some(Process::start(&mut command, &self.dir.join("log")));
        wait_for("mosquitto answers", || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok());
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, with its user and password.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.setup.tls.is_some() { "mqtts" } else { "mqtt" };
        let user =
            self.setup.user.as_ref().map_or(String::new(), |(user, password)| format!("{user}:{password}@"));
        format!("{scheme}://{user}127.0.0.1:{}", self.port)
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.end(Signal::SIGKILL);
        }
    }

    /// Ends it as an operator does: it writes down what it has to keep.
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
}

/// The broker is where ordinary users do not look for programs.
fn program(name: &str) -> String {
    let path = format!("/usr/sbin/{name}");
    if Path::new(&path).exists() { path } else { name.to_owned() }
}

fn user_name(id: u32) -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(id));
    user.ok().flatten().expect("a user that was found by its name").name
}
