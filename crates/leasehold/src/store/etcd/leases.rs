//! What becomes of resources: granted, given back, revoked, freed, reasserted.

use super::draft::Stop;
use super::era::{Standing, Step};
use super::keys::Key;
use super::mirror::{self, Campaign};
use super::record::{LeaseValue, SessionValue, millis};
use super::sessions::{Own, keep, meet, raise};
use crate::lease::{MemberId, Nonce, Pool, TOKEN_MAX, Term, Token};
use crate::store::claim::Found;
use crate::store::{
    Acquired, Answer, Claimed, Freed, OpenSession, Pulse, Reasserted, Release, Released, Revoked, StoreError,
    Wanted,
};

pub(super) fn acquire(
    step: &mut Step<'_>,
    campaign: &Campaign,
    id: &MemberId,
    pulse: Pulse,
    wanted: &[Wanted],
) -> Result<Answer<Vec<Acquired>>, Stop> {
    let mut own = match meet(step, id, pulse)? {
        Answer::Done(_) if step.era.frozen => return Ok(Answer::Frozen(step.era.nonce)),
        Answer::Done(own) => own,
        Answer::Gone => return Ok(Answer::Gone),
        Answer::Frozen(nonce) => return Ok(Answer::Frozen(nonce)),
    };
    raise(step, id, &mut own, pulse.number)?;
    let keys: Vec<Key> = wanted.iter().map(|wanted| step.keys.lease(&own.pool, &wanted.resource)).collect();
    let foreign = wanted.iter().filter_map(|wanted| campaign.key(&own.pool, &wanted.resource));
    step.draft.need(keys.iter().cloned().chain(foreign))?;
    need_holders(step, &own.pool, &keys)?;
    let mut outcomes = Vec::with_capacity(wanted.len());
    for (wanted, key) in wanted.iter().zip(&keys) {
        outcomes.push(grant(step, campaign, id, &own, wanted, key)?);
    }
    Ok(Answer::Done(outcomes))
}

/// What a session that would claim something finds; or why nothing can be claimed.
pub(super) fn find(step: &mut Step<'_>, open: &OpenSession, wanted: &Wanted) -> Result<Answer<Found>, Stop> {
    let key = step.keys.lease(&open.pool, &wanted.resource);
    let own = step.keys.session(&open.pool, &open.id);
    step.draft.need([key.clone(), own.clone()])?;
    let own: Option<SessionValue> = step.draft.peek(&own)?;
    if own.as_ref().is_some_and(|own| own.ended) {
        return Ok(Answer::Gone);
    }
    if step.era.frozen {
        return Ok(Answer::Frozen(step.era.nonce));
    }
    let stored: Option<LeaseValue> = step.draft.peek(&key)?;
    let mut found = Found { session: own.is_some(), held: None };
    if let Some(LeaseValue { holder: Some(by), token, .. }) = stored
        && !has_tombstone(step, &open.pool, &by)?
    {
        found.held = Some(Claimed::Held { by, token });
    }
    Ok(Answer::Done(found))
}

/// Asks for the sessions of everybody who holds one of the leases, all at once.
fn need_holders(step: &mut Step<'_>, pool: &Pool, leases: &[Key]) -> Result<(), Stop> {
    let mut holders = Vec::new();
    for key in leases {
        if let Some(LeaseValue { holder: Some(holder), .. }) = step.draft.peek(key)? {
            holders.push(step.keys.session(pool, &holder));
        }
    }
    step.draft.need(holders)
}

fn grant(
    step: &mut Step<'_>,
    campaign: &Campaign,
    id: &MemberId,
    own: &Own,
    wanted: &Wanted,
    key: &Key,
) -> Result<Acquired, Stop> {
    // Who is refused changed nothing, so nothing that was looked at need stay the same.
    let stored: Option<LeaseValue> = step.draft.peek(key)?;
    if let Some(lease) = &stored
        && let Some(holder) = &lease.holder
        // A tombstone is final: it need not be compared. Nothing else frees a lease, least of all absence.
        && !has_tombstone(step, &own.pool, holder)?
    {
        return Ok(Acquired::Held { by: holder.clone(), token: lease.token });
    }
    let highest =
        stored.as_ref().map_or(0, |lease| lease.token.0).max(wanted.floor.0).max(step.era.token_base);
    if highest >= TOKEN_MAX {
        let said = format!("the tokens of {} are used up: {highest} is the last", wanted.resource);
        return Err(StoreError::misconfigured(said).into());
    }
    if let Some(foreigner) = mirror::take(step, campaign, id, &own.pool, &wanted.resource)? {
        let token = stored.map_or(Token(0), |lease| lease.token);
        return Ok(Acquired::Held { by: foreigner, token });
    }
    let token = Token(highest + 1);
    step.draft.compare(key);
    step.draft.put(key.clone(), &LeaseValue::granted(id, own.value.ttl_ms, token))?;
    Ok(Acquired::Granted(Term { resource: wanted.resource.clone(), token }))
}

