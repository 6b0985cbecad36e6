//! `leasehold verify` on the ledgers and logs of real members, and on files made by hand.
#![cfg(target_os = "linux")]

mod support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::{Place, Ran, leasehold, ran, wait_until};

/// What makes a member's log a whole ledger.
const LOGGED: [&str; 8] = [
    "--log-format",
    "json",
    "--log",
    "info,leasehold::ledger=debug",
    "--ttl",
    "2s",
    "--resources",
    "a,b,c,d",
];

fn verify(words: &[&str]) -> Ran {
    ran(leasehold().arg("verify").args(words))
}

fn parsed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

fn owned_by(place: &Place, name: &str) -> usize {
    place.owners("jobs").values().filter(|owner| *owner == name).count()
}

#[test]
fn the_ledger_of_members_of_which_one_was_killed_is_clean_in_the_store_and_in_their_logs() {
    let place = Place::new();
    let one = place.member("one", &LOGGED);
    wait_until("one owns all", || owned_by(&place, "one") == 4);
    let mut two = place.member("two", &LOGGED);
    wait_until("they share", || owned_by(&place, "two") == 2);
    // Rows are written behind the work.
    let started = |row: &Value| row["event"] == "started" && row["name"] == "two";
    wait_until("two has said so", || place.events("jobs").iter().filter(|row| started(row)).count() == 2);
    two.signal(Signal::SIGKILL);
    two.wait();
    wait_until("one owns all again", || owned_by(&place, "one") == 4);
    one.leave();
    place.assert_one_owner_at_a_time();

    let store = place.ask(&["verify"]);
    assert_eq!(store.code, Some(0), "{store:?}");
    assert_eq!(store.out.lines().last(), Some("clean: overlap 0 s"), "{}", store.out);
    let logs = ["one.err", "two.err"].map(|name| place.path(name).display().to_string());
    let (store, files) = (place.json(&["verify"]), parsed(&verify(&["--json", &logs[0], &logs[1]])));
    for report in [&store, &files] {
        assert_eq!((&report["clean"], &report["overlap_s"]), (&json!(true), &json!(0.0)), "{report:#}");
        let pool = &report["pools"][0];
        assert_eq!((&pool["pool"], &pool["machines"]), (&json!("jobs"), &json!(1)));
        let resources = pool["resources"].as_array().unwrap();
        assert_eq!(resources.len(), 4);
        let gaps = resources.iter().flat_map(|resource| resource["gaps"].as_array().unwrap());
        let silences = gaps.filter(|gap| gap["why"] == "ttl_expiry" && gap["after"] == "two");
        assert_eq!(silences.count(), 2, "{report:#}");
    }
    let terms = |report: &Value| {
        let resources = report["pools"][0]["resources"].as_array().unwrap().clone();
        resources.into_iter().map(|r| (r["resource"].clone(), r["terms"].clone(), r["unowned_s"].clone()))
    };
    assert!(terms(&store).eq(terms(&files)), "rows and logs say the same: {store:#} {files:#}");
    let both = verify(&["--store", &place.url(), &logs[0], &logs[1], "--json"]);
    assert!(terms(&store).eq(terms(&parsed(&both))), "and together nothing else");
}

/// Two members that worked on `a` at once for a second, as their logs would say.
fn planted() -> String {
    let line = |at: u64, member: &str, event: &str, token: u64| {
        let (at, until) = (at * 1_000_000_000, (at + 20) * 1_000_000_000);
        let line = json!({
            "timestamp": "2025-11-15T10:00:00Z", "level": "INFO", "message": "x", "target": "leasehold::ledger",
            "pool": "jobs", "event": event, "instance": member, "name": member, "resource": "a", "token": token,
            "at": at, "wall_nanos": at, "boot": "boot", "trusted_until": until,
        });
        format!("{line}\n")
    };
    let rows = [
        (1, "one", "started", 1),
        (9, "two", "started", 2),
        (10, "one", "stopped", 1),
        (12, "two", "stopped", 2),
    ];
    let lines = rows.map(|(at, member, event, token)| line(at, member, event, token));
    format!("{}something else\n", lines.concat())
}

