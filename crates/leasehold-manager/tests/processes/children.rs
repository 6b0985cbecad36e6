//! The life of children under a supervisor that is well.

use std::time::Duration;

use leasehold::clock;
use leasehold_manager::{How, Output, Program, RunError, Spec, Supervisor};
use nix::sys::signal::Signal;

use crate::support::{
    PATIENCE, lines, members, number_in, program, runs, secs, send, shell, state_and_group, supervisor,
    wait_for_async,
};

const TERM: How = How::Signal(Signal::SIGTERM as i32);
const KILL: How = How::Signal(Signal::SIGKILL as i32);

#[tokio::test]
async fn an_exit_says_how() {
    let (supervisor, _, _) = supervisor().await;
    let child = supervisor.run(Spec::new("sh", ["-c", "exit 7"])).await.expect("a child");
    let exit = child.exited().await;
    assert_eq!((exit.how, exit.asked), (How::Code(7), false));
    assert!(!runs(child.pid()));

    let child = supervisor.run(Spec::new("sh", ["-c", "kill -KILL $$"])).await.expect("a child");
    assert_eq!(child.exited().await.how, KILL);
}

#[tokio::test]
async fn a_command_that_does_not_exist_exits_with_127_and_a_sentence() {
    let (supervisor, _, err) = supervisor().await;
    let spec = Spec::new("no-such-program-here", [""; 0]).resource("work");
    let child = supervisor.run(spec).await.expect("a child");
    assert_eq!(child.exited().await.how, How::Code(127));
    supervisor.finish(PATIENCE).await;
    assert!(err.text().starts_with("[work] leasehold: cannot start no-such-program-here"), "{}", err.text());
}

#[tokio::test]
async fn a_stop_lets_a_child_end_by_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("said");
    let (supervisor, _, _) = supervisor().await;
    let script = "trap 'echo bye >>$0; exit 3' TERM; echo ready >>$0; while :; do sleep 0.01; done";
    let child = supervisor.run(shell(script, &path)).await.expect("a child");
    wait_for_async("the trap is set", || (lines(&path) == ["ready"]).then_some(())).await;
    let exit = child.stop(secs(30)).await;
    assert_eq!((exit.how, exit.asked), (How::Code(3), true));
    assert_eq!(lines(&path), ["ready", "bye"]);
}

#[tokio::test]
async fn a_child_that_ignores_the_request_is_killed_at_the_deadline() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("said");
    let (supervisor, _, _) = supervisor().await;
    let script = "trap '' TERM; echo ready >>$0; while :; do sleep 0.01; done";
    let child = supervisor.run(shell(script, &path)).await.expect("a child");
    wait_for_async("the trap is set", || (lines(&path) == ["ready"]).then_some(())).await;
    let kill_at = clock::now().after(Duration::from_millis(300));
    let exit = child.stop(kill_at).await;
    assert_eq!(exit.how, KILL);
    assert!(clock::now() >= kill_at);
    assert!(members(child.pid()).is_empty());
}

#[tokio::test]
async fn grandchildren_end_with_the_child_however_it_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let (supervisor, _, _) = supervisor().await;
    let script = "(trap '' TERM; sleep 1000 & echo $! >$0.part; mv $0.part $0; wait) & wait";
    for stopped in [true, false] {
        let path = dir.path().join(format!("stopped-{stopped}"));
        let child = supervisor.run(shell(script, &path)).await.expect("a child");
        let grandchild = wait_for_async("a grandchild", || number_in(&path)).await;
        assert_eq!(state_and_group(grandchild).map(|(_, group)| group), Some(child.pid()));
        if stopped {
            assert_eq!(child.stop(secs(30)).await.how, TERM);
        } else {
            send(child.pid(), Signal::SIGINT);
            child.exited().await;
        }
        assert!(!runs(grandchild));
        assert!(members(child.pid()).is_empty());
    }
}

#[tokio::test]
async fn a_paused_child_can_be_resumed_and_stopped() {
    let (supervisor, _, _) = supervisor().await;
    let child = supervisor.run(Spec::new("sleep", ["1000"])).await.expect("a child");
    let state = || state_and_group(child.pid()).map(|(state, _)| state);
    child.pause();
    wait_for_async("paused", || (state() == Some('T')).then_some(())).await;
    child.resume();
    wait_for_async("resumed", || (state() == Some('S')).then_some(())).await;
    child.pause();
    wait_for_async("paused again", || (state() == Some('T')).then_some(())).await;
    assert_eq!(child.stop(secs(30)).await.how, TERM);
}

