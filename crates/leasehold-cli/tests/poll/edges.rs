//! The five edge cases.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::{Faults, Proxy};

use crate::fleet::{Fleet, TTL};
use crate::support::{wait_for, wait_until};

// proves R066, R100, guarantee 6
#[test]
fn edge_1_redis_becomes_unavailable_and_polling_pauses() {
    let mut fleet = Fleet::new(4);
    fleet.enter("one");
    fleet.enter("two");
    fleet.until_shared(&["one", "two"], &[2, 2]);
    let away = clock::now();
    fleet.redis.kill();
    // Longer than anybody trusts itself.
    std::thread::sleep(TTL * 2);
    let last = fleet.witness.asks().iter().map(|ask| ask.from).max().unwrap();
    assert!(last.since(away) < TTL, "polled for {:?} without Redis", last.since(away));
    fleet.redis.restart();
    fleet.go_on();
    fleet.until_shared(&["one", "two"], &[2, 2]);
    fleet.witness.verify();
}

// proves R067, R108, C25
#[test]
fn edge_2_a_poll_that_takes_longer_than_the_ttl_keeps_its_lease() {
    let mut fleet = Fleet::new(2);
    fleet.witness.delay(TTL * 2 + TTL / 2);
    fleet.enter("one");
    fleet.enter("two");
    let answered = || fleet.witness.asks().into_iter().filter(|ask| ask.answered).collect::<Vec<_>>();
    // Some may be broken off at first, while two share what one had taken.
    wait_until("each is answered", || {
        answered().iter().map(|ask| ask.endpoint.clone()).collect::<BTreeSet<_>>().len() == 2
    });
    for ask in answered() {
        assert!(ask.to.unwrap().since(ask.from) > TTL * 2);
        let again =
            || fleet.witness.since(ask.to.unwrap()).into_iter().find(|next| next.endpoint == ask.endpoint);
        let next = wait_for("it is polled again", again);
        assert_eq!((next.token, &next.instance), (ask.token, &ask.instance), "the lease was not kept");
    }
    fleet.witness.verify();
}

// proves R068, R076
#[test]
fn edge_3_instances_that_start_at_once_under_one_name_have_ids_of_their_own() {
    let mut fleet = Fleet::new(6);
    let url = fleet.redis.url();
    for name in ["one", "two", "three"] {
        fleet.enter_by(name, &url, &["--name", "same"]);
    }
    fleet.until_shared(&["one", "two", "three"], &[2, 2, 2]);
    let ids: BTreeSet<String> = fleet.polling().into_values().map(|ask| ask.instance).collect();
    assert_eq!(ids.len(), 3);
    for id in ids {
        let (rest, random) = id.rsplit_once('-').unwrap();
        let (host, boot) = rest.rsplit_once('-').unwrap();
        assert!(random.len() == 8 && random.chars().all(|c| c.is_ascii_hexdigit()), "{id}");
        assert!(boot.parse::<u64>().is_ok_and(|nanos| nanos > 1_700_000_000_000_000_000), "{id}");
        assert!(!host.is_empty());
        assert_eq!(fleet.redis.cli(&["GET", &format!("poll:node:{id}")]), "1");
    }
    fleet.witness.verify();
}

// proves R069
#[test]
fn edge_4_an_instance_that_reaches_its_endpoints_but_not_redis_stops_polling() {
    let mut fleet = Fleet::new(3);
    let way = Proxy::to(fleet.redis.port());
    fleet.enter_by("cut", &format!("redis://127.0.0.1:{}", way.port()), &[]);
    fleet.until_shared(&["cut"], &[3]);
    let cut = clock::now();
    way.set(Faults { refuse: true, ..Faults::default() });
    // Nobody else is there: whoever polls now is the one that must not.
    std::thread::sleep(TTL * 2);
    let last = fleet.witness.asks().iter().map(|ask| ask.from).max().unwrap();
    assert!(last.since(cut) < TTL, "polled for {:?} without Redis", last.since(cut));
    way.heal();
    fleet.go_on();
    fleet.witness.verify();
}

// proves R070
#[test]
fn edge_5_all_instances_crash_and_start_again_at_once() {
    let mut fleet = Fleet::new(9);
    let names = ["one", "two", "three"];
    names.iter().for_each(|name| fleet.enter(name));
    fleet.until_shared(&names, &[3, 3, 3]);
    names.iter().for_each(|name| {
        fleet.kill(name);
    });
    let crashed = clock::now();
    names.iter().for_each(|name| fleet.enter(name));
    fleet.until_all_polled_after(crashed, &[]);
    fleet.until_shared(&names, &[3, 3, 3]);
    // Nobody was left to listen, so those who came had to hear a whole TTL of silence themselves.
    let first = fleet.witness.since(crashed).iter().map(|ask| ask.from).min().unwrap();
    assert!(
        first.since(crashed) > TTL - Duration::from_secs(1),
        "taken over after {:?}",
        first.since(crashed)
    );
    fleet.witness.verify();
}
