//! Who gets a resource: a session that is there, or one that is opened for it.

use super::{Lease, LeaseState};
use crate::lease::{BeatNumber, MemberId, Pool, ResourceId, TOKEN_MAX, Term, Token};
use crate::mistakes::{Mistake, made};
use crate::store::{Acquired, Answer, Claimed, OpenSession, Pulse, StoreError, Wanted, claim};

impl LeaseState {
    pub(in crate::store::memory) fn acquire(
        &mut self,
        id: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError> {
        self.notice();
        let alive = self.sessions.get(id).is_none_or(|session| !session.ended);
        if self.era.frozen && alive {
            return Ok(Answer::Frozen(self.era.nonce));
        }
        match self.raise(id, pulse) {
            Answer::Done(()) => {}
            Answer::Gone => return Ok(Answer::Gone),
            Answer::Frozen(nonce) => return Ok(Answer::Frozen(nonce)),
        }
        let outcomes: Result<_, _> = wanted.iter().map(|wanted| self.grant(id, wanted)).collect();
        outcomes.map(Answer::Done)
    }

    pub(in crate::store::memory) fn claim(
        &mut self,
        open: &OpenSession,
        wanted: &Wanted,
    ) -> Result<Answer<Claimed>, StoreError> {
        self.notice();
        let known = self.sessions.get(&open.id);
        if known.is_some_and(|session| session.ended) {
            return Ok(Answer::Gone);
        }
        if self.era.frozen {
            return Ok(Answer::Frozen(self.era.nonce));
        }
        let key = (known.map_or(&open.pool, |session| &session.pool).clone(), wanted.resource.clone());
        if let Some((by, token)) = self.holder(&key) {
            return Ok(Answer::Done(Claimed::Held { by, token }));
        }
        let token = self.next_token(&key, wanted)?;
        match self.sessions.get(&open.id).map(|session| session.beat) {
            None => self.insert(open, claim::BEAT, None),
            Some(BeatNumber(0)) => {
                let changed = self.step();
                if let Some(session) = self.sessions.get_mut(&open.id) {
                    (session.beat, session.changed) = (claim::BEAT, changed);
                }
            }
            Some(_) => {}
        }
        let term = self.give(&open.id, key, token);
        Ok(Answer::Done(Claimed::Granted { term, era: self.era.nonce }))
    }

    fn grant(&mut self, id: &MemberId, wanted: &Wanted) -> Result<Acquired, StoreError> {
        let key = (self.sessions[id].pool.clone(), wanted.resource.clone());
        if let Some((by, token)) = self.holder(&key) {
            return Ok(Acquired::Held { by, token });
        }
        let token = self.next_token(&key, wanted)?;
        Ok(Acquired::Granted(self.give(id, key, token)))
    }

    /// Who has a resource: whoever was given it and neither let go nor has a tombstone.
    fn holder(&self, key: &(Pool, ResourceId)) -> Option<(MemberId, Token)> {
        let lease = self.leases.get(key)?;
        let holder = lease.holder.as_ref()?;
        let free = self.sessions.get(holder).map_or(made(Mistake::AbsentMeansFree), |session| session.ended);
        (!free).then(|| (holder.clone(), lease.token))
    }

    fn next_token(&self, key: &(Pool, ResourceId), wanted: &Wanted) -> Result<Token, StoreError> {
        let stored = self.leases.get(key).map_or(0, |lease| lease.token.0);
        let highest = stored.max(wanted.floor.0).max(self.era.token_base);
        if highest >= TOKEN_MAX {
            let said = format!("the tokens of {} are used up: {highest} is the last", wanted.resource);
            return Err(StoreError::misconfigured(said));
        }
        Ok(Token(highest + 1))
    }

    fn give(&mut self, id: &MemberId, key: (Pool, ResourceId), token: Token) -> Term {
        let term = Term { resource: key.1.clone(), token };
        let (ttl, changed) = (self.sessions[id].ttl, self.step());
        let lease = Lease { token, holder: Some(id.clone()), ttl, revoked: false, offer: None, changed };
        self.leases.insert(key, lease);
        term
    }
}
