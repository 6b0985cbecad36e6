//! `leasehold run`: what a child gets, when it is started again, and when it must end.

#[path = "run/restart.rs"]
mod restart;
#[path = "run/sources.rs"]
mod sources;
mod support;
#[path = "run/uncertain.rs"]
mod uncertain;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Place, leasehold, runs, wait_for, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold");

#[test]
fn a_child_finds_its_lease_in_its_environment_and_its_arguments_and_no_store() {
    let place = Place::new();
    let path = place.path("child").display().to_string();
    let script = "env > $0.env; echo $1 $2 $3 $4 > $0.args; exec sleep 1000";
    let mut run = leasehold();
    run.env("LEASEHOLD_STORE", place.url()).env("LEASEHOLD_ADMIN_KEY", "hunter2").env("MINE", "kept");
    run.args(["run", "--pool", "jobs", "--resources", "cam:7", "--ttl", "3s", "--"]);
    run.args(["sh", "-c", script, &path, "id={resource}", "{token}", "{pool}/{resource}", "{member}"]);
    let member = place.start("anna", &mut run);
    let args = wait_for("the child has started", || place.lines("child.args").pop());
    let env = place.lines("child.env");
    let of =
        |name: &str| env.iter().find_map(|line| line.strip_prefix(&format!("{name}=")).map(str::to_owned));
    let shown = place.json(&["show", "--pool", "jobs", "cam:7"]);
    let id = shown["resource"]["member"].as_str().unwrap().to_owned();
    assert_eq!(args, format!("id=cam:7 1 jobs/cam:7 {id}"));
    assert_eq!(of("LEASEHOLD_RESOURCE").as_deref(), Some("cam:7"));
    assert_eq!(of("LEASEHOLD_POOL").as_deref(), Some("jobs"));
    assert_eq!(of("LEASEHOLD_TOKEN").as_deref(), Some("1"));
    assert_eq!(of("LEASEHOLD_MEMBER"), Some(id));
    assert_eq!(of("MINE").as_deref(), Some("kept"));
    assert!(std::path::Path::new(&of("LEASEHOLD_SOCKET").unwrap()).exists());
    assert_eq!(of("LEASEHOLD_STORE"), None);
    assert!(env.iter().all(|line| !line.contains("hunter2") && !line.contains("work.db")), "{env:?}");
    member.leave();
}

#[test]
fn what_children_print_has_their_resource_in_front() {
    let place = Place::new();
    let script = "echo hello; printf 'no end'; echo oops >&2; exec sleep 1000";
    let member = place.run("anna", &["--resources", "a,b", "--ttl", "3s"], &["sh", "-c", script]);
    wait_until("both have printed", || {
        place.lines("anna.out").len() >= 2 && member.log().matches("oops").count() == 2
    });
    let mut lines = place.lines("anna.out");
    lines.sort();
    assert_eq!(lines, ["[a] hello", "[b] hello"]);
    for line in ["[a] oops", "[b] oops"] {
        assert!(member.log().lines().any(|logged| logged == line), "{}", member.log());
    }
    member.leave();
    assert!(place.lines("anna.out").contains(&"[a] no end".to_owned()));
}

