//! Two replicas on one etcd, and what happens to the one that leads.

mod stage;

use std::time::Duration;

use leasehold::clock::{Clock, SystemClock};
use leasehold_example_scheduler::etcd::Write;
use leasehold_example_scheduler::world::{PENDING, instance_key, value, worker_key};
use leasehold_testkit::Faults;
use nix::sys::signal::Signal;
use stage::{CONTROLLER, SCHEDULER, Stage, TTL};

const EVERY: Duration = Duration::from_millis(20);

/// Two replicas and three workers with room for all that a test creates.
fn two() -> Stage {
    let mut stage = Stage::on(1);
    ["a", "b", "c"].iter().for_each(|worker| stage.add_worker(worker, 100_000));
    ["one", "two"].iter().for_each(|name| stage.enter(name));
    stage
}

fn other(name: &str) -> &'static str {
    if name == "one" { "two" } else { "one" }
}

// proves R110, R111, R113, R119, R121, C40
#[test]
fn instances_are_scheduled_and_the_standby_goes_on_when_the_leader_leaves() {
    let mut stage = two();
    let creator = stage.create_instances(EVERY);
    let leader = stage.until_led("");
    stage.until_more(20);
    let told = SystemClock.now();
    stage.end(&leader, Signal::SIGTERM);
    assert_eq!(stage.until_led(&leader), other(&leader));
    println!("led again {:?} after SIGTERM, TTL {TTL:?}", SystemClock.now().since(told));
    stage.until_more(20);
    let log = stage.log(&leader);
    assert!(log.contains("leaves") && !log.contains("ERROR"), "it left in order:\n{log}");
    stage.judge(creator.stop());
    stage.judge_ledger(SCHEDULER);
}

// proves R110, R111, R118, R120, R122
#[test]
fn the_standby_takes_over_from_a_leader_that_was_killed() {
    let mut stage = two();
    let creator = stage.create_instances(EVERY);
    let leader = stage.until_led("");
    stage.until_more(20);
    let killed = SystemClock.now();
    stage.end(&leader, Signal::SIGKILL);
    assert_eq!(stage.until_led(&leader), other(&leader));
    println!("led again {:?} after kill -9, TTL {TTL:?}", SystemClock.now().since(killed));
    stage.until_more(20);
    stage.enter(&leader);
    stage.judge(creator.stop());
    stage.judge_ledger(SCHEDULER);
}

// proves C39, R110, R111: frozen wherever it was, it goes on in the middle of what it did
#[test]
fn a_leader_that_was_frozen_for_longer_than_its_ttl_writes_nothing_more() {
    let stage = two();
    let creator = stage.create_instances(EVERY);
    let mut frozen = String::new();
    for _ in 0..3 {
        let leader = stage.until_led(&frozen);
        stage.until_more(20);
        stage.signal(&leader, Signal::SIGSTOP);
        assert_eq!(stage.until_led(&leader), other(&leader));
        stage.until_more(20);
        stage.signal(&leader, Signal::SIGCONT);
        stage.until_more(20);
        frozen = leader;
    }
    stage.judge(creator.stop());
    stage.judge_ledger(SCHEDULER);
}

// proves R112: room for exactly as many as there are, which a wrong count would miss
#[test]
fn the_last_room_is_used_and_none_is_used_twice() {
    let mut stage = Stage::on(1);
    [("a", 7), ("b", 20), ("c", 13)].iter().for_each(|(worker, room)| stage.add_worker(worker, *room));
    let pending = |id: usize| Write::Put(instance_key(&format!("i{id}"), "state"), PENDING.to_owned());
    stage.write(&(0..40).map(pending).collect::<Vec<_>>());
    ["one", "two"].iter().for_each(|name| stage.enter(name));
    stage.judge(40);
    stage.write(&[pending(40)]);
    stage.add_worker("d", 1);
    stage.judge(41);
}

// proves R123, U17: the controller has an election of its own
#[test]
fn the_instances_of_a_worker_that_is_gone_go_to_another() {
    let mut stage = Stage::on(1);
    stage.add_worker("a", 10);
    let pending = |id: usize| Write::Put(instance_key(&format!("i{id}"), "state"), PENDING.to_owned());
    stage.write(&(0..10).map(pending).collect::<Vec<_>>());
    ["one", "two"].iter().for_each(|name| stage.enter(name));
    stage.judge(10);
    stage.add_worker("b", 10);
    stage.write(&[Write::Delete(worker_key("a", "state"))]);
    stage.until("all are elsewhere", |stage| {
        let world = stage.world().unwrap_or_default();
        let moved = world.instances.values().filter(|fields| value(fields, "worker") == Some("b"));
        moved.count() == 10
    });
    let versions = stage.world().unwrap().instances.into_values().map(|fields| fields["state"].version);
    assert_eq!(versions.collect::<Vec<_>>(), [4; 10], "each was taken back once and assigned again once");
    let (scheduler, controller) = (stage.leader(SCHEDULER), stage.leader(CONTROLLER));
    assert!(scheduler.is_some() && controller.is_some(), "{scheduler:?} {controller:?}");
    stage.judge_ledger(SCHEDULER);
    stage.judge_ledger(CONTROLLER);
}

// proves C36, U17: who reaches nobody does not lead
#[test]
fn a_replica_that_finds_no_etcd_stands_by_until_it_does() {
    let mut stage = Stage::on(1);
    stage.add_worker("a", 10);
    stage.write(&[Write::Put(instance_key("i", "state"), PENDING.to_owned())]);
    stage.ways("one")[0].set(Faults { refuse: true, ..Faults::default() });
    stage.enter("one");
    stage.until("it has asked again", |stage| stage.log("one").matches("stands by until").count() >= 3);
    assert!(!stage.log("one").contains("leads"), "{}", stage.log("one"));
    stage.ways("one")[0].heal();
    stage.judge(1);
}
