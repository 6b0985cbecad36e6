//! What can happen to PostgreSQL only.

use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::{Postgres, wait_for};

use nix::sys::signal::Signal;

use super::scenes::Scene;
use super::servers::prepare;

const TTL: Duration = Duration::from_secs(3);

// proves C20 for PostgreSQL, P2: asynchronous replication forgets (15 → 11 without an era)
#[test]
fn a_replica_that_lags_is_promoted() {
    let primary = Postgres::start_in(&["fsync=off"], &[]);
    primary.create("work");
    prepare(&primary.url("work"));
    let mut scene = Scene::on(primary, TTL);
    let replica = scene.server.replica(&["fsync=off"]);
    wait_for("the replica follows", || {
        replica.sql("work", "SELECT count(*) FROM leasehold.sessions").trim() == "3"
    });
    // From here on it hears nothing any more, as behind a broken line.
    replica.sql("postgres", "SELECT pg_wal_replay_pause()");
    scene.change_hands();
    scene.server.kill();
    replica.promote();
    scene.ways.iter().for_each(|way| way.lead_to(replica.port()));
    scene.end_on(&replica.url("work"));
}

// proves C20 for PostgreSQL, P2
#[test]
#[ignore = "run by ./test --long"]
fn an_old_backup_is_put_back() {
    let mut scene = Scene::<Postgres>::begin();
    scene.server.stop();
    let backup = scene.server.copy_files("backup");
    scene.server.restart();
    scene.stage.until_shared(&["one", "two", "three"], &[3, 3, 3]);
    scene.change_hands();
    scene.server.stop();
    scene.server.put_back(&backup);
    scene.server.restart();
    scene.end();
}

// proves contract point 4: what was not answered takes effect late
#[test]
#[ignore = "run by ./test --long"]
fn a_synchronous_standby_stalls_and_writes_appear_late() {
    let primary = Postgres::start_in(&["fsync=off"], &[]);
    primary.create("work");
    prepare(&primary.url("work"));
    let replica = primary.replica(&["fsync=off"]);
    primary.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.sql("postgres", "SELECT pg_reload_conf()");
    let mut scene = Scene::on(primary, TTL);
    replica.pause();
    // Beats are waited for by nobody's disk and go on. Verdicts and grants are not confirmed, and nobody acts on them.
    scene.stage.signal("two", Signal::SIGKILL);
    scene.stage.reap("two");
    std::thread::sleep(TTL * 2);
    let others = scene.stage.shares(&["one", "three"]);
    assert_eq!(others, [3, 3], "work was taken over though nothing was confirmed");
    let healed = clock::now();
    replica.resume();
    scene.until_taken_over_by(&["one", "three"], "healing", healed);
    scene.judge();
}
