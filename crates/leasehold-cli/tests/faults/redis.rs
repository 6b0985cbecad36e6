//! What can happen to Redis only.

use std::time::Duration;

use leasehold_testkit::{Faults, Persistence, Proxy, Redis, RedisSetup};

use super::scenes::Scene;
use super::servers::prepare;

const TTL: Duration = Duration::from_secs(3);

fn forgetful() -> Redis {
    let server = Redis::start_with(RedisSetup { persistence: Persistence::Nothing, ..RedisSetup::default() });
    prepare(&server.url());
    server
}

// proves C20
#[test]
fn everything_is_flushed() {
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