#[test]
fn a_planted_overlap_is_convicted() {
    let place = Place::new();
    let file = place.write("planted.log", &planted());
    let text = verify(&[&file]);
    assert_eq!(text.code, Some(3), "{text:?}");
    assert!(
        text.out.contains("violation: a had two owners for 1.000 s: one (one) under token 1"),
        "{}",
        text.out
    );
    assert_eq!(text.out.lines().last(), Some("1 violation: overlap 1.000 s"));
    let report = verify(&[&file, &file, "--json"]);
    assert_eq!(report.code, Some(3), "{report:?}");
    let report = parsed(&report);
    assert_eq!((&report["clean"], &report["overlap_s"]), (&json!(false), &json!(1.0)));
    let found = &report["pools"][0]["violations"][0];
    assert_eq!((&found["violation"], &found["resource"]), (&json!("overlap"), &json!("a")));
    assert_eq!((&found["first"]["token"], &found["second"]["member"]), (&json!(1), &json!("two")));
}

#[test]
fn a_handoff_whose_last_rows_are_lost_is_undecided_and_no_violation() {
    let place = Place::new();
    let rows: Vec<String> = planted().lines().map(str::to_owned).collect();
    let granted = rows[1].replace("started", "acquired").replace('{', r#"{"number":3,"#);
    let file = place.write("lost.log", &format!("{}\n{granted}\n", rows[0]));
    let text = verify(&[&file]);
    assert_eq!(text.code, Some(0), "{text:?}");
    let said = "1 moment undecided because rows are missing: a for up to 12.000 s: one (one) under token 1";
    assert!(text.out.contains(said), "{}", text.out);
    assert_eq!(
        text.out.lines().last(),
        Some("clean: overlap 0 s, 1 moment undecided, 2 rows missing"),
        "{}",
        text.out
    );
    let report = parsed(&verify(&[&file, "--json"]));
    assert_eq!(
        (&report["clean"], &report["undecided"], &report["missing"]),
        (&json!(true), &json!(1), &json!(2))
    );
    assert_eq!(report["pools"][0]["undecided"][0]["second"]["member"], json!("two"));
}

#[test]
fn standard_input_is_read_too() {
    let place = Place::new();
    let file = std::fs::File::open(place.write("planted.log", &planted())).unwrap();
    let piped = ran(leasehold().args(["verify", "-"]).stdin(file));
    assert_eq!(piped.code, Some(3), "{piped:?}");
}

#[test]
fn what_cannot_be_judged_is_said_in_one_sentence() {
    let place = Place::new();
    let planted = place.write("planted.log", &planted());
    let text = place.write("text.log", "2025-11-15 INFO lease acquired\n");
    let missing = place.path("missing.log").display().to_string();
    let directory = place.root().display().to_string();
    let cases = [
        (vec![], "--store <URL> is missing"),
        (vec![missing.as_str()], "cannot read"),
        (vec![directory.as_str()], "cannot read"),
        (vec![text.as_str()], "has no line of the ledger (1 other line); give logs"),
        (vec![planted.as_str(), "--pool", "other"], "there is no pool other; there is jobs"),
    ];
    for (words, said) in cases {
        let ran = verify(&words);
        assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
        assert!(ran.err.contains(said) && ran.err.lines().count() == 1, "{words:?}: {ran:?}");
        assert!(ran.out.is_empty(), "{ran:?}");
    }
}

#[test]
fn a_store_without_that_pool_or_without_rows_is_no_clean_one() {
    let place = Place::new();
    let absent = place.ask(&["verify"]);
    assert_eq!((absent.code, absent.out.as_str()), (Some(1), ""), "{absent:?}");
    let one = place.run("one", &["--resources", "a"], &["sleep", "60"]);
    wait_until("one owns it", || owned_by(&place, "one") == 1);
    one.leave();
    let other = place.ask(&["verify", "--pool", "other"]);
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.err.contains("there is no pool other; there is jobs"), "{other:?}");
}
