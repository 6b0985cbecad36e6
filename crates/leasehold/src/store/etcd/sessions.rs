//! What a session's calls check and change.
//!
//! Invariant: every function decides on what the step has read and writes nothing itself; the transaction that carries it
//! out compares all of that.

use super::draft::Stop;
use super::era::{Standing, Step};
use super::mirror::{self, Campaign};
use super::record::{PoolValue, SessionValue, millis};
use crate::lease::{BeatNumber, MemberId, Nonce, Pool, Term};
use crate::store::{Answer, EndSilent, OpenSession, Profile, Pulse};

/// A session that a call may act for.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) pool: Pool,
    pub(super) value: SessionValue,
}

pub(super) fn find(step: &mut Step<'_>, id: &MemberId) -> Result<Option<Own>, Stop> {
    let Some(pool) = step.pool_of(id)? else { return Ok(None) };
    Ok(step.session(&pool, id)?.map(|value| Own { pool, value }))
}

/// What every call of a session is judged by: era, own record, nothing forgotten. In a frozen store only a session
/// that reasserted under the present nonce is let through.
pub(super) fn meet(step: &mut Step<'_>, id: &MemberId, pulse: Pulse) -> Result<Answer<Own>, Stop> {
    let found = find(step, id)?;
    if found.as_ref().is_some_and(|own| own.value.ended) {
        return Ok(Answer::Gone);
    }
    let nonce = step.era.nonce;
    let standing = step.standing(pulse.era)?;
    let own = match (found, standing) {
        (Some(own), Standing::Present) if !step.era.frozen => own,
        (Some(own), Standing::Present) if own.value.reasserted == Some(nonce) => own,
        _ if step.era.frozen => return Ok(Answer::Frozen(nonce)),
        (_, Standing::Unknown) => return Ok(Answer::Frozen(step.freeze()?)),
        (_, Standing::Past) | (None, Standing::Present) => return Ok(Answer::Gone),
        (Some(_), Standing::Present) => return Ok(Answer::Frozen(nonce)),
    };
    if BeatNumber(own.value.beat) < pulse.confirmed {
        return Ok(Answer::Frozen(step.freeze()?));
    }
    Ok(Answer::Done(own))
}

/// Raises the beat; a number at or below the stored one changes nothing.
pub(super) fn raise(
    step: &mut Step<'_>,
    id: &MemberId,
    own: &mut Own,
    number: BeatNumber,
) -> Result<(), Stop> {
    if own.value.beat < number.0 {
        own.value.beat = number.0;
        own.value.quiet = true;
        step.put_session(&own.pool, id, &own.value)?;
    }
    Ok(())
}

/// What a call of several parts does last.
pub(super) fn rise(step: &mut Step<'_>, id: &MemberId, pulse: Pulse) -> Result<Answer<()>, Stop> {
    Ok(match meet(step, id, pulse)? {
        Answer::Done(mut own) => {
            raise(step, id, &mut own, pulse.number)?;
            Answer::Done(())
        }
        Answer::Gone => Answer::Gone,
        Answer::Frozen(nonce) => Answer::Frozen(nonce),
    })
}

/// Writes a session in which more than the beat changed.
pub(super) fn keep(step: &mut Step<'_>, id: &MemberId, own: &mut Own) -> Result<(), Stop> {
    own.value.quiet = false;
    step.put_session(&own.pool, id, &own.value)
}

pub(super) fn open(step: &mut Step<'_>, open: &OpenSession) -> Result<Answer<Nonce>, Stop> {
    let place = step.keys.pool_of(&open.id);
    step.draft.need([place.clone(), step.keys.session(&open.pool, &open.id)])?;
    match step.session(&open.pool, &open.id)? {
        Some(session) if session.ended => return Ok(Answer::Gone),
        _ if step.era.frozen => return Ok(Answer::Frozen(step.era.nonce)),
        Some(_) => {}
        None => {
            step.raise_ttl_max(millis(open.ttl));
            step.draft.put(place, &PoolValue { pool: open.pool.clone() })?;
            step.put_session(&open.pool, &open.id, &SessionValue::new(open))?;
        }
    }
    Ok(Answer::Done(step.era.nonce))
}

pub(super) fn beat(
    step: &mut Step<'_>,
    campaign: &Campaign,
    id: &MemberId,
    pulse: Pulse,
) -> Result<Answer<Vec<Term>>, Stop> {
    Ok(match meet(step, id, pulse)? {
        Answer::Done(mut own) => {
            raise(step, id, &mut own, pulse.number)?;
            mirror::refresh(step, campaign, id, &mut own)?;
            Answer::Done(own.value.revoked)
        }
        Answer::Gone => Answer::Gone,
        Answer::Frozen(nonce) => Answer::Frozen(nonce),
    })
}

pub(super) fn describe(
    step: &mut Step<'_>,
    id: &MemberId,
    pulse: Pulse,
    profile: &Profile,
) -> Result<Answer<()>, Stop> {
    Ok(match meet(step, id, pulse)? {
        Answer::Done(mut own) => {
            own.value.beat = own.value.beat.max(pulse.number.0);
            own.value.profile = profile.clone();
            keep(step, id, &mut own)?;
            Answer::Done(())
        }
        Answer::Gone => Answer::Gone,
        Answer::Frozen(nonce) => Answer::Frozen(nonce),
    })
}

pub(super) fn close(step: &mut Step<'_>, id: &MemberId) -> Result<(), Stop> {
    if let Some(mut own) = find(step, id)?.filter(|own| !own.value.ended) {
        own.value.ended = true;
        keep(step, id, &mut own)?;
    }
    Ok(())
}

pub(super) fn end_silent(
    step: &mut Step<'_>,
    id: &MemberId,
    heard: BeatNumber,
    era: Nonce,
) -> Result<EndSilent, Stop> {
    let found = find(step, id)?;
    if found.as_ref().is_some_and(|own| own.value.ended) {
        return Ok(EndSilent::Ended);
    }
    if step.era.frozen {
        return Ok(EndSilent::Frozen(step.era.nonce));
    }
    let standing = step.standing(era)?;
    if standing == Standing::Unknown {
        return Ok(EndSilent::Frozen(step.freeze()?));
    }
    let Some(mut own) = found else { return Ok(EndSilent::Absent) };
    let beat = BeatNumber(own.value.beat);
    if standing != Standing::Present || beat != heard {
        return Ok(EndSilent::Alive(beat));
    }
    own.value.ended = true;
    keep(step, id, &mut own)?;
    Ok(EndSilent::Ended)
}
