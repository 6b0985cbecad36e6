//! What can happen to Redis only.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::clock::{self, Moment};
use leasehold::fence::{Admission, Fence};
use leasehold::{ResourceId, Token};
use leasehold_testkit::{Faults, Persistence, Proxy, Redis, RedisSetup};

use super::recovery;
use super::scenes::Scene;
use super::servers::prepare;
use super::stage::Stretch;

const TTL: Duration = Duration::from_secs(3);

fn forgetful() -> Redis {
    let server = Redis::start_with(RedisSetup { persistence: Persistence::Nothing, ..RedisSetup::default() });
    prepare(&server.url());
    server
}

// proves C20: who held something goes on with it
#[test]
fn everything_is_flushed() {
    let scene = Scene::on(forgetful(), TTL);
    let before = scene.stage.stretches().len();
    let flushed = clock::now();
    scene.server.flush_all();
    std::thread::sleep(TTL * 2);
    recovery::measure(&scene.stage, "the flush", flushed);
    assert_eq!(
        scene.stage.stretches().len(),
        before,
        "work has moved in a store that has forgotten everything"
    );
    scene.judge();
}

// proves C20: and work moves again when nobody can be left who remembers a longer TTL
#[test]
#[ignore = "run by ./test --long"]
fn everything_is_flushed_and_work_moves_again() {
    let scene = Scene::on(forgetful(), TTL);
    scene.server.flush_all();
    scene.end();
}

// proves C20
#[test]
#[ignore = "run by ./test --long"]
fn a_server_without_persistence_is_started_again() {
    let mut scene = Scene::on(forgetful(), TTL);
    scene.server.kill();
    scene.server.restart();
    scene.end();
}

// proves C20, P2: what the primary confirmed last is lost in the failover (15 → 11 without an era)
#[test]
fn a_failover_loses_the_last_writes() {
    let mut scene = Scene::on(forgetful(), TTL);
    let line = Proxy::to(scene.server.port());
    let replica = scene.server.replica_of_port(line.port());
    // From here on the replica hears nothing any more.
    line.set(Faults { refuse: true, ..Faults::default() });
    scene.change_hands();
    scene.server.kill();
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    scene.ways.iter().for_each(|way| way.lead_to(replica.port()));
    scene.end_on(&replica.url());
}

/// The moments at which everything that was worked on began or was last seen, in the order of time.
fn writes(stretches: &[Stretch]) -> Vec<(Moment, &Stretch)> {
    let ends = stretches.iter().flat_map(|stretch| [(stretch.from, stretch), (stretch.to, stretch)]);
    let mut writes: Vec<_> = ends.collect();
    writes.sort_by_key(|(at, _)| *at);
    writes
}

// proves guarantee 2 where exclusion ends: an old primary that nobody stopped goes on confirming heartbeats to whoever
// reaches only it, and nobody can notice in time. What its members write is refused by a fence that has seen the others.
#[test]
#[ignore = "run by ./test --long"]
fn an_isolated_primary_goes_on_and_the_fence_refuses_its_members() {
    let scene = Scene::on(forgetful(), TTL);
    let line = Proxy::to(scene.server.port());
    let replica = scene.server.replica_of_port(line.port());
    line.set(Faults { refuse: true, ..Faults::default() });
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    // One of them stays behind, with what it holds.
    scene.ways[1..].iter().for_each(|way| way.lead_to(replica.port()));
    scene.stage.until("the others do everything", |stage| {
        stage.shares(&["two", "three"]).iter().sum::<usize>() == 9
    });
    std::thread::sleep(TTL);
    let stretches = scene.stage.stretches();
    let twice = stretches.iter().filter(|one| {
        let both = |other: &&Stretch| one.resource == other.resource && one.name != other.name;
        one.name == "one"
            && stretches.iter().filter(both).any(|other| other.from < one.to && one.from < other.to)
    });
    assert!(twice.count() > 0, "the old primary's member was not left behind, so this shows nothing");
    let fence = Fence::default();
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut refused = 0;
    for (_, write) in writes(&stretches) {
        let resource = ResourceId::new(&write.resource).unwrap();
        let admitted = fence.admit(&resource, Token(write.token)) == Admission::Admitted;
        let seen = newest.entry(&write.resource).or_default();
        assert_eq!(admitted, write.token >= *seen, "{write:?} after {seen}");
        *seen = write.token.max(*seen);
        refused += usize::from(!admitted);
    }
    assert!(refused > 0, "nothing stale was ever sent");
}
