//! The stub runs nothing unless it is told to, by a living parent, in time.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use leasehold::clock::{self, Moment};
use nix::sys::signal::Signal;

use crate::support::{number_in, program, runs, secs, send, state_and_group, wait_for};

fn stub(parent: u32, command: &[&str], path: &Path) -> Child {
    let mut stub = Command::new(program());
    stub.arg("__stub").arg(parent.to_string()).arg("--").args(command).arg(path);
    stub.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a stub")
}

fn say(stub: &mut Child, deadline: Moment) {
    let mut input = stub.stdin.take().expect("a pipe");
    writeln!(input, "go {}", deadline.0).expect("a stub that listens");
}

fn end(mut stub: Child) -> (ExitStatus, String) {
    let mut said = String::new();
    stub.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    (stub.wait().expect("an exit"), said)
}

#[test]
fn a_stub_that_is_told_to_go_becomes_its_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ran");
    let mut stub = stub(std::process::id(), &["touch"], &path);
    say(&mut stub, secs(60));
    assert!(end(stub).0.success());
    assert!(path.exists());
}

#[test]
fn nothing_runs_if_the_supervisor_dies_before_it_says_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ran");
    let mut stub = stub(std::process::id(), &["touch"], &path);
    drop(stub.stdin.take());
    assert_eq!(end(stub).0.code(), Some(125));
    assert!(!path.exists());
}

#[test]
fn nothing_runs_for_another_parent() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ran");
    let mut stub = stub(std::process::id() + 1, &["touch"], &path);
    // It may have ended before it can be told.
    let _ = writeln!(stub.stdin.take().expect("a pipe"), "go {}", secs(60).0);
    assert_eq!(end(stub).0.code(), Some(125));
    assert!(!path.exists());
}

#[test]
fn nothing_runs_after_its_deadline() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ran");
    let mut stub = stub(std::process::id(), &["touch"], &path);
    say(&mut stub, clock::now().before(Duration::from_millis(1)));
    let (status, said) = end(stub);
    assert_eq!(status.code(), Some(125));
    assert!(said.contains("deadline had passed"), "{said}");
    assert!(!path.exists());
}

#[test]
fn a_stub_whose_parent_is_killed_dies_although_its_input_stays_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ran, pid_file) = (dir.path().join("ran"), dir.path().join("pid"));
    // The shell is the stub's parent; the pipe to the stub is ours and stays open.
    let script = r#"exec 3<&0; "$0" __stub $$ -- touch "$1" <&3 & echo $! >"$2"; exec 3<&-; wait"#;
    let mut parent = Command::new("sh")
        .args(["-c", script])
        .args([program(), ran.clone(), pid_file.clone()])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    let stub = wait_for("the stub's process id", || number_in(&pid_file));
    wait_for("the stub waits for the word", || is_waiting(stub).then_some(()));
    send(parent.id(), Signal::SIGKILL);
    assert_eq!(parent.wait_keeping_input().signal(), Some(9));
    wait_for("the stub is dead", || (!runs(stub)).then_some(()));
    let _ = writeln!(parent.stdin.take().expect("a pipe"), "go {}", secs(60).0);
    assert!(!ran.exists());
}

/// Whether the stub sleeps as itself, and no longer as the shell that it was forked from. All it sleeps for is its input.
fn is_waiting(stub: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{stub}/comm")).unwrap_or_default();
    name == "supervise\n" && state_and_group(stub).is_some_and(|(state, _)| state == 'S')
}

trait WaitKeepingInput {
    fn wait_keeping_input(&mut self) -> ExitStatus;
}

impl WaitKeepingInput for Child {
    /// `Child::wait` would close the pipe, which is not what this is about.
    fn wait_keeping_input(&mut self) -> ExitStatus {
        wait_for("the parent is dead", || self.try_wait().expect("a child"))
    }
}

#[test]
fn a_command_that_does_not_exist_is_named() {
    let mut stub = stub(std::process::id(), &["no-such-program-here"], Path::new("x"));
    say(&mut stub, secs(60));
    let (status, said) = end(stub);
    assert_eq!(status.code(), Some(127));
    assert!(said.contains("cannot start no-such-program-here") && said.contains("PATH"), "{said}");
}

#[test]
fn a_command_that_cannot_be_executed_is_named() {
    let mut stub = stub(std::process::id(), &["/etc/passwd"], Path::new("x"));
    say(&mut stub, secs(60));
    let (status, said) = end(stub);
    assert_eq!(status.code(), Some(126));
    assert!(said.contains("cannot start /etc/passwd"), "{said}");
}
