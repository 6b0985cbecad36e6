//! What a session's calls check and change.
//!
//! Invariant: every call is one step of a transaction that holds the file's write lock; what it reads cannot
//! change before what it writes.

use rusqlite::named_params;

use super::draft;
use super::era::{integer, nonce_bits, nonce_of};
use super::failure::{Failure, Stop};
use super::leases::reassert_term;
use super::transaction::{Standing, Transaction};
use crate::clock;
use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term, Token};
use crate::store::{Answer, EndSilent, OpenSession, Profile, Pulse, Reasserted, Thawed};

/// A session as calls are judged by it.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) pool: Pool,
    pub(super) ttl_ms: u64,
    beat: u64,
    pub(super) ended: bool,
    reasserted: Option<Nonce>,
}

impl Session {
    /// One that is being opened.
    pub(super) fn new(open: &Opening) -> Self {
        Self { pool: open.pool.clone(), ttl_ms: open.ttl_ms, beat: 0, ended: false, reasserted: None }
    }
}

/// A session to open, as its row will have it. Whoever calls makes this of it: the writer has the least time of all.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    pub(super) id: MemberId,
    pub(super) pool: Pool,
    pub(super) ttl_ms: u64,
    pub(super) profile: String,
}

impl Opening {
    pub(super) fn of(open: &OpenSession) -> Result<Self, Failure> {
        let OpenSession { pool, id, ttl, profile } = open;
        let profile = serde_json::to_string(profile).map_err(|error| not_json(&error))?;
        Ok(Self { id: id.clone(), pool: pool.clone(), ttl_ms: millis(*ttl), profile })
    }
}

pub(super) fn session(txn: &Transaction<'_>, id: &MemberId) -> Result<Option<Session>, Stop> {
    txn.row(include_str!("session.sql"), named_params! {":id": id.as_str()}, |row| {
        Ok(Session {
            pool: parse(row.get(0)?)?,
            ttl_ms: row.get(1)?,
            beat: row.get(2)?,
            ended: row.get(3)?,
            reasserted: row.get::<_, Option<i64>>(4)?.map(nonce_of),
        })
    })
}

/// What every call of a session is judged by: era, own record, nothing forgotten. In a frozen store only a session
/// that reasserted under the present nonce is let through.
pub(super) fn meet(txn: &mut Transaction<'_>, id: &MemberId, pulse: Pulse) -> Result<Answer<Session>, Stop> {
    let found = session(txn, id)?;
    if found.as_ref().is_some_and(|session| session.ended) {
        return Ok(Answer::Gone);
    }
    let nonce = txn.era().nonce;
    let standing = txn.standing(pulse.era)?;
    let session = match (found, standing) {
        (Some(session), Standing::Present) if !txn.era().frozen => session,
        (Some(session), Standing::Present) if session.reasserted == Some(nonce) => session,
        _ if txn.era().frozen => return Ok(Answer::Frozen(nonce)),
        (_, Standing::Unknown) => return Ok(Answer::Frozen(txn.freeze()?)),
        (_, Standing::Past) | (None, Standing::Present) => return Ok(Answer::Gone),
        (Some(_), Standing::Present) => return Ok(Answer::Frozen(nonce)),
    };
    if BeatNumber(session.beat) < pulse.confirmed {
        return Ok(Answer::Frozen(txn.freeze()?));
    }
    Ok(Answer::Done(session))
}

pub(super) fn raise(txn: &mut Transaction<'_>, id: &MemberId, number: BeatNumber) -> Result<(), Stop> {
    let seq = txn.step();
    let params = named_params! {":id": id.as_str(), ":beat": integer(number.0), ":seq": seq};
    txn.run(include_str!("beat.sql"), params)?;
    Ok(())
}

pub(super) fn open(txn: &mut Transaction<'_>, open: &Opening) -> Result<Answer<Nonce>, Stop> {
    match session(txn, &open.id)? {
        Some(session) if session.ended => return Ok(Answer::Gone),
        _ if txn.era().frozen => return Ok(Answer::Frozen(txn.era().nonce)),
        Some(_) => {}
        None => insert(txn, open, BeatNumber(0))?,
    }
    Ok(Answer::Done(txn.era().nonce))
}

/// Writes down a session that is not there.
pub(super) fn insert(txn: &mut Transaction<'_>, open: &Opening, beat: BeatNumber) -> Result<(), Stop> {
    txn.raise_ttl_max(open.ttl_ms);
    let params = named_params! {
        ":id": open.id.as_str(),
        ":pool": open.pool.as_str(),
        ":ttl_ms": integer(open.ttl_ms),
        ":beat": integer(beat.0),
        ":profile": open.profile,
        ":seq": txn.step(),
    };
    txn.run(include_str!("open.sql"), params)?;
    txn.tell(&open.pool);
    Ok(())
}

pub(super) fn beat(
    txn: &mut Transaction<'_>,
    id: &MemberId,
    pulse: Pulse,
) -> Result<Answer<Vec<Term>>, Stop> {
    match meet(txn, id, pulse)? {
        Answer::Done(_) => {
            raise(txn, id, pulse.number)?;
            Ok(Answer::Done(revoked(txn, id)?))
        }
        Answer::Gone => Ok(Answer::Gone),
        Answer::Frozen(nonce) => Ok(Answer::Frozen(nonce)),
    }
}

fn revoked(txn: &Transaction<'_>, holder: &MemberId) -> Result<Vec<Term>, Stop> {
    txn.rows(include_str!("revoked.sql"), named_params! {":holder": holder.as_str()}, |row| {
        let resource: ResourceId = parse(row.get(0)?)?;
        Ok(Term { resource, token: Token(row.get(1)?) })
    })
}

