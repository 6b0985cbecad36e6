//! The life of a manager and its workers: cameras leased, spread, renewed, let go.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::house::House;
use crate::support::{runs, wait_until};

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a process id")), signal).expect("a process to signal");
}

// proves R182, R184, R185, R188, R190, R215, R216, R217, R221, R244, C48, C60
#[test]
fn a_manager_leases_cameras_spreads_them_keeps_them_and_lets_them_go() {
    let house = House::new(6);
    let manager = house.manager("one", "");
    let writers = house.wait_for_work(6);
    let on = |shard: usize| writers.values().filter(|line| line.shard == shard).count();
    assert_eq!((on(0), on(1)), (3, 3), "{writers:?}");
    // For longer than any lease lasts without a renewal.
    std::thread::sleep(std::time::Duration::from_secs(11));
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
    let _manager = house.manager("one", "");
    let before = house.wait_for_work(4);
    let victim = before["cam-0"].clone();
    signal(victim.pid, Signal::SIGKILL);
    let back = house.wait_for_line("it is back", |line| line.camera == "cam-0" && line.pid != victim.pid);
    assert_eq!(back.token, victim.token, "its lease was kept");
    let gap = back.at
        - house.lines().iter().filter(|line| line.pid == victim.pid).map(|line| line.at).fold(0.0, f64::max);
    println!("a worker was back {gap:.2} s after it was killed");
    assert!(gap < 5.0, "a worker was back after {gap} s");
}
