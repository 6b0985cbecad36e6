//! A hot standby under a supervisor that is well.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::clock;
use leasehold_manager::{Demoted, How, Program, PromoteError, Signal, Spec, Standby, Supervisor};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::{
    PATIENCE, lines, members, number_in, program, runs, secs, send, shell, state_and_group, supervisor,
    supervisor_without_deadline, wait_for_async,
};

const KILL: How = How::Signal(Signal::SIGKILL as i32);

/// `notify LINE…` says lines to the supervisor; `state` shows what the file says.
const WORDS: &str = r#"
    notify() {
        python3 -c 'import os, socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto("\n".join(sys.argv[1:]).encode(), os.environ["NOTIFY_SOCKET"])' "$@"
    }
    state() { tr '\n' ' ' <"$LEASEHOLD_STATE_FILE"; }
    confirm() { . "$LEASEHOLD_STATE_FILE"; notify STANDBY=1 TOKEN=$LEASEHOLD_TOKEN; }
"#;

/// For ever.
const WAIT: &str = "echo ready >>$0; while :; do sleep 0.01; done";

/// A standby that runs `script` after [`WORDS`], with `$0` as the path it may write to.
struct Scene {
    supervisor: Supervisor,
    standby: Standby,
    path: PathBuf,
    _dir: TempDir,
}

impl Scene {
    async fn start(script: &str) -> Self {
        let (supervisor, _, _) = supervisor().await;
        Self::of(supervisor, script).await
    }

    async fn of(supervisor: Supervisor, script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("said");
        let spec = shell(&format!("{WORDS}{script}"), &path);
        let standby = supervisor.run_standby(spec).await.expect("a standby");
        Self { supervisor, standby, path, _dir: dir }
    }

    /// Waits until the child has written all of these lines, and nothing else.
    async fn said(&self, expected: &[&str]) {
        wait_for_async(&format!("{expected:?}"), || (lines(&self.path) == expected).then_some(())).await;
    }

    fn pid(&self) -> u32 {
        self.standby.child().pid()
    }

    /// The value of a variable that the child was given. While a process becomes its command it has none at all.
    async fn variable(&self, name: &str) -> PathBuf {
        wait_for_async(&format!("the child has {name}"), || {
            let environment = std::fs::read_to_string(format!("/proc/{}/environ", self.pid())).ok()?;
            environment
                .split('\0')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
                .map(PathBuf::from)
        })
        .await
    }
}

fn state_file(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a state file")
}

#[tokio::test]
async fn a_standby_is_told_by_signals_and_by_its_file() {
    let script = format!(
        "trap 'echo usr1 $(state) >>$0' USR1; trap 'echo usr2 $(state) >>$0; confirm' USR2; echo $(state) >>$0; {WAIT}"
    );
    let mut scene = Scene::start(&script).await;
    scene.said(&["LEASEHOLD_LEADER=0", "ready"]).await;
    scene.standby.promote(7, &[("LEASEHOLD_POOL", "a:1")]).await.expect("a promotion");
    let promoted = "usr1 LEASEHOLD_LEADER=1 LEASEHOLD_TOKEN=7 LEASEHOLD_POOL=a:1";
    scene.said(&["LEASEHOLD_LEADER=0", "ready", promoted]).await;
    assert_eq!(scene.standby.demote(secs(30)).await, Demoted::Standby);
    let demoted = "usr2 LEASEHOLD_LEADER=0 LEASEHOLD_TOKEN=7";
    scene.said(&["LEASEHOLD_LEADER=0", "ready", promoted, demoted]).await;
}

