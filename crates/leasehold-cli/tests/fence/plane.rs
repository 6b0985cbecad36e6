//! A control plane in a process of its own, which can be killed, and what is asked of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use leasehold_testkit::{Dir, Process, free_port, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::support::leasehold;

/// Sends one request and gives back the status and the body.
pub(crate) fn ask(port: u16, method: &str, path: &str, headers: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(40))).ok()?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// What a fence says of itself.
pub(crate) fn metric(port: u16, series: &str) -> u64 {
    let (_, page) = ask(port, "GET", "/metrics", "", "").unwrap_or_default();
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.and_then(|count| count.parse().ok()).unwrap_or_default()
}

pub(crate) fn refused(port: u16, reason: &str) -> u64 {
    metric(port, &format!("leasehold_fence_refused_total{{reason=\"{reason}\"}}"))
}

/// `leasehold serve` on a file.
pub(crate) struct Plane {
    dir: Dir,
    port: u16,
    process: Option<Process>,
}

impl Plane {
    /// A control plane that has these scenes.
    pub(crate) fn with(scenes: &[&str]) -> Self {
        let mut plane = Self { dir: Dir::new(), port: free_port(), process: None };
        plane.start();
        for scene in scenes {
            assert_eq!(plane.send("PUT", &format!("/api/v1/scenes/{scene}"), &json!({})).0, 201);
        }
        plane
    }

    pub(crate) fn start(&mut self) {
        let mut command = leasehold();
        let database = format!("sqlite:{}", self.dir.join("scenes.db").display());
        command.args(["serve", "--listen", &format!("127.0.0.1:{}", self.port), "--database", &database]);
        self.process = Some(Process::start(&mut command, &self.dir.join("log")));
        wait_for("the control plane answers", || {
            ask(self.port, "GET", "/readyz", "", "").is_some_and(|(status, _)| status == 200)
        });
    }

    /// Kills it without warning.
    pub(crate) fn kill(&mut self) {
        self.process.take().expect("it runs").end(Signal::SIGKILL);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, body) = ask(self.port, method, path, "", &body.to_string()).expect("it answers");
        (status, serde_json::from_str(&body).unwrap_or_default())
    }

    /// Has a scene taken, and says under which token.
    pub(crate) fn acquire(&self, scene: &str, holder: &str) -> u64 {
        let body = json!({"holder_id": holder, "ttl_ms": 60_000});
        let (status, lease) = self.send("POST", &format!("/api/v1/scenes/{scene}/lease"), &body);
        assert_eq!(status, 201, "{lease}");
        lease["version"].as_u64().expect("a version")
    }

    /// Has a scene taken by another.
    pub(crate) fn hand_over(&self, scene: &str, from: &str, to: &str) -> u64 {
        let path = format!("/api/v1/scenes/{scene}/lease");
        assert_eq!(self.send("DELETE", &path, &json!({"holder_id": from})).0, 204);
        self.acquire(scene, to)
    }
}
