//! What a fence knows of one resource. Pure.

use std::time::Duration;

use super::{Admission, Judgement, Newest, Refusal, Rules};
use crate::clock::Moment;
use crate::lease::Token;

/// What is known counts for this part of the TTL. Of leases over REST the store knows a longer one than their holders: up to four
/// times as long.
pub(super) const PART: u32 = 5;

/// The two tokens of one resource, and how long the second counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    /// The highest that passed.
    seen: Token,
    /// The highest that the authority named.
    fetched: Token,
    /// The TTL of the newest term.
    ttl: Option<Duration>,
}

impl Default for Mark {
    fn default() -> Self {
        Self { seen: Token(0), fetched: Token(0), ttl: None }
    }
}

impl Mark {
    /// The high-water mark.
    pub(super) fn highest(&self) -> Token {
        self.seen.max(self.fetched)
    }

    /// Judges a token. `asked` says whether the authority was asked since it came.
    pub(super) fn judge(
        &mut self,
        rules: &Rules,
        token: Token,
        now: Moment,
        said_at: Option<Moment>,
        asked: bool,
    ) -> Judgement {
        let newest = self.highest();
        if token < newest {
            // Tokens never fall: no answer could change this.
            return Judgement::Now(Admission::Refused(Refusal::Stale { newest }));
        }
        let Some(lifetime) = rules.lifetime else {
            self.seen = token;
            return Judgement::Now(Admission::Admitted);
        };
        let lifetime = self.ttl.map_or(lifetime, |ttl| lifetime.min(ttl / PART));
        let counts = said_at.is_some_and(|said_at| now < said_at.after(lifetime));
        match (token == newest, counts) {
            (true, true) => {
                self.seen = token;
                Judgement::Now(Admission::Admitted)
            }
            _ if !asked => Judgement::Ask,
            (false, true) => Judgement::Now(Admission::Refused(Refusal::Future { newest })),
            (_, false) => Judgement::Now(Admission::Refused(Refusal::Unconfirmed)),
        }
    }

    /// Takes in what the authority said. Answers the token that it should know of and does not.
    pub(super) fn learn(&mut self, newest: &Newest) -> Option<Token> {
        let highest = self.highest();
        if newest.token >= self.fetched {
            self.ttl = newest.ttl;
        }
        self.fetched = self.fetched.max(newest.token);
        (newest.token < highest).then_some(highest)
    }
}
