//! What becomes of resources: granted, given back, revoked, freed, reasserted.

use rusqlite::named_params;

use super::draft;
use super::era::integer;
use super::failure::{Failure, Stop};
use super::sessions::{self, Opening, Session, meet, millis, parse, raise, session};
use super::transaction::{Standing, Transaction};
use crate::lease::{MemberId, Nonce, Pool, TOKEN_MAX, Term, Token};
use crate::store::{
    Acquired, Answer, Claimed, Freed, OpenSession, Pulse, Reasserted, Release, Released, Revoked, Wanted,
    claim,
};

pub(super) fn acquire(
    txn: &mut Transaction<'_>,
    id: &MemberId,
    pulse: Pulse,
    wanted: &[Wanted],
) -> Result<Answer<Vec<Acquired>>, Stop> {
    let session = match meet(txn, id, pulse)? {
        Answer::Done(_) if txn.era().frozen => return Ok(Answer::Frozen(txn.era().nonce)),
        Answer::Done(session) => session,
        Answer::Gone => return Ok(Answer::Gone),
        Answer::Frozen(nonce) => return Ok(Answer::Frozen(nonce)),
    };
    raise(txn, id, pulse.number)?;
    let outcomes: Result<_, Stop> = wanted.iter().map(|wanted| grant(txn, id, &session, wanted)).collect();
    Ok(Answer::Done(outcomes?))
}

/// Opens a session and acquires with it in the same transaction, unless somebody has the resource.
pub(super) fn claim(
    txn: &mut Transaction<'_>,
    open: &Opening,
    wanted: &Wanted,
) -> Result<Answer<Claimed>, Stop> {
    if let Some(answer) = draft::claim(txn, open, wanted)? {
        return Ok(answer);
    }
    txn.settle()?;
    let known = session(txn, &open.id)?;
    if known.as_ref().is_some_and(|session| session.ended) {
        return Ok(Answer::Gone);
    }
    if txn.era().frozen {
        return Ok(Answer::Frozen(txn.era().nonce));
    }
    let is_new = known.is_none();
    let session = known.unwrap_or_else(|| Session::new(open));
    match grant(txn, &open.id, &session, wanted)? {
        Acquired::Granted(term) => {
            if is_new {
                sessions::insert(txn, open, claim::BEAT)?;
            } else {
                raise(txn, &open.id, claim::BEAT)?;
            }
            Ok(Answer::Done(Claimed::Granted { era: txn.era().nonce, term }))
        }
        Acquired::Held { by, token } => Ok(Answer::Done(Claimed::Held { by, token })),
    }
}

fn grant(
    txn: &mut Transaction<'_>,
    id: &MemberId,
    session: &Session,
    wanted: &Wanted,
) -> Result<Acquired, Stop> {
    let (pool, resource) = (session.pool.as_str(), wanted.resource.as_str());
    let floor = wanted.floor.0.max(txn.era().token_base);
    if floor >= TOKEN_MAX {
        return Err(used_up(wanted, floor));
    }
    let params = named_params! {
        ":pool": pool,
        ":resource": resource,
        ":floor": integer(floor),
        ":holder": id.as_str(),
        ":ttl_ms": integer(session.ttl_ms),
        ":seq": txn.step(),
    };
    if let Some(token) = txn.row(include_str!("acquire.sql"), params, |row| row.get::<_, u64>(0))? {
        if token > TOKEN_MAX {
            return Err(used_up(wanted, token - 1));
        }
        txn.tell(&session.pool);
        return Ok(Acquired::Granted(Term { resource: wanted.resource.clone(), token: Token(token) }));
    }
    let params = named_params! {":pool": pool, ":resource": resource};
    let held = txn.row(include_str!("held.sql"), params, |row| {
        let by: MemberId = parse(row.get(0)?)?;
        Ok(Acquired::Held { by, token: Token(row.get(1)?) })
    })?;
    held.ok_or_else(|| Failure::unavailable("a lease vanished while it was asked for; try again").into())
}

fn used_up(wanted: &Wanted, last: u64) -> Stop {
    let said = format!("the tokens of {} are used up: {last} is the last", wanted.resource);
    Failure::misconfigured(said).into()
}

