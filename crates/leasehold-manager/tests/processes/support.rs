//! What the tests share: where the program is, what runs, and waiting for conditions.

use std::fs::DirEntry;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leasehold::clock::{self, Moment};
use leasehold_manager::{Output, Program, Spec, Supervisor};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a condition may take to come about on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// The program of `examples/supervise.rs`, whose hidden commands are the stub and the deadman.
pub(crate) fn program() -> PathBuf {
    example("supervise")
}

/// The program of one of the examples.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a path of this test");
    let path = test.ancestors().nth(2).expect("a target directory").join("examples").join(name);
    let built = path.metadata().and_then(|file| file.modified());
    let built =
        built.unwrap_or_else(|_| panic!("{} is missing; `cargo build --examples` makes it", path.display()));
    // `cargo test --test` builds no examples, and an old one proves nothing about the code of today.
    let changed = newest_change(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(changed <= built, "{} is out of date; `cargo build --examples` renews it", path.display());
    path
}

/// When the newest file below `directory` was last changed.
fn newest_change(directory: &Path) -> SystemTime {
    let entries = std::fs::read_dir(directory).expect("the sources").flatten();
    let change = |entry: DirEntry| match entry.file_type().expect("a type").is_dir() {
        true => newest_change(&entry.path()),
        false => entry.metadata().and_then(|file| file.modified()).expect("a time"),
    };
    entries.map(change).max().unwrap_or(SystemTime::UNIX_EPOCH)
}

pub(crate) fn secs(seconds: u64) -> Moment {
    clock::now().after(Duration::from_secs(seconds))
}

/// Waits for a condition, blocking the thread.
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let give_up_at = clock::now().after(PATIENCE);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(clock::now() < give_up_at, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for a condition, letting other tasks run.
pub(crate) async fn wait_for_async<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let give_up_at = clock::now().after(PATIENCE);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(clock::now() < give_up_at, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// State and process group of a process, if there is one.
pub(crate) fn state_and_group(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.nth(1)?.parse().ok()?))
}

/// Whether a process exists and is not merely waiting to be reaped.
pub(crate) fn runs(pid: u32) -> bool {
    state_and_group(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// The processes of a group that run.
pub(crate) fn members(group: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            state_and_group(*pid).is_some_and(|(state, of)| of == group && !matches!(state, 'Z' | 'X'))
        })
        .collect()
}

pub(crate) fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a process id")), signal).expect("a process to signal");
}

/// A file's lines, once it has some.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The number that a child wrote to a file.
pub(crate) fn number_in(path: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(path).ok()?;
    text.strip_suffix('\n')?.parse().ok()
}

/// A shell that runs `script` with `$0` as the path it may write to.
pub(crate) fn shell(script: &str, path: &Path) -> Spec {
    Spec::new("sh", ["-c", script]).arg(path).resource("work")
}

/// Everything that children have said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("a lock").clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("a lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A supervisor in this process, with a deadline far away, and what its children say.
pub(crate) async fn supervisor() -> (Supervisor, Said, Said) {
    supervisor_from(Program::at(program())).await
}

pub(crate) async fn supervisor_from(program: Program) -> (Supervisor, Said, Said) {
    let (supervisor, out, err) = supervisor_without_deadline(program).await;
    supervisor.extend(secs(60), secs(70));
    (supervisor, out, err)
}

pub(crate) async fn supervisor_without_deadline(program: Program) -> (Supervisor, Said, Said) {
    let (out, err) = (Said::default(), Said::default());
    let output = Output::to(out.clone(), err.clone()).expect("a thread");
    let supervisor = Supervisor::start(program, output).await.expect("a supervisor");
    (supervisor, out, err)
}