fn has_tombstone(step: &mut Step<'_>, pool: &Pool, id: &MemberId) -> Result<bool, Stop> {
    let found: Option<SessionValue> = step.draft.peek(&step.keys.session(pool, id))?;
    Ok(found.is_some_and(|session| session.ended))
}

pub(super) fn release(
    step: &mut Step<'_>,
    campaign: &Campaign,
    id: &MemberId,
    pulse: Pulse,
    terms: &[Release],
) -> Result<Answer<Vec<Released>>, Stop> {
    let mut own = match meet(step, id, pulse)? {
        Answer::Done(own) => own,
        Answer::Gone => return Ok(Answer::Gone),
        Answer::Frozen(nonce) => return Ok(Answer::Frozen(nonce)),
    };
    raise(step, id, &mut own, pulse.number)?;
    let keys: Vec<Key> =
        terms.iter().map(|release| step.keys.lease(&own.pool, &release.term.resource)).collect();
    let foreign = terms.iter().filter_map(|release| campaign.key(&own.pool, &release.term.resource));
    step.draft.need(keys.iter().cloned().chain(foreign))?;
    let mut outcomes = Vec::with_capacity(terms.len());
    for (release, key) in terms.iter().zip(&keys) {
        let lease: Option<LeaseValue> = step.draft.peek(key)?;
        match lease {
            Some(lease) if lease.holder.as_ref() == Some(id) && lease.token == release.term.token => {
                step.draft.compare(key);
                if lease.revoked {
                    own.value.revoked.retain(|term| *term != release.term);
                    keep(step, id, &mut own)?;
                }
                mirror::give_back(step, campaign, id, &own.pool, &release.term.resource)?;
                step.draft.put(key.clone(), &lease.free(release.offer.clone()))?;
                outcomes.push(Released::Freed);
            }
            _ => outcomes.push(Released::NotHeld),
        }
    }
    Ok(Answer::Done(outcomes))
}

/// Who holds exactly this term.
fn held(step: &mut Step<'_>, key: &Key, term: &Term) -> Result<Option<(LeaseValue, MemberId)>, Stop> {
    let lease = step.lease(key)?.filter(|lease| lease.token == term.token);
    Ok(lease.and_then(|lease| lease.holder.clone().map(|holder| (lease, holder))))
}

pub(super) fn revoke(step: &mut Step<'_>, pool: &Pool, term: &Term) -> Result<Revoked, Stop> {
    if step.era.frozen {
        return Ok(Revoked::Frozen(step.era.nonce));
    }
    let key = step.keys.lease(pool, &term.resource);
    let Some((lease, holder)) = held(step, &key, term)? else { return Ok(Revoked::NotHeld) };
    let session = step.session(pool, &holder)?;
    if session.as_ref().is_some_and(|session| session.ended) {
        return Ok(Revoked::NotHeld);
    }
    if let Some(mut value) = session.filter(|session| !session.revoked.contains(term)) {
        value.revoked.push(term.clone());
        value.revoked.sort_unstable();
        keep(step, &holder, &mut Own { pool: pool.clone(), value })?;
    }
    step.draft.put(key, &LeaseValue { revoked: true, ..lease })?;
    Ok(Revoked::Marked)
}

/// Takes a term off the list of revoked ones that its holder's beats tell.
fn forget_revocation(step: &mut Step<'_>, pool: &Pool, holder: &MemberId, term: &Term) -> Result<(), Stop> {
    if let Some(mut value) = step.session(pool, holder)?.filter(|session| session.revoked.contains(term)) {
        value.revoked.retain(|revoked| revoked != term);
        keep(step, holder, &mut Own { pool: pool.clone(), value })?;
    }
    Ok(())
}

pub(super) fn free_revoked(
    step: &mut Step<'_>,
    campaign: &Campaign,
    pool: &Pool,
    term: &Term,
    era: Nonce,
) -> Result<Freed, Stop> {
    if let Some(nothing_done) = refused(step, era)? {
        return Ok(nothing_done);
    }
    let key = step.keys.lease(pool, &term.resource);
    match held(step, &key, term)? {
        Some((lease, holder)) if lease.revoked => {
            forget_revocation(step, pool, &holder, term)?;
            mirror::give_back(step, campaign, &holder, pool, &term.resource)?;
            step.draft.put(key, &lease.free(None))?;
            Ok(Freed::Freed)
        }
        _ => Ok(Freed::Changed),
    }
}