pub(super) fn release(
    txn: &mut Transaction<'_>,
    id: &MemberId,
    pulse: Pulse,
    terms: &[Release],
) -> Result<Answer<Vec<Released>>, Stop> {
    let session = match meet(txn, id, pulse)? {
        Answer::Done(session) => session,
        Answer::Gone => return Ok(Answer::Gone),
        Answer::Frozen(nonce) => return Ok(Answer::Frozen(nonce)),
    };
    raise(txn, id, pulse.number)?;
    let freed: Result<_, Stop> = terms.iter().map(|term| give_back(txn, id, &session.pool, term)).collect();
    Ok(Answer::Done(freed?))
}

fn give_back(
    txn: &mut Transaction<'_>,
    id: &MemberId,
    pool: &Pool,
    release: &Release,
) -> Result<Released, Stop> {
    let params = named_params! {
        ":pool": pool.as_str(),
        ":resource": release.term.resource.as_str(),
        ":holder": id.as_str(),
        ":token": integer(release.term.token.0),
        ":offer_to": release.offer.as_ref().map(|offer| offer.to.as_str()),
        ":offer_load": release.offer.as_ref().map(|offer| offer.load as i64),
        ":seq": txn.step(),
    };
    if txn.run(include_str!("release.sql"), params)? == 0 {
        return Ok(Released::NotHeld);
    }
    txn.tell(pool);
    Ok(Released::Freed)
}

pub(super) fn revoke(txn: &mut Transaction<'_>, pool: &Pool, term: &Term) -> Result<Revoked, Stop> {
    if txn.era().frozen {
        return Ok(Revoked::Frozen(txn.era().nonce));
    }
    let params = named_params! {
        ":pool": pool.as_str(),
        ":resource": term.resource.as_str(),
        ":token": integer(term.token.0),
        ":seq": txn.step(),
    };
    if txn.run(include_str!("revoke.sql"), params)? == 0 {
        return Ok(Revoked::NotHeld);
    }
    txn.tell(pool);
    Ok(Revoked::Marked)
}

pub(super) fn free_revoked(
    txn: &mut Transaction<'_>,
    pool: &Pool,
    term: &Term,
    era: Nonce,
) -> Result<Freed, Stop> {
    if let Some(nothing_done) = refused(txn, era)? {
        return Ok(nothing_done);
    }
    let params = named_params! {
        ":pool": pool.as_str(),
        ":resource": term.resource.as_str(),
        ":token": integer(term.token.0),
        ":seq": txn.step(),
    };
    let freed = txn.run(include_str!("free_revoked.sql"), params)?;
    Ok(tell_freed(txn, pool, freed))
}

pub(super) fn free_orphan(
    txn: &mut Transaction<'_>,
    pool: &Pool,
    holder: &MemberId,
    term: &Term,
    era: Nonce,
) -> Result<Freed, Stop> {
    if let Some(nothing_done) = refused(txn, era)? {
        return Ok(nothing_done);
    }
    let params = named_params! {
        ":pool": pool.as_str(),
        ":resource": term.resource.as_str(),
        ":holder": holder.as_str(),
        ":token": integer(term.token.0),
        ":seq": txn.step(),
    };
    let freed = txn.run(include_str!("free_orphan.sql"), params)?;
    Ok(tell_freed(txn, pool, freed))
}

/// What answers somebody who would free another's term in a frozen store or from another era.
fn refused(txn: &mut Transaction<'_>, era: Nonce) -> Result<Option<Freed>, Stop> {
    if txn.era().frozen {
        return Ok(Some(Freed::Frozen(txn.era().nonce)));
    }
    Ok(match txn.standing(era)? {
        Standing::Present => None,
        Standing::Past => Some(Freed::Changed),
        Standing::Unknown => Some(Freed::Frozen(txn.freeze()?)),
    })
}

fn tell_freed(txn: &mut Transaction<'_>, pool: &Pool, freed: usize) -> Freed {
    if freed == 0 {
        return Freed::Changed;
    }
    txn.tell(pool);
    Freed::Freed
}

pub(super) fn reassert_term(
    txn: &mut Transaction<'_>,
    open: &OpenSession,
    term: &Term,
) -> Result<Reasserted, Stop> {
    let params = named_params! {
        ":pool": open.pool.as_str(),
        ":resource": term.resource.as_str(),
        ":token": integer(term.token.0),
        ":holder": open.id.as_str(),
        ":ttl_ms": integer(millis(open.ttl)),
        ":seq": txn.step(),
    };
    let kept = txn.run(include_str!("reassert_term.sql"), params)?;
    Ok(if kept == 1 { Reasserted::Kept } else { Reasserted::Lost })
}
