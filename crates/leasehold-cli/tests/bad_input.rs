//! What is wrong is refused with one sentence that says what happened, to what, and what to change; with the
//! documented exit code; and with nothing created or lost.

#[path = "bad_input/config.rs"]
mod config;
#[path = "bad_input/disk.rs"]
mod disk;
#[path = "bad_input/servers.rs"]
mod servers;
#[path = "bad_input/sources.rs"]
mod sources;
mod support;

use std::process::Command;

use support::{Member, Place, leasehold, ran};

/// Refused with this code and one line that has all of `words`; nothing appears beside what was there.
fn refused_command(place: &Place, command: &mut Command, code: i32, words: &[&str]) {
    let before = place.names();
    let said = ran(command.current_dir(place.root()));
    assert_eq!(said.code, Some(code), "{said:?}");
    assert_eq!(said.out, "");
    assert!(said.err.starts_with("leasehold: ") && said.err.lines().count() == 1, "{said:?}");
    for word in words {
        assert!(said.err.contains(word), "{word:?} is missing: {said:?}");
    }
    assert!(said.err.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
    assert_eq!(place.names(), before, "{said:?}");
}

fn refused(place: &Place, args: &[&str], code: i32, words: &[&str]) {
    refused_command(place, leasehold().args(args), code, words);
}

/// A `run` that is well but for `options`.
fn run_refused(place: &Place, options: &[&str], words: &[&str]) {
    let start = ["run", "--store", "sqlite:new.db", "--pool", "jobs"];
    refused(place, &[&start, options, &["--", "true"]].concat(), 2, words);
}

#[test]
fn an_id_that_is_none_is_refused_with_what_is_allowed() {
    let place = Place::new();
    let long = "x".repeat(300);
    run_refused(
        &place,
        &["--resources", "a/b"],
        &["--resources", "\"a/b\" contains '/'", "use only letters"],
    );
    run_refused(&place, &["--resources", "a\nb"], &[r#""a\nb""#, "use only letters"]);
    run_refused(&place, &["--resources", "\u{1b}[31mred"], &[r"\u{1b}", "use only letters"]);
    run_refused(&place, &["--resources", &long], &["has 300 bytes", "at most 128"]);
    run_refused(&place, &["--resources", ""], &["resource id is empty", "give 1 to 128"]);
    run_refused(&place, &["--resources", "a,,b"], &["resource id is empty"]);
    run_refused(&place, &["--resources", "a,b,a"], &["resource a is given twice", "remove one"]);
    run_refused(&place, &["--resources", "a", "--pool", "jobs"], &["--pool is given twice"]);
    refused(&place, &["status", "--store", "sqlite:x.db", "--pool", "a b"], 2, &["--pool", "contains ' '"]);
    run_refused(&place, &["--resources", "a", "--name", "ü"], &["--name", "contains 'ü'"]);
    refused(&place, &["explain", "--store", "sqlite:x.db", "jobs/a/b"], 2, &["\"a/b\" contains '/'"]);
    refused(&place, &["explain", "--store", "sqlite:x.db", "a"], 2, &["name the pool too"]);
    refused(&place, &["drain", "--store", "sqlite:x.db", "--pool", "jobs", &long], 2, &["300 bytes"]);
    refused(&place, &["check", "--socket", "s", "--resource", "a", "--token", "-1"], 2, &["-1"]);
}

#[test]
fn durations_that_are_none_or_do_not_fit_together_are_refused_with_the_knob_to_turn() {
    let place = Place::new();
    let with = |options: &[&str], words: &[&str]| {
        run_refused(&place, &[&["--resources", "a"], options].concat(), words);
    };
    with(&["--ttl", "0s"], &["the TTL is 0", "give one between 1s and 3600s"]);
    with(&["--ttl", "-5s"], &["--ttl", "\"-5s\"", "a number and a unit"]);
    with(&["--ttl=-5s"], &["--ttl", "\"-5s\"", "a number and a unit"]);
    with(&["--ttl", "30"], &["--ttl", "\"30\"", "a number and a unit"]);
    with(&["--ttl", "2h"], &["the TTL is 7200s", "give one between"]);
    with(&["--ttl", "9s", "--heartbeat", "4s"], &["heartbeat of 4s", "lower the heartbeat to 3s"]);
    with(&["--ttl", "9s", "--grace", "8s"], &["grace 8s", "lower the grace"]);
    with(&["--ttl", "9s", "--margin", "100ms"], &["margin of 100ms", "raise the margin"]);
    with(&["--ttl", "9s", "--call-timeout", "3s"], &["call timeout of 3s", "lower the call timeout"]);
    with(&["--budget", "0"], &["budget of 0", "at least 1"]);
    with(&["--on-uncertain", "stop", "--uncertain-budget", "1s"], &["--uncertain-budget", "leave one out"]);
    with(&["--on-uncertain", "sometimes"], &["--on-uncertain", "use pause, continue or stop"]);
    with(&["--restart", "sometimes"], &["--restart", "use always, on-failure or never"]);
    with(&["--label", "blue"], &["--label", "key=value"]);
    with(&["--capacity", "many"], &["--capacity", "\"many\"", "give a whole number"]);
    let events = ["events", "--store", "sqlite:x.db", "--pool", "jobs", "--limit", "0"];
    refused(&place, &events, 2, &["--limit: 0 is not between 1 and 200000"]);
    with(&["--log", "lo=ud=ly"], &["--log", "is no filter"]);
    refused(&place, &["demo", "--ttl", "0s"], 2, &["the TTL is 0", "give one between"]);
}

#[test]
fn a_store_that_is_none_is_refused_and_its_password_is_not_repeated() {
    let place = Place::new();
    let tail = ["--pool", "jobs", "--resources", "a", "--", "true"];
    for url in ["mysql://user:hunter2@host/db", "user:hunter2@host", "mongodb://:hunter2@host"] {
        let mut by_option = leasehold();
        by_option.args(["run", "--store", url]).args(tail);
        let mut by_variable = leasehold();
        by_variable.arg("status").env("LEASEHOLD_STORE", url);
        let mut by_mistake = leasehold();
        by_mistake.args(["status", url]);
        for mut command in [by_option, by_variable] {
            refused_command(&place, &mut command, 2, &["unknown store", "use sqlite:PATH"]);
            assert!(!ran(&mut command).err.contains("hunter2"));
        }
        if url.contains("://") {
            refused_command(&place, &mut by_mistake, 2, &["is not expected here"]);
            assert!(!ran(&mut by_mistake).err.contains("hunter2"));
        }
    }
    let with = |url: &str, words: &[&str]| {
        refused(&place, &[&["run", "--store", url], &tail[..]].concat(), 2, words);
    };
    with("work.db", &["unknown store \"work.db\"", "use sqlite:PATH"]);
    with("sqlite:", &["needs a path", "sqlite:work.db"]);
    with("sqlite:no/such/work.db", &["no/such/work.db", "its directory does not exist", "create it"]);
    refused(&place, &["status", "--store", "memory:"], 2, &["lives within one process", "sqlite:work.db"]);
}

#[test]
fn a_file_that_is_no_store_of_ours_is_refused_and_left_as_it_is() {
    let place = Place::new();
    std::fs::create_dir(place.path("directory")).unwrap();
    place.write("text.db", "this is a letter to my mother, and not a database at all\n");
    let foreign = rusqlite::Connection::open(place.path("foreign.db")).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)").unwrap();
    let newer = rusqlite::Connection::open(place.path("newer.db")).unwrap();
    newer
        .execute_batch("PRAGMA application_id = 1818782820; PRAGMA user_version = 99; CREATE TABLE t (a)")
        .unwrap();
    drop((foreign, newer));
    for (name, words) in [
        ("directory", ["it is a directory", "give the path of a file in it"]),
        ("text.db", ["is not a SQLite database", "give another path"]),
        ("foreign.db", ["of another program", "give another path"]),
        ("newer.db", ["written by a newer leasehold", "upgrade this one"]),
    ] {
        let before = std::fs::read(place.path(name)).ok();
        let url = format!("sqlite:{name}");
        refused(
            &place,
            &["run", "--store", &url, "--pool", "p", "--resources", "a", "--", "true"],
            2,
            &words,
        );
        refused(&place, &["status", "--store", &url], 2, &words);
        refused(&place, &["drain", "--store", &url, "--pool", "p", "m"], 2, &words);
        assert_eq!(std::fs::read(place.path(name)).ok(), before, "{name}");
    }
}

#[test]
fn a_command_that_cannot_be_run_is_refused_with_the_shells_exit_codes() {
    let place = Place::new();
    place.write("letter", "not a program\n");
    let run = ["run", "--store", "sqlite:new.db", "--pool", "jobs", "--resources", "a"];
    let with =
        |command: &[&str], code, words: &[&str]| refused(&place, &[&run, command].concat(), code, words);
    with(&["--", "no-such-command"], 127, &["no-such-command does not exist", "PATH"]);
    with(&["--", "./no-such-command"], 127, &["./no-such-command does not exist"]);
    with(&["--", "./letter"], 126, &["./letter may not be executed", "chmod +x"]);
    with(&["--"], 2, &["<CMD>... is missing", "after --"]);
    with(&[], 2, &["<CMD>... is missing", "after --"]);
}

#[test]
fn what_is_not_there_is_not_found_and_not_created() {
    let place = Place::new();
    for words in
        [&["status"][..], &["show", "--pool", "p", "a"], &["plan", "--pool", "p"], &["explain", "p/a"]]
    {
        let args = [&[words[0], "--store", "sqlite:none.db"], &words[1..]].concat();
        refused(&place, &args, 1, &["there is no store at none.db", "check the path"]);
    }
    refused(&place, &["drain", "--store", "sqlite:none.db", "--pool", "p", "m"], 1, &["there is no store"]);
    let member = place.member("anna", &["--resources", "a", "--ttl", "3s"]);
    // All files that a member makes are there.
    place.more_ticks("a", 1);
    let url = place.url();
    let pool = ["--store", url.as_str(), "--pool", "jobs"];
    refused(
        &place,
        &[&["show"], &pool[..], &["zz"]].concat(),
        1,
        &["no resource or member \"zz\"", "status"],
    );
    refused(&place, &[&["explain"], &pool[..], &["zz"]].concat(), 1, &["no resource zz", "status"]);
    refused(
        &place,
        &[&["plan"], &pool[..], &["--drain", "zz"]].concat(),
        1,
        &["no member named zz", "status"],
    );
    refused(
        &place,
        &[&["plan"], &pool[..], &["--join", "99999999"]].concat(),
        2,
        &["too many", "at most 10000"],
    );
    refused(&place, &["status", "--store", &url, "--pool", "zz"], 1, &["no pool zz", "it has jobs"]);
    refused(&place, &["events", "--store", &url, "--pool", "zz"], 1, &["no pool zz", "it has jobs"]);
    member.leave();
}

#[test]
fn a_slip_of_the_hand_is_answered_with_what_was_meant() {
    let place = Place::new();
    refused(&place, &["satus"], 2, &["\"satus\" is no command", "did you mean status"]);
    refused(&place, &["status", "--stor", "x"], 2, &["\"--stor\"", "did you mean --store"]);
    refused(&place, &["run"], 2, &["--store <URL>, --pool <POOL> and <CMD>... are missing", "run --help"]);
    refused(&place, &["completions", "tcsh"], 2, &["\"tcsh\"", "bash, elvish, fish, powershell or zsh"]);
    refused(&place, &["status", "--store"], 2, &["--store needs a value"]);
}

#[test]
fn check_needs_a_supervisor_and_no_answer_is_no_trust() {
    let place = Place::new();
    refused(&place, &["check"], 2, &["no child of `leasehold run`", "LEASEHOLD_SOCKET is not set"]);
    let dead = place.path("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    for socket in [dead.display().to_string(), "no.sock".to_owned()] {
        let said = ran(leasehold().args(["check", "--socket", &socket, "--resource", "a"]));
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.out.starts_with("a is not held: ") && said.err.is_empty(), "{said:?}");
        let said = ran(leasehold().args(["check", "--json", "--socket", &socket, "--resource", "a"]));
        let reply: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!((said.code, &reply["trusted"]), (Some(1), &false.into()), "{said:?}");
    }
}

#[test]
fn nobody_who_reads_the_output_is_no_reason_to_complain() {
    let place = Place::new();
    let member = place.member("anna", &["--resources", "a", "--ttl", "3s"]);
    support::wait_until("a is owned", || place.owners("jobs").len() == 1);
    let url = place.url();
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    for args in [
        &["status", "--store", &url][..],
        &["status", "--store", &url, "--json"],
        &["events", "--store", &url, "--pool", "jobs"],
        &["events", "--store", &url, "--pool", "jobs", "--follow"],
        &["completions", "bash"],
        &["demo"],
        &["--help"],
    ] {
        let said = ran(leasehold().args(args).stdout(closed()));
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{args:?}");
    }
    member.leave();
    // A member has work to do, whoever listens.
    let journal = place.path("journal");
    let mut run = leasehold();
    run.args([
        "run",
        "--store",
        &url,
        "--pool",
        "jobs",
        "--resources",
        "z",
        "--ttl",
        "3s",
        "--log",
        "debug",
        "--",
    ]);
    run.args(["sh", "-c", &format!("echo to nobody; {}", support::TICK)]).arg(journal).arg("deaf");
    let deaf = Member::of(run.stdout(closed()).stderr(closed()));
    place.more_ticks("z", 5);
    deaf.leave();
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    use std::io::Write;
    let place = Place::new();
    let (_unread, full) = std::io::pipe().unwrap();
    // As much as the pipe takes: whoever writes more waits for ever.
    let filled = full.try_clone().unwrap();
    std::thread::spawn(move || (&filled).write_all(&vec![b'x'; 1 << 20]));
    let journal = place.path("journal");
    let mut run = leasehold();
    run.args([
        "run",
        "--store",
        &place.url(),
        "--pool",
        "jobs",
        "--resources",
        "a",
        "--ttl",
        "3s",
        "--log",
        "trace",
    ]);
    run.args(["--", "sh", "-c", support::TICK]).arg(journal).arg("anna");
    let member = Member::of(run.stdout(full.try_clone().unwrap()).stderr(full));
    // Longer than a lease lives by itself.
    place.more_ticks("a", 40);
    assert_eq!(place.workers()["a"].1, 1, "the lease did not stay");
    member.leave();
}
