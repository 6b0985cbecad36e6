//! A supervisor that is killed or frozen: a process of its own, judged by what its child wrote.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::clock::{self, Moment};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::support::{lines, members, program, runs, send, wait_for};

const TTL: Duration = Duration::from_millis(1500);
/// The supervisor moves the deadline on five times in each TTL.
const PERIOD: Duration = Duration::from_millis(300);
const GRACE: Duration = Duration::from_millis(400);
/// How long the kernel may take to let the deadman run, and the grain of `/proc/uptime`.
const SLACK: Duration = Duration::from_millis(100);

/// Writes the time since boot about every 10 ms, and `term` when it is asked to end, which it does not do.
const STAMPS: &str = "trap 'echo term >>$0' TERM; \
    while :; do read now _ </proc/uptime; echo $now >>$0; sleep 0.01; done";

struct Supervised {
    supervisor: Child,
    said: Arc<Mutex<Vec<String>>>,
    stamps: PathBuf,
    child: u32,
    deadman: u32,
    _dir: TempDir,
}

impl Supervised {
    /// A supervisor whose child runs `script`, once that has written something.
    fn start(script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let stamps = dir.path().join("stamps");
        let mut supervisor = Command::new(program())
            .args([TTL.as_millis().to_string(), GRACE.as_millis().to_string()])
            .args(["sh", "-c", script])
            .arg(&stamps)
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

    fn said(&self) -> Vec<String> {
        self.said.lock().expect("a lock").clone()
    }

    /// The moment that the supervisor named last after `what`.
    fn moment(&self, what: &str) -> Option<Moment> {
        self.said().iter().rev().find_map(|line| line.strip_prefix(what)?.parse().ok()).map(Moment)
    }

    /// The deadline that the supervisor gave last.
    fn kill_at(&self) -> Moment {
        self.moment("until ").expect("a deadline")
    }

    fn wait_until_group_is_dead(&self) {
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
fn last_stamp(path: &Path) -> Moment {
    let last = lines(path).iter().rev().find_map(|line| line.parse::<f64>().ok()).expect("a time");
    Moment::default().after(Duration::from_secs_f64(last))
}

#[test]
fn a_killed_supervisor_leaves_nothing_behind() {
    let script = format!("(trap '' TERM HUP; sleep 1000) & sleep 1000 & {STAMPS}");
    let mut supervised = Supervised::start(&script);
    assert!(members(supervised.child).len() >= 3);
    let killed_at = clock::now();
    send(supervised.supervisor.id(), Signal::SIGKILL);
    supervised.supervisor.wait().expect("a dead supervisor");
    supervised.wait_until_group_is_dead();
    assert!(clock::now().since(killed_at) < Duration::from_secs(1));
    wait_for("the deadman has gone too", || (!runs(supervised.deadman)).then_some(()));
}

#[test]
fn a_frozen_supervisor_keeps_no_child_past_its_deadline() {
    let supervised = Supervised::start(STAMPS);
    // More than a TTL of ordinary life first, so that the deadline must have been moved on.
    let first = last_stamp(&supervised.stamps);
    wait_for("a TTL of work", || (last_stamp(&supervised.stamps) > first.after(TTL * 4 / 3)).then_some(()));
    assert!(!lines(&supervised.stamps).contains(&"term".to_owned()));

    send(supervised.supervisor.id(), Signal::SIGSTOP);
    supervised.wait_until_group_is_dead();
    let (last, kill_at) = (last_stamp(&supervised.stamps), supervised.kill_at());
    assert!(last <= kill_at.after(SLACK), "ran {:?} too long", last.since(kill_at));
    // The last word of the supervisor may not have reached the deadman, but the one before has.
    let earliest = kill_at.before(PERIOD + SLACK * 2);
    assert!(last >= earliest, "killed {:?} too early", earliest.since(last));
    assert!(lines(&supervised.stamps).contains(&"term".to_owned()), "it was not asked to end first");

    send(supervised.supervisor.id(), Signal::SIGCONT);
    wait_for("the supervisor notices", || {
        supervised.said().iter().any(|line| line == "exit signal SIGKILL").then_some(())
    });
}

#[test]
fn a_frozen_supervisor_lets_a_child_end_in_time_by_itself() {
    let script = STAMPS.replace("echo term >>$0", "echo term >>$0; exit 0");
    let supervised = Supervised::start(&script);
    send(supervised.supervisor.id(), Signal::SIGSTOP);
    supervised.wait_until_group_is_dead();
    assert_eq!(lines(&supervised.stamps).last().map(String::as_str), Some("term"));
    assert!(last_stamp(&supervised.stamps) <= supervised.kill_at().before(GRACE).after(SLACK * 2));
}

#[test]
fn a_supervisor_that_freezes_while_it_stops_a_child_keeps_the_earlier_deadline() {
    let supervised = Supervised::start(STAMPS);
    let is_asked = || lines(&supervised.stamps).contains(&"term".to_owned()).then_some(());
    send(supervised.supervisor.id(), Signal::SIGTERM);
    wait_for("the child is asked to end", is_asked);
    send(supervised.supervisor.id(), Signal::SIGSTOP);
    supervised.wait_until_group_is_dead();
    let stop_by = supervised.moment("stop-by ").expect("a deadline");
    assert!(last_stamp(&supervised.stamps) <= stop_by.after(SLACK));
    assert!(
        stop_by.after(SLACK * 2) < supervised.kill_at(),
        "the general deadline would not have been later"
    );
}

#[test]
fn a_supervisor_that_lost_its_deadman_and_is_then_killed_leaves_nothing_behind() {
    let script = format!("(trap '' TERM HUP; sleep 1000) & {STAMPS}");
    let mut supervised = Supervised::start(&script);
    send(supervised.deadman, Signal::SIGKILL);
    // The successor is a child of the supervisor like the first one, and no member of the group.
    wait_for("another deadman", || successor(&supervised));
    let before = lines(&supervised.stamps).len();
    wait_for("the child goes on", || (lines(&supervised.stamps).len() > before + 20).then_some(()));
    send(supervised.supervisor.id(), Signal::SIGKILL);
    supervised.supervisor.wait().expect("a dead supervisor");
    supervised.wait_until_group_is_dead();
}

fn successor(supervised: &Supervised) -> Option<u32> {
    let supervisor = supervised.supervisor.id();
    let children = std::fs::read_dir(format!("/proc/{supervisor}/task")).ok()?.flatten();
    let children: Vec<u32> = children
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|pids| pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    children.into_iter().find(|pid| ![supervised.child, supervised.deadman].contains(pid) && runs(*pid))
}
