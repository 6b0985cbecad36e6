//! The protocol for the checker: every step that anybody can take, and what must hold after each.

use stateright::{Model, Property};

use crate::member::{Member, Reading};
use crate::memory::{Session, Standing};
use crate::network::{Network, Request};
use crate::properties;
use crate::rules::Rules;
use crate::state::{SessionId, State, Witness};
use crate::step::{Place, Slip, Step};
use crate::store::{Desk, Store};
use crate::world::{Forgetting, World};

/// Certain rules in a certain world.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    /// What everybody keeps to.
    pub rules: Rules,
    /// What can happen.
    pub world: World,
    /// The promise to be broken: where it is, nothing further happens, so that the trace found is a shortest.
    pub sought: Option<&'static str>,
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    /// The first member has joined: who is first makes no difference.
    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            store: Store::new(),
            members: vec![Member::default(); self.world.members],
            network: Network::default(),
            sessions_opened: 0,
            rollbacks: 0,
            losses: 0,
            jumps: 0,
            steady: self.world.slip_every.unwrap_or(0),
            steps: 0,
            witness: Witness::default(),
        };
        self.join(&mut state, 0);
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if self.sought.is_some_and(|property| properties::is_broken(property, state)) {
            return;
        }
        self.steps_of_time(state, steps);
        for place in 0..state.members.len() {
            self.steps_of_member(state, place, steps);
            self.steps_of_listener(state, place, steps);
        }
        steps.extend(state.network.requests().iter().map(|request| Step::Deliver(*request)));
        self.steps_of_store(state, steps);
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        self.take(&mut state, step);
        self.reduce(&mut state);
        if self.world.counts_steps {
            state.steps += 1;
        }
        (state != *before).then_some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        // Eras are bits of a number.
        u32::from(state.store.nonces_drawn) < u64::BITS
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(&self.world)
    }
}

