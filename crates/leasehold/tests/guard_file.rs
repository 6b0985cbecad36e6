//! A file that refuses a writer which was really frozen. `cargo test` builds the example beside this test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use leasehold_testkit::{Dir, wait_for};

struct Writer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Writer {
    fn start(file: &str, token: &str) -> Self {
        let test = std::env::current_exe().unwrap();
        let program = test.ancestors().nth(2).unwrap().join("examples/guard_file");
        assert!(program.exists(), "`cargo build -p leasehold --examples` makes {}", program.display());
        let mut command = Command::new(program);
        let mut child =
            command.args([file, token]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn said(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    fn stands_still(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit_once(')').unwrap().1.trim_start().starts_with('T')
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// proves R038
#[test]
fn a_file_refuses_a_writer_that_was_frozen() {
    let dir = Dir::new();
    let path = dir.join("report.json").display().to_string();
    let mut first = Writer::start(&path, "9");
    first.tell("one");
    assert_eq!(first.said(), "written one");
    first.signal("-STOP");
    wait_for("the writer stands still", || first.stands_still());
    first.tell("late");
    let mut second = Writer::start(&path, "10");
    second.tell("two");
    assert_eq!(second.said(), "written two");
    first.signal("-CONT");
    assert_eq!(first.said(), "refused late: a newer term was granted, under token 10");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
}
