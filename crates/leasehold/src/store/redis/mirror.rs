//! The mirror: what clients that know nothing of Leasehold see, and what they hold.
//!
//! Invariant: the mirror can only refuse what the record would allow. Whatever a foreigner writes, two members never hold
//! the same resource.

use std::time::Duration;

use super::args::Args;
use super::reply::Fields;
use super::{ITEMS_MAX, RedisStore, failure, scripts};
use crate::clock::{self, Moment};
use crate::lease::{MemberId, ResourceId, TOKEN_MAX, Term, Token};
use crate::store::{Acquired, Answer, StoreError, Wanted};

/// A foreign lease that has no end, or is about to end, is looked at again after so many milliseconds.
const LOOK_MIN: u64 = 50;

impl RedisStore {
    /// Keeps up the mirror of all that a session holds, part by part, and answers what foreigners have taken of it.
    pub(super) async fn refresh(&self, session: &MemberId) -> Result<Answer<Vec<Term>>, StoreError> {
        let (mut cursor, mut lost) = ("0".to_owned(), Vec::new());
        loop {
            let args = Args::of([session.as_str()]).text(cursor).number(ITEMS_MAX as u64);
            let part = self.read(&scripts::REFRESH, args).await?;
            let answer = part.answer(|fields| Ok((fields.text()?, fields.terms()?)))?;
            let next = match answer {
                Answer::Done((next, terms)) => {
                    lost.extend(terms);
                    next
                }
                Answer::Gone => return Ok(Answer::Gone),
                Answer::Frozen(nonce) => return Ok(Answer::Frozen(nonce)),
            };
            if next == "0" {
                return Ok(Answer::Done(lost));
            }
            cursor = next;
        }
    }

    /// What became of one wanted resource that was asked for at `sent`.
    pub(super) fn outcome(
        &self,
        wanted: &Wanted,
        outcome: &mut Fields,
        sent: Moment,
    ) -> Result<Acquired, StoreError> {
        let resource = wanted.resource.clone();
        match outcome.text()?.as_str() {
            "held" => Ok(Acquired::Held { by: outcome.member()?, token: outcome.token()? }),
            "foreign" => {
                let (by, token) = (outcome.member()?, outcome.token()?);
                // A lease without an end is theirs until it is gone.
                let left = u64::try_from(outcome.signed()?).unwrap_or(0);
                self.shared.foreign.saw(&resource, &by, token, Duration::from_millis(left), sent);
                Ok(Acquired::Held { by, token })
            }
            "used up" => {
                let said = format!("the tokens of {resource} are used up: {TOKEN_MAX} is the last");
                Err(StoreError::misconfigured(said))
            }
            // Nothing but a token: it was granted.
            token => match token.parse() {
                Ok(token) => Ok(Acquired::Granted(Term { resource, token: Token(token) })),
                Err(_) => Err(failure::unreadable(&self.shared.address.place, "an answer")),
            },
        }
    }

    /// Looks again at what foreigners had when it was last seen, where that is due.
    pub(super) async fn look_at_foreigners(&self) -> Result<(), StoreError> {
        let (foreign, due) = (&self.shared.foreign, self.shared.foreign.due(ITEMS_MAX));
        if due.is_empty() {
            return Ok(());
        }
        let pool = &self.shared.address.mirrored;
        let resources = due.iter().map(ResourceId::as_str);
        let args = Args::of(std::iter::once(pool.as_str()).chain(resources));
        let sent = clock::now();
        let mut reply = self.read(&scripts::LOOK, args).await?;
        if reply.word != "done" {
            return Ok(());
        }
        reply.rest.list(|outcome| {
            let resource: ResourceId = outcome.id()?;
            match outcome.optional_id()? {
                None => foreign.forget(&resource),
                Some(by) => {
                    let (token, left) = (outcome.token()?, u64::try_from(outcome.signed()?).unwrap_or(0));
                    foreign.saw(&resource, &by, token, Duration::from_millis(left.max(LOOK_MIN)), sent);
                }
            }
            Ok(())
        })?;
        Ok(())
    }
}
