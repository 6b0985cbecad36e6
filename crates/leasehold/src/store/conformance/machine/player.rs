//! Plays steps on a store and on the model, and keeps what the members were told.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::super::member::{all_leases, all_sessions, pool, resource, session, wanted};
use super::super::{Harness, Member};
use super::model::{Facts, Session};
use super::{RESOURCES, Step, What, Who};
use crate::clock;
use crate::lease::{BeatNumber, MemberId, Nonce, ResourceId, Term, Token};
use crate::store::{Acquired, Answer, Claimed, Cursor, Pulse, Release, Store, Thawed};

/// A member and what it believes.
pub(super) struct Player {
    pub(super) member: Member,
    /// The terms it trusts.
    pub(super) terms: BTreeMap<ResourceId, Token>,
    /// Whether it was told, or must have noticed, that its session is over.
    pub(super) over: bool,
}

/// A store, what it should know, and what everybody was told.
pub(super) struct Game<H> {
    pub(super) harness: H,
    pub(super) store: Arc<dyn Store>,
    pub(super) facts: Facts,
    pub(super) saved: Option<Facts>,
    pub(super) players: Vec<Player>,
    /// Every token that was ever given, whatever the store has forgotten.
    given: BTreeMap<(ResourceId, Token), MemberId>,
    reasserted_now: bool,
    /// Whether the step was a call from an era that the store does not have: it may freeze, whatever it answers.
    stranger_called: bool,
}

pub(super) fn same<T: PartialEq + Debug>(answer: T, expected: T) -> Result<(), String> {
    if answer == expected {
        Ok(())
    } else {
        Err(format!("answered {answer:?}, the contract says {expected:?}"))
    }
}

impl<H: Harness> Game<H> {
    pub(super) async fn begin() -> Self {
        let harness = H::fresh().await;
        let store = harness.store();
        let read = store.sessions(&pool("work"), Cursor::START).await.expect("the store answers");
        let facts = Facts::new(read.era.nonce);
        let mut game = Self {
            harness,
            store,
            facts,
            saved: None,
            players: Vec::new(),
            given: BTreeMap::new(),
            reasserted_now: false,
            stranger_called: false,
        };
        game.players = (0..3).map(|_| game.newcomer()).collect();
        game
    }

    pub(super) fn newcomer(&self) -> Player {
        let (store, era) = (Arc::clone(&self.store), self.facts.nonce);
        let member = Member { store, session: session("player"), era, sent: 0, confirmed: 0 };
        Player { member, terms: BTreeMap::new(), over: false }
    }

    pub(super) async fn play(&mut self, step: Step) -> Result<(), String> {
        self.reasserted_now = matches!(step, Step::Reassert(_));
        self.stranger_called = false;
        match step {
            Step::Open(who) => self.open(who).await,
            Step::Beat(who) => self.beat(who).await,
            Step::LateBeat(who) => self.late_beat(who).await,
            Step::Describe(who) => self.describe(who).await,
            Step::Close(who) => self.close(who).await,
            Step::Retire(who) => self.retire(who).await,
            Step::Acquire(who, what) => self.acquire(who, what).await,
            Step::Claim(who, what) => self.claim(who, what).await,
            Step::Release(who, what) => {
                let term = self.term(what);
                let token = self.players[who].terms.get(&term.resource).copied();
                self.release(who, Term { token: token.unwrap_or(term.token), ..term }).await
            }
            Step::ReleaseOther(who, what) => {
                let term = self.term(what);
                self.release(who, Term { token: Token(term.token.0 + 1), ..term }).await
            }
            Step::EndSilent(who) => self.end_silent(who, 0).await,
            Step::EndHeard(who) => self.end_silent(who, 1).await,
            Step::Revoke(what) => {
                let term = self.term(what);
                let answer = self.store.revoke(&pool("work"), &term).await.expect("the store answers");
                same(answer, self.facts.revoke(&term))
            }
            Step::FreeRevoked(what) => self.free_revoked(what).await,
            Step::Collect(who) => self.collect(who).await,
            Step::Freeze => self.freeze_by_stranger().await,
            Step::Miss(who) => self.miss(who).await,
            Step::Reassert(who) => self.reassert(who).await,
            Step::Thaw => self.thaw().await,
            Step::ThawOther => {
                let answer = self.store.thaw(Nonce::generate()).await.expect("the store answers");
                same(answer, Thawed::Changed)
            }
            Step::Snapshot => {
                self.harness.snapshot().await;
                self.saved = Some(self.facts.clone());
                Ok(())
            }
            Step::RollBack => self.roll_back().await,
        }
    }

    /// The newest term of a resource.
    pub(super) fn term(&self, what: What) -> Term {
        let resource = resource(RESOURCES[what]);
        Term { token: self.facts.token(&resource), resource }
    }

