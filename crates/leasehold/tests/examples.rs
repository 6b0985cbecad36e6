//! Every example runs to its end and says what it shows.
//!
//! `cargo test` builds the examples beside this test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use leasehold::clock;

/// How long an example may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// When the newest file at or below `path` was last changed.
fn newest_change(path: &Path) -> SystemTime {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap().flatten();
        return entries.map(|entry| newest_change(&entry.path())).max().unwrap_or(SystemTime::UNIX_EPOCH);
    }
    path.metadata().and_then(|file| file.modified()).unwrap()
}

/// The example's program. An old one proves nothing about the code of today.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap().join("examples").join(name);
    let hint = "`cargo build -p leasehold --examples` renews it, as all of `cargo test -p leasehold` does";
    assert!(built.exists(), "{} is missing; {hint}", built.display());
    let crate_at = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = crate_at.join("examples").join(format!("{name}.rs"));
    let changed = newest_change(&source).max(newest_change(&crate_at.join("src")));
    assert!(changed <= newest_change(&built), "{} is out of date; {hint}", built.display());
    built
}

/// Runs an example and gives back the last line it prints.
fn last_line_of(name: &str) -> String {
    let mut example = Command::new(program(name))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = clock::now().after(PATIENCE);
    // What they print fits into a pipe.
    while example.try_wait().unwrap().is_none() {
        if clock::now() > deadline {
            let _ = example.kill();
            panic!("{name} did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = example.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn replicas_share_work() {
    assert_eq!(last_line_of("share_work"), "each of 3 replicas owned 3 of 9 pieces");
}

#[test]
fn a_stale_writer_is_refused() {
    assert_eq!(last_line_of("fence_writes"), "a late write under token 1 is refused: token 2 has been here");
}

#[test]
fn a_planned_stop_leaves_no_gap_of_a_ttl() {
    assert_eq!(last_line_of("hand_over"), "handed over without waiting for the TTL");
}

#[test]
fn resources_come_and_go_with_a_file() {
    assert_eq!(last_line_of("follow_a_file"), "cam-1 went, cam-3 came, cam-2 stayed");
}

#[test]
fn threads_can_take_part() {
    assert_eq!(last_line_of("without_async"), "both threads have ended and both leases are free");
}
