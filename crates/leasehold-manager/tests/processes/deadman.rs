//! The deadman under a supervisor that is well, and what happens without one.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use leasehold::clock;
use leasehold_manager::{How, Program, RunError, Spec};
use nix::sys::signal::Signal;

use crate::support::{
    lines, members, program, runs, secs, send, shell, supervisor, supervisor_from,
    supervisor_without_deadline, wait_for_async,
};

const LOOP: &str = "trap '' TERM; echo ready >>$0; while :; do sleep 0.01; done";

#[tokio::test]
async fn signals_that_end_other_programs_do_not_end_the_deadman() {
    let (supervisor, _, _) = supervisor().await;
    let deadman = supervisor.deadman_pid().expect("a deadman");
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGTSTP, Signal::SIGQUIT] {
        send(deadman, signal);
    }
    let child = supervisor.run(Spec::new("true", [""; 0])).await.expect("a child");
    assert_eq!(child.exited().await.how, How::Code(0));
    assert_eq!(supervisor.deadman_pid(), Some(deadman));
    drop(child);
    supervisor.finish(Duration::ZERO).await;
    wait_for_async("the deadman has ended", || (!runs(deadman)).then_some(())).await;
}

/// Hits the deadman with `signal` and sees that its successor kills the child at the deadline, and not before.
async fn a_successor_keeps_the_deadline_after(signal: Signal) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("said");
    let (supervisor, _, _) = supervisor_without_deadline(Program::at(program())).await;
    let kill_at = clock::now().after(Duration::from_secs(4));
    supervisor.extend(kill_at.before(Duration::from_millis(500)), kill_at);
    let child = supervisor.run(shell(LOOP, &path)).await.expect("a child");
    wait_for_async("the child runs", || (lines(&path) == ["ready"]).then_some(())).await;

    let first = supervisor.deadman_pid().expect("a deadman");
    send(first, signal);
    // One that hangs is noticed when it does not answer.
    let kill_at = kill_at.after(Duration::from_millis(1));
    supervisor.extend(kill_at.before(Duration::from_millis(500)), kill_at);
    let second =
        wait_for_async("another deadman", || supervisor.deadman_pid().filter(|pid| *pid != first)).await;
    assert!(!runs(first) && runs(second));
    assert!(runs(child.pid()), "a change of deadmen must not hurt the child");

    // Nobody has called `stop`, so only the deadman can end it.
    let exit = child.exited().await;
    assert!(clock::now() >= kill_at);
    assert_eq!((exit.how, exit.asked), (How::Signal(9), false));
    assert!(members(child.pid()).is_empty());
}

#[tokio::test]
async fn a_killed_deadman_is_replaced() {
    a_successor_keeps_the_deadline_after(Signal::SIGKILL).await;
}

#[tokio::test]
async fn a_frozen_deadman_is_replaced() {
    a_successor_keeps_the_deadline_after(Signal::SIGSTOP).await;
}

#[tokio::test]
async fn a_successor_that_comes_up_slowly_begins_with_the_newest_deadline() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let (script, slow, begun, go) = (at("program"), at("slow"), at("begun"), at("go"));
    let wait = format!(
        "#!/bin/sh\nif [ -e {slow:?} ]; then echo >>{begun:?}; until [ -e {go:?} ]; do sleep 0.01; done; fi\n"
    );
    std::fs::write(&script, format!("{wait}exec {:?} \"$@\"\n", program())).expect("a script");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("a mode");

    let (supervisor, _, _) = supervisor_without_deadline(Program::at(&script)).await;
    let first_end = clock::now().after(Duration::from_millis(900));
    supervisor.extend(first_end, first_end);
    let said = at("said");
    let child =
        supervisor.run(shell("while :; do echo >>$0; sleep 0.01; done", &said)).await.expect("a child");
    wait_for_async("the child runs", || said.exists().then_some(())).await;
    std::fs::write(&slow, "").expect("a file");
    let first = supervisor.deadman_pid().expect("a deadman");
    send(first, Signal::SIGKILL);
    wait_for_async("another deadman is being started", || begun.exists().then_some(())).await;
    supervisor.extend(secs(60), secs(60));
    wait_for_async("the first deadline has passed", || (clock::now() > first_end).then_some(())).await;
    std::fs::write(&go, "").expect("a file");

    wait_for_async("another deadman", || supervisor.deadman_pid().filter(|pid| *pid != first)).await;
    let before = lines(&said).len();
    wait_for_async("the child goes on", || (lines(&said).len() > before + 20).then_some(())).await;
    assert_eq!(child.stop(secs(5)).await.how, How::Signal(15));
}

#[tokio::test]
async fn without_a_deadman_every_child_is_killed_and_none_is_started() {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("program");
    std::fs::copy(program(), &copy).expect("a copy");
    let (supervisor, _, _) = supervisor_from(Program::at(&copy)).await;
    let child = supervisor.run(Spec::new("sleep", ["1000"])).await.expect("a child");

    std::fs::remove_file(&copy).expect("a file");
    send(supervisor.deadman_pid().expect("a deadman"), Signal::SIGKILL);

    let error = supervisor.failed().await;
    assert!(error.to_string().contains("deadline"), "{error}");
    assert_eq!(child.exited().await.how, How::Signal(9));
    let refused = supervisor.run(Spec::new("true", [""; 0])).await;
    assert!(matches!(refused, Err(RunError::Spawn { .. } | RunError::Deadman(_))), "{refused:?}");
}
