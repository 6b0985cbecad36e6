//! What went wrong with a store, told by what the caller should do about it.

use std::error::Error;
use std::fmt;

/// What the caller should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The answer is unknown; the call may still take effect. Try again until trust lapses.
    Unavailable,
    /// The store cannot be used as it is set up. Stop and report.
    Misconfigured,
}

/// A store did not answer, or cannot be used.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// The answer is unknown.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { kind: StoreErrorKind::Unavailable, message: message.into(), source: None }
    }

    /// The store cannot be used as it is set up; the message says what to change.
    pub fn misconfigured(message: impl Into<String>) -> Self {
        Self { kind: StoreErrorKind::Misconfigured, message: message.into(), source: None }
    }

    /// The same error with its cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the caller should do.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
