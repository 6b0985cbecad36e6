//! What went wrong with the file, in the words of the person who has to put it right.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::store::{StoreError, StoreErrorKind};

/// Why one call, or a whole batch of them, was not done.
///
/// Unlike a [`StoreError`] it can be told to everybody who waits for the same commit.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    kind: StoreErrorKind,
    message: String,
    cause: Option<String>,
}

impl Failure {
    /// The answer is unknown.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self { kind: StoreErrorKind::Unavailable, message: message.into(), cause: None }
    }

    /// The store cannot be used as it is set up; the message says what to change.
    pub(super) fn misconfigured(message: impl Into<String>) -> Self {
        Self { kind: StoreErrorKind::Misconfigured, message: message.into(), cause: None }
    }

    /// Whether trying again is of no use.
    pub(super) fn is_misconfigured(&self) -> bool {
        self.kind == StoreErrorKind::Misconfigured
    }

    /// A call on the file at `path` failed in the file system.
    pub(super) fn of_io(path: &Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        let shown = path.display();
        let failure = match error.kind() {
            Kind::NotFound | Kind::NotADirectory => Self::misconfigured(format!(
                "cannot open {shown}: its directory does not exist; create it or give another path"
            )),
            Kind::PermissionDenied => Self::misconfigured(format!(
                "cannot open {shown}: permission denied; let this user read and write it and its directory"
            )),
            Kind::ReadOnlyFilesystem => Self::misconfigured(format!(
                "cannot write {shown}: its file system is read-only; give a path on a writable one"
            )),
            Kind::StorageFull | Kind::QuotaExceeded => {
                Self::unavailable(format!("cannot write {shown}: the disk is full; free some space"))
            }
            _ => Self::unavailable(format!("cannot use {shown}: the file system reported an error")),
        };
        failure.caused_by(error)
    }

    /// A call on the file at `path` failed in SQLite.
    pub(super) fn of_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let shown = path.display();
        let failure = match error.sqlite_error() {
            Some(found) if found.extended_code == rusqlite::ffi::SQLITE_READONLY_DBMOVED => {
                Self::unavailable(format!("cannot write {shown}: it was moved away; try again"))
            }
            Some(found) => match found.code {
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::unavailable(format!(
                    "cannot write {shown}: another process has held its lock for too long; try again"
                )),
                ErrorCode::DiskFull => {
                    Self::unavailable(format!("cannot write {shown}: the disk is full; free some space"))
                }
                ErrorCode::SystemIoFailure => Self::unavailable(format!(
                    "cannot use {shown}: the disk failed or is full; check it and free some space"
                )),
                ErrorCode::ReadOnly => Self::misconfigured(format!(
                    "cannot write {shown}: it is read-only; make it and its directory writable"
                )),
                ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => {
                    Self::misconfigured(format!(
                        "cannot open {shown}: permission denied; let this user read and write it and its directory"
                    ))
                }
                ErrorCode::CannotOpen => Self::misconfigured(format!(
                    "cannot open {shown}; check that it is a file that this user may read and write"
                )),
                ErrorCode::NotADatabase => Self::misconfigured(format!(
                    "{shown} is not a SQLite database; give another path or move it away"
                )),
                ErrorCode::DatabaseCorrupt => Self::misconfigured(format!(
                    "{shown} is damaged; restore a copy of it, or move it away to start anew"
                )),
                _ => Self::unavailable(format!("cannot use {shown}")),
            },
            None => Self::misconfigured(format!(
                "{shown} holds a row that this version cannot read; upgrade leasehold or restore a copy"
            )),
        };
        failure.caused_by(error)
    }

    fn caused_by(mut self, cause: &impl ToString) -> Self {
        self.cause = Some(cause.to_string());
        self
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let error = match failure.kind {
            StoreErrorKind::Misconfigured => Self::misconfigured(failure.message),
            StoreErrorKind::Unavailable => Self::unavailable(failure.message),
        };
        match failure.cause {
            Some(cause) => error.caused_by(cause),
            None => error,
        }
    }
}

/// Why the statements of one call stopped: SQLite said no, or we did.
#[derive(Debug)]
pub(super) enum Stop {
    Sqlite(rusqlite::Error),
    Refused(Failure),
}

impl Stop {
    pub(super) fn at(self, path: &Path) -> Failure {
        match self {
            Self::Sqlite(error) => Failure::of_sqlite(path, &error),
            Self::Refused(failure) => failure,
        }
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn said(code: i32) -> (StoreErrorKind, String) {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        let error = StoreError::from(Failure::of_sqlite(Path::new("/x/work.db"), &error));
        (error.kind(), error.to_string())
    }

    #[test]
    fn what_a_person_can_put_right_is_misconfigured_and_says_how() {
        for (code, words) in [
            (ffi::SQLITE_READONLY, "read-only; make it and its directory writable"),
            (ffi::SQLITE_NOTADB, "not a SQLite database; give another path"),
            (ffi::SQLITE_CORRUPT, "damaged; restore a copy"),
            (ffi::SQLITE_CANTOPEN, "check that it is a file"),
            (ffi::SQLITE_PERM, "permission denied"),
        ] {
            let (kind, text) = said(code);
            assert_eq!(kind, StoreErrorKind::Misconfigured, "{text}");
            assert!(text.contains(words) && text.contains("/x/work.db"), "{text}");
        }
    }

    #[test]
    fn what_may_pass_is_unavailable() {
        for (code, words) in [
            (ffi::SQLITE_FULL, "the disk is full; free some space"),
            (ffi::SQLITE_IOERR_WRITE, "the disk failed or is full"),
            (ffi::SQLITE_BUSY, "another process has held its lock"),
            (ffi::SQLITE_READONLY_DBMOVED, "it was moved away"),
        ] {
            let (kind, text) = said(code);
            assert_eq!(kind, StoreErrorKind::Unavailable, "{text}");
            assert!(text.contains(words) && text.contains("/x/work.db"), "{text}");
        }
    }
}
