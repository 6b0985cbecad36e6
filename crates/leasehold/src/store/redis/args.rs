//! What a call hands over to its script, as text.

use std::time::Duration;

use crate::lease::{BeatNumber, MemberId, Nonce, Pool, TOKEN_MAX, Term};
use crate::store::{Profile, Pulse, StoreError};

/// The arguments of one call, after those that every call has.
#[derive(Debug, Default)]
pub(super) struct Args(Vec<String>);

impl Args {
    pub(super) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self(texts.into_iter().map(str::to_owned).collect())
    }

    pub(super) fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(text.into());
        self
    }

    pub(super) fn number(self, number: u64) -> Self {
        self.text(number.to_string())
    }

    pub(super) fn nonce(self, nonce: Nonce) -> Self {
        self.text(nonce.to_string())
    }

    /// Beats are compared as text, so all have the same length.
    pub(super) fn beat(self, beat: BeatNumber) -> Self {
        self.text(format!("{:020}", beat.0))
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.0
    }
}

/// What begins every call of a session.
pub(super) fn of_session(session: &MemberId, pulse: Pulse) -> Args {
    Args::of([session.as_str()]).nonce(pulse.era).beat(pulse.number).beat(pulse.confirmed)
}

pub(super) fn of_profile(args: Args, profile: &Profile) -> Result<Args, StoreError> {
    let listing = profile.listing.as_ref().map_or("", |listing| listing.0.as_str());
    Ok(args.text(json(profile)?).text(listing))
}

pub(super) fn of_term(pool: &Pool, term: &Term) -> Args {
    Args::of([pool.as_str(), term.resource.as_str()]).number(term.token.0)
}

/// Whole milliseconds, rounded up: a listener may wait longer than a session asked for, never shorter.
pub(super) fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).clamp(1, TOKEN_MAX)
}

pub(super) fn json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::misconfigured("a record cannot be written as JSON").caused_by(error))
}
