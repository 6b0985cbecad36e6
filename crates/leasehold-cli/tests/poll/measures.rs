//! The success criteria SC-001 to SC-006. Thirty seconds are the TTL of the documents and one second more.

use std::time::Duration;

use leasehold::clock;
use nix::sys::signal::Signal;

use crate::fleet::{BUSY, Fleet, TTL};

/// How long an endpoint may go without a poll when its instance is gone.
const WINDOW: Duration = Duration::from_millis(4000);

// proves R096, R062, guarantee 1
#[test]
fn sc_001_each_endpoint_is_polled_by_one_instance_whatever_happens_to_them() {
    let mut fleet = Fleet::new(8);
    for name in ["one", "two"] {
        fleet.enter(name);
    }
    fleet.until_shared(&["one", "two"], &[4, 4]);
    fleet.enter("three");
    fleet.until_shared(&["one", "two", "three"], &[2, 3, 3]);
    fleet.signal("one", Signal::SIGSTOP);
    fleet.until_shared(&["two", "three"], &[4, 4]);
    fleet.signal("one", Signal::SIGCONT);
    fleet.until_shared(&["one", "two", "three"], &[2, 3, 3]);
    fleet.kill("two");
    fleet.stop("three");
    fleet.until_shared(&["one"], &[8]);
    fleet.witness.verify();
}

// proves R097, R087, C19
#[test]
fn sc_002_failover_takes_no_longer_than_the_ttl_and_a_second() {
    let mut fleet = Fleet::new(6);
    for name in ["one", "two"] {
        fleet.enter(name);
    }
    fleet.until_shared(&["one", "two"], &[3, 3]);
    let killed = fleet.kill("one");
    fleet.until_shared(&["two"], &[6]);
    let took = fleet.takeovers("one", killed);
    let longest = took.iter().max().unwrap();
    println!("polled again {took:?} after a kill, with a TTL of {TTL:?}");
    assert_eq!(took.len(), 3);
    assert!(*longest < WINDOW + BUSY, "{longest:?}");
    fleet.witness.verify();
}

// proves R098
#[test]
fn sc_003_ten_instances_share_without_configuration() {
    let mut fleet = Fleet::new(20);
    let names: Vec<String> = (1..=10).map(|number| format!("i{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.iter().for_each(|name| fleet.enter(name));
    fleet.until_shared(&names, &[2; 10]);
    fleet.witness.verify();
}

// proves R099, C17
#[test]
fn sc_004_shares_are_within_a_fifth_of_ideal_and_within_one() {
    let mut fleet = Fleet::new(15);
    for (count, wanted) in [(1, vec![15]), (2, vec![7, 8]), (3, vec![5, 5, 5]), (4, vec![3, 4, 4, 4])] {
        let names: Vec<String> = (1..=count).map(|number| format!("i{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        fleet.enter(names.last().unwrap());
        fleet.until_shared(&names, &wanted);
    }
    fleet.witness.verify();
}

// proves R100, C20
#[test]
fn sc_005_after_redis_was_away_everything_resumes_and_nothing_is_polled_twice() {
    let mut fleet = Fleet::new(6);
    for name in ["one", "two"] {
        fleet.enter(name);
    }
    fleet.until_shared(&["one", "two"], &[3, 3]);
    let tokens = |fleet: &Fleet| fleet.polling().into_values().map(|ask| ask.token).max().unwrap();
    let before = tokens(&fleet);
    fleet.redis.restart();
    fleet.go_on();
    fleet.redis.pause();
    std::thread::sleep(TTL * 2);
    fleet.redis.resume();
    fleet.until_shared(&["one", "two"], &[3, 3]);
    assert!(tokens(&fleet) > before, "trust had ended, so the terms are new");
    fleet.witness.verify();
}

// proves R101, R016
#[test]
fn sc_006_an_instance_that_comes_or_goes_leaves_no_endpoint_alone_for_longer_than_the_window() {
    let mut fleet = Fleet::new(6);
    fleet.enter("one");
    fleet.until_shared(&["one"], &[6]);
    let began = clock::now();
    fleet.enter("two");
    fleet.until_shared(&["one", "two"], &[3, 3]);
    fleet.stop("one");
    fleet.until_shared(&["two"], &[6]);
    let longest = fleet.witness.longest_rest(began, clock::now());
    println!("no endpoint was left alone for longer than {longest:?}");
    assert!(longest < WINDOW + BUSY, "{longest:?}");
    fleet.witness.verify();
}
