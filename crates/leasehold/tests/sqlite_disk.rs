//! A disk that is full or read-only. Needs to mount a file system of its own; where it may not, it says so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use leasehold::store::conformance::member::{all_leases, session};
use leasehold::store::conformance::{Member, pool, wanted};
use leasehold::store::sqlite::SqliteStore;
use leasehold::store::{Acquired, Answer, Claimed, Store, StoreErrorKind};
use tempfile::TempDir;

/// A small file system in memory.
struct Disk {
    directory: TempDir,
}

impl Disk {
    fn mount(size: &str) -> Option<Self> {
        let directory = TempDir::new().expect("a temporary directory");
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(directory.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("NOT PROVED HERE: mounting a small disk needs root; run this test as root");
            return None;
        }
        Some(Self { directory })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("work.db")
    }

    fn remount(&self, how: &str) {
        let options = format!("remount,{how}");
        let remounts = || {
            let done = Command::new("mount").args(["-o", &options]).arg(self.directory.path()).status();
            done.is_ok_and(|status| status.success())
        };
        // A process that another test is just starting has our files open until it is what it will be.
        let tries = std::iter::repeat_with(remounts).take(100);
        let mut tries = tries.inspect(|done| {
            if !done {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        assert!(tries.any(|done| done), "cannot remount {how}");
    }

    /// Leaves no room at all.
    fn fill(&self) -> PathBuf {
        let filler = self.directory.path().join("filler");
        let mut chunk = 1 << 16;
        let mut file = std::fs::File::create(&filler).expect("there is room for a name");
        while chunk > 0 {
            if std::io::Write::write_all(&mut file, &vec![0; chunk]).is_err() {
                chunk /= 2;
            }
        }
        filler
    }

    /// Gives back what `fill` took. To remove it is not enough: a process that another test is just starting has it open until
    /// it is what it will be, and keeps the room until then.
    fn clear(filler: &Path) {
        std::fs::File::create(filler).expect("the filler can be emptied");
        std::fs::remove_file(filler).expect("the filler can go");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.directory.path()).status();
    }
}

async fn open(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path).await.expect("the store can be opened"))
}

// proves R006: nothing acknowledged is lost, and no token is given twice
#[tokio::test]
async fn a_full_disk_loses_nothing_and_service_resumes_with_space() {
    let Some(disk) = Disk::mount("2m") else { return };
    let store = open(&disk.path()).await;
    let mut one = Member::join(&store, "one").await;
    let mut granted = Vec::new();
    let (noted, mut filler) = (session("noted"), None);
    let error = loop {
        if granted.len() == 20 {
            let claimed = store.claim(&noted, &wanted("noted")).await.expect("there is room");
            assert!(matches!(claimed, Answer::Done(Claimed::Granted { .. })), "{claimed:?}");
            filler = Some(disk.fill());
        }
        let wish = wanted(&format!("r{:05}-{}", granted.len(), "x".repeat(100)));
        let pulse = one.pulse();
        match store.acquire(one.id(), pulse, &[wish]).await {
            Ok(Answer::Done(outcomes)) => {
                one.confirmed = pulse.number.0;
                let Some(Acquired::Granted(term)) = outcomes.into_iter().next() else {
                    panic!("it was free")
                };
                granted.push(term);
            }
            Ok(other) => panic!("a living session got {other:?}"),
            Err(error) => break error,
        }
        assert!(granted.len() < 50_000, "the disk never fills");
    };
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("full"), "{error}");
    assert!(store.acquire(one.id(), one.clone().pulse(), &[wanted("more")]).await.is_err(), "still full");

    Disk::clear(&filler.expect("it was filled"));
    assert!(matches!(one.beat().await, Answer::Done(_)), "service resumes, and nothing was forgotten");
    let shown = all_leases(&store, &pool("work")).await;
    for term in &granted {
        let record = shown.iter().find(|lease| lease.resource == term.resource);
        assert_eq!(
            record.and_then(|record| record.holder.as_ref()),
            Some(one.id()),
            "{term} was acknowledged"
        );
    }
    let record = shown.iter().find(|lease| lease.resource.as_str() == "noted");
    assert_eq!(record.and_then(|record| record.holder.as_ref()), Some(&noted.id), "it was acknowledged too");
    assert_eq!(one.take("more").await.token.0, 1, "what failed was not granted");
}

#[tokio::test]
async fn a_read_only_disk_is_refused_with_what_to_change() {
    let Some(disk) = Disk::mount("2m") else { return };
    disk.remount("ro");
    let error = SqliteStore::open(&disk.path()).await.expect_err("nothing can be written");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");

    disk.remount("rw");
    let store = open(&disk.path()).await;
    let mut one = Member::join(&store, "one").await;
    let _ = one.take("a").await;
    drop((one, store));
    disk.remount("ro");
    let error = SqliteStore::open(&disk.path()).await.expect_err("nothing can be written");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}
