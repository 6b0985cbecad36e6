//! `doctor`, `migrate` and `--require-grade`: what a store is worth, said before it is trusted.

mod support;

use serde_json::Value;
use support::{Place, leasehold, ran, wait_until};

// proves P12, contract point 6
#[test]
fn doctor_says_what_a_store_is_worth() {
    let place = Place::new();
    assert_eq!(place.ask(&["doctor"]).code, Some(1), "a mistyped path must not create a store");
    assert!(place.told(&["migrate"]).contains("is ready: version 1"));
    let said = place.told(&["doctor"]);
    assert!(said.contains(": SQLite 3."), "{said}");
    assert!(said.contains("\ngrade: durable on one node\n"), "{said}");
    let report: Value = place.json(&["doctor"]);
    assert_eq!(report["grade"], "durable-on-one-node");
    assert!(
        report["findings"].as_array().unwrap().iter().all(|finding| finding["weak"] == false),
        "{report}"
    );
}

// proves P12
#[test]
fn a_grade_that_is_required_and_not_there_is_refused() {
    let place = Place::new();
    place.told(&["migrate"]);
    place.told(&["doctor", "--require-grade", "durable-on-one-node"]);
    let refused = place.ask(&["doctor", "--require-grade", "durable-and-linearizable"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("durable and linearizable is required"), "{}", refused.err);
    let mut run = leasehold();
    run.args(["run", "--store", &place.url(), "--pool", "jobs", "--resources", "a"]);
    run.args(["--require-grade", "durable-and-linearizable", "--", "sleep", "1000"]);
    let refused = ran(&mut run);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("`leasehold doctor` says what to change"), "{}", refused.err);
    let nonsense = place.ask(&["doctor", "--require-grade", "best"]);
    assert_eq!(nonsense.code, Some(2));
    assert!(nonsense.err.contains("\"best\" is no grade"), "{}", nonsense.err);
}

#[test]
fn migrating_again_changes_nothing() {
    let place = Place::new();
    let member = place.member("anna", &["--resources", "a", "--ttl", "3s"]);
    wait_until("a is owned", || place.owners("jobs").len() == 1);
    place.told(&["migrate", "--fresh"]);
    assert_eq!(place.owners("jobs").len(), 1);
    member.leave();
}
