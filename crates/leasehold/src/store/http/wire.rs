//! What crosses the line between a member and a Leasehold server. Both ends use these types.
//!
//! Every call of the store's contract is a `POST` to [`ROOT`]`/<name>` whose body has the call's arguments by their names
//! ([`calls`]). What comes back is in [`records`]. Three forms differ from the store's own: a nonce is 16 hexadecimal
//! digits, a cursor a decimal string (both exceed what some languages' numbers hold), a duration whole milliseconds.
//!
//! Invariant: nothing here decides anything. What is read from the line is checked (ids by their own types) and then is
//! exactly what was written.

pub mod calls;
mod convert;
mod forms;
pub mod records;

use serde::{Deserialize, Serialize};

pub use calls::Call;
pub use forms::{Hex, Position, millis};

use crate::store::{Capabilities, Grade};

/// The version of these types. A server that speaks another is refused.
pub const VERSION: u32 = 1;
/// Where the calls are.
pub const ROOT: &str = "/api/v1/store";
/// Where hints are, below [`ROOT`].
pub const CHANGES: &str = "changes";
/// How often a server says something on a quiet stream of hints, in seconds.
pub const KEEP_ALIVE_SECONDS: u64 = 5;

/// What a server says of itself and of its store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = StoreAbout))]
pub struct About {
    /// The [`VERSION`] that it speaks.
    pub version: u32,
    /// The most items one call may carry.
    pub batch_max: usize,
    /// Whether changes made by others are pushed rather than found by reading.
    pub pushes_changes: bool,
    /// How well the store keeps its word: the grade's word.
    pub grade: String,
}

impl About {
    /// What a server with such a store says.
    #[must_use]
    pub fn of(capabilities: Capabilities) -> Self {
        let Capabilities { batch_max, pushes_changes, grade } = capabilities;
        Self { version: VERSION, batch_max, pushes_changes, grade: grade.as_str().to_owned() }
    }

    /// The same as a member sees it. A word that this version does not know promises nothing.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let grade = Grade::parse(&self.grade).unwrap_or(Grade::Volatile);
        Capabilities { batch_max: self.batch_max.max(1), pushes_changes: self.pushes_changes, grade }
    }
}

/// What a server says when it does not do what was asked. Everything in it may be missing: something between us and the
/// server may have answered instead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Refusal {
    /// What is wrong, in one word for programs.
    pub error: Option<String>,
    /// What happened, for people.
    pub detail: Option<String>,
    /// The same where it is called so.
    pub message: Option<String>,
}
