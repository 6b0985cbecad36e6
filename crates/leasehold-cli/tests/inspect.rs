//! Looking and marking: what is printed, in text and in JSON, is in `golden/`; run with `UPDATE_GOLDEN=1` to write
//! it anew, and read the difference.

#[path = "inspect/golden.rs"]
mod golden;
#[path = "inspect/marks.rs"]
mod marks;
mod support;

use support::{COMMANDS, Place, leasehold, ran, wait_until};

/// Runs the program without a store.
fn told(args: &[&str]) -> String {
    let said = ran(leasehold().args(args));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{args:?}");
    said.out
}

#[test]
fn every_command_has_help_with_examples_that_fits_on_a_screen() {
    let top = told(&["--help"]);
    for command in COMMANDS {
        assert!(top.contains(&format!("\n  {command} ")), "{command} is missing in --help");
        let said = ran(leasehold().args([command, "--help"]).env("COLUMNS", "80"));
        assert!(said.code == Some(0) && said.out.contains("Examples"), "{command}");
        assert!(
            said.out.contains(&format!("\n  leasehold {command}")) || command == "completions",
            "{command}"
        );
        let wide: Vec<&str> = said.out.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{command}: {wide:#?}");
    }
    for code in ["0 ", "1 ", "2 ", "69 ", "71 ", "126 ", "127 ", "130 "] {
        assert!(top.contains(&format!("\n  {code}")), "exit code {code} is not documented");
    }
    assert!(!top.contains("demo-work") && !told(&["run", "--help"]).contains("while-stdin"));
    assert!(ran(&mut leasehold()).err.contains("Usage: leasehold <COMMAND>"));
}

/// What every command says of itself, on a wide screen and on a narrow one, with no terminal: reviewed as files.
#[test]
fn what_every_command_says_of_itself_is_as_reviewed() {
    for columns in ["100", "60"] {
        let mut all = String::new();
        for command in [""].iter().chain(&COMMANDS) {
            let words: Vec<&str> = [*command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
            let said = ran(leasehold().args(&words).env("COLUMNS", columns));
            assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{command}");
            assert!(!said.out.contains('\u{1b}'), "{command} is coloured without a terminal");
            all += &format!("$ leasehold {}\n{}\n", words.join(" "), said.out);
        }
        golden::golden(&format!("help-{columns}.out"), &all);
    }
}

#[test]
fn the_version_names_the_commit() {
    let version = told(&["--version"]);
    let commit = version.strip_prefix(&format!("leasehold {} (", env!("CARGO_PKG_VERSION")));
    let commit = commit.and_then(|rest| rest.strip_suffix(")\n")).unwrap_or_else(|| panic!("{version}"));
    assert!(
        commit == "unknown" || commit.len() == 12 && commit.chars().all(|c| c.is_ascii_hexdigit()),
        "{version}"
    );
}

#[test]
fn completions_are_scripts_that_their_shells_can_read() {
    for shell in ["bash", "zsh", "fish"] {
        let script = told(&["completions", shell]);
        assert!(script.contains("leasehold") && script.contains("explain"), "{shell}");
        let place = Place::new();
        let path = place.write("script", &script);
        match std::process::Command::new(shell).args(["-n", &path]).output() {
            Ok(read) => assert!(read.status.success(), "{shell}: {}", String::from_utf8_lossy(&read.stderr)),
            Err(error) => eprintln!("{shell} is not here ({error}): its script was not read by it"),
        }
    }
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let place = Place::new();
    let directory = place.path("deep/man1");
    told(&["man", directory.to_str().unwrap()]);
    for command in COMMANDS {
        let page = std::fs::read_to_string(directory.join(format!("leasehold-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("leasehold"), "{command}");
    }
    assert!(directory.join("leasehold.1").exists());
    assert!(!directory.join("leasehold-demo-work.1").exists(), "a page for a hidden command");
    let file = place.write("file", "");
    let said = ran(leasehold().args(["man", &file]));
    assert_eq!(said.code, Some(71), "{said:?}");
    assert!(said.err.contains("cannot write the manual pages into"), "{said:?}");
}

#[test]
fn members_that_share_a_name_can_be_told_apart() {
    let place = Place::new();
    let members = ["one", "two"].map(|file| {
        let mut run = leasehold();
        run.args(["run", "--store", &place.url(), "--pool", "jobs", "--name", "twin", "--ttl", "3s"]);
        place.start(file, run.args(["--resources", "a,b", "--", "sleep", "1000"]))
    });
    let ids = || {
        let report = place.json(&["status"]);
        let members = report["pools"][0]["members"].as_array().cloned().unwrap_or_default();
        members
            .iter()
            .filter(|m| m["held"] == 1)
            .map(|m| m["member"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    wait_until("each has one", || place.owners("jobs").len() == 2 && ids().len() == 2);
    let status = place.told(&["status"]);
    for id in ids() {
        let end = id.rsplit('-').next().unwrap();
        assert!(status.contains(&format!("twin ...{end}")), "{status}");
        assert!(place.told(&["explain", "jobs/a"]).contains(&format!("twin ({id})")));
    }
    assert_eq!(place.told(&["show", "--pool", "jobs", "twin"]).matches("session    open").count(), 2);
    for member in members {
        member.leave();
    }
}

#[test]
fn events_are_followed_as_they_happen() {
    let place = Place::new();
    let member = place.member("anna", &["--resources", "a", "--ttl", "3s"]);
    place.more_ticks("a", 1);
    let mut follow = leasehold();
    follow.args(["events", "--store", &place.url(), "--pool", "jobs", "--follow", "--resource", "a"]);
    let following = place.start("events", &mut follow);
    wait_until("what was", || place.lines("events.out").iter().any(|line| line.contains("started")));
    member.leave();
    let last = || place.lines("events.out").last().cloned().unwrap_or_default();
    wait_until("what is", || last().contains("released") && last().ends_with("shutdown"));
    drop(following);
}

#[test]
fn the_demo_ends_its_members_whatever_ends_it() {
    use nix::sys::signal::Signal;
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let place = Place::new();
        let mut demo = place.start("demo", leasehold().args(["demo"]).env("TMPDIR", place.root()));
        let store = || {
            let found = place.names().into_iter().map(|name| place.path(&name).join("demo.db"));
            found.into_iter().find(|path| path.exists())
        };
        let users = |place: &Place| {
            let root = place.root().display().to_string();
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let line = |pid: String| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let lines = all.map(|entry| line(entry.file_name().to_string_lossy().into_owned()));
            lines.filter(|line| String::from_utf8_lossy(line).contains(&root)).count()
        };
        wait_until("members work", || store().is_some() && users(&place) > 6);
        demo.signal(signal);
        let status = demo.wait();
        wait_until("nobody is left", || users(&place) == 0);
        if signal == Signal::SIGTERM {
            assert_eq!(status.code(), Some(130));
            assert_eq!(store(), None, "the demo's directory is still there");
        }
    }
}

#[test]
fn what_others_wrote_tells_a_terminal_nothing() {
    let place = Place::new();
    let one = place.run("one", &["--resources", "a", "--label", "site=\u{1b}[2J\u{202e}"], &["sleep", "60"]);
    wait_until("one owns it", || !place.owners("jobs").is_empty());
    let shown = place.ask(&["show", "--pool", "jobs", "one"]);
    assert!(shown.out.contains(r"site=\x1b[2J\u{202e}"), "{shown:?}");
    let whole = place.json(&["show", "--pool", "jobs", "one"]);
    assert_eq!(whole["members"][0]["profile"]["labels"]["site"], "\u{1b}[2J\u{202e}", "{whole:#}");
    one.leave();
}