#[tokio::test]
async fn dropping_a_child_kills_its_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pid");
    let (supervisor, _, _) = supervisor().await;
    let script = "trap '' TERM; sleep 1000 & echo $! >$0.part; mv $0.part $0; wait";
    let child = supervisor.run(shell(script, &path)).await.expect("a child");
    wait_for_async("a grandchild", || number_in(&path)).await;
    let group = child.pid();
    wait_for_async("two processes", || (members(group).len() == 2).then_some(())).await;
    drop(child);
    wait_for_async("the group is dead", || members(group).is_empty().then_some(())).await;
    wait_for_async("the leader is reaped", || state_and_group(group).is_none().then_some(())).await;
}

#[tokio::test]
async fn nothing_is_started_without_a_deadline_ahead() {
    let supervisor = Supervisor::start(Program::at(program()), Output::standard().expect("a thread"));
    let supervisor = supervisor.await.expect("a supervisor");
    let refused = supervisor.run(Spec::new("true", [""; 0])).await;
    assert!(matches!(refused, Err(RunError::NoDeadline)));
    supervisor.extend(clock::now(), secs(1));
    let refused = supervisor.run(Spec::new("true", [""; 0])).await;
    assert!(matches!(refused, Err(RunError::TooLate)));
}

#[tokio::test]
async fn a_child_finds_its_term_and_nothing_that_opens_the_store() {
    // The supervisor of this test is a process of its own, so that its environment can be set.
    let output = std::process::Command::new(program())
        .args(["30000", "1000", "env"])
        .env("LEASEHOLD_STORE", "postgres://canary-store")
        .env("LEASEHOLD_API_KEY", "canary-key")
        .env("LEASEHOLD_TOKEN", "canary-token")
        .env("DATABASE_URL", "postgres://mine")
        .output()
        .expect("a supervisor");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("[work] DATABASE_URL=postgres://mine"), "{said}");
    assert!(said.contains("[work] LEASEHOLD_RESOURCE=work"), "{said}");
    assert!(!said.contains("canary"), "{said}");

    let (supervisor, out, _) = supervisor().await;
    let spec = Spec::new("sh", ["-c", "env | grep ^LEASEHOLD_ | sort"])
        .pool("scenes")
        .resource("a:1")
        .token(7)
        .member("m")
        .socket("/s".as_ref())
        .env("LEASEHOLD_STORE", "given on purpose");
    supervisor.run(spec).await.expect("a child").exited().await;
    supervisor.finish(PATIENCE).await;
    let expected =
        ["MEMBER=m", "POOL=scenes", "RESOURCE=a:1", "SOCKET=/s", "STORE=given on purpose", "TOKEN=7"];
    let expected: String = expected.iter().map(|pair| format!("[a:1] LEASEHOLD_{pair}\n")).collect();
    assert_eq!(out.text(), expected);
}

#[tokio::test]
async fn lines_of_many_children_never_mix() {
    let (supervisor, out, err) = supervisor().await;
    let script = "i=0; while [ $i -lt 200 ]; do echo $0-$i-aaaaaaaaaaaaaaaaaaaaaaaa; echo $0-$i >&2; i=$((i+1)); done; printf end";
    let mut children = Vec::new();
    for name in ["a", "b", "c"] {
        let spec = Spec::new("sh", ["-c", script, name]).resource(name);
        children.push(supervisor.run(spec).await.expect("a child"));
    }
    for child in &children {
        assert_eq!(child.exited().await.how, How::Code(0));
    }
    supervisor.finish(PATIENCE).await;
    let said = out.text();
    for name in ["a", "b", "c"] {
        let prefix = format!("[{name}] ");
        let of_one: Vec<_> = said.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        let mut expected: Vec<_> = (0..200).map(|i| format!("{name}-{i}-aaaaaaaaaaaaaaaaaaaaaaaa")).collect();
        expected.push("end".to_owned());
        assert_eq!(of_one, expected);
    }
    assert_eq!((said.lines().count(), err.text().lines().count()), (603, 600));
}

#[tokio::test]
async fn bytes_that_are_no_text_are_passed_on() {
    let (supervisor, out, _) = supervisor().await;
    let spec = Spec::new("printf", [r"\377\376\n"]).resource("a");
    supervisor.run(spec).await.expect("a child").exited().await;
    supervisor.finish(PATIENCE).await;
    assert_eq!(out.bytes(), b"[a] \xff\xfe\n");
}