#[tokio::test]
async fn the_caller_chooses_the_signals() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("said");
    let script =
        "trap 'echo usr1 >>$0' USR1; trap 'echo usr2 >>$0; confirm' USR2; trap 'echo winch >>$0' WINCH";
    let spec = shell(&format!("{WORDS}{script}; {WAIT}"), &path)
        .promotion_signal(Some(Signal::SIGWINCH))
        .demotion_signal(None);
    let (supervisor, _, _) = supervisor().await;
    let mut standby = supervisor.run_standby(spec).await.expect("a standby");
    wait_for_async("the traps are set", || (lines(&path) == ["ready"]).then_some(())).await;
    standby.promote(7, &[]).await.expect("a promotion");
    wait_for_async("the chosen signal", || (lines(&path) == ["ready", "winch"]).then_some(())).await;
    let by = clock::now().after(Duration::from_millis(300));
    assert!(matches!(standby.demote(by).await, Demoted::Exited(_)));
    assert_eq!(lines(&path), ["ready", "winch"]);
}

/// Obeys events alone, and knows no signals.
const LISTENER: &str = r#"
import os, socket, sys
events = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
events.bind(os.environ["LEASEHOLD_EVENTS_SOCKET"])
def say(text):
    events.sendto(text.encode(), os.environ["NOTIFY_SOCKET"])
say("READY=1")
while True:
    event = events.recv(4096).decode()
    open(sys.argv[1], "a").write(repr(event) + "\n")
    token = dict(line.split("=", 1) for line in event.splitlines())["TOKEN"]
    say(("LEADING" if event.startswith("PROMOTED") else "STANDBY") + "=1\nTOKEN=" + token)
"#;

#[tokio::test]
async fn a_standby_is_told_and_heard_over_sockets() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("said");
    let (supervisor, _, _) = supervisor().await;
    let spec = Spec::new("python3", ["-c", LISTENER]).arg(&path);
    let mut standby = supervisor.run_standby(spec).await.expect("a standby");
    timeout(PATIENCE, standby.ready()).await.expect("it is ready");
    let pid = standby.child().pid();
    for token in [7, 8] {
        standby.promote(token, &[("X", "y")]).await.expect("a promotion");
        timeout(PATIENCE, standby.leading()).await.expect("it leads");
        assert_eq!(standby.demote(secs(30)).await, Demoted::Standby);
    }
    assert!(runs(pid));
    let expected = [
        r"'PROMOTED=1\nTOKEN=7\nX=y\n'",
        r"'DEMOTED=1\nTOKEN=7\n'",
        r"'PROMOTED=1\nTOKEN=8\nX=y\n'",
        r"'DEMOTED=1\nTOKEN=8\n'",
    ];
    assert_eq!(lines(&path), expected);
}

#[tokio::test]
async fn a_confirmed_demotion_lifts_the_deadline_and_the_next_promotion_sets_it_again() {
    let (supervisor, _, _) = supervisor_without_deadline(Program::at(program())).await;
    let script = format!("trap '' USR1; trap 'confirm' USR2; trap '' TERM; {WAIT}");
    let mut scene = Scene::of(supervisor, &script).await;
    scene.said(&["ready"]).await;
    let first_end = secs(6);
    scene.supervisor.extend(first_end.before(Duration::from_millis(100)), first_end);
    scene.standby.promote(7, &[]).await.expect("a promotion");
    assert_eq!(scene.standby.demote(first_end).await, Demoted::Standby);
    assert!(clock::now() < first_end);

    let later = first_end.after(Duration::from_millis(500));
    wait_for_async("the old deadline has passed", || (clock::now() > later).then_some(())).await;
    assert!(runs(scene.pid()));
    let refused = scene.standby.promote(8, &[]).await;
    assert!(matches!(refused, Err(PromoteError::TooLate)), "{refused:?}");

    let second_end = clock::now().after(Duration::from_millis(600));
    scene.supervisor.extend(second_end.before(Duration::from_millis(100)), second_end);
    scene.standby.promote(8, &[]).await.expect("a promotion");
    let exit = scene.standby.child().exited().await;
    assert!(clock::now() >= second_end);
    assert_eq!((exit.how, exit.asked), (KILL, false));
}

