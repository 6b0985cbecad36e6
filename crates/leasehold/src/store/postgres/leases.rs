//! What becomes of resources: the parameters of each call, and what its answer means.

use std::sync::Arc;

use super::call::{Class, Reply, writing};
use super::lanes::Param;
use super::seen::{integer, nonce_bits};
use super::sessions::{Standing, json, listing, millis, standing};
use super::{ITEMS_MAX, Shared};
use crate::lease::{MemberId, Nonce, Pool, Term, Token};
use crate::store::{
    Acquired, Answer, Claimed, Freed, OpenSession, Pulse, Reasserted, Release, Released, Revoked, StoreError,
    Wanted, claim,
};

const ACQUIRE: &str = writing!("acquire($1, $2, $3, $4, $5, $6, $7)");
const CLAIM: &str = writing!("claim($1, $2, $3, $4, $5, $6, $7, $8)");
const RELEASE: &str = writing!("release($1, $2, $3, $4, $5, $6, $7, $8, $9)");
const REVOKE: &str = writing!("revoke($1, $2, $3, $4)");
const FREE: &str = writing!("free($1, $2, $3, $4, $5, $6)");
const REASSERT: &str = writing!("reassert($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)");

fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> Param {
    Param::Texts(texts.map(|text| Some(text.to_owned())).collect())
}

fn tokens(tokens: impl Iterator<Item = Token>) -> Param {
    Param::Ints(tokens.map(|token| Some(integer(token.0))).collect())
}

fn within_limit(items: usize) -> Result<(), StoreError> {
    if items <= ITEMS_MAX {
        return Ok(());
    }
    Err(StoreError::misconfigured(format!("a call carries {items} items; at most {ITEMS_MAX} are allowed")))
}

impl Shared {
    pub(super) async fn acquire(
        self: &Arc<Self>,
        id: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError> {
        within_limit(wanted.len())?;
        let mut params = standing(id, pulse);
        params.push(texts(wanted.iter().map(|wanted| wanted.resource.as_str())));
        params.push(tokens(wanted.iter().map(|wanted| wanted.floor)));
        let reply = self.write(Class::Write, ACQUIRE, params).await?;
        match Standing::of(&reply)? {
            Standing::Gone => Ok(Answer::Gone),
            Standing::Frozen => Ok(Answer::Frozen(reply.nonce)),
            Standing::Done => outcomes(reply, wanted).map(Answer::Done),
        }
    }

    pub(super) async fn claim(
        self: &Arc<Self>,
        open: &OpenSession,
        wanted: &Wanted,
    ) -> Result<Answer<Claimed>, StoreError> {
        let params = vec![
            Param::text(open.id.as_str()),
            Param::text(open.pool.as_str()),
            Param::Int(millis(open.ttl)),
            Param::text(json(&open.profile)?),
            listing(&open.profile),
            Param::text(wanted.resource.as_str()),
            Param::Int(integer(wanted.floor.0)),
        ];
        let reply = self.write(Class::Write, CLAIM, params).await?;
        let era = reply.nonce;
        let acquired = match reply.said.as_str() {
            "done" | "held" => Answer::Done(outcomes(reply, std::slice::from_ref(wanted))?),
            "gone" => Answer::Gone,
            "frozen" => Answer::Frozen(era),
            _ => return Err(reply.unexpected()),
        };
        claim::answer(era, acquired)
    }

    pub(super) async fn release(
        self: &Arc<Self>,
        id: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Result<Answer<Vec<Released>>, StoreError> {
        within_limit(terms.len())?;
        let offers = terms.iter().map(|release| release.offer.as_ref());
        let mut params = standing(id, pulse);
        params.push(texts(terms.iter().map(|release| release.term.resource.as_str())));
        params.push(tokens(terms.iter().map(|release| release.term.token)));
        params.push(Param::Texts(offers.clone().map(|offer| offer.map(|to| to.to.to_string())).collect()));
        params.push(Param::Ints(offers.map(|offer| offer.map(|offer| offer.load as i64)).collect()));
        let reply = self.write(Class::Write, RELEASE, params).await?;
        let freed = |done| if done { Released::Freed } else { Released::NotHeld };
        match Standing::of(&reply)? {
            Standing::Gone => Ok(Answer::Gone),
            Standing::Frozen => Ok(Answer::Frozen(reply.nonce)),
            Standing::Done => Ok(Answer::Done(each(&reply, terms.len())?.map(freed).collect())),
        }
    }

    pub(super) async fn revoke(self: &Arc<Self>, pool: &Pool, term: &Term) -> Result<Revoked, StoreError> {
        let reply = self.write(Class::Write, REVOKE, named(pool, term)).await?;
        match reply.said.as_str() {
            "done" => Ok(Revoked::Marked),
            "not-held" => Ok(Revoked::NotHeld),
            "frozen" => Ok(Revoked::Frozen(reply.nonce)),
            _ => Err(reply.unexpected()),
        }
    }

    /// Frees a revoked term or, if its holder is named, an orphan.
    pub(super) async fn free(
        self: &Arc<Self>,
        pool: &Pool,
        term: &Term,
        orphan_of: Option<&MemberId>,
        era: Nonce,
    ) -> Result<Freed, StoreError> {
        let mut params = named(pool, term);
        params.push(Param::Text(orphan_of.map(|holder| holder.as_str().to_owned())));
        params.push(Param::Int(nonce_bits(era)));
        let reply = self.write(Class::Write, FREE, params).await?;
        match reply.said.as_str() {
            "done" => Ok(Freed::Freed),
            "changed" => Ok(Freed::Changed),
            "frozen" => Ok(Freed::Frozen(reply.nonce)),
            _ => Err(reply.unexpected()),
        }
    }

    /// Terms may be many, so they are told in pieces, each under the same pulse.
    pub(super) async fn reassert(
        self: &Arc<Self>,
        open: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        let mut kept = Vec::with_capacity(terms.len());
        let mut rest = terms;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(ITEMS_MAX));
            match self.reassert_piece(open, pulse, piece).await? {
                Answer::Done(outcomes) => kept.extend(outcomes),
                refused => return Ok(refused),
            }
            rest = after;
            if rest.is_empty() {
                return Ok(Answer::Done(kept));
            }
        }
    }

