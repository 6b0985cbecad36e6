//! How well this file, on this disk, can keep its word.

use std::path::Path;

use rusqlite::Connection;

use super::failure::Stop;
use crate::store::{Checkup, Finding, Grade};

pub(super) fn look_over(connection: &Connection, path: &Path) -> Result<Checkup, Stop> {
    let journal: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    let mut findings = vec![if journal == "wal" {
        Finding::good("the journal is a write-ahead log")
    } else {
        Finding::weak(
            format!("the journal is {journal}, so readers and writers wait for each other"),
            "put the file on a disk that allows shared memory between processes",
        )
    }];
    // Set for every connection that writes what decides ownership, whatever the file's own default is.
    findings.push(Finding::good("what decides ownership is on the disk before it is answered"));
    findings.push(match network(path) {
        Some(name) => Finding::weak(
            format!("the file is on {name}, whose locks cannot be relied upon between hosts"),
            "put it on a local disk, or use a server: postgres://, redis:// or etcd://",
        ),
        None => Finding::good("the file is on a local disk"),
    });
    let weak = findings.iter().any(|finding| finding.weak);
    let grade = if weak { Grade::MayLoseWrites } else { Grade::DurableOnOneNode };
    Ok(Checkup { server: format!("SQLite {}", rusqlite::version()), grade, findings })
}

/// The name of the network file system that the path is on, if it is on one.
#[cfg(target_os = "linux")]
fn network(path: &Path) -> Option<&'static str> {
    use nix::sys::statfs;

    let found = statfs::statfs(path).ok()?.filesystem_type();
    [(statfs::NFS_SUPER_MAGIC, "NFS"), (statfs::SMB_SUPER_MAGIC, "SMB"), (statfs::CODA_SUPER_MAGIC, "Coda")]
        .into_iter()
        .find_map(|(magic, name)| (magic == found).then_some(name))
}

#[cfg(not(target_os = "linux"))]
fn network(_: &Path) -> Option<&'static str> {
    None
}
