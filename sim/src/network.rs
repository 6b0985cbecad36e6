//! Between the machines and the store: delay, loss, cuts, outages, and a store that crashes or fails over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How calls fare. Chances are in thousandths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// The longest delay of an ordinary request or answer.
    pub(crate) delay_max: Duration,
    /// How often a request, or an answer, is slow, and the longest delay of one that is.
    pub(crate) slow_request: u32,
    pub(crate) slow_answer: u32,
    pub(crate) slow_max: Duration,
    pub(crate) request_lost: u32,
    pub(crate) answer_lost: u32,
    /// How often a call fails at once with an error.
    pub(crate) refused: u32,
    /// How often a request arrives twice.
    pub(crate) twice: u32,
    /// How often a hint gets lost, and how often it comes twice.
    pub(crate) hint_lost: u32,
    pub(crate) hint_twice: u32,
}

impl Weather {
    pub(crate) const CALM: Self = Self {
        delay_max: Duration::from_millis(2),
        slow_request: 0,
        slow_answer: 0,
        slow_max: Duration::ZERO,
        request_lost: 0,
        answer_lost: 0,
        refused: 0,
        twice: 0,
        hint_lost: 0,
        hint_twice: 0,
    };

    /// The weather of a whole run, whose calls may take `timeout`.
    pub(crate) fn of_run(rng: &mut fastrand::Rng, timeout: Duration) -> Self {
        let chance = |rng: &mut fastrand::Rng, most| if rng.bool() { rng.u32(0..=most) } else { 0 };
        Self {
            delay_max: Duration::from_millis(rng.u64(0..=20)),
            slow_request: chance(rng, 60),
            slow_answer: chance(rng, 60),
            slow_max: timeout.mul_f64([0.8, 1.5, 10.0][rng.usize(0..3)]),
            request_lost: chance(rng, 30),
            answer_lost: chance(rng, 30),
            refused: chance(rng, 20),
            twice: chance(rng, 30),
            hint_lost: chance(rng, 800),
            hint_twice: chance(rng, 300),
        }
    }

    /// A storm: much is slow, or much is lost, on the way there or on the way back.
    pub(crate) fn storm(self, rng: &mut fastrand::Rng) -> Self {
        let much = |rng: &mut fastrand::Rng, most| if rng.bool() { rng.u32(most / 4..=most) } else { 0 };
        Self {
            slow_request: much(rng, 900),
            slow_answer: much(rng, 900),
            request_lost: much(rng, 300),
            answer_lost: much(rng, 300),
            ..self
        }
    }
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    pub(crate) request_delay: Duration,
    pub(crate) answer_delay: Duration,
    pub(crate) request_lost: bool,
    pub(crate) answer_lost: bool,
    pub(crate) refused: bool,
    pub(crate) twice: bool,
}

/// The state of everything between the machines and the store.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) weather: Weather,
    /// The weather of machines that have their own.
    pub(crate) local: BTreeMap<usize, Weather>,
    /// Machines whose requests, or whose answers, do not get through.
    pub(crate) deaf_store: BTreeSet<usize>,
    pub(crate) deaf_machine: BTreeSet<usize>,
    /// The store does not answer at all.
    pub(crate) store_down: bool,
    /// The store takes calls in, answers none, and will lose them.
    pub(crate) store_mute: bool,
    /// Counts the store's crashes: what it took in before one is not answered after it.
    pub(crate) crashes: u32,
}

impl Network {
    pub(crate) fn new(weather: Weather) -> Self {
        Self {
            weather,
            local: BTreeMap::new(),
            deaf_store: BTreeSet::new(),
            deaf_machine: BTreeSet::new(),
            store_down: false,
            store_mute: false,
            crashes: 0,
        }
    }

    pub(crate) fn weather_of(&self, machine: usize) -> Weather {
        self.local.get(&machine).copied().unwrap_or(self.weather)
    }

    pub(crate) fn fate(&self, machine: usize, rng: &mut fastrand::Rng) -> Fate {
        let Weather { delay_max, slow_request, slow_answer, slow_max, .. } = self.weather_of(machine);
        let Weather { request_lost, answer_lost, refused, twice, .. } = self.weather_of(machine);
        let mut happens = |chance: u32| chance > 0 && rng.u32(0..1000) < chance;
        let (slow_request, slow_answer) = (happens(slow_request), happens(slow_answer));
        let (request_lost, answer_lost) = (happens(request_lost), happens(answer_lost));
        let (refused, twice) = (happens(refused), happens(twice));
        let mut delay = |slow: bool| {
            let most = if slow { slow_max } else { delay_max };
            Duration::from_millis(rng.u64(0..=most.as_millis() as u64))
        };
        let (request_delay, answer_delay) = (delay(slow_request), delay(slow_answer));
        Fate { request_delay, answer_delay, request_lost, answer_lost, refused, twice }
    }
}

impl Network {
    /// Cuts a machine's way to the store, or the way back, or both.
    pub(crate) fn cut(&mut self, machine: usize, requests: bool, answers: bool) {
        self.deaf_store.extend(requests.then_some(machine));
        self.deaf_machine.extend(answers.then_some(machine));
    }

    pub(crate) fn reconnect(&mut self, machine: usize) {
        self.deaf_store.remove(&machine);
        self.deaf_machine.remove(&machine);
    }

    /// Whether a request of this machine reaches the store.
    pub(crate) fn hears(&self, machine: usize) -> bool {
        !self.store_down && !self.deaf_store.contains(&machine)
    }

    /// Whether an answer to what was decided before the store's `crashes`-th crash reaches this machine.
    pub(crate) fn answers(&self, machine: usize, crashes: u32) -> bool {
        !self.store_down
            && !self.store_mute
            && self.crashes == crashes
            && !self.deaf_machine.contains(&machine)
    }
}