/// Promotes a child under token 7, demotes it, and sees that it is killed for want of a confirmation.
async fn is_killed_unconfirmed(mut scene: Scene) {
    scene.said(&["ready"]).await;
    scene.standby.promote(7, &[]).await.expect("a promotion");
    wait_for_async("it leads", || lines(&scene.path).contains(&"leads".to_owned()).then_some(())).await;
    let by = clock::now().after(Duration::from_millis(1500));
    let Demoted::Exited(exit) = scene.standby.demote(by).await else {
        panic!("it has confirmed nothing");
    };
    assert!(clock::now() >= by);
    assert_eq!(exit.how, KILL);
    assert!(members(scene.pid()).is_empty());
}

#[tokio::test]
async fn an_unconfirmed_demotion_ends_with_the_whole_group() {
    let script = format!("sleep 1000 & trap '' TERM USR2; trap 'echo leads >>$0' USR1; {WAIT}");
    is_killed_unconfirmed(Scene::start(&script).await).await;
}

#[tokio::test]
async fn a_confirmation_without_the_token_of_the_term_does_not_count() {
    let stale =
        "notify STANDBY=1; notify STANDBY=1 TOKEN=6; notify STANDBY=1 TOKEN=8; notify LEADING=1 TOKEN=7";
    let script = format!("trap '' TERM; trap 'echo leads >>$0' USR1; trap '{stale}' USR2; {WAIT}");
    is_killed_unconfirmed(Scene::start(&script).await).await;
}

#[tokio::test]
async fn a_confirmation_from_before_the_demotion_does_not_count() {
    let early = "notify STANDBY=1 TOKEN=7; echo leads >>$0";
    let script = format!("trap '' TERM USR2; trap '{early}' USR1; {WAIT}");
    is_killed_unconfirmed(Scene::start(&script).await).await;
}

