//! What happens to children while the store does not answer: here because somebody holds its write lock.

use std::time::Duration;

use leasehold::clock;
use nix::sys::signal::Signal;
use rusqlite::Connection;

use crate::support::{Member, Place, runs, state_of, wait_for, wait_until};

const SCRIPT: &str = "echo $$ $LEASEHOLD_TOKEN >> $0; while :; do sleep 0.1; done";

/// A member whose first heartbeat that is not confirmed comes soon, and whose trust lasts for long.
fn member(place: &Place, on_uncertain: &str) -> Member {
    let path = place.path("starts").display().to_string();
    let options = ["--resources", "a", "--ttl", "12s", "--heartbeat", "500ms", "--call-timeout", "400ms"];
    place.run(
        "anna",
        &[&options[..], &["--on-uncertain", on_uncertain]].concat(),
        &["sh", "-c", SCRIPT, &path],
    )
}

/// Process id and token of the newest child.
fn newest(place: &Place) -> Option<(u32, u64)> {
    let line = place.lines("starts").pop()?;
    let (pid, token) = line.split_once(' ')?;
    Some((pid.parse().ok()?, token.parse().ok()?))
}

/// Nobody else can write to the store until the connection is closed.
fn hold_the_lock(place: &Place) -> Connection {
    let connection = Connection::open(&place.store).unwrap();
    connection.busy_timeout(crate::support::PATIENCE).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

#[test]
fn pause_pauses_children_and_lets_them_go_on() {
    let place = Place::new();
    let member = member(&place, "pause");
    let (pid, token) = wait_for("the child runs", || newest(&place));
    let lock = hold_the_lock(&place);
    wait_until("the child is paused", || state_of(pid) == Some('T'));
    drop(lock);
    wait_until("the child goes on", || matches!(state_of(pid), Some('S' | 'R')));
    assert_eq!(newest(&place), Some((pid, token)), "it is the same child");
    member.leave();
    assert!(!runs(pid));
}

#[test]
fn stop_stops_children_and_starts_them_again_under_a_new_token() {
    let place = Place::new();
    let member = member(&place, "stop");
    let (pid, token) = wait_for("the child runs", || newest(&place));
    let lock = hold_the_lock(&place);
    wait_until("the child is gone", || !runs(pid));
    drop(lock);
    let (_, later) = wait_for("another child runs", || newest(&place).filter(|(other, _)| *other != pid));
    assert!(later > token);
    assert!(place.events("jobs").iter().any(|row| row["event"] == "lost" && row["reason"] == "uncertain"));
    member.leave();
}

#[test]
fn a_paused_child_is_ended_before_trust_ends_and_told_so() {
    let place = Place::new();
    let path = place.path("starts").display().to_string();
    let script = format!("trap 'echo told >> $0.told; exit 0' TERM; {SCRIPT}");
    let options = ["--resources", "a", "--ttl", "3s", "--heartbeat", "300ms", "--on-uncertain", "pause"];
    let member = place.run("anna", &options, &["sh", "-c", &script, &path]);
    let (pid, token) = wait_for("the child runs", || newest(&place));
    let lock = hold_the_lock(&place);
    wait_until("the child is paused", || state_of(pid) == Some('T'));
    wait_until("the child is gone", || !runs(pid));
    assert_eq!(place.lines("starts.told"), ["told"]);
    drop(lock);
    let (_, later) = wait_for("another child runs", || newest(&place).filter(|(other, _)| *other != pid));
    assert!(later > token);
    member.leave();
}

#[test]
fn a_supervisor_that_slept_longer_than_its_ttl_recovers_by_itself_and_does_not_spin() {
    let place = Place::new();
    let path = place.path("starts").display().to_string();
    let ttl = Duration::from_millis(1500);
    let options = ["--resources", "a", "--ttl", "1500ms", "--on-uncertain", "pause"];
    let member = place.run("anna", &options, &["sh", "-c", SCRIPT, &path]);
    let (pid, token) = wait_for("the child runs", || newest(&place));
    let slept = clock::now();
    member.signal(Signal::SIGSTOP);
    wait_until("the deadman ends the child", || !runs(pid));
    wait_until("a TTL and more has passed", || clock::now() > slept.after(ttl * 3 / 2));

    let (woke, cpu) = (clock::now(), member.cpu());
    member.signal(Signal::SIGCONT);
    let (other, later) = wait_for("another child runs", || newest(&place).filter(|(other, _)| *other != pid));
    assert!(later > token);
    wait_until("it has held its lease for more than a TTL", || clock::now() > woke.after(ttl * 2));
    let (spent, passed) = (member.cpu() - cpu, clock::now().since(woke));
    assert!(spent < passed / 2, "{spent:?} of processor time in {passed:?}");
    assert!(matches!(state_of(other), Some('S' | 'R')), "the child is not paused");
    assert_eq!(newest(&place), Some((other, later)), "and it is the only one");
    member.leave();
    assert!(!runs(other));
}

#[test]
fn a_store_that_stays_locked_does_not_answer_and_takes_no_marks() {
    let place = Place::new();
    let member = member(&place, "continue");
    wait_for("the child runs", || newest(&place));
    let lock = hold_the_lock(&place);
    let said = place.ask(&["drain", "--pool", "jobs", "anna"]);
    assert_eq!((said.code, said.out.as_str()), (Some(69), ""), "{said:?}");
    assert!(said.err.contains("another process has held its lock for too long; try again"), "{said:?}");
    drop(lock);
    assert!(!place.told(&["status"]).contains("drain"), "a mark that was refused is in force");
    member.leave();
}
