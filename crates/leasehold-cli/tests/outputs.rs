//! What every command prints and how it ends, with a terminal and without, on a wide one and on a narrow one: reviewed as files in
//! `golden/outputs`, one for each command. `UPDATE_GOLDEN=1` writes them anew; read the difference.
//!
//! The stores are made by hand, with ids and times of our own choosing, so that there is next to nothing to be replaced.

#![cfg(target_os = "linux")]

#[path = "outputs/record.rs"]
mod record;
#[path = "outputs/scene.rs"]
mod scene;
mod support;

use record::{Case, Record};

const POOL: [&str; 4] = ["--store", "sqlite:work.db", "--pool", "jobs"];

/// A command on the pool of the scene.
fn on_pool(words: &[&str]) -> Case {
    Case::new(&[&words[..1], &POOL[..], &words[1..]].concat())
}

/// A command on the scene's store.
fn on_store(words: &[&str]) -> Case {
    Case::new(&[&words[..1], &POOL[..2], &words[1..]].concat())
}

#[test]
fn looking_at_a_pool_is_as_reviewed() {
    let place = scene::pool();
    let mut records = Record::of(&place);
    records.file(
        "status",
        &[
            on_store(&["status"]),
            on_store(&["status"]).env("NO_COLOR", "1"),
            on_store(&["status", "--pool", "jbos"]),
            Case::new(&["status", "--store", "sqlite:nowhere.db"]),
            Case::new(&["status"]),
        ],
    );
    records.file("show", &[on_pool(&["show", "a"]), on_pool(&["show", "bert"]), on_pool(&["show", "zoe"])]);
    records.file(
        "plan",
        &[
            on_pool(&["plan"]),
            on_pool(&["plan", "--drain", "anna"]),
            on_pool(&["plan", "--without", "anna", "--without", "bert", "--without", "cleo"]),
            on_pool(&["plan", "--drain", "zoe"]),
        ],
    );
    records.file(
        "explain",
        &[on_store(&["explain", "jobs/a"]), on_pool(&["explain", "zoe"]), on_store(&["explain", "a"])],
    );
    records.file(
        "events",
        &[
            on_pool(&["events"]),
            on_pool(&["events", "--resource", "b", "--json"]),
            on_store(&["events", "--pool", "jbos"]),
        ],
    );
    records
        .file("top", &[Case::new(&["top", "--store", "sqlite:nowhere.db"]), on_store(&["top"]).only_piped()]);
}

#[test]
fn judging_a_store_is_as_reviewed() {
    let place = scene::pool();
    let mut records = Record::of(&place);
    let broken = ["verify", "--store", "sqlite:work.db", "--pool", "broken"];
    records.file(
        "verify",
        &[
            on_pool(&["verify"]),
            Case::new(&broken),
            on_pool(&["verify", "nothing.log"]),
            on_store(&["verify", "--pool", "jbos"]),
        ],
    );
    records.file(
        "doctor",
        &[
            on_store(&["doctor"]),
            on_store(&["doctor", "--require-grade", "durable-and-linearizable"]),
            Case::new(&["doctor", "--store", "redis://127.0.0.1:1"]),
        ],
    );
    records.file(
        "bench",
        &[
            Case::new(&["bench", "--store", "sqlite:nowhere.db"]),
            on_store(&["bench", "--only", "everything"]),
            on_store(&["bench", "--leases", "2000000"]),
            on_store(&["bench", "--round", "1h"]),
        ],
    );
    records
        .file("migrate", &[on_store(&["migrate"]), Case::new(&["migrate", "--store", "sqlite:no/where.db"])]);
}

#[test]
fn what_operators_do_is_as_reviewed() {
    let place = scene::pool();
    let mut records = Record::of(&place);
    // Each is only looked at, done after a "y" where a terminal asks, taken back, and refused.
    for (word, back, subject) in [
        ("drain", "undrain", &["anna"][..]),
        ("cordon", "uncordon", &["anna"]),
        ("pin", "unpin", &["a", "bert"]),
        ("pause", "resume", &["a"]),
    ] {
        let words = |word: &'static str, more: &[&'static str]| [&[word], subject, more].concat();
        let back_words: Vec<&str> = [back, subject[0]].to_vec();
        records.file(
            word,
            &[
                on_pool(&words(word, &["--plan"])),
                on_pool(&words(word, &[]))
                    .types("n\n")
                    .then(&on_pool(&[&back_words[..], &["--yes"]].concat()).words()),
                on_pool(&words(word, &[])).types("y\n").then(&on_pool(&back_words).words()),
                on_pool(&[word]),
            ],
        );
        records.file(
            back,
            &[
                on_pool(&back_words).types("y\n").first(&on_pool(&words(word, &["--yes"])).words()),
                on_pool(&[&back_words[..], &["--json"]].concat()),
                on_pool(&[back, "no such name"]),
            ],
        );
    }
    records.file(
        "revoke",
        &[
            on_pool(&["revoke", "a", "--plan"]),
            on_pool(&["revoke", "a"]).types("n\n"),
            on_pool(&["revoke", "d", "--yes"]),
            on_pool(&["revoke", "c", "--yes", "--json"]),
        ],
    );
    let resign = ["resign", "--store", "sqlite:work.db", "--pool", "election.backup"];
    let plan = [&resign[..], &["--plan"]].concat();
    records
        .file("resign", &[Case::new(&plan), Case::new(&resign).types("y\n"), on_pool(&["resign", "--yes"])]);
}

