//! What went wrong with the server, told by what its operator should do about it.
//!
//! Invariant: a password is in no message. What the server says is repeated; what we sent to it is not.

use std::error::Error as _;
use std::fmt;
use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// How a server is prepared, said wherever it is not.
const MIGRATE: &str = "run `leasehold migrate --store postgres://…`";

const REPLICA: &str = "it is a read-only replica, or the role may only read; give the primary's address, or those of all \
     with commas between them";

/// What goes wrong, and whether it may pass.
#[derive(Debug)]
pub(super) struct Failure {
    lasts: Lasts,
    message: String,
    source: Option<Error>,
    about: About,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasts {
    /// Trying again may help.
    Perhaps,
    /// Somebody must change something, unless the server was of use before: then it may be in the middle of a failover or
    /// a restore, and waiting helps.
    UntilChanged,
    /// Waiting never helps.
    ForEver,
}

/// What callers must know about it besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Anything,
    Timeout,
    Replica,
}

impl Failure {
    pub(super) fn passing(message: impl Into<String>) -> Self {
        Self { lasts: Lasts::Perhaps, message: message.into(), source: None, about: About::Anything }
    }

    pub(super) fn lasting(message: impl Into<String>) -> Self {
        Self { lasts: Lasts::UntilChanged, message: message.into(), source: None, about: About::Anything }
    }

    /// Nothing was answered in time.
    pub(super) fn timeout(message: impl Into<String>) -> Self {
        Self { about: About::Timeout, ..Self::passing(message) }
    }

    pub(super) fn is_timeout(&self) -> bool {
        self.about == About::Timeout
    }

    /// The server may only be read.
    pub(super) fn replica(place: &dyn fmt::Display) -> Self {
        let what = format!("PostgreSQL at {place}: {REPLICA}");
        Self { about: About::Replica, ..Self::lasting(what) }
    }

    /// What to tell who opens the store.
    pub(super) fn at_open(self) -> StoreError {
        let misconfigured = self.lasts != Lasts::Perhaps;
        self.told(misconfigured)
    }

    /// What to tell who uses a store that could be opened.
    pub(super) fn in_use(self) -> StoreError {
        let misconfigured = self.lasts == Lasts::ForEver;
        self.told(misconfigured)
    }

    fn told(self, misconfigured: bool) -> StoreError {
        let error = if misconfigured {
            StoreError::misconfigured(self.message)
        } else {
            StoreError::unavailable(self.message)
        };
        match self.source {
            Some(source) => error.caused_by(source),
            None => error,
        }
    }

    /// Whether the connection has gone, or leads to a server that cannot write any more.
    pub(super) fn ends_link(&self) -> bool {
        let Some(source) = &self.source else { return false };
        source.is_closed()
            || source.code().is_some_and(|code| {
                *code == SqlState::READ_ONLY_SQL_TRANSACTION
                    || code.code() == "LH002"
                    || code.code().starts_with("57P")
            })
            || source.source().is_some_and(|cause| cause.is::<io::Error>())
    }

    pub(super) fn is_replica(&self) -> bool {
        self.about == About::Replica
    }

    /// Translates what the server at `place` said.
    pub(super) fn of(place: &dyn fmt::Display, error: Error) -> Self {
        let (lasts, what) = match error.as_db_error() {
            Some(said) => of_server(said.code(), said.message()),
            None => of_client(&error),
        };
        Self {
            lasts,
            message: format!("PostgreSQL at {place}: {what}"),
            source: Some(error),
            about: About::Anything,
        }
    }
}

fn of_server(code: &SqlState, said: &str) -> (Lasts, String) {
    let lasting = |what: String| (Lasts::UntilChanged, what);
    match code.code() {
        "28P01" => lasting(format!("{said}; correct the password, or the file that password-file names")),
        "28000" => lasting(format!("{said}; check the user, and pg_hba.conf on the server")),
        "3D000" => lasting(format!("{said}; create it, or name another in the address")),
        "3F000" | "42883" | "42P01" => {
            lasting(format!("the database is not prepared for leasehold or lacks a part of it ({said}); {MIGRATE}"))
        }
        "42501" => lasting(format!(
            "{said}; GRANT USAGE ON SCHEMA leasehold and EXECUTE ON ALL FUNCTIONS IN SCHEMA leasehold to this role"
        )),
        "25006" | "LH002" => lasting(REPLICA.to_owned()),
        "LH001" => (Lasts::ForEver, said.to_owned()),
        "LH003" => lasting(
            "transactions of this role are not read committed; ALTER ROLE … SET default_transaction_isolation = \
             'read committed'"
                .to_owned(),
        ),
        "55P03" => (Lasts::Perhaps, "a lock was not to be had in time; try again".to_owned()),
        "57014" => (Lasts::Perhaps, "the call took too long and was given up; try again".to_owned()),
        // Text that the server cannot keep does not get better by sending it again.
        code if code.starts_with("22") => (Lasts::ForEver, said.to_owned()),
        _ => (Lasts::Perhaps, said.to_owned()),
    }
}

fn of_client(error: &Error) -> (Lasts, String) {
    let cause = error.source();
    let io_kind = cause.and_then(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    let chain = match cause {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    match (error.to_string().as_str(), io_kind) {
        (_, Some(io::ErrorKind::ConnectionRefused)) => (Lasts::Perhaps, "it refuses connections".to_owned()),
        // A certificate that does not fit comes as invalid data.
        (
            "error performing TLS handshake",
            Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput),
        )
        | ("error performing TLS handshake", None) => (
            Lasts::UntilChanged,
            format!(
                "no TLS with it ({chain}); give its CA with sslrootcert=FILE, or sslmode=disable in a network that you trust"
            ),
        ),
        ("invalid configuration" | "authentication error", _) => {
            (Lasts::UntilChanged, format!("{chain}; correct the user and the password in the address"))
        }
        ("connection closed", _) => {
            (Lasts::Perhaps, "the connection was lost; the call may have been made".to_owned())
        }
        _ => (Lasts::Perhaps, chain),
    }
}
