//! The demo before a viewer with a terminal, and before one without.

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::clock;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use support::{Member, Place, leasehold, ran, wait_until};

/// A terminal of some size with the demo in it.
struct Terminal {
    demo: Member,
    keys: File,
    /// The terminal's other end, to change its size by.
    line: OwnedFd,
    screen: Arc<Mutex<vt100::Parser>>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open(place: &Place, rows: u16, columns: u16) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a terminal");
        let end = || Stdio::from(pty.slave.try_clone().expect("the terminal's end"));
        let mut demo = Command::new("setsid");
        demo.arg("--ctty").arg(env!("CARGO_BIN_EXE_leasehold")).args(["demo", "--ttl", "2s"]);
        demo.env("TMPDIR", place.root()).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        let demo = Member::of(demo.stdin(end()).stdout(end()).stderr(end()));
        let keys = File::from(pty.master);
        let mut output = keys.try_clone().expect("the terminal");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let written = Arc::new(Mutex::new(Vec::new()));
        let (shown, kept) = (Arc::clone(&screen), Arc::clone(&written));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
                kept.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self { demo, keys, line: pty.slave, screen, written }
    }

    fn shown(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let give_up_at = clock::now().after(support::PATIENCE);
        while !holds(&self.shown()) {
            assert!(clock::now() < give_up_at, "waited in vain for {what} on this screen:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a key");
    }

    fn resize(&self, rows: u16, columns: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(rows, columns);
        let mut stty = Command::new("stty");
        stty.args(["rows", &rows.to_string(), "cols", &columns.to_string()]);
        stty.stdin(self.line.try_clone().expect("the terminal's end"));
        assert!(stty.status().expect("stty runs").success());
    }

    /// How the demo ended, and the last line it printed.
    fn end(&mut self) -> (ExitStatus, String) {
        let status = self.demo.wait();
        self.wait_for("the terminal as it was", |_| !self.screen.lock().unwrap().screen().alternate_screen());
        self.wait_for("the verdict", |shown| shown.contains("the verdict:"));
        (status, self.shown().trim_end().lines().last().unwrap_or_default().to_owned())
    }
}

/// How many processes have this place for their temporary files.
fn processes(place: &Place) -> usize {
    let words = format!("TMPDIR={}", place.root().display());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let environment = |pid: String| std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let found = all.map(|entry| environment(entry.file_name().to_string_lossy().into_owned()));
    found.filter(|found| String::from_utf8_lossy(found).contains(&words)).count()
}

/// How many resources are worked on by their owners.
fn working(shown: &str) -> usize {
    let of_resource =
        |line: &&str| ["crane-", "gate-", "pump-"].iter().any(|kind| line.starts_with(&format!(" {kind}")));
    shown.lines().filter(of_resource).filter(|line| line.contains(" works ")).count()
}

fn assert_nothing_is_left(place: &Place) {
    wait_until("no process is left", || processes(place) == 0);
    assert_eq!(place.names(), [""; 0], "the demo's directory is still there");
}

#[test]
fn with_a_terminal_it_shows_a_picture_and_obeys_keys_until_q() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, 24, 80);
    terminal.wait_for("work", |shown| shown.contains("12 taken, ") && shown.contains("overlap 0 s"));
    assert!(processes(&place) > 15, "three members, their deadmen and twelve children");
    terminal.press("k");
    terminal.wait_for("a death", |shown| shown.contains("A anna killed"));
    terminal.wait_for("a takeover", |shown| shown.contains("(killed)") && working(shown) == 12);
    terminal.press("a");
    terminal.wait_for("a newcomer", |shown| shown.contains("D dora works"));
    terminal.press("?");
    terminal.wait_for("help", |shown| shown.contains("Any key goes back"));
    terminal.press("x");
    // A key that comes together with another size may be read with the next one only.
    terminal.wait_for("the picture instead of help", |shown| working(shown) == 12);
    terminal.resize(40, 120);
    let last = |shown: &str| shown.lines().nth(39).is_some_and(|line| line.contains("q quit"));
    terminal.wait_for("the larger picture", |shown| last(shown) && working(shown) == 12);
    terminal.resize(10, 40);
    terminal.wait_for("a plea for room", |shown| shown.contains("please give this window"));
    terminal.resize(24, 80);
    terminal.wait_for("the picture again", |shown| working(shown) == 12);
    let wiped = b"\x1b[2J";
    let wipes = terminal.written.lock().unwrap().windows(wiped.len()).filter(|bytes| bytes == wiped).count();
    assert!(wipes < 10, "the screen was wiped {wipes} times: it flickers");
    terminal.press("q");
    let (status, last) = terminal.end();
    assert_eq!(status.code(), Some(0), "{}", terminal.shown());
    assert!(last.contains("overlap 0 s"), "{}", terminal.shown());
    assert_nothing_is_left(&place);
}

#[test]
fn the_last_one_cannot_be_taken_away_and_a_signal_ends_it_all_even_the_frozen() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, 40, 100);
    terminal.wait_for("work", |shown| working(shown) == 12);
    for name in ["A anna", "B bert"] {
        terminal.press("k");
        terminal.wait_for("a death", |shown| shown.contains(&format!("{name} killed")));
    }
    for key in ["k", "f", "d"] {
        terminal.press(key);
        terminal.wait_for("a refusal", |shown| shown.contains("without cleo nobody would be left to work"));
    }
    terminal.press("a");
    let even = |shown: &str| shown.contains("C cleo works     6") && shown.contains("D dora works     6");
    terminal.wait_for("even shares", |shown| even(shown) && working(shown) == 12);
    terminal.press("f");
    terminal.wait_for("a freeze", |shown| shown.contains("C cleo frozen"));
    terminal.wait_for("its end", |shown| shown.contains("the deadman ended cleo's") && working(shown) == 12);
    terminal.demo.signal(Signal::SIGTERM);
    let (status, last) = terminal.end();
    assert_eq!(status.code(), Some(0), "{}", terminal.shown());
    assert!(last.contains("overlap 0 s"), "{}", terminal.shown());
    assert_nothing_is_left(&place);
}

#[test]
fn a_frozen_member_does_not_outlive_a_demo_that_is_killed() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, 24, 80);
    terminal.wait_for("work", |shown| working(shown) == 12);
    terminal.press("f");
    terminal.wait_for("a freeze", |shown| shown.contains("A anna frozen"));
    terminal.demo.signal(Signal::SIGKILL);
    terminal.demo.wait();
    wait_until("no process is left", || processes(&place) == 0);
}

#[test]
fn without_a_terminal_it_prints_lines_and_ends_by_itself() {
    let place = Place::new();
    let started = clock::now();
    let said = ran(leasehold().args(["demo", "--ttl", "2s"]).env("TMPDIR", place.root()));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    assert!(clock::now().since(started) < Duration::from_secs(60));
    for words in
        ["dora joins", "anna is killed", "bert is frozen", "cleo is drained", "(killed)", "the ledger:"]
    {
        assert!(said.out.contains(words), "{words} is missing:\n{}", said.out);
    }
    assert!(!said.out.contains('\x1b'), "{}", said.out);
    assert!(
        said.out.trim_end().lines().last().is_some_and(|last| last.contains("overlap 0 s")),
        "{}",
        said.out
    );
    assert_nothing_is_left(&place);
}
