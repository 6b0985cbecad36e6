//! What the documents for operators have people type is run here, as it stands there.

#![cfg(target_os = "linux")]

mod support;

use std::process::Command;

use leasehold_testkit::free_port;
use support::{Member, Place, leasehold, wait_for, wait_until};

/// The shell commands in one section of a document.
fn commands(document: &str, section: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = std::fs::read_to_string(format!("{root}/{document}")).expect("the document");
    let (_, rest) = text.split_once(&format!("## {section}\n")).expect("the section");
    let section = rest.split("\n## ").next().unwrap_or_default();
    let script: String =
        section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!script.is_empty(), "{document} has nothing to type in {section}");
    script
}

/// A shell in the place's directory, in which `leasehold` is the one of this build. What goes on is given to it with `exec`, so that it is what
/// ends with the test and not a shell around it.
fn shell(place: &Place, script: &str) -> Command {
    let bin = place.path("bin");
    let _ = std::fs::create_dir(&bin);
    let _ = std::os::unix::fs::symlink(leasehold().get_program(), bin.join("leasehold"));
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("bash");
    shell.args(["-e", "-c", script]).current_dir(place.root());
    shell.env("PATH", format!("{}:{path}", bin.display()));
    shell
}

/// What a script prints; each of its commands must succeed.
fn said(place: &Place, script: &str) -> String {
    let output = shell(place, script).output().expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{script}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn held(place: &Place, name: &str) -> usize {
    place.owners("jobs").values().filter(|owner| *owner == name).count()
}

#[test]
fn operating_says_what_can_be_typed() {
    let place = Place::new();
    let members = ["one", "two"].map(|name| place.member(name, &["--resources", "a,b", "--ttl", "5s"]));
    wait_until("each has one", || held(&place, "one") == 1 && held(&place, "two") == 1);
    let export = format!("export LEASEHOLD_STORE='{}' LEASEHOLD_POOL=jobs\n", place.url());
    // `top` needs a terminal, and `resign` a leader; both have tests of their own.
    let typed = |section: &str| {
        let lines = commands("docs/operating.md", section);
        let plain = |line: &&str| !line.starts_with("leasehold top") && !line.starts_with("leasehold resign");
        export.clone() + &lines.lines().filter(plain).collect::<Vec<_>>().join("\n")
    };
    let looked = said(&place, &typed("What is going on"));
    for word in ["MEMBER", "a is held by", "joined", "clean: overlap 0 s", "grade: durable on one node"] {
        assert!(looked.contains(word), "{word} is not in\n{looked}");
    }
    // What is paused nobody holds, and there is nothing to revoke.
    let again = "leasehold resume a\nuntil leasehold revoke a; do sleep 0.2; done #";
    let acted = said(&place, &typed("Acts").replace("leasehold revoke a", again));
    assert!(acted.contains("one hands off what it holds and gets nothing"), "{acted}");
    let marks = place.told(&["status"]);
    for mark in ["drain", "cordon", "pin"] {
        assert!(marks.contains(&format!("\n{mark} ")), "{mark} is not in\n{marks}");
    }
    for member in members {
        member.leave();
    }
}

#[test]
fn the_tutorial_leads_from_nothing_to_three_members_and_a_control_plane() {
    let place = Place::new();
    // One machine, three terminals and a fourth.
    let typed = commands("docs/tutorial.md", "2. One machine, no server");
    let (run, fourth) = typed.split_once("leasehold status").expect("what the fourth terminal is for");
    let start = |place: &Place, file: &str, script: &str, from: &str, name: &str| -> Member {
        let script =
            format!("exec {}", script.trim().replace(&format!("--name {from}"), &format!("--name {name}")));
        place.start(&format!("{file}-{name}"), shell(place, &script).env("TERM", "dumb"))
    };
    let members = ["one", "two", "three"].map(|name| start(&place, "run", run, "one", name));
    wait_until("each has two", || ["one", "two", "three"].iter().all(|name| held(&place, name) == 2));
    let plain = |line: &&str| !line.starts_with("leasehold top");
    let fourth = format!("leasehold status{fourth}");
    let seen = said(&place, &fourth.lines().filter(plain).collect::<Vec<_>>().join("\n"));
    assert!(seen.contains("one takes part again") && seen.contains("clean: overlap 0 s"), "{seen}");
    drop(members);

    // A control plane with TLS and keys: the machine `one` is this one.
    let port = free_port().to_string();
    let here = |script: String| {
        script
            .replace("0.0.0.0:7400", &format!("127.0.0.1:{port}"))
            .replace("one:7400", &format!("localhost:{port}"))
    };
    let plane = commands("docs/tutorial.md", "3. A control plane that others can reach");
    let plane = here(plane.replace("DNS:one", "DNS:localhost").replace("/CN=one", "/CN=localhost"));
    let (keys, serve) = plane.split_once("leasehold serve").expect("the control plane");
    let made = said(&place, &format!("{{ {keys}\n}} 2>/dev/null"));
    let secrets: Vec<&str> = made.lines().filter(|line| line.starts_with("lh_")).collect();
    let [operator, member] = secrets.as_slice() else { panic!("two keys: {made}") };
    let server = place.start("serve", &mut shell(&place, &format!("exec leasehold serve{serve}")));
    wait_for("it serves", || server.log().contains("serving").then_some(()));
    let three = commands("docs/tutorial.md", "4. Three members");
    let (_, run) = three.split_once('\n').expect("the key, and the command");
    let run = format!("env LEASEHOLD_API_KEY={member} {}", here(run.to_owned()));
    let members = ["one", "two", "three"].map(|name| start(&place, "plane", &run, "two", name));
    let store = format!("https://localhost:{port}?ca=cert.pem");
    let status = || {
        let script = format!("LEASEHOLD_API_KEY={operator} leasehold status --store '{store}' --pool jobs");
        let output = shell(&place, &script).output().expect("a shell");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    wait_until("three members share six", || {
        status().contains("pool jobs: 3 members, 6 of 6 resources owned")
    });
    drop((members, server));
}