#[tokio::test]
async fn nobody_outside_the_group_speaks_for_the_child() {
    let script = format!("trap '' TERM USR2; trap 'echo leads >>$0' USR1; {WAIT}");
    let scene = Scene::start(&script).await;
    let socket = scene.variable("NOTIFY_SOCKET").await;
    let stranger = UnixDatagram::unbound().expect("a socket");
    let speaking = tokio::task::spawn_blocking(move || {
        while stranger.send_to(b"STANDBY=1\nTOKEN=7", &socket).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    is_killed_unconfirmed(scene).await;
    speaking.await.expect("no panic");
}

#[tokio::test]
async fn messages_that_are_too_long_or_nonsense_harm_nobody() {
    let long = "notify STANDBY=1 TOKEN=7 $(head -c 5000 /dev/zero | tr '\\0' x)";
    let script = format!("notify ''; notify =; {long}; trap '{long}; confirm' USR2; {WAIT}");
    let mut scene = Scene::start(&script).await;
    scene.said(&["ready"]).await;
    scene.standby.promote(7, &[]).await.expect("a promotion");
    assert_eq!(scene.standby.demote(secs(30)).await, Demoted::Standby);
}

#[tokio::test]
async fn a_child_that_was_promoted_before_it_listened_finds_that_in_its_file() {
    let mut scene =
        Scene::start("until [ -e $0 ]; do sleep 0.01; done; trap : USR1; state >>$0; sleep 1000").await;
    scene.standby.promote(7, &[]).await.expect("a promotion");
    std::fs::write(&scene.path, "").expect("a file");
    scene.said(&["LEASEHOLD_LEADER=1 LEASEHOLD_TOKEN=7 "]).await;
}

#[tokio::test]
async fn a_child_that_knows_nothing_of_all_this_lives_until_its_demotion() {
    let (supervisor, _, _) = supervisor().await;
    let mut standby = supervisor.run_standby(Spec::new("sleep", ["1000"])).await.expect("a standby");
    let name =
        || std::fs::read_to_string(format!("/proc/{}/comm", standby.child().pid())).unwrap_or_default();
    wait_for_async("the command runs", || (name() == "sleep\n").then_some(())).await;
    standby.promote(7, &[]).await.expect("a promotion");
    assert!(!standby.child().signal_hangup());
    assert!(timeout(Duration::from_millis(300), standby.child().exited()).await.is_err());
    assert!(matches!(standby.demote(clock::now()).await, Demoted::Exited(_)));
}

#[tokio::test]
async fn a_standby_that_ends_is_noticed() {
    let mut scene = Scene::start("exit 7").await;
    let exit = scene.standby.child().exited().await;
    assert_eq!((exit.how, exit.asked), (How::Code(7), false));
    scene.standby.promote(7, &[]).await.expect("nothing to promote is no error");
    assert_eq!(scene.standby.demote(secs(30)).await, Demoted::Exited(exit));
}

#[tokio::test]
async fn a_leader_that_ends_when_it_is_demoted_is_noticed_at_once() {
    let mut scene = Scene::start(&format!("trap 'exit 3' USR2; {WAIT}")).await;
    scene.said(&["ready"]).await;
    scene.standby.promote(7, &[]).await.expect("a promotion");
    let Demoted::Exited(exit) = scene.standby.demote(secs(60)).await else {
        panic!("it has confirmed nothing");
    };
    assert_eq!((exit.how, exit.asked), (How::Code(3), false));
}

#[tokio::test]
async fn a_refused_promotion_tells_nothing_and_sets_no_deadline() {
    let (supervisor, _, _) = supervisor_without_deadline(Program::at(program())).await;
    let script = format!("trap 'echo told >>$0' USR1; trap confirm USR2; {WAIT}");
    let mut scene = Scene::of(supervisor, &script).await;
    scene.said(&["ready"]).await;
    let file = scene.variable("LEASEHOLD_STATE_FILE").await;
    let refused = scene.standby.promote(7, &[]).await;
    assert!(matches!(refused, Err(PromoteError::NoDeadline)), "{refused:?}");
    scene.supervisor.extend(clock::now(), clock::now());
    let refused = scene.standby.promote(7, &[]).await;
    assert!(matches!(refused, Err(PromoteError::TooLate)), "{refused:?}");
    scene.supervisor.extend(secs(60), secs(60));
    let refused = scene.standby.promote(7, &[("X", "a\nLEASEHOLD_LEADER=1")]).await;
    assert!(matches!(refused, Err(PromoteError::State(_))), "{refused:?}");
    assert_eq!(state_file(&file), "LEASEHOLD_LEADER=0\n");
    assert_eq!(scene.standby.demote(clock::now()).await, Demoted::Standby);

    scene.standby.promote(7, &[]).await.expect("a promotion");
    let refused = scene.standby.promote(8, &[]).await;
    assert!(matches!(refused, Err(PromoteError::Leading { token: 7 })), "{refused:?}");
    assert_eq!(scene.standby.demote(secs(30)).await, Demoted::Standby);
    let refused = scene.standby.promote(7, &[]).await;
    assert!(matches!(refused, Err(PromoteError::OldToken { token: 7, newest: 7 })), "{refused:?}");
    assert_eq!(lines(&scene.path), ["ready", "told"]);
    assert!(runs(scene.pid()));
}

#[tokio::test]
async fn a_file_that_cannot_be_replaced_is_no_promotion() {
    let mut scene = Scene::start(&format!("trap 'echo told >>$0' USR1; {WAIT}")).await;
    scene.said(&["ready"]).await;
    let file = scene.variable("LEASEHOLD_STATE_FILE").await;
    std::fs::remove_file(&file).expect("a file");
    std::fs::create_dir(&file).expect("a directory in its place");
    let refused = scene.standby.promote(7, &[]).await;
    assert!(matches!(refused, Err(PromoteError::File(_))), "{refused:?}");
    std::fs::remove_dir(&file).expect("a directory");
    scene.standby.promote(7, &[]).await.expect("a promotion under the same token");
    scene.said(&["ready", "told"]).await;
}

#[tokio::test]
async fn a_paused_child_is_woken_to_stop_leading() {
    // A shell that is about to start a command would be shown as something else than paused.
    let mut scene =
        Scene::start("trap confirm USR2; sleep 1000 & echo ready >>$0; while :; do wait; done").await;
    scene.said(&["ready"]).await;
    scene.standby.promote(7, &[]).await.expect("a promotion");
    scene.standby.child().pause();
    let state = || state_and_group(scene.pid()).map(|(state, _)| state);
    wait_for_async("paused", || (state() == Some('T')).then_some(())).await;
    assert_eq!(scene.standby.demote(secs(30)).await, Demoted::Standby);
}

#[tokio::test]
async fn a_standby_can_be_told_to_look_again_and_be_stopped() {
    // A shell cannot trap what was ignored when it began, as SIGHUP is below nohup.
    let script = r#"exec python3 -c '
import signal, sys, time
def say(word):
    open(sys.argv[1], "a").write(word + "\n")
signal.signal(signal.SIGHUP, lambda *_: say("hup"))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("ready")
while True:
    time.sleep(0.02)
' "$0""#;
    let (supervisor, _, _) = supervisor_without_deadline(Program::at(program())).await;
    let scene = Scene::of(supervisor, script).await;
    scene.said(&["ready"]).await;
    assert!(scene.standby.child().signal_hangup());
    scene.said(&["ready", "hup"]).await;
    let kill_at = clock::now().after(Duration::from_millis(300));
    let exit = scene.standby.child().stop(kill_at).await;
    assert_eq!((exit.how, exit.asked), (KILL, true));
    assert!(!scene.standby.child().signal_hangup());
}

#[tokio::test]
async fn another_deadman_knows_who_leads_and_who_does_not() {
    let (supervisor, _, _) = supervisor_without_deadline(Program::at(program())).await;
    let mut scene = Scene::of(supervisor, &format!("trap '' TERM; {WAIT}")).await;
    scene.said(&["ready"]).await;
    let replace = async |supervisor: &Supervisor| {
        let old = supervisor.deadman_pid().expect("a deadman");
        send(old, Signal::SIGKILL);
        wait_for_async("another deadman", || supervisor.deadman_pid().filter(|pid| *pid != old)).await;
    };
    replace(&scene.supervisor).await;
    assert!(runs(scene.pid()), "a standby has no deadline");
    let kill_at = secs(4);
    scene.supervisor.extend(kill_at.before(Duration::from_millis(500)), kill_at);
    scene.standby.promote(7, &[]).await.expect("a promotion");
    replace(&scene.supervisor).await;
    assert!(runs(scene.pid()));
    assert_eq!(scene.standby.child().exited().await.how, KILL);
    assert!(clock::now() >= kill_at);
}

#[tokio::test]
async fn only_this_user_can_reach_a_standby_and_nothing_of_it_is_left_behind() {
    let scene = Scene::start("sleep 1000 & echo $! >$0.part; mv $0.part $0; wait").await;
    let grandchild = wait_for_async("a grandchild", || number_in(&scene.path)).await;
    let directory = scene.variable("LEASEHOLD_STATE_FILE").await.parent().expect("a directory").to_owned();
    assert_eq!(scene.variable("NOTIFY_SOCKET").await.parent(), Some(&*directory));
    assert_eq!(scene.variable("LEASEHOLD_EVENTS_SOCKET").await.parent(), Some(&*directory));
    assert_eq!(directory.metadata().expect("a directory").permissions().mode() & 0o777, 0o700);
    let group = scene.pid();
    drop(scene.standby);
    assert!(!directory.exists());
    wait_for_async("the group is dead", || members(group).is_empty().then_some(())).await;
    assert!(!runs(grandchild));
}
