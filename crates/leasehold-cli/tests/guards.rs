//! Guards inside the things that are written to: a writer is really frozen, another writes, the first goes on and is refused.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use leasehold_testkit::{Etcd, Postgres, Redis};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold");
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guards").join(name)
}

/// A writer, and whatever it runs, as one group of processes.
struct Writer {
    child: Child,
    input: ChildStdin,
    said: mpsc::Receiver<String>,
}

impl Writer {
    fn start(command: &mut Command) -> Self {
        // The examples find the program under its name.
        let path =
            format!("{}:{}", Path::new(PROGRAM).parent().unwrap().display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the writer runs");
        let (tell, said) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Self { input: child.stdin.take().unwrap(), child, said }
    }

    /// Has it write a line. It may be frozen.
    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn said(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("the writer says what became of it")
    }

    fn write(&mut self, line: &str) -> String {
        self.tell(line);
        self.said()
    }

    fn signal(&self, signal: Signal) {
        killpg(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).expect("a group of processes");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// The first writer is frozen with a write that it has not made, the second writes, the first goes on.
fn freeze_and_resume(writer: impl Fn(&str) -> Command, refusal: &str, content: impl Fn() -> String) {
    let mut first = Writer::start(&mut writer("9"));
    assert_eq!(first.write("one"), "written one");
    assert_eq!(first.write("two"), "written two", "the same term goes on");
    first.signal(Signal::SIGSTOP);
    first.tell("late");
    let mut second = Writer::start(&mut writer("10"));
    assert_eq!(second.write("three"), "written three");
    first.signal(Signal::SIGCONT);
    let said = first.said();
    assert!(said.starts_with("refused late") && said.contains(refusal), "{said}");
    assert_eq!(content(), "three");
    assert_eq!(second.write("four"), "written four");
    assert_eq!(content(), "four");
}

/// A database with a table that has the trigger.
fn guarded() -> Postgres {
    let server = Postgres::start();
    server.create("work");
    let script = Command::new(PROGRAM).args(["fence", "guard", "postgres"]).output().unwrap();
    let script = String::from_utf8(script.stdout).unwrap();
    for _ in 0..2 {
        server.sql("work", &script);
    }
    server.sql(
        "work",
        "CREATE TABLE scenes (scene_id text PRIMARY KEY, state text, version bigint);
         CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE ON scenes
             FOR EACH ROW EXECUTE FUNCTION leasehold_fence.guard('scene_id', 'version')",
    );
    server
}

// proves R038, C39
#[test]
fn postgres_refuses_a_writer_that_was_frozen() {
    let server = guarded();
    let writer = |token: &str| {
        let mut command = Command::new(example("postgres.sh"));
        command.args([&server.url("work"), "scene-01", token]);
        command
    };
    let content =
        || server.sql("work", "SELECT state FROM scenes WHERE scene_id = 'scene-01'").trim().to_owned();
    freeze_and_resume(writer, "LH001", content);
    // Whatever else a stale writer tries.
    for statement in [
        "DELETE FROM scenes",
        "SET leasehold.token = '9'; DELETE FROM scenes",
        "UPDATE scenes SET state = 'x', version = 9",
        "UPDATE scenes SET scene_id = 'scene-02', version = 9",
        "INSERT INTO scenes VALUES ('scene-01', 'x', NULL) ON CONFLICT (scene_id) DO UPDATE SET version = NULL",
    ] {
        let said = server.try_sql("work", statement).unwrap_err();
        assert!(said.contains("is refused"), "{statement}: {said}");
    }
    assert_eq!(content(), "four");
    server.sql("work", "SET leasehold.token = '10'; DELETE FROM scenes");
}

// Frozen between its check and its commit: nobody overtakes it, and the server ends what waits too long.
#[test]
fn postgres_ends_a_writer_that_was_frozen_within_its_transaction() {
    let server = guarded();
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-A", "-t", &server.url("work")]);
    let mut first = Writer::start(&mut psql);
    first.tell("SET idle_in_transaction_session_timeout = '1s';");
    first.tell("BEGIN;");
    first.tell("INSERT INTO scenes VALUES ('scene-01', 'late', 9) RETURNING state;");
    assert_eq!(first.said(), "late");
    first.signal(Signal::SIGSTOP);
    // It waits for the first, which the server ends.
    server.sql("work", "INSERT INTO scenes VALUES ('scene-01', 'new', 10)");
    first.signal(Signal::SIGCONT);
    first.tell("COMMIT;");
    drop(first);
    assert_eq!(server.sql("work", "SELECT state FROM scenes").trim(), "new");
}

// proves R038
#[test]
fn redis_refuses_a_writer_that_was_frozen() {
    let server = Redis::start();
    let port = server.port().to_string();
    let writer = |token: &str| {
        let mut command = Command::new(example("redis.sh"));
        command.args([&port, "scene-01", token]);
        command
    };
    freeze_and_resume(writer, "LHSTALE", || server.cli(&["GET", "scene-01"]).trim().to_owned());
    let script = Command::new(PROGRAM).args(["fence", "guard", "redis"]).output().unwrap().stdout;
    let script = String::from_utf8(script).unwrap();
    for token in ["", "x", "-1", "0", "09", "1.0", "99999999999999999"] {
        let said =
            server.cli(&["EVAL", &script, "2", "fence:scene-01", "scene-01", token, "SET", "scene-01", "x"]);
        assert!(said.contains("LHTOKEN"), "{token}: {said}");
    }
    assert_eq!(server.cli(&["GET", "scene-01"]).trim(), "four");
}

// proves R038, C39
#[test]
fn etcd_refuses_a_writer_that_was_frozen() {
    let server = Etcd::start();
    let endpoint = format!("127.0.0.1:{}", server.port());
    let writer = |token: &str| {
        let mut command = Command::new(example("etcd.sh"));
        command.args([&endpoint, "scene-01", token]);
        command
    };
    let content = || server.ctl(&["get", "scene-01", "--print-value-only"]).trim().to_owned();
    freeze_and_resume(writer, "a newer term", content);
}
