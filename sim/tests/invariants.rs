//! Each invariant finds what it is there to find, in histories made by hand.

use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::ledger::{Entry, Event};
use leasehold::{MemberId, ResourceId, Term, Token};
use leasehold_sim::history::{Happened, History, What, Worker};
use leasehold_sim::invariants::ALL;

fn worker(member: &str, token: u64) -> Worker {
    let term = Term { resource: ResourceId::new("r").unwrap(), token: Token(token) };
    Worker { term, member: MemberId::new(member).unwrap(), machine: 0 }
}

fn row(member: &str, event: Event, token: u64, at_ms: u64) -> What {
    let (id, at) = (MemberId::new(member).unwrap(), Moment(at_ms * 1_000_000));
    What::Wrote(Box::new(Entry {
        wall_nanos: at.0,
        at,
        boot: "one".to_owned(),
        number: None,
        name: member.parse().unwrap(),
        member: id,
        event,
        resource: Some(ResourceId::new("r").unwrap()),
        token: Some(Token(token)),
        trusted_until: Some(at.after(Duration::from_secs(1))),
        ttl_ms: None,
        reason: None,
        error: None,
        other: None,
        detail: None,
    }))
}

/// The names of the invariants that these events, a second apart, break.
fn broken_by(events: Vec<What>) -> Vec<&'static str> {
    let events = (0..).zip(events).map(|(second, what)| Happened { at: Duration::from_secs(second), what });
    let history = History { ttl: Duration::from_secs(2), events: events.collect() };
    ALL.iter().filter(|(_, check)| check(&history).is_err()).map(|(name, _)| *name).collect()
}

#[test]
fn what_is_well_breaks_none() {
    let one = || worker("one", 1);
    let two = || worker("two", 2);
    let events = vec![
        What::Began(one(), vec![]),
        What::Acted(one(), vec![]),
        What::Ended(one()),
        What::Began(two(), vec![]),
        What::Acted(two(), vec![]),
        What::Healing,
        What::Converged,
        What::Acted(two(), vec![]),
        What::Over(None),
    ];
    assert_eq!(broken_by(events), Vec::<&str>::new());
}

#[test]
fn two_who_believe_are_found() {
    assert_eq!(broken_by(vec![What::Began(worker("two", 2), vec![worker("one", 1)])]), ["one believer"]);
    assert_eq!(broken_by(vec![What::Acted(worker("two", 2), vec![worker("one", 1)])]), ["one believer"]);
}

#[test]
fn acts_under_older_and_shared_tokens_are_found() {
    for late in [worker("one", 1), worker("one", 2)] {
        let events = vec![What::Began(worker("two", 2), vec![]), What::Acted(late, vec![])];
        assert_eq!(broken_by(events), ["acting in turn"]);
    }
}

#[test]
fn tokens_that_do_not_rise_are_found() {
    let events = vec![row("one", Event::Acquired, 2, 0), row("two", Event::Acquired, 1, 5000)];
    assert_eq!(broken_by(events), ["rising tokens", "clean ledger"]);
}

#[test]
fn a_ledger_with_two_owners_is_found() {
    let events = vec![row("one", Event::Acquired, 1, 0), row("two", Event::TakenOver, 2, 500)];
    assert_eq!(broken_by(events), ["clean ledger"]);
}

#[test]
fn who_returns_from_the_dead_is_found() {
    assert_eq!(broken_by(vec![What::Returned(MemberId::new("one").unwrap())]), ["ending for good"]);
}

#[test]
fn work_without_the_store_is_found() {
    let act = || What::Acted(worker("one", 1), vec![]);
    assert_eq!(broken_by(vec![What::CutOff(0), act(), act()]), ["failing closed"]);
    assert_eq!(broken_by(vec![What::StoreDown, act(), act()]), ["failing closed"]);
    assert_eq!(broken_by(vec![What::CutOff(0), What::Reconnected(0), act(), act()]), Vec::<&str>::new());
    assert_eq!(broken_by(vec![What::CutOff(1), act(), act(), act()]), Vec::<&str>::new());
}

#[test]
fn a_pool_that_does_not_rest_is_found() {
    let amiss = || What::Over(Some("r has 0 workers".to_owned()));
    assert_eq!(broken_by(vec![What::Healing, amiss()]), ["coming to rest"]);
    assert_eq!(broken_by(vec![What::Converged, What::Began(worker("one", 1), vec![])]), ["coming to rest"]);
}

#[test]
fn a_run_that_never_ends_is_found() {
    assert_eq!(broken_by(vec![What::Endless]), ["coming to an end"]);
}
