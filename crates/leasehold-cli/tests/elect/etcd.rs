//! On etcd, where programs of another make look at the leader key.

use leasehold_testkit::{Etcd, EtcdCluster, free_port};

use super::*;

fn prepared(url: String) -> Place {
    let place = Place::on(url);
    place.told(&["migrate", "--fresh"]);
    place
}

fn leader_key(server: &Etcd) -> String {
    server.ctl(&["get", KEY, "--print-value-only"]).trim().to_owned()
}

// proves R114, R115, C34, C35
#[test]
fn the_leader_key_names_the_leader_on_a_lease_and_whoever_deletes_it_gets_another_term() {
    let server = Etcd::start();
    let place = prepared(server.url("elected"));
    let one = candidate(&place, "one", &[]);
    let (_, token) = leader_of(&place, &["one"], 0);
    assert!(leader_key(&server).starts_with("one-"), "{}", leader_key(&server));
    let shown: serde_json::Value = serde_json::from_str(&server.ctl(&["get", KEY, "-w", "json"])).unwrap();
    assert!(shown["kvs"][0]["lease"].as_u64().is_some_and(|lease| lease > 0), "{shown}");
    let deleted = clock::now();
    let _ = server.ctl(&["del", KEY]);
    let gap = until_next_leads(&place, &["one"], token, deleted);
    println!("after etcdctl del: the next leader after {gap:?}");
    assert!(one.log().contains("no longer leading"), "{}", one.log());
    assert!(leader_key(&server).starts_with("one-"));
    assert_never_two(&place);
}

// proves C36, U17
#[test]
fn without_etcd_a_candidate_stands_by_and_leads_when_etcd_is_there() {
    let place = Place::on(format!("etcd://127.0.0.1:{}/later", free_port()));
    let waiting = candidate(&place, "one", &[]);
    wait_until("it says so again and again", || {
        waiting.log().matches("standing by, not leading").count() >= 3
    });
    let said = waiting.log();
    assert!(said.contains("again_in=500ms") && said.contains("again_in=2s"), "the waits grow: {said}");
    assert_eq!(place.ticks(), [], "it never leads on a guess");
    waiting.leave();
    // With etcd there from the start of the next wait it leads.
    let mut server = Etcd::start();
    let place = prepared(server.url("later"));
    server.kill();
    let _waiting = candidate(&place, "one", &[]);
    std::thread::sleep(Duration::from_millis(500));
    server.restart();
    leader_of(&place, &["one"], 0);
}

// proves R122, C38
#[test]
fn failover_does_not_wait_for_etcds_own_election() {
    let mut cluster = EtcdCluster::start();
    let place = prepared(cluster.url("failover"));
    let (one, _two, token) = two(&place);
    let killed = clock::now();
    one.signal(Signal::SIGKILL);
    let etcd_leader = cluster.leader();
    cluster.kill(etcd_leader);
    let gap = until_next_leads(&place, &["two"], token, killed);
    println!("after kill -9 of the leader and of etcd's leader: {gap:?} with a TTL of {TTL:?}");
    assert!(gap < PATIENCE);
    assert_never_two(&place);
}
