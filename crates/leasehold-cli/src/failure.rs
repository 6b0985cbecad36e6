//! Why a command failed, and the exit code that says so.

use std::error::Error;
use std::fmt;

use leasehold::discover::SourceError;
use leasehold::participant::JoinError;
use leasehold::store::{StoreError, StoreErrorKind, StoreUrlError};

/// Exit codes, as `leasehold --help` and the documentation list them.
pub(crate) mod code {
    /// The answer is no: not trusted, not found.
    pub(crate) const NO: u8 = 1;
    /// The command line or the configuration is wrong.
    pub(crate) const USAGE: u8 = 2;
    /// The store does not answer.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// The system refused something that was needed.
    pub(crate) const SYSTEM: u8 = 71;
    /// The command to run may not be executed.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    /// The command to run does not exist.
    pub(crate) const NOT_FOUND: u8 = 127;
}

/// What went wrong, to what, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(code::USAGE, message)
    }

    pub(crate) fn system(what: &str, error: &dyn Error) -> Self {
        Self::new(code::SYSTEM, format!("{what}: {}", chain(error)))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match error.kind() {
            StoreErrorKind::Misconfigured => code::USAGE,
            _ => code::UNAVAILABLE,
        };
        Self::new(code, chain(&error))
    }
}

impl From<StoreUrlError> for Failure {
    fn from(error: StoreUrlError) -> Self {
        Self::usage(chain(&error))
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        Self::usage(chain(&error))
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self::usage(chain(&error))
    }
}
