//! A file that refuses stale terms.
//!
//! Beside it is a sidecar, `NAME.fence`, with the newest token. Whoever writes holds the sidecar's lock from before the comparison until the
//! file has its new content. A writer that is frozen within holds up the others, and is never overtaken; one that is frozen before is
//! refused when it wakes.
//!
//! Invariant: the sidecar is written, and on the disk, before the file is.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::fence::{Admission, Refusal};
use crate::lease::Token;

/// How long another writer is waited for.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How often its lock is tried.
const TRY_EVERY: Duration = Duration::from_millis(5);

/// A file that refuses stale terms, on a file system whose locks are those of one machine, or of all that share it.
#[derive(Debug, Clone)]
pub struct GuardedFile {
    path: PathBuf,
    sidecar: PathBuf,
    draft: PathBuf,
}

impl GuardedFile {
    /// The file at this path. Neither it nor its sidecar has to be there.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let beside = |suffix: &str| {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(suffix);
            path.with_file_name(name)
        };
        Self { sidecar: beside(".fence"), draft: beside(".draft"), path }
    }

    /// Replaces the content of the file, whole or not at all, unless a newer term has been here.
    ///
    /// # Errors
    /// The file or its sidecar cannot be used, or another writer does not get done.
    pub fn write(&self, token: Token, content: &[u8]) -> io::Result<Admission> {
        if token.0 == 0 {
            return Ok(Admission::Refused(Refusal::Malformed));
        }
        let mut sidecar =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.sidecar)?;
        self.lock(&sidecar)?;
        // The lock goes with the handle.
        let newest = self.newest(&mut sidecar)?;
        if newest > token {
            return Ok(Admission::Refused(Refusal::Stale { newest }));
        }
        if newest < token {
            // All tokens have the same number of digits: nothing of an older one is left behind.
            sidecar.seek(SeekFrom::Start(0))?;
            sidecar.write_all(format!("{:016}\n", token.0).as_bytes())?;
            sidecar.sync_all()?;
        }
        let mut draft = File::create(&self.draft)?;
        draft.write_all(content)?;
        draft.sync_all()?;
        std::fs::rename(&self.draft, &self.path)?;
        Ok(Admission::Admitted)
    }

    fn lock(&self, sidecar: &File) -> io::Result<()> {
        let give_up_at = clock::now().after(WAIT_MAX);
        loop {
            match sidecar.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if clock::now() < give_up_at => thread::sleep(TRY_EVERY),
                Err(TryLockError::WouldBlock) => {
                    let shown = self.sidecar.display();
                    return Err(io::Error::new(
                        io::ErrorKind::WouldBlock,
                        format!("another writer has held {shown} for {WAIT_MAX:?}; if it is frozen, end it"),
                    ));
                }
            }
        }
    }

    fn newest(&self, sidecar: &mut File) -> io::Result<Token> {
        let mut text = String::new();
        sidecar.take(64).read_to_string(&mut text)?;
        match text.trim_end() {
            "" => Ok(Token(0)),
            digits => digits.parse().map_err(|error| {
                let shown = self.sidecar.display();
                io::Error::new(io::ErrorKind::InvalidData, format!("{shown} holds no token: {error}"))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_term_replaces_the_file_and_an_older_one_does_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("report.json");
        let file = GuardedFile::new(&path);
        for (token, content, passes) in [
            (4, "a", true),
            (4, "b", true),
            (11, "c", true),
            (9, "late", false),
            (11, "d", true),
            (0, "0", false),
        ] {
            let said = file.write(Token(token), content.as_bytes()).unwrap();
            assert_eq!(said.is_admitted(), passes, "{token}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "d");
        assert_eq!(
            std::fs::read_to_string(place.path().join("report.json.fence")).unwrap(),
            "0000000000000011\n"
        );
        std::fs::write(place.path().join("report.json.fence"), "what?").unwrap();
        assert!(file.write(Token(12), b"e").unwrap_err().to_string().contains("holds no token"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "d");
    }

    #[test]
    fn writers_at_the_same_time_leave_the_newest_content() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        thread::scope(|scope| {
            for token in 1..=8 {
                let file = GuardedFile::new(&path);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let _ = file.write(Token(token), token.to_string().as_bytes()).unwrap();
                    }
                });
            }
        });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "8");
    }
}