pub(super) fn describe(
    txn: &mut Transaction<'_>,
    id: &MemberId,
    pulse: Pulse,
    profile: &Profile,
) -> Result<Answer<()>, Stop> {
    match meet(txn, id, pulse)? {
        Answer::Done(session) => {
            raise(txn, id, pulse.number)?;
            let params = named_params! {":id": id.as_str(), ":profile": json(profile)?, ":seq": txn.step()};
            txn.run(include_str!("describe.sql"), params)?;
            txn.tell(&session.pool);
            Ok(Answer::Done(()))
        }
        Answer::Gone => Ok(Answer::Gone),
        Answer::Frozen(nonce) => Ok(Answer::Frozen(nonce)),
    }
}

/// Says whether there was a session to close.
pub(super) fn close(txn: &mut Transaction<'_>, id: &MemberId) -> Result<bool, Stop> {
    let Some(session) = session(txn, id)?.filter(|session| !session.ended) else { return Ok(false) };
    let params = named_params! {":id": id.as_str(), ":seq": txn.step()};
    txn.run(include_str!("close.sql"), params)?;
    txn.tell(&session.pool);
    Ok(true)
}

pub(super) fn retire(txn: &mut Transaction<'_>, id: &MemberId) -> Result<(), Stop> {
    if draft::retire(txn, id)? {
        return Ok(());
    }
    txn.settle_for(id)?;
    if close(txn, id)? {
        // Once its row names nobody a lease is noted again.
        let params = named_params! {":holder": id.as_str(), ":seq": txn.step()};
        txn.run(include_str!("collect.sql"), params)?;
    }
    Ok(())
}

pub(super) fn end_silent(
    txn: &mut Transaction<'_>,
    id: &MemberId,
    heard: BeatNumber,
    era: Nonce,
) -> Result<EndSilent, Stop> {
    let found = session(txn, id)?;
    if found.as_ref().is_some_and(|session| session.ended) {
        return Ok(EndSilent::Ended);
    }
    if txn.era().frozen {
        return Ok(EndSilent::Frozen(txn.era().nonce));
    }
    let standing = txn.standing(era)?;
    if standing == Standing::Unknown {
        return Ok(EndSilent::Frozen(txn.freeze()?));
    }
    let Some(session) = found else { return Ok(EndSilent::Absent) };
    let params = named_params! {":id": id.as_str(), ":heard": integer(heard.0), ":seq": txn.step()};
    if standing == Standing::Present && txn.run(include_str!("end_silent.sql"), params)? == 1 {
        txn.tell(&session.pool);
        return Ok(EndSilent::Ended);
    }
    Ok(EndSilent::Alive(BeatNumber(session.beat)))
}

pub(super) fn reassert(
    txn: &mut Transaction<'_>,
    open: &OpenSession,
    pulse: Pulse,
    terms: &[Term],
) -> Result<Answer<Vec<Reasserted>>, Stop> {
    if session(txn, &open.id)?.is_some_and(|session| session.ended) || !txn.era().frozen {
        return Ok(Answer::Gone);
    }
    if pulse.era != txn.era().nonce {
        return Ok(Answer::Frozen(txn.era().nonce));
    }
    let ttl_ms = millis(open.ttl);
    txn.raise_ttl_max(ttl_ms);
    let params = named_params! {
        ":id": open.id.as_str(),
        ":pool": open.pool.as_str(),
        ":ttl_ms": integer(ttl_ms),
        ":beat": integer(pulse.number.0),
        ":nonce": nonce_bits(pulse.era),
        ":profile": json(&open.profile)?,
        ":seq": txn.step(),
    };
    txn.run(include_str!("reassert.sql"), params)?;
    txn.tell(&open.pool);
    let kept: Result<_, Stop> = terms.iter().map(|term| reassert_term(txn, open, term)).collect();
    Ok(Answer::Done(kept?))
}

pub(super) fn thaw(txn: &mut Transaction<'_>, nonce: Nonce) -> Result<Thawed, Stop> {
    if !txn.era().frozen || txn.era().nonce != nonce {
        return Ok(Thawed::Changed);
    }
    let params = named_params! {":nonce": nonce_bits(nonce), ":seq": txn.step()};
    txn.run(include_str!("thaw.sql"), params)?;
    txn.thaw(clock::token_base(clock::unix_nanos()));
    Ok(Thawed::Thawed)
}

/// A tombstone is kept while the store is frozen: it is what refuses an ended session that would reassert.
pub(super) fn collect(txn: &mut Transaction<'_>, id: &MemberId) -> Result<(), Stop> {
    let Some(session) = session(txn, id)?.filter(|session| session.ended) else { return Ok(()) };
    if !txn.era().frozen {
        let params = named_params! {":holder": id.as_str(), ":seq": txn.step()};
        txn.run(include_str!("collect.sql"), params)?;
        txn.run(include_str!("forget.sql"), named_params! {":id": id.as_str()})?;
        txn.tell(&session.pool);
    }
    Ok(())
}

/// Whole milliseconds, rounded up: a listener may wait longer than a session asked for, never shorter.
pub(super) fn millis(ttl: std::time::Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// An id as a column has it. One that does not fit the rules was not written by us.
pub(super) fn parse<T>(text: String) -> rusqlite::Result<T>
where
    T: std::str::FromStr<Err = crate::lease::IdError>,
{
    text.parse().map_err(|error: crate::lease::IdError| unreadable(error))
}

/// A column holds something that we did not write.
pub(super) fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
}

pub(super) fn json(value: &impl serde::Serialize) -> Result<String, Stop> {
    serde_json::to_string(value).map_err(|error| not_json(&error).into())
}

fn not_json(error: &serde_json::Error) -> Failure {
    Failure::misconfigured(format!("cannot be written as JSON: {error}"))
}
