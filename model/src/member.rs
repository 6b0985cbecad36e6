//! A member: what it trusts, what it waits for and what it has heard, on its own clock.

use crate::memory::{Memory, Standing};
use crate::network::{Pulse, Request};
use crate::rules::Rules;
use crate::state::{Nonce, SESSIONS, SessionId, Token};
use crate::store::{Answer, Outcome};
use crate::world::World;

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Member {
    /// Its session, if it has one.
    pub session: Option<SessionId>,
    /// The era it knows.
    pub era: Nonce,
    /// The nonce it was told the store is frozen under.
    pub frozen_under: Option<Nonce>,
    /// The number it drew last.
    pub number: u8,
    /// The highest beat confirmed to it.
    pub confirmed: u8,
    /// Ticks of trust left.
    pub trust: u8,
    /// Whether that trust rests on a call sent after the store forgot without a sign.
    pub trust_is_fresh: bool,
    /// The term it holds, as far as it knows.
    pub term: Option<Token>,
    /// The highest token it has given back.
    pub given_back: Token,
    /// The highest token it knows of.
    pub floor: Token,
    /// The heartbeat on its way.
    pub beating: Option<Waiting>,
    /// The acquire on its way.
    pub asking: Option<Waiting>,
    /// What it has heard.
    pub ears: Ears,
}

/// A call whose answer is awaited. Sending another in its place is giving up on this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// The number it drew.
    pub number: u8,
    /// Ticks since before it was sent, no more than matter.
    pub age: u8,
    /// Whether it was sent after the store forgot without a sign.
    pub is_fresh: bool,
    /// The answer on its way.
    pub answer: Option<Answer>,
}

/// What a listener has heard.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Ears {
    /// The era it listens in.
    pub era: Nonce,
    /// Ticks since it last heard anything.
    pub deaf: u8,
    /// For each session alive, the beat and how long it has been silent.
    pub beats: [Option<Heard>; SESSIONS],
    /// The term whose holder has no session, and for how long.
    pub orphan: Option<(SessionId, Heard)>,
    /// For how long the store has been frozen under this era's nonce.
    pub frozen: Option<u8>,
    /// The read on its way.
    pub reading: Option<Reading>,
}

/// Something that has been heard unchanged for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Heard {
    /// What: a beat or a token.
    pub value: u8,
    /// For how many ticks.
    pub ticks: u8,
}

/// A read on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    /// Ticks since before it was sent, no more than matter.
    pub age: u8,
    /// The answer on its way.
    pub answer: Option<Box<Memory>>,
}

impl Member {
    /// Whether it acts as the owner.
    #[must_use]
    pub const fn trusts(&self) -> bool {
        self.term.is_some() && self.trust > 0
    }

    /// Ticks of trust that a call sent just now would give.
    #[must_use]
    pub const fn trust_max(rules: &Rules, world: &World) -> u8 {
        if rules.trust_less_margin { world.ttl - world.margin } else { world.ttl }
    }

    /// The clock goes on, whatever the member does.
    pub(crate) fn tick(&mut self, ticks: u8, rules: &Rules, world: &World) {
        let trust_max = Self::trust_max(rules, world);
        self.trust = self.trust.saturating_sub(ticks);
        if self.trust == 0 {
            self.trust_is_fresh = false;
        }
        for waiting in [&mut self.beating, &mut self.asking].into_iter().flatten() {
            waiting.age = (waiting.age + ticks).min(trust_max);
        }
        self.ears.tick(ticks, rules, world);
    }

    /// Draws a number for a call.
    fn draw(&mut self, session: SessionId) -> Pulse {
        self.number += 1;
        Pulse { session, era: self.era, number: self.number, confirmed: self.confirmed }
    }

    fn wait(&self, number: u8, is_fresh: bool) -> Option<Waiting> {
        Some(Waiting { number, age: 0, is_fresh, answer: None })
    }

    /// Has joined with a new session.
    pub(crate) fn join(&mut self, session: SessionId, era: Nonce) {
        let Self { floor, ears, .. } = std::mem::take(self);
        *self = Self { session: Some(session), era, floor, ears, ..Self::default() };
        self.ears.beats[usize::from(session)] = None;
    }

