//! What changes while a manager runs: configurations, settings, owners.

use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::RabbitMq;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::fleet::Plane;
use crate::house::House;
use crate::support::{Place, leasehold, ran, wait_until};

fn zone(name: &str) -> Value {
    json!([{"zone_id": 1, "name": name, "kind": "include", "polygon": [[0, 0], [9, 0], [9, 9]]}])
}

// proves R207, R219, R243, U23
#[test]
fn a_zone_that_changes_is_in_the_workers_file_within_two_seconds_and_nothing_is_restarted() {
    let house = House::new(2);
    let manager = house.manager("one", "max_workers = 1");
    let before = house.wait_for_work(2);
    let began = clock::now();
    house.camera("cam-0", "rtsp://camera.local/stream", &zone("door"));
    let changed = house.wait_for_line("the zone is there", |line| {
        line.camera == "cam-0" && line.zones != before["cam-0"].zones
    });
    let took = clock::now().since(began);
    println!("a changed zone was worked with after {took:.2?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!((changed.pid, changed.token), (before["cam-0"].pid, before["cam-0"].token));
    // Written again as it is, it is the same, and nobody is told anything.
    wait_until("it has settled", || manager.told("workers")[0]["settled"] == true);
    let generation = manager.told("workers")[0]["generation"].clone();
    house.camera("cam-0", "rtsp://camera.local/stream", &zone("door"));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(manager.told("workers")[0]["generation"], generation);
    assert_eq!(manager.told("workers")[0]["starts"], json!(1));
}

// proves R204, R205, R238
#[test]
fn a_configuration_that_changes_is_in_force_and_one_that_is_broken_changes_nothing() {
    let house = House::new(2);
    let manager = house.manager("one", "max_workers = 1");
    let before = house.wait_for_work(2);
    let good = house.settings("one", &manager.address, "max_workers = 1\nlease_ttl_seconds = 60");
    house.plane.place.write("one.toml", &format!("{good}\nmax_workers = 2"));
    wait_until("it says what is wrong", || manager.told("configuration")["refused"].is_string());
    let shown =
        ran(leasehold().args(["manager", "status", "--config", &house.plane.place.write("ask.toml", &good)]));
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    assert!(shown.out.contains("the configuration was refused"), "{}", shown.out);
    assert!(manager.process.log().contains("the one before stays in force"));
    house.wait_for_work(2);

    house.plane.place.write("one.toml", &good);
    manager.signal(Signal::SIGHUP);
    wait_until("it is in force", || manager.told("configuration") == "in force");
    // What is acquired from now on lasts for as long as it says now.
    let lease = house.lease("cam-1").expect("a lease");
    house.plane.expect(200, "POST", &crate::fleet::path(&lease, "revoke"), &Value::Null);
    wait_until("a lease lasts longer", || {
        house.lease("cam-1").is_some_and(|lease| lease["ttl_seconds"] == 60)
    });
    let after = house.wait_for_work(2);
    let (after, before) = (&after["cam-0"], &before["cam-0"]);
    assert_eq!(
        (after.pid, after.token),
        (before.pid, before.token),
        "nothing was restarted, and nothing lost"
    );
}

// proves R193, R204, R238
#[test]
fn a_key_that_is_rotated_is_used_without_a_restart() {
    let house = House::new(2);
    let keys = |words: &[&str]| {
        let ran =
            ran(leasehold().arg("keys").args(words).args(["--json", "--database", &house.plane.place.url()]));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        serde_json::from_str::<Value>(&ran.out).expect("JSON")
    };
    let made = keys(&["create", "--role", "member", "--tenant", "tenant-1"]);
    let text =
        |value: &Value, name: &str| value[name].as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
    let file = house.plane.place.write("key", &text(&made, "key"));
    let manager =
        house.manager("one", &format!("max_workers = 1\nlease_ttl_seconds = 9\napi_key_file = {file:?}"));
    let before = house.wait_for_work(2);
    let rotated = keys(&["rotate", &text(&made, "id"), "--grace", "1s"]);
    house.plane.place.write("key", &text(&rotated, "key"));
    manager.signal(Signal::SIGHUP);
    // For longer than a lease lasts without a renewal.
    std::thread::sleep(Duration::from_secs(10));
    for (camera, line) in house.wait_for_work(2) {
        assert_eq!((line.token, line.pid), (before[&camera].token, before[&camera].pid), "{camera}");
    }
    let log = manager.process.log();
    for key in [text(&made, "key"), text(&rotated, "key")] {
        assert!(!log.contains(&key), "the key is in the log");
    }
    manager.process.leave();
}

// proves R206, C46, U24
#[test]
fn a_manager_that_is_drained_hands_its_cameras_over_and_takes_them_again() {
    let house = House::new(4);
    let one = house.manager("one", "");
    house.wait_for_work(4);
    let two = house.manager("two", "");
    wait_until("they are shared", || {
        two.told("cameras_working") == json!(2) && one.told("cameras_working") == json!(2)
    });
    assert_eq!(one.ask("POST", "/drain").0, 202);
    wait_until("everything is the other's", || {
        two.told("cameras_working") == json!(4) && one.told("cameras_held") == json!(0)
    });
    assert_eq!(one.ask("GET", "/ready").0, 503);
    assert_eq!(one.ask("POST", "/undrain").0, 202);
    wait_until("they are shared again", || {
        two.told("cameras_working") == json!(2) && one.told("cameras_working") == json!(2)
    });
    assert_eq!(two.ask("POST", "/drain?mode=hard").0, 202);
    wait_until("everything is the other's", || one.told("cameras_working") == json!(4));
    assert_eq!(two.ask("POST", "/drain?mode=maybe").0, 400);
    println!(
        "a camera that changed hands was without a worker for {:.2} s at most",
        house.longest_handover(0)
    );
    let text = one.ask("GET", "/metrics").1;
    let text = text.as_str().expect("text");
    assert!(text.contains("runner_streams_owned{runner_id=\"one\"} 4"), "{text}");
    assert_eq!(two.ask("POST", "/terminate").0, 202);
    let mut two = two;
    assert_eq!(two.process.wait().code(), Some(0));
    one.process.leave();
    house.assert_no_orphans();
    house.assert_one_owner_at_a_time();
}

// proves C46, R223
#[test]
#[ignore = "run by ./test --long"]
fn a_camera_that_is_let_go_is_worked_on_elsewhere_within_a_second() {
    let broker = RabbitMq::start();
    let house = House::with(Plane::start(Place::new(), &[], Some(&broker.url())), 8);
    // Nobody looks for cameras before there is a hint.
    let settings = format!("events_url = \"{}\"\nlease_retry_interval_seconds = 60", broker.url());
    let one = house.manager("one", &settings);
    let two = house.manager("two", &settings);
    for manager in [&one, &two] {
        wait_until("events are heard", || manager.told("witness") == "connected");
        wait_until("it works", || manager.told("cameras_working") != json!(0));
    }
    house.wait_for_work(8);
    let since = house.lines().len();
    assert_eq!(one.ask("POST", "/drain?mode=hard").0, 202);
    wait_until("everything is the other's", || two.told("cameras_working") == json!(8));
    let gap = house.longest_handover(since);
    println!("all at once: a camera was without a worker for {gap:.2} s at most");
    assert!(gap > 0.0 && gap < 5.0, "{gap}");
}
