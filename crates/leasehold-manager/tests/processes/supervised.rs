//! A supervisor in a process of its own, which can be killed and frozen.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::clock::Moment;
use tempfile::TempDir;

use crate::support::{lines, members, wait_for};

/// How long the kernel may take to let the deadman run, and the grain of `/proc/uptime`.
pub(crate) const SLACK: Duration = Duration::from_millis(100);

/// Writes the time since boot about every 10 ms, and `term` when it is asked to end, which it does not do.
pub(crate) const STAMPS: &str = "trap 'echo term >>$0' TERM; \
    while :; do read now _ </proc/uptime; echo $now >>$0; sleep 0.01; done";

/// A supervisor in a process of its own.
pub(crate) struct Supervised {
    pub(crate) supervisor: Child,
    said: Arc<Mutex<Vec<String>>>,
    pub(crate) stamps: PathBuf,
    pub(crate) child: u32,
    pub(crate) deadman: u32,
    _dir: TempDir,
}

impl Supervised {
    /// A supervisor whose child runs `script`, once that has written something.
    pub(crate) fn start(mut supervisor: Command, script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let stamps = dir.path().join("stamps");
        let mut supervisor = supervisor
            .args(["sh", "-c", script])
            .arg(&stamps)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a supervisor");
        let said = Arc::new(Mutex::new(Vec::new()));
        let (output, heard) = (supervisor.stdout.take().expect("a pipe"), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                heard.lock().expect("a lock").push(line);
            }
        });
        let number = |what: &str| {
            let prefix = format!("{what} ");
            wait_for(what, || {
                let said = said.lock().expect("a lock");
                said.iter().find_map(|line| line.strip_prefix(&prefix)?.parse().ok())
            })
        };
        let (deadman, child) = (number("deadman"), number("child"));
        wait_for("the child works", || (lines(&stamps).len() > 2).then_some(()));
        Self { supervisor, said, stamps, child, deadman, _dir: dir }
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().expect("a lock").clone()
    }

    /// Writes a line to the supervisor's input.
    pub(crate) fn order(&mut self, line: &str) {
        let input = self.supervisor.stdin.as_mut().expect("a pipe");
        writeln!(input, "{line}").expect("a supervisor that listens");
    }

    pub(crate) fn wait_until_said(&self, what: &str) {
        wait_for(what, || self.said().iter().any(|line| line == what).then_some(()));
    }

    /// The moment that the supervisor named last after `what`.
    pub(crate) fn moment(&self, what: &str) -> Option<Moment> {
        self.said().iter().rev().find_map(|line| line.strip_prefix(what)?.parse().ok()).map(Moment)
    }

    /// The deadline that the supervisor gave last.
    pub(crate) fn kill_at(&self) -> Moment {
        self.moment("until ").expect("a deadline")
    }

    pub(crate) fn wait_until_group_is_dead(&self) {
        wait_for("no process of the group runs", || members(self.child).is_empty().then_some(()));
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}

/// The last time that a child wrote.
pub(crate) fn last_stamp(path: &Path) -> Moment {
    let last = lines(path).iter().rev().find_map(|line| line.parse::<f64>().ok()).expect("a time");
    Moment::default().after(Duration::from_secs_f64(last))
}
