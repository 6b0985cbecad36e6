//! A supervisor that is killed or frozen: a process of its own, judged by what its child wrote.

use std::process::Command;
use std::time::Duration;

use leasehold::clock;
use nix::sys::signal::Signal;

use crate::supervised::{SLACK, STAMPS, Supervised, last_stamp};
use crate::support::{lines, members, program, runs, send, wait_for};

const TTL: Duration = Duration::from_millis(1500);
/// The supervisor moves the deadline on five times in each TTL.
const PERIOD: Duration = Duration::from_millis(300);
const GRACE: Duration = Duration::from_millis(400);

/// A supervisor whose child runs `script`, once that has written something.
fn start(script: &str) -> Supervised {
    let mut supervisor = Command::new(program());
    supervisor.args([TTL.as_millis().to_string(), GRACE.as_millis().to_string()]);
    Supervised::start(supervisor, script)
}

#[test]
fn a_killed_supervisor_leaves_nothing_behind() {
    let script = format!("(trap '' TERM HUP; sleep 1000) & sleep 1000 & {STAMPS}");
    let mut supervised = start(&script);
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
    let supervised = start(STAMPS);
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
    let supervised = start(&script);
    send(supervised.supervisor.id(), Signal::SIGSTOP);
    supervised.wait_until_group_is_dead();
    assert_eq!(lines(&supervised.stamps).last().map(String::as_str), Some("term"));
    assert!(last_stamp(&supervised.stamps) <= supervised.kill_at().before(GRACE).after(SLACK * 2));
}

#[test]
fn a_supervisor_that_freezes_while_it_stops_a_child_keeps_the_earlier_deadline() {
    let supervised = start(STAMPS);
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
    let mut supervised = start(&script);
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
