//! Workers with deadlines of their own, and what they say.

use std::time::Duration;

use leasehold::clock;
use leasehold_manager::{How, Program, Signal, Worker};
use tokio::time::timeout;

use crate::support::{
    PATIENCE, members, program, secs, send, shell, supervisor_without_deadline, wait_for_async,
};

const KILL: How = How::Signal(Signal::SIGKILL as i32);
/// Says what it is told to, with a process of its own, and stays.
const SAY: &str = r#"python3 -c 'import os, socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1\nAPPLIED=3\nSTATUS=well", os.environ["NOTIFY_SOCKET"])
'; sleep 1000 & trap '' TERM; while :; do sleep 0.01; done"#;

fn pid(worker: &Worker) -> u32 {
    worker.child().pid()
}

#[tokio::test]
async fn a_worker_is_killed_at_its_own_deadline_with_everything_that_it_started() {
    let (supervisor, _, _) = supervisor_without_deadline(Program::at(program())).await;
    let dir = tempfile::tempdir().expect("a directory");
    let deadline = secs(60);
    let worker = supervisor.run_worker(shell(SAY, dir.path()), Some(deadline)).await.expect("a worker");
    let other = supervisor.run_worker(shell(SAY, dir.path()), None).await.expect("a worker");
    wait_for_async("it has a child", || (members(pid(&worker)).len() > 1).then_some(())).await;
    let until = clock::now().after(Duration::from_millis(200));
    worker.until(Some(until)).await.expect("a deadman");
    let exit = timeout(PATIENCE, worker.child().exited()).await.expect("it is killed");
    assert_eq!(exit.how, KILL);
    assert!(clock::now() >= until, "not before its deadline");
    assert!(members(pid(&worker)).is_empty());
    assert!(!members(pid(&other)).is_empty(), "nobody else is hit");
}

#[tokio::test]
async fn a_deadline_that_was_moved_on_or_lifted_kills_nobody() {
    let (supervisor, _, _) = supervisor_without_deadline(Program::at(program())).await;
    let dir = tempfile::tempdir().expect("a directory");
    let worker = supervisor.run_worker(shell(SAY, dir.path()), Some(secs(1))).await.expect("a worker");
    worker.until(Some(secs(60))).await.expect("a deadman");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!members(pid(&worker)).is_empty());
    // A new deadman knows what the old one was told.
    let deadman = supervisor.deadman_pid().expect("a deadman");
    send(deadman, Signal::SIGKILL);
    wait_for_async("there is another", || supervisor.deadman_pid().filter(|pid| *pid != deadman)).await;
    assert!(!members(pid(&worker)).is_empty());
    worker.until(None).await.expect("a deadman");
    assert!(!members(pid(&worker)).is_empty());
}

// proves C50
#[tokio::test]
async fn a_worker_is_heard() {
    let (supervisor, _, _) = supervisor_without_deadline(Program::at(program())).await;
    let dir = tempfile::tempdir().expect("a directory");
    let worker = supervisor.run_worker(shell(SAY, dir.path()), None).await.expect("a worker");
    let mut said = worker.said();
    let said =
        timeout(PATIENCE, said.wait_for(|said| said.ready)).await.expect("in time").expect("a word").clone();
    assert_eq!((said.applied, said.status.as_str()), (Some(3), "well"));
    assert!(said.alive_at.is_some());
}