    async fn reassert_piece(
        self: &Arc<Self>,
        open: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        let params = vec![
            Param::text(open.id.as_str()),
            Param::text(open.pool.as_str()),
            Param::Int(millis(open.ttl)),
            Param::text(json(&open.profile)?),
            listing(&open.profile),
            Param::Int(nonce_bits(pulse.era)),
            Param::Int(integer(pulse.number.0)),
            texts(terms.iter().map(|term| term.resource.as_str())),
            tokens(terms.iter().map(|term| term.token)),
        ];
        let reply = self.write(Class::Beat, REASSERT, params).await?;
        let kept = |kept| if kept { Reasserted::Kept } else { Reasserted::Lost };
        match Standing::of(&reply)? {
            Standing::Gone => Ok(Answer::Gone),
            Standing::Frozen => Ok(Answer::Frozen(reply.nonce)),
            Standing::Done => Ok(Answer::Done(each(&reply, terms.len())?.map(kept).collect())),
        }
    }
}

fn named(pool: &Pool, term: &Term) -> Vec<Param> {
    vec![Param::text(pool.as_str()), Param::text(term.resource.as_str()), Param::Int(integer(term.token.0))]
}

/// One yes or no for each item.
fn each(reply: &Reply, items: usize) -> Result<impl Iterator<Item = bool>, StoreError> {
    if reply.numbers.len() != items {
        return Err(reply.unexpected());
    }
    Ok(reply.numbers.iter().map(|number| *number == Some(1)))
}

fn outcomes(reply: Reply, wanted: &[Wanted]) -> Result<Vec<Acquired>, StoreError> {
    if (reply.names.len(), reply.numbers.len()) != (wanted.len(), wanted.len()) {
        return Err(reply.unexpected());
    }
    let items = wanted.iter().zip(reply.names).zip(reply.numbers);
    let outcome = |((wanted, holder), token): ((&Wanted, Option<String>), Option<i64>)| {
        let vanished = || StoreError::unavailable("a lease vanished while it was asked for; try again");
        let token = Token(token.ok_or_else(vanished)?.unsigned_abs());
        Ok(match holder {
            None => Acquired::Granted(Term { resource: wanted.resource.clone(), token }),
            Some(holder) => {
                let by = holder.parse().map_err(|error| {
                    StoreError::unavailable("PostgreSQL has a holder that leasehold did not write")
                        .caused_by(error)
                })?;
                Acquired::Held { by, token }
            }
        })
    };
    items.map(outcome).collect()
}