#[test]
fn what_is_kept_is_as_reviewed() {
    let place = scene::plane();
    let mut records = Record::of(&place);
    let database = ["--database", "sqlite:work.db"];
    let plane = |words: &[&str]| Case::new(&[words, &database].concat());
    records.file(
        "manager",
        &[
            Case::new(&["manager"]),
            Case::new(&["manager", "--config", "nowhere.toml"]),
            Case::new(&["manager", "status", "--config", "nowhere.toml"]),
        ],
    );
    records.file(
        "keys",
        &[
            plane(&["keys", "list"]),
            plane(&["keys", "revoke", "nokey"]),
            plane(&["keys", "create", "--role", "king"]),
            // The last one, as it makes one more each time.
            plane(&["keys", "create", "--role", "read", "--name", "dashboards"]).only_piped(),
        ],
    );
    records.file(
        "deploy",
        &[
            plane(&["deploy", "status"]),
            plane(&["deploy", "promote"]),
            plane(&["deploy", "start", "2.0"]).then(&plane(&["deploy", "abort"]).words()),
            plane(&["deploy", "abort"]).first(&plane(&["deploy", "start", "3.0"]).words()),
        ],
    );
}

#[test]
fn what_cannot_be_started_is_as_reviewed() {
    let place = scene::pool();
    let mut records = Record::of(&place);
    let resources = ["--resources", "a,b"];
    records.file(
        "run",
        &[
            on_pool(&[&["run"], &resources[..]].concat()),
            on_pool(&[&["run"], &resources[..], &["--ttl", "soon", "--", "true"]].concat()),
            on_pool(&["run", "--from", "file:missing.txt", "--", "true"]),
            Case::new(&["run", "--config", "missing.toml", "--", "true"]),
        ],
    );
    records.file(
        "elect",
        &[
            on_store(&["elect", "--key", "report", "--once", "--log", "error", "--", "echo", "I lead"]),
            on_store(&["elect", "--", "true"]),
            on_store(&["elect", "--key", "backup", "--ttl", "1ms", "--", "true"]),
        ],
    );
    records.file(
        "poll",
        &[
            Case::new(&["poll", "--store", "sqlite:work.db", "--interval", "0s"]),
            Case::new(&["poll", "--store", "nowhere:", "--to", "stdout"]),
        ],
    );
    records.file(
        "serve",
        &[
            Case::new(&["serve", "--database", "sqlite:no/where.db"]),
            Case::new(&["serve", "--database", "sqlite:plane.db", "--listen", "0.0.0.0:0"]),
            Case::new(&["serve", "--tls-cert", "cert.pem"]),
        ],
    );
    records.file(
        "fence",
        &[
            Case::new(&["fence", "guard", "redis"]).only_piped(),
            Case::new(&["fence", "guard", "mysql"]),
            Case::new(&["fence", "mqtt", "--store", "sqlite:work.db"]),
            Case::new(&[
                "fence",
                "http",
                "--store",
                "sqlite:work.db",
                "--listen",
                "127.0.0.1:0",
                "--service",
                "ftp://host",
            ]),
        ],
    );
    records
        .file("check", &[Case::new(&["check"]), Case::new(&["check", "--socket", "s", "--resource", "a"])]);
    records.file("demo", &[Case::new(&["demo", "--ttl", "never"])]);
    records.file("completions", &[Case::new(&["completions", "tcsh"])]);
    records.file("man", &[Case::new(&["man"]), Case::new(&["man", "man1"])]);
    records.file("leasehold", &[Case::new(&["stauts"]), Case::new(&["--store", "x"])]);
}

#[test]
fn help_on_a_terminal_is_as_reviewed() {
    let place = support::Place::new();
    let all = [&[""], &support::COMMANDS[..]].concat();
    let words = |command: &&str| {
        Case::new(&[command, "--help"].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>())
    };
    let cases: Vec<Case> = all.iter().map(|command| words(command).only_at(80)).collect();
    Record::of(&place).file("help", &cases);
}

#[test]
fn what_takes_longer_than_a_second_says_so_on_a_terminal_and_leaves_nothing_there() {
    let place = scene::pool();
    let records = Record::of(&place);
    let broken = Case::new(&["verify", "--store", "sqlite:work.db", "--pool", "broken"]);
    let (code, seen) = records.on_terminal(&broken, 80);
    assert_eq!(code, 3, "{seen}");
    let frames: Vec<&str> = seen.split("\r\u{1b}[2K").collect();
    assert!(frames.iter().any(|frame| frame.starts_with("| waiting for the last rows")), "{seen:?}");
    assert!(
        frames.last().unwrap().starts_with("broken: from "),
        "it is taken away before the answer: {seen:?}"
    );
    // The rest is in the files: without a terminal nothing of it is seen.
}
