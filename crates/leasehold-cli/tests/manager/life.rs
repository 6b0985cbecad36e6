//! The life of a manager and its workers: cameras leased, spread, renewed, let go.

use std::io::{Read, Write};
use std::net::TcpListener;

use leasehold_testkit::free_port;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::fleet::path;
use crate::house::House;
use crate::support::{runs, wait_until};

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a process id")), signal).expect("a process to signal");
}

// proves R182, R184, R185, R188, R190, R215, R216, R217, R221, R244, C48, C60
#[test]
fn a_manager_leases_cameras_spreads_them_keeps_them_and_lets_them_go() {
    let house = House::new(6);
    let manager = house.manager("one", "lease_ttl_seconds = 9");
    let writers = house.wait_for_work(6);
    let on = |shard: usize| writers.values().filter(|line| line.shard == shard).count();
    assert_eq!((on(0), on(1)), (3, 3), "{writers:?}");
    // For longer than any lease lasts without a renewal.
    std::thread::sleep(std::time::Duration::from_secs(10));
    let later = house.wait_for_work(6);
    for (camera, line) in &later {
        assert_eq!((line.token, line.pid), (writers[camera].token, writers[camera].pid), "{camera}");
    }
    wait_until("it is ready", || manager.ask("GET", "/ready").0 == 200);
    assert!(
        manager.process.log().contains("[shard-0] a worker begins") || {
            let out = house.plane.place.lines("one.out").join("\n");
            out.contains("[shard-0] a worker begins")
        }
    );
    let pids = manager.pids();
    manager.process.leave();
    assert!(pids.iter().all(|pid| !runs(*pid)), "no worker outlives its manager");
    house.assert_no_orphans();
    let leases = house.plane.expect(200, "GET", "/api/v1/leases/runner/one/", &Value::Null);
    assert_eq!(leases, json!([]), "everything was released");
    house.assert_one_owner_at_a_time();
}

// proves R220, R224, C51
#[test]
fn a_worker_that_crashes_is_back_within_seconds() {
    let house = House::new(4);
    // One worker, so that nobody else can take over what it had.
    let _manager = house.manager("one", "max_workers = 1");
    let before = house.wait_for_work(4);
    let victim = before["cam-0"].clone();
    signal(victim.pid, Signal::SIGKILL);
    let back = house.wait_for_line("it is back", |line| line.camera == "cam-0" && line.pid != victim.pid);
    assert_eq!(back.token, victim.token, "its lease was kept");
    let gap = back.at - house.last_of(victim.pid);
    println!("a worker was back {gap:.2} s after it was killed");
    assert!(gap < 5.0, "a worker was back after {gap} s");
}

// proves R186, R189, R190, R220, C50, C51
#[test]
fn a_worker_that_hangs_is_found_by_its_silence_and_replaced() {
    let house = House::new(2);
    let manager = house.manager("one", "max_workers = 1");
    let before = house.wait_for_work(2)["cam-0"].clone();
    house.behave("one", 0, "hang deaf");
    wait_until("it is ended", || !runs(before.pid));
    house.behave("one", 0, "");
    house.wait_for_line("another works", |line| line.camera == "cam-0" && line.pid != before.pid);
    assert!(manager.process.log().contains("nothing was heard of a worker for too long"));
}

// proves R190, C51, C52
#[test]
fn a_worker_that_is_deaf_and_leaves_children_behind_leaves_nothing_behind() {
    let house = House::new(2);
    house.behave("one", 0, "deaf leak");
    house.behave("one", 1, "deaf leak");
    let manager = house.manager("one", "worker_stop_grace_seconds = 1");
    house.wait_for_work(2);
    manager.process.leave();
    house.assert_no_orphans();
    assert_eq!(house.lease("cam-0"), None, "it was released");
}

// proves R187, R218, C49
#[test]
fn a_lease_that_is_lost_takes_only_its_camera_from_the_worker() {
    let house = House::new(4);
    let manager = house.manager("one", "max_workers = 1");
    let before = house.wait_for_work(4);
    let lease = house.lease("cam-1").expect("a lease");
    house.plane.expect(200, "POST", &path(&lease, "revoke"), &Value::Null);
    let again = house.wait_for_line("it is ours again", |line| {
        line.camera == "cam-1" && line.token > before["cam-1"].token
    });
    assert_eq!(again.pid, before["cam-1"].pid, "no process was restarted for it");
    assert_eq!(manager.told("workers")[0]["starts"], json!(1));
    house.assert_one_owner_at_a_time();
}

// proves R187, R216, C52
#[test]
fn a_worker_that_will_not_let_go_is_killed_before_anybody_else_has_the_camera() {
    let house = House::new(2);
    let manager = house.manager("one", "max_workers = 1");
    let before = house.wait_for_work(2);
    house.behave("one", 0, "stubborn careless");
    let lease = house.lease("cam-1").expect("a lease");
    house.plane.expect(200, "POST", &path(&lease, "revoke"), &Value::Null);
    wait_until("it is killed", || !runs(before["cam-1"].pid));
    house.behave("one", 0, "");
    house.wait_for_line("it is ours again", |line| {
        line.camera == "cam-1" && line.token > before["cam-1"].token
    });
    house.assert_one_owner_at_a_time();
    assert_eq!(manager.told("workers")[0]["crashes"], json!(0), "that was no crash");
}

