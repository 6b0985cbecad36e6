//! The file's place in the file system: which file the path names, and who else is here.
//!
//! Beside `work.db` lies `.work.db.lock`, which every handle keeps locked in shared mode while it lives. Whoever
//! can lock it exclusively is alone: nobody can remember an older file that went by this path. The lock lies
//! under another name than the database and its companions so that `rm work.db*` leaves it.
//!
//! The lock also holds the identity of the file that the companions `-wal` and `-shm` belong to. SQLite finds
//! them by name only: a file that was put in the place of one that is open would be read through the other's log.
//! And it holds how far the file had come at its last durable commit, and in which era, for whoever comes to the file. Where
//! nobody is left to remember, a file that was set back, or deleted, must not give out its tokens again; and who was there
//! may have missed an era that others lived through.
//!
//! Invariant: companions are removed only at the gate, only while somebody else is here, and only if they are
//! known to belong to another file than the one the path names now.
//!
//! Nothing here ever opens a database that is there: closing any descriptor of it would drop SQLite's own locks. A new
//! one is created here, at the gate, where nobody can have it open yet: SQLite would let everybody read it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::era::Remembered;
use super::failure::Failure;
use crate::lease::Nonce;

/// How long a handle waits for a lock before it goes on without, or gives up.
const GATE_WAIT: Duration = Duration::from_secs(2);
const GATE_PAUSE: Duration = Duration::from_millis(2);

/// Names a file whatever its path: device and inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity(String);

impl Identity {
    /// The identity of the file that `path` names, if it names one.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(Self::from_metadata(&found))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[cfg(unix)]
    fn from_metadata(found: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(format!("{}:{}", found.dev(), found.ino()))
    }

    /// Elsewhere the moment a file was created has to do.
    #[cfg(not(unix))]
    fn from_metadata(found: &std::fs::Metadata) -> Self {
        let created = found.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        Self(format!("0:{}", created.map_or(0, |age| age.as_nanos())))
    }

    pub(super) fn from_text(text: String) -> Self {
        Self(text)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Held while a handle finds, creates or replaces what it opens; one at a time in a directory.
#[derive(Debug)]
pub(super) struct Gate {
    directory: Option<File>,
}

impl Gate {
    /// Waits for the gate. A directory that cannot be locked, or stays locked, has none: what depends on being
    /// alone is then decided without it, on the safe side.
    pub(super) fn pass(directory: &Path) -> Self {
        let directory = File::open(directory).ok().filter(|file| retry(|| file.try_lock()) == Locked::Held);
        Self { directory }
    }
}

#[derive(PartialEq, Eq)]
enum Locked {
    Held,
    Busy,
    /// Files cannot be locked here.
    Never,
}

fn retry(mut attempt: impl FnMut() -> Result<(), TryLockError>) -> Locked {
    for _ in 0..GATE_WAIT.as_millis() / GATE_PAUSE.as_millis() {
        match attempt() {
            Ok(()) => return Locked::Held,
            Err(TryLockError::WouldBlock) => std::thread::sleep(GATE_PAUSE),
            Err(TryLockError::Error(_)) => return Locked::Never,
        }
    }
    Locked::Busy
}

/// How long the record in the lock is.
const RECORD_SIZE: usize = 128;

/// What the lock says about the file it lies beside.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) identity: Identity,
    /// How far the file had come at its last durable commit.
    pub(super) reached: Option<Remembered>,
}

/// A handle's presence: kept locked in shared mode while the handle lives.
#[derive(Debug)]
pub(super) struct Presence {
    lock: File,
    alone: bool,
    /// Whether the lock was not there before.
    new: bool,
}

impl Presence {
    /// Says that a handle is here. Call it at the gate.
    pub(super) fn announce(path: &Path) -> Result<Self, Failure> {
        let beside = lock_path(path);
        let new = !beside.exists();
        let open = private().read(true).write(true).create(true).truncate(false).open(&beside);
        let lock = open.map_err(|error| Failure::of_io(path, &error))?;
        // An exclusive lock stays one until the schema is in place; see `settle`.
        let alone = lock.try_lock().is_ok();
        if !alone && retry(|| lock.try_lock_shared()) == Locked::Busy {
            let shown = path.display();
            let said =
                format!("cannot open {shown}: another process has been opening it for too long; try again");
            return Err(Failure::unavailable(said));
        }
        Ok(Self { lock, alone, new })
    }

    /// Leaves nothing beside a file that turned out not to be ours. Only at the gate, where nobody else can be
    /// about to take the lock that is removed.
    pub(super) fn withdraw(self, path: &Path, gate: &Gate) {
        if self.new && self.alone && gate.directory.is_some() {
            let _ = std::fs::remove_file(lock_path(path));
        }
    }