    /// Takes in an answer to a session's call: whether it is what the contract says, and whether it was `Done`.
    fn judge<T: PartialEq + Debug>(
        &mut self,
        who: Who,
        answer: &Answer<T>,
        expected: &Answer<()>,
    ) -> Result<bool, String> {
        self.stranger_called = !self.knows(self.players[who].member.era);
        match (answer, expected) {
            (Answer::Done(_), Answer::Done(())) => return Ok(true),
            (Answer::Gone, Answer::Gone) => self.over(who),
            (Answer::Frozen(nonce), Answer::Frozen(known)) if nonce == known => {}
            // An era that was rolled back tells the store that it forgot, unless it knows of that already.
            (Answer::Frozen(nonce), _) if self.stranger_called => self.froze(*nonce)?,
            _ => return Err(format!("answered {answer:?}, the contract says {expected:?}")),
        }
        Ok(false)
    }

    fn knows(&self, era: Nonce) -> bool {
        era == self.facts.nonce || self.facts.past.contains(&era)
    }

    pub(super) fn over(&mut self, who: Who) {
        self.players[who].over = true;
        self.players[who].terms.clear();
    }

    pub(super) fn id(&self, who: Who) -> MemberId {
        self.players[who].member.id().clone()
    }

    /// What a call of this member meets.
    pub(super) fn meet(&self, who: Who) -> Answer<()> {
        self.facts.meet(self.players[who].member.id(), self.players[who].member.era)
    }

    /// Where the store has forgotten a tombstone its member has not, and ids are never used again.
    fn come_back(&mut self, who: Who) {
        if self.players[who].over && !self.facts.sessions.contains_key(&self.id(who)) {
            self.players[who] = self.newcomer();
        }
    }

    /// Has the session of a member in the model.
    fn opened(&mut self, who: Who) {
        let flaps = self.players[who].member.session.profile.flaps;
        let new = Session { beat: 0, ended: false, reasserted: None, flaps };
        self.facts.sessions.entry(self.id(who)).or_insert(new);
        self.players[who].member.era = self.facts.nonce;
    }

    async fn open(&mut self, who: Who) -> Result<(), String> {
        self.come_back(who);
        let id = self.id(who);
        let answer = self.store.open(&self.players[who].member.session).await.expect("the store answers");
        if self.facts.sessions.get(&id).is_some_and(|session| session.ended) {
            self.over(who);
            return same(answer, Answer::Gone);
        }
        if self.facts.frozen {
            return same(answer, Answer::Frozen(self.facts.nonce));
        }
        self.opened(who);
        same(answer, Answer::Done(self.facts.nonce))
    }

    async fn claim(&mut self, who: Who, what: What) -> Result<(), String> {
        self.come_back(who);
        let (id, name, nonce) = (self.id(who), RESOURCES[what], self.facts.nonce);
        let claimed = self.store.claim(&self.players[who].member.session, &wanted(name)).await;
        let answer = claimed.expect("the store answers");
        if self.facts.sessions.get(&id).is_some_and(|session| session.ended) {
            self.over(who);
            return same(answer, Answer::Gone);
        }
        if self.facts.frozen {
            return same(answer, Answer::Frozen(nonce));
        }
        if let Some(Acquired::Held { by, token }) = self.facts.keeper(&resource(name)) {
            return same(answer, Answer::Done(Claimed::Held { by, token }));
        }
        let Answer::Done(Claimed::Granted { term, era }) = answer else {
            return Err(format!("answered {answer:?}, but {name} is free"));
        };
        same(era, nonce)?;
        self.opened(who);
        // It was the session's first beat, if that had none yet.
        self.facts.raise(&id, 1);
        let member = &mut self.players[who].member;
        (member.sent, member.confirmed) = (member.sent.max(1), member.confirmed.max(1));
        self.granted(who, term)
    }

    async fn beat(&mut self, who: Who) -> Result<(), String> {
        let (id, expected) = (self.id(who), self.meet(who));
        let answer = self.players[who].member.beat().await;
        if self.judge(who, &answer, &expected)? {
            self.facts.raise(&id, self.players[who].member.sent);
            return same(answer, Answer::Done(self.facts.revoked_of(&id)));
        }
        Ok(())
    }

    async fn late_beat(&mut self, who: Who) -> Result<(), String> {
        let expected = self.meet(who);
        let member = &self.players[who].member;
        let pulse = Pulse { era: member.era, number: BeatNumber(0), confirmed: BeatNumber(0) };
        let answer = self.store.beat(member.id(), pulse).await.expect("the store answers");
        self.judge(who, &answer, &expected).map(|_| ())
    }

    async fn describe(&mut self, who: Who) -> Result<(), String> {
        let (id, expected) = (self.id(who), self.meet(who));
        let pulse = self.players[who].member.pulse();
        self.players[who].member.session.profile.flaps += 1;
        let profile = self.players[who].member.session.profile.clone();
        let answer = self.store.describe(&id, pulse, &profile).await.expect("the store answers");
        if self.judge(who, &answer, &expected)? {
            self.players[who].member.confirmed = pulse.number.0;
            self.facts.raise(&id, pulse.number.0);
            if let Some(session) = self.facts.sessions.get_mut(&id) {
                session.flaps = profile.flaps;
            }
        }
        Ok(())
    }