    /// The session is over; the process is not.
    pub(crate) fn leave(&mut self) {
        let Self { floor, ears, .. } = std::mem::take(self);
        *self = Self { floor, ears, ..Self::default() };
    }

    pub(crate) fn beat(&mut self, session: SessionId, is_fresh: bool) -> Request {
        let pulse = self.draw(session);
        self.beating = self.wait(pulse.number, is_fresh);
        Request::Beat(pulse)
    }

    /// The heartbeat once more, with the number it had, counted from now.
    pub(crate) fn repeat_beat(&mut self) -> Option<Request> {
        let Self { session, era, confirmed, .. } = *self;
        let waiting = self.beating.as_mut()?;
        waiting.age = 0;
        waiting.answer = None;
        Some(Request::Beat(Pulse { session: session?, era, number: waiting.number, confirmed }))
    }

    pub(crate) fn acquire(&mut self, session: SessionId, is_fresh: bool) -> Request {
        let pulse = self.draw(session);
        self.asking = self.wait(pulse.number, is_fresh);
        Request::Acquire(pulse, self.floor)
    }

    /// Gives a term back. It has stopped working on it before.
    pub(crate) fn release(&mut self, session: SessionId, token: Token, rules: &Rules) -> Request {
        let pulse = self.draw(session);
        self.term = None;
        if rules.release_is_final {
            self.given_back = self.given_back.max(token);
        }
        Request::Release(pulse, token)
    }

    pub(crate) fn reassert(&mut self, session: SessionId, nonce: Nonce, is_fresh: bool) -> Option<Request> {
        let token = self.term?;
        let pulse = Pulse { era: nonce, ..self.draw(session) };
        self.beating = self.wait(pulse.number, is_fresh);
        Some(Request::Reassert(pulse, token))
    }

    /// Takes the answer to a heartbeat or a reassertion.
    pub(crate) fn take_beat(&mut self, rules: &Rules, world: &World) {
        if let Some((waiting, answer)) = answered(&mut self.beating) {
            self.take(&waiting, answer, rules, world);
        }
    }

    /// Takes the answer to an acquire.
    pub(crate) fn take_grant(&mut self, rules: &Rules, world: &World) {
        if let Some((waiting, answer)) = answered(&mut self.asking) {
            self.take(&waiting, answer, rules, world);
        }
    }

    fn take(&mut self, waiting: &Waiting, answer: Answer, rules: &Rules, world: &World) {
        let is_grant = matches!(answer.outcome, Outcome::Granted(_) | Outcome::Mine(_));
        match answer.outcome {
            Outcome::Gone => return self.leave(),
            Outcome::Frozen(nonce) => {
                self.frozen_under = (nonce > self.era).then_some(nonce);
                return;
            }
            Outcome::Granted(token) | Outcome::Mine(token) => {
                self.floor = self.floor.max(token);
                if token > self.given_back {
                    self.term = Some(token);
                }
            }
            Outcome::Kept | Outcome::Lost => {
                if let Some(nonce) = self.frozen_under.take() {
                    self.era = nonce;
                }
                if answer.outcome == Outcome::Lost {
                    self.term = None;
                }
            }
            Outcome::Done => {}
        }
        if is_grant && !rules.grants_raise_beat {
            return;
        }
        self.confirmed = self.confirmed.max(answer.beat);
        let passed = if rules.trust_from_before_sending { waiting.age } else { 0 };
        let trust = Self::trust_max(rules, world).saturating_sub(passed);
        if trust > self.trust {
            self.trust = trust;
            self.trust_is_fresh = waiting.is_fresh;
        }
    }

    /// Whether it waits for the answer to this call.
    #[must_use]
    pub fn awaits(&self, request: &Request) -> bool {
        let waiting = match request {
            Request::Beat(_) | Request::Reassert(..) => &self.beating,
            Request::Acquire(..) => &self.asking,
            _ => return false,
        };
        let pulse = request.pulse();
        pulse.is_some_and(|pulse| {
            self.session == Some(pulse.session)
                && waiting.is_some_and(|it| it.number == pulse.number && it.answer.is_none())
        })
    }

