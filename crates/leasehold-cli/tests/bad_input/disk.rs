//! Disks that are full or read-only.
//!
//! As root the disks are real file systems, mounted in a mount namespace that only this test's thread and what it
//! starts can see, and that goes away with them. Otherwise permissions and limits have to do, and that is said aloud.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use crate::refused;
use crate::support::{Place, leasehold, ran, wait_until};

const NOTHING: Option<&str> = None;

/// A mounted disk; dropping it lets its directory be removed.
struct Disk(PathBuf);

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// Mounts a small disk at `at`, for this thread and what it starts.
fn small_disk(at: &Path, megabytes: u32) -> nix::Result<Disk> {
    std::fs::create_dir_all(at).unwrap();
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)?;
    let size = format!("size={megabytes}m");
    mount(Some("none"), at, Some("tmpfs"), MsFlags::empty(), Some(size.as_str()))?;
    Ok(Disk(at.to_owned()))
}

#[test]
fn a_store_that_cannot_be_written_is_refused() {
    let mut place = Place::new();
    let disk = place.path("disk");
    let mounted = small_disk(&disk, 4);
    place.store = disk.join("work.db");
    let member = place.member("anna", &["--resources", "a", "--ttl", "3s"]);
    wait_until("a is owned", || place.owners("jobs").len() == 1);
    member.leave();
    match &mounted {
        Ok(_) => {
            let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
            mount(NOTHING, &disk, NOTHING, read_only, NOTHING).unwrap();
        }
        Err(error) => {
            eprintln!("no disk can be mounted ({error}); permissions have to do");
            for entry in std::fs::read_dir(&disk).unwrap().flatten() {
                std::fs::set_permissions(entry.path(), Permissions::from_mode(0o400)).unwrap();
            }
            std::fs::set_permissions(&disk, Permissions::from_mode(0o500)).unwrap();
        }
    }
    let before = std::fs::read(&place.store).unwrap();
    let url = place.url();
    let elsewhere = format!("sqlite:{}", disk.join("new.db").display());
    for url in [url.as_str(), elsewhere.as_str()] {
        let run = ["run", "--store", url, "--pool", "jobs", "--resources", "a", "--", "true"];
        refused(&place, &run, 2, &["disk/", "writ"]);
    }
    refused(&place, &["status", "--store", &url], 2, &["work.db", "writ"]);
    refused(&place, &["drain", "--store", &url, "--pool", "jobs", "anna"], 2, &["work.db", "writ"]);
    assert_eq!(std::fs::read(&place.store).unwrap(), before);
    // So that the directory can be removed.
    let _ = std::fs::set_permissions(&disk, Permissions::from_mode(0o700));
}

/// Fills what is left of the disk.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for size in [64 << 10, 4 << 10, 512, 1] {
        while file.write_all(&vec![7; size]).is_ok() {}
    }
}

#[test]
fn on_a_full_disk_members_fail_closed_and_recover_and_nothing_acknowledged_is_lost() {
    let mut place = Place::new();
    let disk = place.path("disk");
    let _mounted = match small_disk(&disk, 6) {
        Ok(mounted) => mounted,
        Err(error) => return refused_where_files_may_not_grow(&place, error),
    };
    place.store = disk.join("work.db");
    let options = ["--resources", "a,b,c,d", "--ttl", "2s"];
    let members = [place.member("anna", &options), place.member("bert", &options)];
    let held = |name: &str| place.workers().values().filter(|(worker, _)| worker == name).count();
    wait_until("both work", || held("anna") == 2 && held("bert") == 2 && place.owners("jobs").len() == 4);
    let (resource, _) = place.owners("jobs").into_iter().find(|(_, owner)| owner == "bert").unwrap();
    place.told(&["pin", "--pool", "jobs", &resource, "bert"]);
    let before = place.events("jobs");
    let filler = disk.join("filler");
    fill(&filler);
    wait_until("heartbeats are not confirmed", || {
        members.iter().all(|m| m.log().contains("heartbeat not confirmed"))
    });
    let other = if resource == "a" { "b" } else { "a" };
    let said = place.ask(&["pin", "--pool", "jobs", other, "bert"]);
    assert!(
        said.code == Some(0) || (said.code == Some(69) && said.err.contains("free some space")),
        "{said:?}"
    );
    wait_until("the work stops", || members.iter().all(|m| m.log().contains("lease lost")));
    let tokens = place.workers();
    std::fs::remove_file(&filler).unwrap();
    wait_until("everything is worked on again", || {
        let now = place.workers();
        now.iter().all(|(resource, (_, token))| *token > tokens[resource].1)
            && place.owners("jobs").len() == 4
    });
    let marks = place.told(&["status", "--pool", "jobs"]);
    let has = |words: [&str; 3]| marks.lines().any(|line| line.split_whitespace().take(3).eq(words));
    assert!(has(["pin", &resource, "bert"]), "{marks}");
    assert!(has(["pin", other, "bert"]) || said.code != Some(0), "{marks}");
    assert_eq!(place.events("jobs")[..before.len()], before[..], "rows of the ledger are gone");
    for member in members {
        member.leave();
    }
    place.assert_one_owner_at_a_time();
}

#[test]
fn a_disk_that_is_full_at_the_start_is_said_to_be_full() {
    let mut place = Place::new();
    let disk = place.path("disk");
    let _mounted = match small_disk(&disk, 1) {
        Ok(mounted) => mounted,
        Err(error) => return refused_where_files_may_not_grow(&place, error),
    };
    place.store = disk.join("work.db");
    fill(&disk.join("filler"));
    let said = ran(leasehold().args([
        "run",
        "--store",
        &place.url(),
        "--pool",
        "jobs",
        "--resources",
        "a",
        "--",
        "true",
    ]));
    assert_eq!(said.code, Some(69), "{said:?}");
    assert!(said.err.contains("full") && said.err.contains("free some space"), "{said:?}");
    std::fs::remove_file(disk.join("filler")).unwrap();
    let member = place.member("anna", &["--resources", "a", "--ttl", "3s"]);
    place.more_ticks("a", 1);
    member.leave();
}

fn refused_where_files_may_not_grow(place: &Place, error: nix::Error) {
    eprintln!("no disk can be mounted ({error}); a limit on the size of files has to do");
    let program = env!("CARGO_BIN_EXE_leasehold");
    let url = place.url();
    let line =
        format!("trap '' XFSZ; ulimit -f 8; exec {program} run --store {url} --pool p --resources a -- true");
    let said = ran(std::process::Command::new("sh").args(["-c", &line]));
    assert_eq!(said.code, Some(69), "{said:?}");
    assert!(said.err.contains("free some space"), "{said:?}");
}