impl Protocol {
    fn steps_of_time(&self, state: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick(Slip::None));
        // In any `every` ticks at most one slips.
        if self.world.slip_every.is_some_and(|every| state.steady + 1 >= every) {
            for place in 0..state.members.len() {
                steps.push(Step::Tick(Slip::Slow(place)));
                steps.push(Step::Tick(Slip::Fast(place)));
            }
        }
    }

    fn steps_of_member(&self, state: &State, place: Place, steps: &mut Vec<Step>) {
        let member = &state.members[place];
        let has_room = state.sessions_opened < self.world.sessions;
        let Some(session) = member.session else {
            if has_room {
                steps.push(Step::Join(place));
            }
            return;
        };
        if has_room && self.world.crashes {
            steps.push(Step::Crash(place));
        }
        if has_room && self.world.closes {
            steps.push(Step::Close(place));
        }
        if member.beating.is_some_and(|waiting| waiting.answer.is_some()) {
            steps.push(Step::TakeBeat(place));
        }
        if member.asking.is_some_and(|waiting| waiting.answer.is_some()) {
            steps.push(Step::TakeGrant(place));
        }
        if !self.rules.repeats_draw_new_numbers && member.beating.is_some() {
            steps.push(Step::RepeatBeat(place));
        }
        if member.number >= self.world.numbers_of(session) {
            return;
        }
        if self.world.hears_all || member.term.is_some() || member.asking.is_some() {
            steps.push(Step::Beat(place));
        }
        if member.term.is_none() {
            steps.push(Step::Acquire(place));
        } else {
            steps.push(Step::Release(place));
        }
        let may_reassert = member.trusts() || member.term.is_some() && !self.rules.reassert_needs_trust;
        if member.frozen_under.is_some() && may_reassert {
            steps.push(Step::Reassert(place));
        }
    }

    fn steps_of_listener(&self, state: &State, place: Place, steps: &mut Vec<Step>) {
        let ears = &state.members[place].ears;
        match &ears.reading {
            _ if !self.world.slow_reads => steps.push(Step::Read(place)),
            None => steps.push(Step::AskRead(place)),
            Some(reading) if reading.answer.is_none() => steps.push(Step::AnswerRead(place)),
            Some(_) => steps.push(Step::TakeRead(place)),
        }
        if !self.rules.listeners_decide {
            return;
        }
        for (id, heard) in (0..).zip(&ears.beats) {
            if heard.is_some_and(|heard| ears.is_due(heard.ticks, &self.rules, &self.world)) {
                steps.push(Step::EndSilent(place, id));
            }
        }
        if ears.orphan.is_some_and(|(_, heard)| ears.is_due(heard.ticks, &self.rules, &self.world)) {
            steps.push(Step::FreeOrphan(place));
        }
        let may_thaw = |ticks| !self.rules.thaw_waits_a_ttl || ears.is_due(ticks, &self.rules, &self.world);
        if ears.frozen.is_some_and(may_thaw) {
            steps.push(Step::Thaw(place, ears.era));
        }
    }

    fn steps_of_store(&self, state: &State, steps: &mut Vec<Step>) {
        if state.rollbacks < self.world.rollbacks {
            steps.push(if state.store.snapshot.is_some() { Step::Rollback } else { Step::Snapshot });
        }
        if state.jumps < self.world.jumps {
            steps.push(Step::JumpClock);
        }
        for (id, session) in (0..).zip(&state.store.memory.sessions) {
            if state.losses < self.world.losses && session.standing == Standing::Alive {
                steps.push(Step::LoseSession(id));
            }
            let is_called = state.network.requests().iter().any(|request| request.session() == Some(id));
            let may_collect = !self.rules.tombstones_outlive_calls || !is_called;
            if self.world.collects && session.standing.is_ended() && may_collect {
                steps.push(Step::Collect(id));
            }
        }
    }

    fn take(&self, state: &mut State, step: Step) {
        match step {
            Step::Tick(slip) => self.tick(state, slip),
            Step::Join(place) => self.join(state, place),
            Step::Crash(place) => state.members[place] = Member::default(),
            Step::Deliver(request) => self.deliver(state, &request),
            Step::TakeBeat(place) => state.members[place].take_beat(&self.rules, &self.world),
            Step::TakeGrant(place) => state.members[place].take_grant(&self.rules, &self.world),
            Step::RepeatBeat(place) => {
                state.members[place]
                    .repeat_beat()
                    .into_iter()
                    .for_each(|request| state.network.send(request));
            }
            Step::Read(place) => self.read(state, place),
            Step::AskRead(place) => {
                state.members[place].ears.reading = Some(Reading { age: 0, answer: None });
            }
            Step::AnswerRead(place) => self.answer_read(state, place),
            Step::TakeRead(place) => self.take_read(state, place),
            Step::Snapshot => state.store.snapshot = Some(Box::new(state.store.memory.clone())),
            Step::Rollback => self.roll_back(state),
            Step::LoseSession(id) => {
                state.losses += 1;
                state.store.memory.sessions[usize::from(id)] = Session::default();
            }
            Step::JumpClock => {
                state.jumps += 1;
                for session in &mut state.store.memory.sessions {
                    session.age = self.world.ttl;
                }
            }
            Step::Collect(id) => self.collect(state, id),
            Step::Close(place)
            | Step::Beat(place)
            | Step::Acquire(place)
            | Step::Release(place)
            | Step::Reassert(place)
            | Step::EndSilent(place, _)
            | Step::FreeOrphan(place)
            | Step::Thaw(place, _) => self.send(state, place, &step),
        }
    }

    fn tick(&self, state: &mut State, slip: Slip) {
        for (place, member) in state.members.iter_mut().enumerate() {
            let ticks = match slip {
                Slip::Slow(slow) if slow == place => 0,
                Slip::Fast(fast) if fast == place => 2,
                _ => 1,
            };
            member.tick(ticks, &self.rules, &self.world);
        }
        if !self.rules.listeners_decide {
            for session in &mut state.store.memory.sessions {
                session.age = (session.age + 1).min(self.world.ttl);
            }
        }
        if let Some(every) = self.world.slip_every {
            state.steady = if slip == Slip::None { (state.steady + 1).min(every) } else { 0 };
        }
    }

    pub(crate) fn desk<'a>(&'a self, store: &'a mut Store, witness: &'a mut Witness) -> Desk<'a> {
        Desk { store, rules: &self.rules, ttl: self.world.ttl, witness }
    }

    /// Opens a session in one step: it holds nothing yet, so nothing depends on how long that takes.
    fn join(&self, state: &mut State, place: Place) {
        let session = state.sessions_opened;
        self.desk(&mut state.store, &mut state.witness).apply(&Request::Open(session));
        let memory = &state.store.memory;
        if memory.sessions[usize::from(session)].standing == Standing::Alive {
            state.sessions_opened += 1;
            state.members[place].join(session, memory.nonce);
            if self.world.collects {
                state.network.send(Request::Open(session));
            }
        }
    }

    fn send(&self, state: &mut State, place: Place, step: &Step) {
        let is_fresh = self.world.forgetting == Forgetting::Unseen && state.rollbacks > 0;
        let member = &mut state.members[place];
        if let Some(verdict) = verdict(member, step) {
            return state.network.send(verdict);
        }
        let Some(session) = member.session else { return };
        if !self.world.concurrent && matches!(step, Step::Beat(_) | Step::Acquire(_) | Step::Reassert(_)) {
            member.beating = None;
            member.asking = None;
        }
        let request = match step {
            Step::Beat(_) => Some(member.beat(session, is_fresh)),
            Step::Acquire(_) => Some(member.acquire(session, is_fresh)),
            Step::Release(_) => member.term.map(|token| member.release(session, token, &self.rules)),
            Step::Reassert(_) => {
                member.frozen_under.and_then(|nonce| member.reassert(session, nonce, is_fresh))
            }
            Step::Close(_) => {
                member.leave();
                Some(Request::Close(session))
            }
            _ => None,
        };
        if let Some(request) = request {
            state.network.send(request);
        }
    }

    fn deliver(&self, state: &mut State, request: &Request) {
        let alive =
            |store: &Store, id: SessionId| store.memory.sessions[usize::from(id)].standing == Standing::Alive;
        if let Request::EndSilent(id, ..) = *request
            && alive(&state.store, id)
        {
            self.desk(&mut state.store, &mut state.witness).apply(request);
            let was_ended = !alive(&state.store, id);
            let forgot = self.world.forgetting == Forgetting::Unseen && state.rollbacks > 0;
            let trusts = state.member_of(id).is_some_and(|it| it.trusts() && (!forgot || it.trust_is_fresh));
            state.witness.ended_in_trust |= was_ended && trusts;
            return;
        }
        let answer = self.desk(&mut state.store, &mut state.witness).apply(request);
        let lease = state.store.memory.lease;
        let Some((answer, session)) = answer.zip(request.session()) else { return };
        let Some(member) = state.member_of(session).filter(|member| member.awaits(request)) else { return };
        member.answer(request, answer);
        let is_its_own = lease.holder == Some(session) && Some(lease.token) == member.term;
        let is_beat = matches!(request, Request::Beat(_)) && answer.outcome.is_confirmed();
        state.witness.confirmed_in_vain |= is_beat && member.term.is_some() && !is_its_own;
    }

    fn read(&self, state: &mut State, place: Place) {
        self.desk(&mut state.store, &mut state.witness).look();
        let shown = state.store.memory.clone();
        let found = state.members[place].hear(&shown, 0, &self.rules, &self.world);
        found.into_iter().for_each(|request| state.network.send(request));
    }

    fn answer_read(&self, state: &mut State, place: Place) {
        self.desk(&mut state.store, &mut state.witness).look();
        if let Some(reading) = &mut state.members[place].ears.reading {
            reading.answer = Some(Box::new(state.store.memory.clone()));
        }
    }

    fn take_read(&self, state: &mut State, place: Place) {
        let member = &mut state.members[place];
        if let Some(Reading { age, answer: Some(shown) }) = member.ears.reading.take() {
            let found = member.hear(&shown, age, &self.rules, &self.world);
            found.into_iter().for_each(|request| state.network.send(request));
        }
    }

    fn roll_back(&self, state: &mut State) {
        if let Some(memory) = state.store.snapshot.take() {
            state.store.memory = *memory;
            state.rollbacks += 1;
            match self.world.forgetting {
                Forgetting::Seen => state.store.identity += 1,
                _ => state.network.clear(),
            }
        }
    }

    fn collect(&self, state: &mut State, id: SessionId) {
        let memory = &mut state.store.memory;
        memory.sessions[usize::from(id)] = Session::default();
        if memory.lease.holder == Some(id) {
            memory.lease.holder = None;
        }
    }
}

/// What a listener says, whether or not it has a session.
fn verdict(member: &Member, step: &Step) -> Option<Request> {
    let ears = &member.ears;
    match step {
        Step::EndSilent(_, id) => {
            ears.beats[usize::from(*id)].map(|heard| Request::EndSilent(*id, heard.value, ears.era))
        }
        Step::FreeOrphan(_) => {
            ears.orphan.map(|(holder, heard)| Request::FreeOrphan(holder, heard.value, ears.era))
        }
        Step::Thaw(_, nonce) => Some(Request::Thaw(*nonce)),
        _ => None,
    }
}
