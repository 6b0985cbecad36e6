//! The acceptance scenarios of the four user stories.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::{Faults, Proxy};

use crate::fleet::{BUSY, Fleet, TTL};
use crate::support::wait_until;

// proves R051, R049, U12
#[test]
fn story_1_1_a_single_instance_polls_all_endpoints() {
    let mut fleet = Fleet::new(6);
    fleet.enter("one");
    fleet.until_shared(&["one"], &[6]);
    fleet.add("e7");
    fleet.until_shared(&["one"], &[7]);
    fleet.witness.verify();
}

// proves R054
#[test]
fn story_1_test_a_second_instance_takes_half() {
    let mut fleet = Fleet::new(6);
    fleet.enter("one");
    fleet.until_shared(&["one"], &[6]);
    fleet.enter("two");
    fleet.until_shared(&["one", "two"], &[3, 3]);
    fleet.witness.verify();
}

// proves R052
#[test]
fn story_1_2_a_third_instance_starts_and_all_three_share() {
    let mut fleet = Fleet::new(9);
    fleet.enter("one");
    fleet.enter("two");
    fleet.until_shared(&["one", "two"], &[4, 5]);
    fleet.enter("three");
    fleet.until_shared(&["one", "two", "three"], &[3, 3, 3]);
    fleet.witness.verify();
}

// proves R053, R010, R107
#[test]
fn story_1_3_one_of_three_is_stopped_and_the_others_take_over() {
    let mut fleet = Fleet::new(9);
    for name in ["one", "two", "three"] {
        fleet.enter(name);
    }
    fleet.until_shared(&["one", "two", "three"], &[3, 3, 3]);
    let told = fleet.stop("three");
    fleet.until_shared(&["one", "two"], &[4, 5]);
    let took = fleet.takeovers("three", told).into_iter().max().unwrap();
    assert!(took < TTL + BUSY, "{took:?}");
    fleet.witness.verify();
}

// proves R055, R058, R097
#[test]
fn story_2_1_an_instance_with_three_endpoints_crashes_and_others_resume() {
    let mut fleet = Fleet::new(9);
    for name in ["one", "two", "three"] {
        fleet.enter(name);
    }
    fleet.until_shared(&["one", "two", "three"], &[3, 3, 3]);
    let killed = fleet.kill("two");
    fleet.until_shared(&["one", "three"], &[4, 5]);
    let took = fleet.takeovers("two", killed);
    assert_eq!(took.len(), 3, "it had three");
    fleet.witness.verify();
}

// proves R056, R069, R086
#[test]
fn story_2_2_an_instance_that_cannot_reach_redis_stops_and_others_take_over() {
    let mut fleet = Fleet::new(6);
    let way = Proxy::to(fleet.redis.port());
    fleet.enter_by("cut", &format!("redis://127.0.0.1:{}", way.port()), &[]);
    fleet.enter("well");
    fleet.until_shared(&["cut", "well"], &[3, 3]);
    let cut = clock::now();
    way.set(Faults::cut());
    fleet.until_all_polled_after(cut, &["well"]);
    let last = fleet.witness.asks().iter().filter(|ask| ask.name == "cut").map(|ask| ask.from).max().unwrap();
    assert!(last.since(cut) < TTL, "it went on for {:?}", last.since(cut));
    way.heal();
    fleet.until_shared(&["cut", "well"], &[3, 3]);
    fleet.witness.verify();
}

// proves R057, R076
#[test]
fn story_2_3_a_restarted_instance_has_another_id_and_acquires_anew() {
    let mut fleet = Fleet::new(3);
    fleet.enter("one");
    fleet.until_shared(&["one"], &[3]);
    let before: BTreeMap<String, (String, u64)> =
        fleet.polling().into_iter().map(|(id, ask)| (id, (ask.instance, ask.token))).collect();
    let killed = fleet.kill("one");
    fleet.enter("one");
    fleet.until_all_polled_after(killed, &[]);
    for (endpoint, ask) in fleet.witness.newest() {
        let (instance, token) = &before[&endpoint];
        assert!(ask.instance != *instance && ask.token > *token, "{ask:?} after {instance} under {token}");
    }
    let old = &before["e1"].0;
    assert_eq!(fleet.redis.cli(&["EXISTS", &format!("poll:node:{old}")]), "0");
    fleet.witness.verify();
}

// proves R059, R070
#[test]
fn story_3_1_five_instances_start_at_once_on_ten_endpoints() {
    let mut fleet = Fleet::new(10);
    let names = ["one", "two", "three", "four", "five"];
    for name in names {
        fleet.enter(name);
    }
    fleet.until_shared(&names, &[2, 2, 2, 2, 2]);
    fleet.witness.verify();
}