pub(super) fn free_orphan(
    step: &mut Step<'_>,
    campaign: &Campaign,
    pool: &Pool,
    holder: &MemberId,
    term: &Term,
    era: Nonce,
) -> Result<Freed, Stop> {
    if let Some(nothing_done) = refused(step, era)? {
        return Ok(nothing_done);
    }
    let key = step.keys.lease(pool, &term.resource);
    match held(step, &key, term)? {
        Some((lease, found)) if found == *holder && step.session(pool, holder)?.is_none() => {
            mirror::give_back(step, campaign, holder, pool, &term.resource)?;
            step.draft.put(key, &lease.free(None))?;
            Ok(Freed::Freed)
        }
        _ => Ok(Freed::Changed),
    }
}

/// What answers somebody who would free another's term in a frozen store or from another era.
fn refused(step: &mut Step<'_>, era: Nonce) -> Result<Option<Freed>, Stop> {
    if step.era.frozen {
        return Ok(Some(Freed::Frozen(step.era.nonce)));
    }
    Ok(match step.standing(era)? {
        Standing::Present => None,
        Standing::Past => Some(Freed::Changed),
        Standing::Unknown => Some(Freed::Frozen(step.freeze()?)),
    })
}

/// Says again some of the terms that a session holds. The session itself is written with the `last` of them: a session that
/// has reasserted has said everything.
pub(super) fn reassert(
    step: &mut Step<'_>,
    open: &OpenSession,
    pulse: Pulse,
    terms: &[Term],
    last: bool,
) -> Result<Answer<Vec<Reasserted>>, Stop> {
    let place = step.keys.pool_of(&open.id);
    let keys: Vec<Key> = terms.iter().map(|term| step.keys.lease(&open.pool, &term.resource)).collect();
    let session = step.keys.session(&open.pool, &open.id);
    step.draft.need(keys.iter().cloned().chain([place.clone(), session]))?;
    let found = step.session(&open.pool, &open.id)?;
    if found.as_ref().is_some_and(|session| session.ended) || !step.era.frozen {
        return Ok(Answer::Gone);
    }
    if pulse.era != step.era.nonce {
        return Ok(Answer::Frozen(step.era.nonce));
    }
    step.raise_ttl_max(millis(open.ttl));
    let mut value = SessionValue::new(open);
    if let Some(found) = found {
        value.beat = found.beat;
        value.revoked = found.revoked;
        value.reasserted = found.reasserted;
    }
    let before = value.clone();
    let mut outcomes = Vec::with_capacity(terms.len());
    for (term, key) in terms.iter().zip(keys) {
        outcomes.push(reassert_term(step, open, &mut value, term, key)?);
    }
    if last {
        value.beat = value.beat.max(pulse.number.0);
        value.reasserted = Some(step.era.nonce);
    }
    if last || value != before {
        step.draft.put(place, &super::record::PoolValue { pool: open.pool.clone() })?;
        step.put_session(&open.pool, &open.id, &value)?;
    }
    Ok(Answer::Done(outcomes))
}

fn reassert_term(
    step: &mut Step<'_>,
    open: &OpenSession,
    own: &mut SessionValue,
    term: &Term,
    key: Key,
) -> Result<Reasserted, Stop> {
    let mut revoked = false;
    if let Some(lease) = step.lease(&key)? {
        let mine = lease.holder.as_ref() == Some(&open.id);
        if lease.token > term.token || (lease.token == term.token && !mine) {
            return Ok(Reasserted::Lost);
        }
        // A revocation that the store remembers stays with its term.
        revoked = lease.revoked && lease.token == term.token;
        let old = Term { resource: term.resource.clone(), token: lease.token };
        match &lease.holder {
            Some(holder) if !mine && lease.revoked => forget_revocation(step, &open.pool, holder, &old)?,
            _ if !revoked => own.revoked.retain(|revoked| *revoked != old),
            _ if !own.revoked.contains(term) => own.revoked.push(term.clone()),
            _ => {}
        }
        own.revoked.sort_unstable();
    }
    let holder = Some(open.id.clone());
    let ttl_ms = millis(open.ttl);
    step.draft.put(key, &LeaseValue { token: term.token, holder, ttl_ms, revoked, offer: None })?;
    Ok(Reasserted::Kept)
}