    /// Whether nobody else was here when this handle came.
    pub(super) fn alone(&self) -> bool {
        self.alone
    }

    /// Lets others in, once what they would look for is there.
    pub(super) fn settle(&self) {
        if self.alone {
            let _ = self.lock.lock_shared();
        }
    }

    /// Makes sure that the companions on disk are not those of another file than `present`.
    pub(super) fn part_companions(&self, path: &Path, present: Option<&Identity>) -> Result<(), Failure> {
        // Where nobody else is here, what lies beside the file is what its owner put there: SQLite's to judge.
        let Some(recorded) = self.recorded().filter(|_| !self.alone) else { return Ok(()) };
        if Some(&recorded.identity) == present {
            return Ok(());
        }
        for companion in [companion(path, "-wal"), companion(path, "-shm")] {
            match std::fs::remove_file(companion) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::of_io(path, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Records which file the companions belong to from now on, and how far it has come.
    pub(super) fn record(
        &self,
        path: &Path,
        present: &Identity,
        reached: Option<&Remembered>,
    ) -> Result<(), Failure> {
        use std::io::{Seek, SeekFrom, Write};
        // Another process may have come further and have written so first.
        let last = self.recorded().filter(|last| last.identity == *present).and_then(|last| last.reached);
        let reached = reached.map(|mine| mine.at_least(last));
        let reached = reached.map(|mine| format!(" {} {} {}", mine.nonce.0, mine.ttl_max_ms, mine.seq));
        let line = format!("{}{}", present.as_str(), reached.unwrap_or_default());
        // Always as long as before: on a full disk it is overwritten in place.
        let line = format!("{line:<width$}\n", width = RECORD_SIZE - 1);
        let mut lock = &self.lock;
        let written = lock.seek(SeekFrom::Start(0)).and_then(|_| lock.write_all(line.as_bytes()));
        written.map_err(|error| Failure::of_io(path, &error))
    }

    /// What was recorded last.
    pub(super) fn recorded(&self) -> Option<Recorded> {
        use std::io::{Read, Seek, SeekFrom};
        let mut lock = &self.lock;
        let mut line = [0_u8; RECORD_SIZE];
        lock.seek(SeekFrom::Start(0)).ok()?;
        lock.read_exact(&mut line).ok()?;
        let mut words = std::str::from_utf8(&line).ok()?.split_whitespace();
        let identity = words.next().filter(|word| word.contains(':'))?.to_owned();
        let mut number = || words.next()?.parse::<u64>().ok();
        let reached = match (number(), number(), number()) {
            (Some(nonce), Some(ttl_max_ms), Some(seq)) => {
                Some(Remembered { nonce: Nonce(nonce), seq, ttl_max_ms })
            }
            _ => None,
        };
        Some(Recorded { identity: Identity(identity), reached })
    }
}

/// How files are created: for their owner and its group at most, whatever the umask would let through.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o660);
    options
}

/// Creates an empty database, which SQLite takes as a new one and whose mode it gives to its companions. Without the
/// gate that is left to SQLite, which has no other mode than the umask's. So is what goes wrong, to find and to tell.
pub(super) fn create(path: &Path, gate: &Gate) {
    if gate.directory.is_some() {
        let _ = private().write(true).create_new(true).open(path);
    }
}

fn lock_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.lock"))
}

fn companion(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Where the file that `path` names really lies: SQLite keeps its companions there.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, Failure> {
    if path.is_dir() {
        let shown = path.display();
        return Err(Failure::misconfigured(format!(
            "cannot open {shown}: it is a directory; give the path of a file in it, as in {shown}/work.db"
        )));
    }
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new("."));
            let directory = directory.canonicalize().map_err(|error| Failure::of_io(path, &error))?;
            Ok(directory.join(path.file_name().unwrap_or_default()))
        }
        Err(error) => Err(Failure::of_io(path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_comes_late_takes_nothing_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("work.db");
        std::fs::write(&path, "").unwrap();
        let identity = Identity::of(&path).unwrap().unwrap();
        let ahead = Presence::announce(&path).unwrap();
        ahead.settle();
        let behind = Presence::announce(&path).unwrap();
        let reached = |nonce, seq, ttl_max_ms| Remembered { nonce: Nonce(nonce), seq, ttl_max_ms };
        let record = |by: &Presence, what| by.record(&path, &identity, Some(&what)).unwrap();
        let read = || ahead.recorded().unwrap().reached.map(|r| (r.nonce.0, r.seq, r.ttl_max_ms)).unwrap();
        record(&ahead, reached(1, 7, 3000));
        record(&behind, reached(1, 6, 5000));
        assert_eq!(read(), (1, 7, 5000));
        record(&behind, reached(2, 3, 1000));
        assert_eq!(read(), (2, 3, 1000), "another era is another count");
    }
}