    async fn close(&mut self, who: Who) -> Result<(), String> {
        self.players[who].member.close().await;
        self.facts.end(&self.id(who));
        self.over(who);
        Ok(())
    }

    /// Whoever comes in its place has another id.
    async fn retire(&mut self, who: Who) -> Result<(), String> {
        let id = self.id(who);
        self.store.retire(&id).await.expect("the store answers");
        self.facts.retire(&id);
        self.players[who] = self.newcomer();
        Ok(())
    }

    async fn acquire(&mut self, who: Who, what: What) -> Result<(), String> {
        let (id, name) = (self.id(who), RESOURCES[what]);
        let expected = match self.meet(who) {
            Answer::Done(()) if self.facts.frozen => Answer::Frozen(self.facts.nonce),
            other => other,
        };
        let answer = self.players[who].member.acquire_wanted(&[wanted(name)]).await;
        if !self.judge(who, &answer, &expected)? {
            return Ok(());
        }
        self.facts.raise(&id, self.players[who].member.sent);
        let Answer::Done(outcomes) = answer else { return Ok(()) };
        match (self.facts.keeper(&resource(name)), outcomes.as_slice()) {
            (Some(held), [outcome]) => same(outcome, &held),
            (None, [Acquired::Granted(term)]) => self.granted(who, term.clone()),
            (None, outcomes) => Err(format!("answered {outcomes:?}, but {name} is free")),
            (Some(held), outcomes) => Err(format!("answered {outcomes:?}, the contract says {held:?}")),
        }
    }

    /// Invariant: tokens of a resource strictly rise, whatever the store has forgotten.
    fn granted(&mut self, who: Who, term: Term) -> Result<(), String> {
        let stored = self.facts.token(&term.resource);
        if term.token <= stored || (!self.facts.thawed && term.token.0 != stored.0 + 1) {
            return Err(format!("{term} was granted after {stored}"));
        }
        let highest = self.given.keys().rev().find(|(resource, _)| *resource == term.resource);
        if let Some((_, highest)) = highest.filter(|(_, highest)| *highest >= term.token) {
            return Err(format!("{term} was granted, but {highest} had been given before"));
        }
        let id = self.id(who);
        self.facts.grant(&id, &term);
        self.players[who].terms.insert(term.resource.clone(), term.token);
        self.given.insert((term.resource, term.token), id);
        Ok(())
    }

    /// Waits until the wall clock has left every token behind that the store has forgotten. It has by the time of a thaw, which
    /// comes a TTL after the freeze and so in another second than the last grant.
    pub(super) async fn outlast_what_was_forgotten(&self) {
        let forgotten = self.given.keys().filter(|(resource, token)| *token > self.facts.token(resource));
        let highest = forgotten.map(|(_, token)| token.0).max().unwrap_or_default();
        while clock::token_base(clock::unix_nanos()) < highest {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn release(&mut self, who: Who, term: Term) -> Result<(), String> {
        let id = self.id(who);
        let expected = self.meet(who);
        if self.players[who].terms.get(&term.resource) == Some(&term.token) {
            // Once sent, it is dead to its holder.
            self.players[who].terms.remove(&term.resource);
        }
        let answer = self.players[who].member.release(&[Release { term: term.clone(), offer: None }]).await;
        if self.judge(who, &answer, &expected)? {
            let released = self.facts.release(&id, &term);
            same(answer, Answer::Done(vec![released]))?;
            self.facts.raise(&id, self.players[who].member.sent);
        }
        Ok(())
    }

    pub(super) fn froze(&mut self, nonce: Nonce) -> Result<(), String> {
        if self.knows(nonce) {
            return Err(format!("a freeze under {nonce}, which the store had before"));
        }
        self.facts.freeze(nonce);
        Ok(())
    }

    /// Whether what the last step did to the era can be told only by looking at once.
    pub(super) fn must_look(&self) -> bool {
        self.stranger_called || self.reasserted_now
    }

    /// What must hold after every step.
    pub(super) async fn check(&mut self) -> Result<(), String> {
        let read = self.store.sessions(&pool("work"), Cursor::START).await.expect("the store answers");
        if self.stranger_called && read.era.frozen && read.era.nonce != self.facts.nonce {
            self.froze(read.era.nonce)?;
        }
        same((read.era.nonce, read.era.frozen), (self.facts.nonce, self.facts.frozen))?;
        let (sessions, leases) =
            (all_sessions(&self.store, &pool("work")).await, all_leases(&self.store, &pool("work")).await);
        self.facts.compare(sessions, leases, self.reasserted_now)?;
        // Invariant: nobody else believes in a resource that one believes in.
        let mut believers: BTreeMap<&ResourceId, &MemberId> = BTreeMap::new();
        for player in &self.players {
            for resource in player.terms.keys() {
                if let Some(other) = believers.insert(resource, player.member.id()) {
                    return Err(format!("{other} and {} both believe in {resource}", player.member.id()));
                }
            }
        }
        Ok(())
    }
}
