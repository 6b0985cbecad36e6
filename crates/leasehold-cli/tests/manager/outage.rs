//! The control plane is away, or only this manager cannot reach it: what each policy makes of that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_testkit::{Faults, Proxy, RabbitMq};
use serde_json::json;

use crate::fleet::Plane;
use crate::house::{House, Line};
use crate::support::{Place, runs, wait_until};

const TTL: &str = "lease_ttl_seconds = 9";
/// Longer than any lease of these tests.
const AWAY: Duration = Duration::from_secs(10);

fn port(address: &str) -> u16 {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port")
}

// proves R242, C45
#[test]
fn strict_work_ends_with_what_was_granted_and_goes_on_when_the_control_plane_is_back() {
    let mut house = House::new(3);
    let manager = house.manager("one", TTL);
    let before = house.wait_for_work(3);
    house.plane.kill();
    wait_until("nobody works", || {
        let since = house.lines().len();
        std::thread::sleep(Duration::from_secs(1));
        house.lines().len() == since
    });
    assert!(before.values().all(|line| runs(line.pid)), "workers wait, and are not restarted");
    assert_eq!(manager.told("control_plane"), json!("silent"));
    house.plane.again();
    let after = house.wait_for_work(3);
    assert!(after.values().all(|line| !line.degraded));
    let pids = |writers: &BTreeMap<String, Line>| -> BTreeSet<u32> {
        writers.values().map(|line| line.pid).collect()
    };
    assert_eq!(pids(&after), pids(&before), "no process was restarted");
    manager.process.leave();
    house.assert_no_orphans();
    house.assert_one_owner_at_a_time();
}

// proves R222, R237, R239, R240, C45
#[test]
fn degraded_work_goes_on_marked_while_the_control_plane_is_away() {
    let broker = RabbitMq::start();
    let mut house = House::with(Plane::start(Place::new(), &[], Some(&broker.url())), 3);
    let policy = format!(
        "{TTL}\noutage_policy = \"degraded\"\noutage_grace_seconds = 120\nevents_url = \"{}\"",
        broker.url()
    );
    let manager = house.manager("one", &policy);
    let before = house.wait_for_work(3);
    wait_until("events are heard", || manager.told("witness") == "connected");
    house.plane.kill();
    std::thread::sleep(AWAY);
    house.wait_for_line("it is marked", |line| line.degraded);
    let during = house.wait_for_work(3);
    assert!(during.values().all(|line| line.degraded), "{during:?}");
    house.plane.again();
    for camera in before.keys() {
        house.wait_for_line("it is not marked any more", |line| line.camera == *camera && !line.degraded);
    }
    for (camera, line) in house.wait_for_work(3) {
        assert_eq!((line.token, line.pid), (before[&camera].token, before[&camera].pid), "{camera} was kept");
    }
    house.assert_one_owner_at_a_time();
}

// proves R242, C45
#[test]
fn whoever_is_cut_off_stops_when_the_witness_shows_another_owner() {
    let broker = RabbitMq::start();
    let house = House::with(Plane::start(Place::new(), &[], Some(&broker.url())), 2);
    let proxy = Proxy::to(port(&house.plane.address));
    let policy = format!(
        "{TTL}\noutage_policy = \"degraded\"\noutage_grace_seconds = 300\nevents_url = \"{}\"",
        broker.url()
    );
    let through = format!("{policy}\ncontrol_plane_url = \"http://127.0.0.1:{}\"", proxy.port());
    let cut_off = house.manager("one", &through);
    house.wait_for_work(2);
    wait_until("events are heard", || cut_off.told("witness") == "connected");
    proxy.set(Faults::cut());
    let _heir = house.manager("two", &policy);
    house.wait_for_line("another has it", |line| line.runner == "two");
    wait_until("the one that is cut off has let go", || cut_off.told("cameras_held") == json!(0));
    let after = house.wait_for_work(2);
    assert!(after.values().all(|line| line.runner == "two"), "{after:?}");
    // What it wrote while another had the camera was marked, and a fence refuses it by its token.
    let lines = house.lines();
    for line in lines.iter().filter(|line| line.runner == "one") {
        let taken = lines
            .iter()
            .any(|other| other.camera == line.camera && other.token > line.token && other.at < line.at);
        assert!(!taken || line.degraded, "{line:?}");
    }
}