    /// The answer to a call it waits for sets out.
    pub(crate) fn answer(&mut self, request: &Request, answer: Answer) {
        let waiting =
            if matches!(request, Request::Acquire(..)) { &mut self.asking } else { &mut self.beating };
        if let Some(waiting) = waiting {
            waiting.answer = Some(answer);
        }
    }

    /// Hears what the store showed. Finds a grant that it did not hear of, and gives it back.
    pub(crate) fn hear(
        &mut self,
        shown: &Memory,
        asked: u8,
        rules: &Rules,
        world: &World,
    ) -> Option<Request> {
        self.ears.hear(shown, self.session, asked, rules, world);
        self.floor = self.floor.max(shown.lease.token);
        let session = self.session?;
        if shown.frozen {
            self.frozen_under = (shown.nonce > self.era).then_some(shown.nonce);
        }
        let unknown = shown.lease.holder == Some(session) && self.term != Some(shown.lease.token);
        (unknown && self.number < world.numbers_of(session) && !shown.frozen)
            .then(|| self.release_unknown(session, shown.lease.token, rules))
    }

    fn release_unknown(&mut self, session: SessionId, token: Token, rules: &Rules) -> Request {
        let term = self.term;
        let request = self.release(session, token, rules);
        // What was read may be older than what is held.
        self.term = term.filter(|held| *held > token);
        request
    }
}

fn answered(slot: &mut Option<Waiting>) -> Option<(Waiting, Answer)> {
    let waiting = (*slot)?;
    let answer = waiting.answer?;
    *slot = None;
    Some((waiting, answer))
}

impl Ears {
    fn tick(&mut self, ticks: u8, rules: &Rules, world: &World) {
        if rules.deaf_listeners_start_again {
            self.deaf = (self.deaf + ticks).min(world.deaf_after + 1);
        }
        let orphan = self.orphan.as_mut().map(|(_, heard)| heard);
        for heard in self.beats.iter_mut().flatten().chain(orphan) {
            heard.ticks = (heard.ticks + ticks).min(world.ttl);
        }
        if let Some(frozen) = &mut self.frozen {
            *frozen = (*frozen + ticks).min(world.ttl);
        }
        if let Some(reading) = &mut self.reading {
            reading.age = (reading.age + ticks).min(world.ttl);
        }
    }

    fn hear(&mut self, shown: &Memory, me: Option<SessionId>, asked: u8, rules: &Rules, world: &World) {
        let is_deaf = rules.deaf_listeners_start_again && self.deaf > world.deaf_after;
        if is_deaf || rules.silence_restarts_with_era && self.era != shown.nonce {
            *self = Self::default();
        }
        let start = if rules.silence_from_after_answer { 0 } else { asked };
        let since = |before: Option<Heard>, value: u8| match before {
            Some(heard) if heard.value == value => heard,
            _ => Heard { value, ticks: start },
        };
        for (id, record) in (0..).zip(&shown.sessions) {
            let ear = &mut self.beats[usize::from(id)];
            let is_heard = me != Some(id) && (world.hears_all || shown.lease.holder == Some(id));
            *ear = (is_heard && record.standing == Standing::Alive).then(|| since(*ear, record.beat));
        }
        let orphan = shown.lease.holder.filter(|holder| {
            me != Some(*holder) && shown.sessions[usize::from(*holder)].standing == Standing::Absent
        });
        let before = self.orphan;
        self.orphan = orphan.map(|holder| {
            let same = before.filter(|(known, _)| *known == holder).map(|(_, heard)| heard);
            (holder, since(same, shown.lease.token))
        });
        let frozen = self.frozen.filter(|_| self.era == shown.nonce).unwrap_or(start);
        self.frozen = shown.frozen.then_some(frozen);
        self.era = shown.nonce;
        self.deaf = 0;
    }

    /// Whether something heard for so long has been unchanged for a whole TTL.
    #[must_use]
    pub fn is_due(&self, ticks: u8, rules: &Rules, world: &World) -> bool {
        let is_deaf = rules.deaf_listeners_start_again && self.deaf > world.deaf_after;
        ticks >= world.ttl && !is_deaf
    }
}