#[test]
fn check_answers_trusted_with_token_and_time_and_no_once_the_lease_is_gone() {
    let place = Place::new();
    let path = place.path("said").display().to_string();
    let ask = format!("{PROGRAM} check --json > $0.new; echo $? > $0.code.new");
    let script = format!(
        "trap '{ask}; mv $0.new $0.last; mv $0.code.new $0.last-code; exit 0' TERM; {ask}; {PROGRAM} check > $0.text; \
         {PROGRAM} check --token 99 > $0.other; echo $? >> $0.other; mv $0.new $0.first; mv $0.code.new $0.first-code; \
         while :; do sleep 0.1; done"
    );
    let member = place.run("anna", &["--resources", "a", "--ttl", "9s"], &["sh", "-c", &script, &path]);
    wait_until("the child has asked", || !place.lines("said.first-code").is_empty());
    let reply = |name: &str| -> Value { serde_json::from_str(&place.lines(name).join("\n")).unwrap() };
    let first = reply("said.first");
    assert_eq!(place.lines("said.first-code"), ["0"]);
    assert_eq!(
        (&first["trusted"], &first["token"], &first["resource"]),
        (&true.into(), &1.into(), &"a".into())
    );
    let remaining = first["remaining_ms"].as_u64().unwrap();
    assert!((1..9000).contains(&remaining), "{remaining}");
    assert!(place.lines("said.text")[0].starts_with("a is held under token 1 for another "));
    assert_eq!(place.lines("said.other"), ["a is not held: it is held under another token", "1"]);
    member.leave();
    assert_eq!(place.lines("said.last-code"), ["1"]);
    let last = reply("said.last");
    assert_eq!(last["trusted"], false);
    assert!(last["reason"].as_str().unwrap().contains("given back"), "{last}");
}

#[test]
fn a_second_signal_ends_everything_at_once() {
    let place = Place::new();
    let path = place.path("pid").display().to_string();
    let script = "trap '' TERM; echo $$ > $0; while :; do sleep 1; done";
    let options = ["--resources", "a", "--ttl", "60s", "--grace", "30s"];
    let mut member = place.run("anna", &options, &["sh", "-c", script, &path]);
    let pid: u32 = wait_for("the child runs", || place.lines("pid").first()?.parse().ok());
    member.signal(Signal::SIGTERM);
    wait_until("the first signal was heard", || member.log().contains("told to stop"));
    assert!(runs(pid), "the child has a grace of half a minute");
    member.signal(Signal::SIGTERM);
    assert_eq!(member.wait().code(), Some(130));
    wait_until("the child is gone", || !runs(pid));
}

#[test]
fn a_member_takes_no_more_than_its_capacity() {
    let place = Place::new();
    let small = place.member("small", &["--resources", "a,b,c", "--ttl", "3s", "--capacity", "1"]);
    wait_until("one is owned", || place.owners("jobs").len() == 1);
    let status = place.told(&["status", "--pool", "jobs"]);
    assert!(status.contains("1 of 3 resources owned"), "{status}");
    assert_eq!(status.matches("nobody").count(), 2, "{status}");
    let large = place.member("large", &["--resources", "a,b,c", "--ttl", "3s"]);
    wait_until("all are owned", || place.owners("jobs").len() == 3);
    assert_eq!(place.owners("jobs").values().filter(|owner| *owner == "small").count(), 1);
    small.leave();
    large.leave();
}

#[test]
fn a_resource_goes_only_to_a_member_with_the_labels_it_requires() {
    use leasehold::store::{Declared, Marked, open};
    let place = Place::new();
    let plain = place.member("plain", &["--ttl", "3s"]);
    wait_until("there is a store", || place.ask(&["status", "--pool", "jobs"]).code == Some(0));
    let declared = |id: &str, requires: &[(&str, &str)]| Declared {
        requires: requires.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..Declared::new(id.parse().unwrap())
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = open(&place.url().parse().unwrap()).await.unwrap();
        for resource in [declared("any", &[]), declared("picky", &[("site", "x")])] {
            let answer = store.declare(&"jobs".parse().unwrap(), &resource).await.unwrap();
            assert!(matches!(answer, Marked::Set(_)));
        }
    });
    wait_until("any is owned", || place.owners("jobs").contains_key("any"));
    assert!(!place.owners("jobs").contains_key("picky"));
    let labelled = place.member("labelled", &["--ttl", "3s", "--label", "site=x", "--label", "rack=7"]);
    wait_until("picky is owned", || {
        place.owners("jobs").get("picky").is_some_and(|owner| owner == "labelled")
    });
    let shown = place.told(&["show", "--pool", "jobs", "labelled"]);
    assert!(shown.contains("labels     rack=7, site=x\n"), "{shown}");
    plain.leave();
    labelled.leave();
}
