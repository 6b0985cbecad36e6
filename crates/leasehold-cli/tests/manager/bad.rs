//! What a manager refuses, and what it says.

use std::net::TcpListener;

use leasehold_testkit::SmallDisk;
use serde_json::{Value, json};

use crate::house::House;
use crate::support::{Ran, leasehold, ran, wait_until};

fn check(house: &House, more: &str) -> Ran {
    let file = house.plane.place.write("bad.toml", &house.settings("bad", "127.0.0.1:0", more));
    ran(leasehold().args(["manager", "--check", "--config", &file]))
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_leased() {
    let house = House::new(1);
    let fine = check(&house, "");
    assert_eq!(fine.code, Some(0), "{}", fine.err);
    assert!(fine.out.contains("can be used: 2 workers with 8 cameras each"), "{}", fine.out);
    let plain = house.plane.place.write("plain", "no program");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    for (more, code, said) in [
        ("runner_id = 5".to_owned(), 2, "`runner_id` must be text"),
        ("max_workers = 0".to_owned(), 2, "`max_workers` must be a whole number from 1 to 256"),
        ("max_wokers = 2".to_owned(), 2, "`max_wokers` is no field of a manager"),
        ("site_id = \"a\"\nsite_id = \"b\"".to_owned(), 2, "duplicate key"),
        ("worker_command = [\"/nowhere/worker\"]".to_owned(), 127, "/nowhere/worker does not exist"),
        (format!("worker_command = [{plain:?}]"), 126, "may not be executed"),
        (format!("worker_http_port = {port}\nmax_workers = 1"), 71, "is not free for a worker"),
        (format!("config_dir = \"{plain}/below\""), 71, "cannot be written"),
        ("config_dir = \"/proc/nowhere\"".to_owned(), 71, "cannot be written"),
        ("listen = \"0.0.0.0:0\"".to_owned(), 0, "can be used"),
    ] {
        let refused = check(&house, &more);
        assert_eq!(refused.code, Some(code), "{more}: {}", refused.err);
        let told = format!("{}{}", refused.out, refused.err);
        assert!(told.contains(said), "{more}: {told}");
    }
    let open = house.plane.place.write("open.toml", &house.settings("open", "0.0.0.0:0", ""));
    let refused = ran(leasehold().args(["manager", "--config", &open]));
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("can be reached from other machines and needs a key"), "{}", refused.err);
    let status = ran(leasehold().args([
        "manager",
        "status",
        "--config",
        &house.plane.place.write("s.toml", &house.settings("s", "127.0.0.1:9", "")),
    ]));
    assert_eq!(status.code, Some(69), "{}", status.err);
    assert!(status.err.contains("is it running?"), "{}", status.err);
}

#[test]
fn a_directory_has_one_manager_and_an_address_too() {
    let house = House::new(1);
    let manager = house.manager("one", "");
    let again = ran(leasehold().args(["manager", "--config", &manager.file]));
    assert_eq!(again.code, Some(71), "{}", again.err);
    assert!(again.err.contains("another manager uses `config_dir`"), "{}", again.err);
    let other = house.settings("other", &manager.address, "");
    let taken =
        ran(leasehold().args(["manager", "--config", &house.plane.place.write("other.toml", &other)]));
    assert_eq!(taken.code, Some(71), "{}", taken.err);
    assert!(taken.err.contains("is in use"), "{}", taken.err);
}

// proves C50
#[test]
fn messages_that_cannot_be_read_are_counted_and_change_nothing() {
    let house = House::new(1);
    house.behave("one", 0, "strange");
    let manager = house.manager("one", "max_workers = 1");
    let before = house.wait_for_work(1);
    wait_until("it is told", || manager.process.log().contains("a message that cannot be read"));
    let later = house.wait_for_work(1);
    assert_eq!(before["cam-0"].pid, later["cam-0"].pid);
    assert_eq!(manager.told("cameras_working"), json!(1));
}

/// A directory that can be written to until it cannot.
#[test]
fn a_directory_that_becomes_unwritable_costs_no_camera_that_is_worked_on_more_than_its_trust() {
    let house = House::new(2);
    let manager = house.manager("one", "max_workers = 1\nlease_ttl_seconds = 9");
    house.wait_for_work(2);
    // Nothing can be made in a directory that was replaced by a file, not even by root.
    let directory = house.plane.place.path("dir-one");
    std::fs::rename(&directory, house.plane.place.path("away")).expect("a directory");
    std::fs::write(&directory, "in the way").expect("a file");
    wait_until("it says so", || manager.told("workers")[0]["trouble"].is_string());
    wait_until("its log says so too", || {
        manager.process.log().contains("the worker's configuration cannot be written")
    });
    std::fs::remove_file(&directory).expect("the file");
    std::fs::rename(house.plane.place.path("away"), &directory).expect("the directory");
    house.wait_for_work(2);
    wait_until("nothing is wrong any more", || manager.told("workers")[0]["trouble"] == Value::Null);
    house.assert_one_owner_at_a_time();
}

#[test]
fn a_disk_that_is_full_is_said_and_what_runs_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::here(1) else {
        eprintln!("no disk can be mounted here, so none was filled");
        return;
    };
    let house = House::new(2);
    let directory = disk.path().join("manager");
    let manager =
        house.manager("one", &format!("max_workers = 1\nlease_ttl_seconds = 9\nconfig_dir = {directory:?}"));
    house.wait_for_work(2);
    disk.fill();
    wait_until("it says so", || manager.told("workers")[0]["trouble"].is_string());
    disk.free();
    wait_until("nothing is wrong any more", || manager.told("workers")[0]["trouble"] == Value::Null);
    house.wait_for_work(2);
    house.assert_one_owner_at_a_time();
}

#[test]
fn cameras_whose_workers_do_not_come_up_go_elsewhere() {
    let house = House::new(2);
    let program = house.plane.place.write("program", "#!/bin/sh\nexec python3 \"$@\"\n");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a program");
    let settings = house.settings("one", "127.0.0.1:0", "");
    let command = settings
        .lines()
        .find_map(|line| line.strip_prefix("worker_command = [\"python3\""))
        .expect("a command");
    let broken = house
        .manager("one", &format!("worker_start_grace_seconds = 4\nworker_command = [{program:?}{command}"));
    house.wait_for_work(2);
    std::fs::remove_file(&program).expect("the program");
    for pid in broken.pids() {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("a process id"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("a worker");
    }
    let _heir = house.manager("two", "");
    let writers = house.wait_for_work(2);
    assert!(writers.values().all(|line| line.runner == "two"), "{writers:?}");
    wait_until("it has nothing", || broken.told("cameras_held") == json!(0));
    assert_eq!(broken.told("quarantined"), json!([]), "no camera is to blame for that");
}

// proves R195
#[test]
fn without_supervision_one_worker_runs_and_the_manager_ends_with_it() {
    let house = House::new(3);
    let mut manager = house.manager("one", "manager_mode = false\nmax_cameras_per_worker = 2");
    let writers = house.wait_for_work(2);
    assert!(writers.values().all(|line| line.shard == 0));
    let pid = i32::try_from(manager.pids()[0]).expect("a process id");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
        .expect("a worker");
    assert_eq!(manager.process.wait().code(), Some(1));
    house.assert_no_orphans();
    assert_eq!(house.lease("cam-0"), None, "everything was released");
}