// proves R060, R071, R094
#[test]
fn story_3_2_an_attempt_on_a_held_lease_fails_and_nobody_polls_twice() {
    let mut fleet = Fleet::new(2);
    fleet.enter("one");
    fleet.until_shared(&["one"], &[2]);
    let holder = fleet.redis.cli(&["GET", "poll:lease:e1"]);
    assert_eq!(holder, fleet.polling()["e1"].instance);
    let attempt = fleet.redis.cli(&["SET", "poll:lease:e1", "somebody-else", "NX", "PX", "30000"]);
    assert_eq!(attempt, "", "it was taken");
    fleet.enter("two");
    fleet.until_shared(&["one", "two"], &[1, 1]);
    fleet.witness.verify();
}

// proves R061, R072, R082
#[test]
fn story_3_3_a_renewal_succeeds_only_while_the_lease_is_ours() {
    let mut fleet = Fleet::new(2);
    fleet.enter("one");
    fleet.until_shared(&["one"], &[2]);
    // Somebody who follows the documents takes it over, as after a long pause of ours.
    fleet.redis.cli(&["SET", "poll:lease:e1", "elsewhere-1-00000000", "PX", "9000"]);
    wait_until("e1 is left alone", || fleet.shares(&["one"]) == [1]);
    let left = clock::now();
    wait_until("the other goes on", || fleet.witness.since(left).len() > 10);
    let asks = fleet.witness.since(left);
    assert!(asks.iter().all(|ask| ask.endpoint != "e1"), "it goes on without a lease");
    assert!(asks.iter().any(|ask| ask.endpoint == "e2"), "the other was disturbed");
    assert_eq!(fleet.redis.cli(&["GET", "poll:lease:e1"]), "elsewhere-1-00000000", "it was renewed for us");
    // It is ours again when it has run out.
    fleet.until_shared(&["one"], &[2]);
    fleet.witness.verify();
}

// proves R063, R099, R083
#[test]
fn story_4_1_three_instances_and_nine_targets_are_three_each() {
    let mut fleet = Fleet::new(9);
    for name in ["one", "two", "three"] {
        fleet.enter(name);
    }
    fleet.until_shared(&["one", "two", "three"], &[3, 3, 3]);
    fleet.witness.verify();
}

// proves R064
#[test]
fn story_4_2_a_newcomer_to_two_with_ten_gets_a_third_and_nothing_else_moves() {
    let mut fleet = Fleet::new(10);
    fleet.enter("one");
    fleet.enter("two");
    fleet.until_shared(&["one", "two"], &[5, 5]);
    let before = fleet.polling();
    fleet.enter("three");
    fleet.until_shared(&["one", "two", "three"], &[3, 3, 4]);
    let after = fleet.polling();
    let moved = after.iter().filter(|(id, ask)| ask.instance != before[*id].instance);
    assert!(moved.clone().all(|(_, ask)| ask.name == "three"), "something moved between the others");
    assert!((3..=4).contains(&moved.count()), "{after:?}");
    fleet.witness.verify();
}

// proves R065, R085, U10
#[test]
fn story_4_3_who_is_no_longer_preferred_releases_and_the_preferred_acquires_promptly() {
    let mut fleet = Fleet::new(4);
    fleet.enter("one");
    fleet.until_shared(&["one"], &[4]);
    fleet.enter("two");
    fleet.until_shared(&["one", "two"], &[2, 2]);
    let successor = fleet.polling().into_values().find(|ask| ask.name == "two").unwrap().instance;
    let releases = fleet.releases();
    let moved: BTreeSet<&str> = releases.iter().filter_map(|row| row["resource"].as_str()).collect();
    assert_eq!(moved.len(), 2, "{releases:?}");
    assert!(releases.iter().all(|row| row["reason"] == "rebalance" && row["other"] == successor.as_str()));
    let asks = fleet.witness.asks();
    for endpoint in moved {
        let its = || asks.iter().filter(|ask| ask.endpoint == endpoint);
        let last = its().filter(|ask| ask.name == "one").map(|ask| ask.from).max().unwrap();
        let first = its().filter(|ask| ask.name == "two").map(|ask| ask.from).min().unwrap();
        assert!(
            first.since(last) < TTL.max(Duration::from_secs(2)),
            "{endpoint} rested {:?}",
            first.since(last)
        );
    }
    fleet.witness.verify();
}
