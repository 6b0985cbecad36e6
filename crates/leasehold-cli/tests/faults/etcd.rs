//! What can happen to etcd only.

use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::{Etcd, EtcdCluster, EtcdOptions};

use super::recovery;
use super::scenes::Scene;
use super::servers::{Server, prepare};

const TTL: Duration = Duration::from_secs(3);

/// A cluster as one server: every member of the pool knows all its endpoints, and nothing stands in between.
struct Three(EtcdCluster);

impl Server for Three {
    fn start_in(_: &[(String, String)]) -> Self {
        let cluster = EtcdCluster::start();
        prepare(&cluster.url("leasehold"));
        Self(cluster)
    }

    fn port(&self) -> u16 {
        self.0.ports()[0]
    }

    fn url(&self, _: u16) -> String {
        self.0.url("leasehold")
    }

    /// The one that leads.
    fn kill(&mut self) {
        self.0.kill(self.0.leader());
    }

    fn restart(&mut self) {
        (0..3).for_each(|place| self.0.start_again(place));
    }

    fn pause(&self) {
        self.0.pause(self.0.leader());
    }

    fn resume(&self) {
        (0..3).for_each(|place| self.0.resume(place));
    }
}

// proves C38
#[test]
fn the_leader_of_three_is_killed() {
    let mut scene = Scene::<Three>::begin();
    scene.server.kill();
    scene.end();
}

// proves C38: native leases vanish early here, ours do not
#[test]
#[ignore = "run by ./test --long"]
fn the_leader_of_three_is_paused_and_resumed_again_and_again() {
    let scene = Scene::<Three>::begin();
    for _ in 0..3 {
        std::thread::sleep(TTL / 2);
        scene.server.pause();
        std::thread::sleep(TTL);
        scene.server.resume();
    }
    scene.end();
}

#[test]
#[ignore = "run by ./test --long"]
fn one_of_three_that_does_not_lead_is_cut_off() {
    let scene = Scene::<Three>::begin();
    let follower = (scene.server.0.leader() + 1) % 3;
    let cut = clock::now();
    scene.server.0.pause(follower);
    std::thread::sleep(TTL * 2);
    scene.stage.until_shared(&["one", "two", "three"], &[3, 3, 3]);
    recovery::measure(&scene.stage, "the cut", cut);
    scene.server.0.resume(follower);
    scene.end();
}

// proves C37, L7
#[test]
#[ignore = "run by ./test --long"]
fn history_is_compacted_under_watching_members() {
    let scene = Scene::<Etcd>::begin();
    for _ in 0..5 {
        std::thread::sleep(TTL / 3);
        scene.server.compact();
    }
    scene.end();
}

// proves P8: a server that refuses writes confirms nothing, so nobody trusts itself
#[test]
#[ignore = "run by ./test --long"]
fn the_quota_is_full() {
    let quota = EtcdOptions {
        arguments: vec!["--quota-backend-bytes".to_owned(), (8 << 20).to_string()],
        ..EtcdOptions::default()
    };
    let server = Etcd::start_with(quota);
    prepare(&Server::url(&server, server.port()));
    let scene = Scene::on(server, TTL);
    let filler = "x".repeat(1 << 20);
    for number in 0..16 {
        let _ = scene.server.try_ctl(&["put", &format!("filler/{number}")], &filler);
    }
    scene.until_still();
    let _ = scene.server.ctl(&["del", "--prefix", "filler/"]);
    scene.server.compact();
    let _ = scene.server.ctl(&["defrag"]);
    let _ = scene.server.ctl(&["alarm", "disarm"]);
    scene.end();
}

// proves C20 for etcd, P2: a restored snapshot is older (36 → 22 without an era)
#[test]
fn an_old_snapshot_is_restored() {
    let mut scene = Scene::<Etcd>::begin();
    scene.server.save("before");
    scene.change_hands();
    scene.server.restore("before", false);
    scene.end();
}
