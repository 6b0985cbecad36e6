//! Why a command failed, and the exit code that says so.

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use leasehold::discover::SourceError;
#[cfg(target_os = "linux")]
use leasehold::election::ElectionError;
use leasehold::participant::JoinError;
use leasehold::store::{StoreError, StoreErrorKind};

use crate::print;

/// Exit codes, as `leasehold --help` and the documentation list them.
pub(crate) mod code {
    /// Nothing went wrong.
    pub(crate) const DONE: u8 = 0;
    /// The answer is no: not trusted, not found.
    pub(crate) const NO: u8 = 1;
    /// The command line or the configuration is wrong.
    pub(crate) const USAGE: u8 = 2;
    /// The ledger shows what must not be.
    pub(crate) const VIOLATED: u8 = 3;
    /// The store does not answer.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// The system refused something that was needed.
    pub(crate) const SYSTEM: u8 = 71;
    /// Not now, but perhaps later: somebody else leads, or leadership was lost.
    pub(crate) const TEMPORARY: u8 = 75;
    /// The command to run may not be executed.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    /// The command to run does not exist.
    pub(crate) const NOT_FOUND: u8 = 127;
    /// A second signal ended everything at once.
    pub(crate) const INTERRUPTED: u8 = 130;
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

    /// Whoever read the output has gone away: the end, but nothing to complain about.
    pub(crate) fn nobody_reads() -> Self {
        Self::new(code::DONE, "")
    }

    /// Says what happened, if there is anything to say, and how the program ends.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            // Where nobody listens to errors either, the exit code has to do.
            let mut stderr = std::io::stderr();
            let mut said = print::Sheet::default();
            said.line(2, [print::Tone::Bad.of("leasehold:"), format!(" {}", self.message).into()]);
            let reader = print::Reader { width: None, colour: print::shows_colours(&stderr) };
            let _ = stderr.write_all(said.written(reader).as_bytes());
        }
        ExitCode::from(self.code)
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
        // The message says what to do; what the system said stands behind it, unless it is in the message already.
        let said = error.to_string();
        let message = match error.source().map(chain) {
            Some(cause) if !said.contains(&cause) => format!("{said} ({cause})"),
            _ => said,
        };
        Self::new(code, message)
    }
}

#[cfg(target_os = "linux")]
impl From<ElectionError> for Failure {
    fn from(error: ElectionError) -> Self {
        match error {
            ElectionError::Join(error) => error.into(),
            ElectionError::Store(error) => error.into(),
            error => Self::usage(chain(&error)),
        }
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::Source(error) => error.into(),
            error => Self::usage(chain(&error)),
        }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        if let SourceError::Server(error) = error {
            return error.into();
        }
        Self::usage(format!("--from cannot be used: {}; correct it and start again", chain(&error)))
    }
}
