//! What becomes of sessions: the parameters of each call, and what its answer means.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::call::{Class, Reply, writing};
use super::lanes::Param;
use super::seen::{integer, nonce_bits};
use crate::clock;
use crate::lease::{BeatNumber, MemberId, Nonce, Term, Token};
use crate::store::{Answer, EndSilent, OpenSession, Profile, Pulse, StoreError, Thawed};

const OPEN: &str = writing!("open($1, $2, $3, $4, $5, $6)");
const BEAT: &str = writing!("beat($1, $2, $3, $4, $5)");
const DESCRIBE: &str = writing!("describe($1, $2, $3, $4, $5, $6, $7)");
const CLOSE: &str = writing!("close($1, $2)");
const END_SILENT: &str = writing!("end_silent($1, $2, $3, $4)");
const COLLECT: &str = writing!("collect($1, $2, $3)");
const THAW: &str = writing!("thaw($1, $2, $3)");

/// How many leases of an ended session are cleared in one step.
const COLLECT_STEP: i64 = 1000;

/// What a session's own call was told of its standing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Done,
    Gone,
    Frozen,
}

impl Standing {
    pub(super) fn of(reply: &Reply) -> Result<Self, StoreError> {
        match reply.said.as_str() {
            "done" => Ok(Self::Done),
            "gone" => Ok(Self::Gone),
            "frozen" => Ok(Self::Frozen),
            _ => Err(reply.unexpected()),
        }
    }
}

/// What every call of a session begins with.
pub(super) fn standing(id: &MemberId, pulse: Pulse) -> Vec<Param> {
    vec![
        Param::text(id.as_str()),
        Param::Int(nonce_bits(pulse.era)),
        Param::Int(integer(pulse.number.0)),
        Param::Int(integer(pulse.confirmed.0)),
    ]
}

impl Shared {
    pub(super) async fn open_session(
        self: &Arc<Self>,
        open: &OpenSession,
    ) -> Result<Answer<Nonce>, StoreError> {
        let params = vec![
            Param::text(open.id.as_str()),
            Param::text(open.pool.as_str()),
            Param::Int(millis(open.ttl)),
            Param::text(json(&open.profile)?),
            listing(&open.profile),
        ];
        let reply = self.write(Class::Beat, OPEN, params).await?;
        // A heartbeat that follows one which is still on its way finds its connection made: that takes several round trips.
        let shared = Arc::clone(self);
        tokio::spawn(async move { shared.beats.connect(&shared.address).await });
        Ok(match Standing::of(&reply)? {
            Standing::Done => Answer::Done(reply.nonce),
            Standing::Gone => Answer::Gone,
            Standing::Frozen => Answer::Frozen(reply.nonce),
        })
    }

    pub(super) async fn beat(
        self: &Arc<Self>,
        id: &MemberId,
        pulse: Pulse,
    ) -> Result<Answer<Vec<Term>>, StoreError> {
        let reply = self.write(Class::Beat, BEAT, standing(id, pulse)).await?;
        Ok(match Standing::of(&reply)? {
            Standing::Done => Answer::Done(revoked(&reply)?),
            Standing::Gone => Answer::Gone,
            Standing::Frozen => Answer::Frozen(reply.nonce),
        })
    }

    pub(super) async fn describe(
        self: &Arc<Self>,
        id: &MemberId,
        pulse: Pulse,
        profile: &Profile,
    ) -> Result<Answer<()>, StoreError> {
        let mut params = standing(id, pulse);
        params.extend([Param::text(json(profile)?), listing(profile)]);
        let reply = self.write(Class::Write, DESCRIBE, params).await?;
        Ok(match Standing::of(&reply)? {
            Standing::Done => Answer::Done(()),
            Standing::Gone => Answer::Gone,
            Standing::Frozen => Answer::Frozen(reply.nonce),
        })
    }

    pub(super) async fn close(self: &Arc<Self>, id: &MemberId) -> Result<(), StoreError> {
        self.write(Class::Beat, CLOSE, vec![Param::text(id.as_str())]).await?;
        Ok(())
    }

    pub(super) async fn end_silent(
        self: &Arc<Self>,
        id: &MemberId,
        heard: BeatNumber,
        era: Nonce,
    ) -> Result<EndSilent, StoreError> {
        let params =
            vec![Param::text(id.as_str()), Param::Int(integer(heard.0)), Param::Int(nonce_bits(era))];
        let reply = self.write(Class::Write, END_SILENT, params).await?;
        match (reply.said.as_str(), reply.numbers.first()) {
            ("ended", _) => Ok(EndSilent::Ended),
            ("alive", Some(Some(beat))) => Ok(EndSilent::Alive(BeatNumber(beat.unsigned_abs()))),
            ("absent", _) => Ok(EndSilent::Absent),
            ("frozen", _) => Ok(EndSilent::Frozen(reply.nonce)),
            _ => Err(reply.unexpected()),
        }
    }

    /// What an ended session held may be much, so it is cleared in steps; the tombstone stays until the last.
    pub(super) async fn collect(self: &Arc<Self>, id: &MemberId) -> Result<(), StoreError> {
        loop {
            let params = vec![Param::text(id.as_str()), Param::Int(COLLECT_STEP)];
            if self.write(Class::Write, COLLECT, params).await?.said != "more" {
                return Ok(());
            }
        }
    }

    pub(super) async fn thaw(self: &Arc<Self>, nonce: Nonce) -> Result<Thawed, StoreError> {
        let base = integer(clock::token_base(clock::unix_nanos()));
        let reply =
            self.write(Class::Write, THAW, vec![Param::Int(nonce_bits(nonce)), Param::Int(base)]).await?;
        match reply.said.as_str() {
            "done" => Ok(Thawed::Thawed),
            "changed" => Ok(Thawed::Changed),
            _ => Err(reply.unexpected()),
        }
    }
}

fn revoked(reply: &Reply) -> Result<Vec<Term>, StoreError> {
    let terms = reply.names.iter().zip(&reply.numbers).map(|(name, token)| {
        let (Some(name), Some(token)) = (name, token) else { return Err(reply.unexpected()) };
        let resource = name.parse().map_err(|error| {
            StoreError::unavailable("PostgreSQL has a resource that leasehold did not write").caused_by(error)
        })?;
        Ok(Term { resource, token: Token(token.unsigned_abs()) })
    });
    terms.collect()
}

/// Whole milliseconds, rounded up: a listener may wait longer than a session asked for, never shorter.
pub(super) fn millis(ttl: Duration) -> i64 {
    integer(u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

pub(super) fn listing(profile: &Profile) -> Param {
    Param::Text(profile.listing.as_ref().map(|listing| listing.0.clone()))
}

pub(super) fn json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::misconfigured("cannot be written as JSON").caused_by(error))
}