// proves R216, R218, C52
#[test]
fn nobody_else_has_a_camera_before_the_worker_that_does_not_let_go_is_dead() {
    let house = House::new(2);
    let one = house.manager("one", "max_workers = 1");
    let before = house.wait_for_work(2)["cam-0"].clone();
    house.behave("one", 0, "stubborn careless deaf");
    let _two = house.manager("two", "");
    assert_eq!(one.ask("POST", "/drain?mode=hard").0, 202);
    for camera in ["cam-0", "cam-1"] {
        house.wait_for_line("another has it", |line| line.camera == camera && line.runner == "two");
    }
    assert!(!runs(before.pid));
    house.assert_one_owner_at_a_time();
}

// proves R216, C52
#[test]
fn a_manager_that_is_killed_or_frozen_takes_its_workers_with_it() {
    let house = House::new(4);
    let ttl = "lease_ttl_seconds = 9";
    let killed = house.manager("one", ttl);
    house.wait_for_work(4);
    let pids = killed.pids();
    assert_eq!(pids.len(), 2);
    drop(killed);
    wait_until("its workers are gone", || pids.iter().all(|pid| !runs(*pid)));
    house.assert_no_orphans();

    let frozen = house.manager("two", ttl);
    let before = house.wait_for_work(4);
    let pids = frozen.pids();
    house.behave("two", 0, "careless");
    house.behave("two", 1, "careless");
    frozen.signal(Signal::SIGSTOP);
    wait_until("its workers are gone", || pids.iter().all(|pid| !runs(*pid)));
    // What it held is another's before it wakes up.
    let heir = house.manager("three", ttl);
    house.wait_for_line("another has it", |line| line.runner == "three");
    frozen.signal(Signal::SIGCONT);
    let after = house.wait_for_work(4);
    assert!(after.iter().all(|(camera, line)| line.token > before[camera].token), "{after:?}");
    heir.process.leave();
    frozen.process.leave();
    house.assert_no_orphans();
    house.assert_one_owner_at_a_time();
}

// proves C51
#[test]
fn a_camera_that_kills_its_worker_is_put_into_quarantine_and_its_neighbours_keep_running() {
    let house = House::new(6);
    house.camera("cam-3", "rtsp://test/crash", &json!([]));
    let manager = house.manager("one", "");
    wait_until("it is in quarantine", || manager.told("quarantined")[0]["camera_uuid"] == "cam-3");
    let after = house.wait_for_work(5);
    assert!(!after.contains_key("cam-3"), "{after:?}");
    let workers = manager.told("workers");
    let crashes: u64 =
        workers.as_array().expect("workers").iter().filter_map(|one| one["crashes"].as_u64()).sum();
    println!("found after {crashes} crashes");
    assert_eq!(crashes, 5, "{workers}");
}

/// What a manager is told whose one worker speaks only HTTP.
fn only_http(house: &House, port: u16) -> String {
    let settings = house.settings("one", "127.0.0.1:0", "");
    let command =
        settings.lines().find_map(|line| line.strip_prefix("worker_command = [")).expect("a command");
    let command = command.trim_end_matches(']');
    format!("max_workers = 1\nworker_http_port = {port}\nworker_command = [{command}, \"--http\"]\n")
}

// proves R230, C50, U20
#[test]
fn a_worker_that_speaks_only_http_is_heard_as_well() {
    let house = House::new(2);
    let manager = house.manager("one", &only_http(&house, free_port()));
    let before = house.wait_for_work(2);
    wait_until("it is ready", || manager.ask("GET", "/ready").0 == 200);
    // It lets go by its word over HTTP, and lives on.
    let lease = house.lease("cam-1").expect("a lease");
    house.plane.expect(200, "POST", &path(&lease, "revoke"), &Value::Null);
    let again = house.wait_for_line("it is ours again", |line| {
        line.camera == "cam-1" && line.token > before["cam-1"].token
    });
    assert_eq!(again.pid, before["cam-1"].pid);
}

/// Says at this port, to everybody and for ever, what a worker would say that has let go of everything.
fn stranger(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
    std::thread::spawn(move || {
        for generation in (1..4).cycle() {
            let Ok((mut asked, _)) = listener.accept() else { return };
            let said = format!("{{\"applied\":{generation},\"pid\":{}}}", std::process::id());
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{said}",
                said.len()
            );
            let _ = asked.read(&mut [0; 4096]).and_then(|_| asked.write_all(answer.as_bytes()));
        }
    });
}

// proves R187, R216, C50
#[test]
fn who_has_a_workers_port_does_not_speak_for_it() {
    let house = House::new(0);
    let port = free_port();
    let settings = format!("{}worker_start_grace_seconds = 60", only_http(&house, port));
    let manager = house.manager("one", &settings);
    stranger(port);
    house.plane.populate(1, &[]);
    let worker = house.wait_for_work(1)["cam-0"].pid;
    house.behave("one", 0, "stubborn");
    assert_eq!(manager.ask("POST", "/drain?mode=hard").0, 202);
    wait_until("the camera is free", || house.lease("cam-0").is_none());
    assert!(!runs(worker), "the camera is free, and its worker works on it");
}
