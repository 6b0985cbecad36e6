//! The steps of listeners, of operators, and of a store that forgets.

use std::sync::Arc;

use super::super::Harness;
use super::super::member::{freeze, pool};
use super::player::{Game, Player, same};
use super::{What, Who};
use crate::lease::{BeatNumber, Term};
use crate::store::{Answer, Cursor, EndSilent, Freed, Pulse, Reasserted, Thawed};

impl<H: Harness> Game<H> {
    /// A verdict `off` beats away from what the store has: right if that is nothing.
    pub(super) async fn end_silent(&mut self, who: Who, off: u64) -> Result<(), String> {
        let id = self.id(who);
        let heard = self.facts.sessions.get(&id).map_or(0, |session| session.beat) + off;
        let era = self.facts.nonce;
        let answer = self.store.end_silent(&id, BeatNumber(heard), era).await.expect("the store answers");
        same(answer, self.facts.end_silent(&id, heard))?;
        if answer == EndSilent::Ended {
            // Who was not heard for a whole TTL no longer trusts itself.
            self.over(who);
        }
        Ok(())
    }

    pub(super) async fn free_revoked(&mut self, what: What) -> Result<(), String> {
        let (term, era) = (self.term(what), self.facts.nonce);
        let may_be_free = self.facts.was_left(&term.resource);
        let answer = self.store.free_revoked(&pool("work"), &term, era).await.expect("the store answers");
        let expected = self.facts.free_revoked(&term);
        if !(may_be_free && (answer, expected) == (Freed::Changed, Freed::Freed)) {
            same(answer, expected)?;
        }
        if answer == Freed::Freed {
            // A whole TTL has passed in which the term was not extended.
            for player in &mut self.players {
                player.terms.retain(|resource, token| *resource != term.resource || *token != term.token);
            }
        }
        Ok(())
    }

    /// Forgets a tombstone; its member comes back as somebody else, because ids are never used again.
    pub(super) async fn collect(&mut self, who: Who) -> Result<(), String> {
        if !self.facts.frozen {
            let id = self.id(who);
            self.store.collect(&id).await.expect("the store answers");
            self.facts.collect(&id);
        }
        if self.players[who].over {
            self.players[who] = self.newcomer();
        }
        Ok(())
    }

    pub(super) async fn freeze_by_stranger(&mut self) -> Result<(), String> {
        if self.facts.frozen {
            return Ok(());
        }
        let nonce = freeze(&self.store).await;
        self.froze(nonce)
    }

    pub(super) async fn miss(&mut self, who: Who) -> Result<(), String> {
        if self.facts.frozen || self.meet(who) != Answer::Done(()) {
            return Ok(());
        }
        let stored = self.facts.sessions[self.players[who].member.id()].beat;
        let confirmed = BeatNumber(stored + 1);
        let pulse = Pulse { confirmed, ..self.players[who].member.pulse() };
        match self.store.beat(&self.id(who), pulse).await.expect("the store answers") {
            Answer::Frozen(nonce) => self.froze(nonce),
            other => Err(format!("a confirmed beat is missing, but the answer was {other:?}")),
        }
    }

    pub(super) async fn reassert(&mut self, who: Who) -> Result<(), String> {
        if self.players[who].over {
            return Ok(());
        }
        let (id, nonce) = (self.id(who), self.facts.nonce);
        let terms = self.players[who].terms.iter();
        let terms: Vec<Term> =
            terms.map(|(resource, token)| Term { resource: resource.clone(), token: *token }).collect();
        let answer = self.players[who].member.reassert(nonce, &terms).await;
        let Player { member, .. } = &self.players[who];
        let expected = self.facts.reassert(&id, member.sent, member.session.profile.flaps, &terms);
        if let Answer::Done(outcomes) = &expected {
            let lost = terms.iter().zip(outcomes).filter(|(_, outcome)| **outcome == Reasserted::Lost);
            for (term, _) in lost {
                self.players[who].terms.remove(&term.resource);
            }
        } else {
            self.over(who);
        }
        same(answer, expected)
    }

    pub(super) async fn thaw(&mut self) -> Result<(), String> {
        self.outlast_what_was_forgotten().await;
        let answer = self.store.thaw(self.facts.nonce).await.expect("the store answers");
        if !self.facts.frozen {
            return same(answer, Thawed::Changed);
        }
        self.facts.thaw();
        for who in 0..self.players.len() {
            let session = self.facts.sessions.get(self.players[who].member.id());
            if session.is_none_or(|session| session.ended) {
                // A whole TTL has passed in which it did not reassert.
                self.over(who);
            }
        }
        same(answer, Thawed::Thawed)
    }

    pub(super) async fn roll_back(&mut self) -> Result<(), String> {
        let Some(saved) = self.saved.clone() else { return Ok(()) };
        self.harness.roll_back().await;
        self.store = self.harness.store();
        for player in &mut self.players {
            player.member.store = Arc::clone(&self.store);
        }
        self.facts = saved;
        let era = self.store.sessions(&pool("work"), Cursor::START).await.expect("the store answers").era;
        if !era.frozen {
            return Err("a store that was rolled back is not frozen".to_owned());
        }
        self.froze(era.nonce)
    }
}
