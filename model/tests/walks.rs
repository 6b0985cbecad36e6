//! Three members, a store that forgets, drifting clocks and every other fault at once: too much to visit all
//! of, so by random walks from fixed seeds.

use leasehold_model::state::State;
use leasehold_model::step::{Slip, Step};
use leasehold_model::{Forgetting, Protocol, Rules, World};
use stateright::{Checker, Chooser, HasDiscoveries, Model};

const WORLD: World = World {
    members: 3,
    sessions: 6,
    numbers: 24,
    numbers_later: 24,
    ttl: 3,
    margin: 1,
    deaf_after: 2,
    concurrent: true,
    slow_reads: true,
    hears_all: true,
    closes: true,
    crashes: true,
    collects: false,
    forgetting: Forgetting::Seen,
    rollbacks: 2,
    losses: 1,
    jumps: 0,
    slip_every: Some(3),
    counts_steps: true,
};

/// Chooses among kinds of steps first, so that the many requests on their way do not crowd out the rest, and
/// seldom chooses a fault.
#[derive(Clone)]
struct Walker;

/// Draws numbers that depend on nothing but a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = self.0;
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((drawn ^ (drawn >> 31)) % bound as u64).unwrap_or(0)
    }
}

/// How likely a kind of step is, and which kind it is.
fn kind(step: &Step) -> (usize, u8) {
    match step {
        Step::Tick(Slip::None) => (8, 0),
        Step::Tick(_) => (1, 1),
        Step::Deliver(_) => (24, 2),
        Step::TakeBeat(_) | Step::TakeGrant(_) => (16, 3),
        Step::AskRead(_) | Step::AnswerRead(_) | Step::TakeRead(_) | Step::Read(_) => (60, 4),
        Step::Beat(_) | Step::RepeatBeat(_) => (6, 5),
        Step::Acquire(_) | Step::Join(_) => (3, 6),
        Step::EndSilent(..) | Step::FreeOrphan(_) | Step::Thaw(..) | Step::Reassert(_) => (30, 7),
        Step::Release(_) => (1, 8),
        Step::Snapshot | Step::Rollback => (2, 9),
        Step::Crash(_) | Step::Close(_) | Step::LoseSession(_) | Step::JumpClock | Step::Collect(_) => {
            (1, 10)
        }
    }
}

impl Chooser<Protocol> for Walker {
    type State = Dice;

    fn new_state(&self, seed: u64) -> Dice {
        Dice(seed)
    }

    fn choose_initial_state(&self, _: &mut Dice, _: &[State]) -> usize {
        0
    }

    fn choose_action(&self, dice: &mut Dice, _: &State, steps: &[Step]) -> usize {
        let mut kinds: Vec<(usize, u8)> = steps.iter().map(kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut drawn = dice.below(kinds.iter().map(|(weight, _)| weight).sum());
        let mut chosen = kinds[0];
        for each in kinds {
            chosen = each;
            if drawn < each.0 {
                break;
            }
            drawn -= each.0;
        }
        let these: Vec<usize> = (0..steps.len()).filter(|place| kind(&steps[*place]) == chosen).collect();
        these[dice.below(these.len())]
    }
}

fn is_full() -> bool {
    std::env::var("LEASEHOLD_MODEL").is_ok_and(|wanted| wanted == "full")
}

fn walk(rules: Rules, seed: u64, states: usize) -> impl Checker<Protocol> {
    Protocol { rules, world: WORLD, sought: None }
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .target_max_depth(400)
        .target_state_count(states)
        .spawn_simulation(seed, Walker)
        .join()
}

#[test]
fn three_members_and_every_fault() {
    let states = if is_full() { 20_000_000 } else { 600_000 };
    for seed in [1, 2] {
        let checker = walk(Rules::as_designed(), seed, states);
        println!("walks from seed {seed}: {} states", checker.state_count());
        checker.assert_properties();
    }
}

/// Walks that cannot find a known mistake would say nothing by finding none.
#[test]
fn walks_find_a_rule_that_is_missing() {
    let designed = Rules::as_designed();
    let mistakes = [
        ("no era", Rules { era: false, ..designed }),
        ("verdict without the beat", Rules { verdict_compares_beat: false, ..designed }),
        ("trust from the answer", Rules { trust_from_before_sending: false, ..designed }),
        ("silence from before the read", Rules { silence_from_after_answer: false, ..designed }),
        ("reassert without trust", Rules { reassert_needs_trust: false, ..designed }),
    ];
    for (mistake, rules) in mistakes {
        let checker = walk(rules, 1, 3_000_000);
        let found = checker.discoveries().keys().any(|name| is_promise(name));
        println!("{mistake}: {} states", checker.state_count());
        assert!(found, "{mistake}: not found in {} states", checker.state_count());
    }
}

fn is_promise(name: &str) -> bool {
    use leasehold_model::properties::{CONFIRMED, ENDED, EXCLUSION, TOKENS, VERDICT};
    [CONFIRMED, ENDED, EXCLUSION, TOKENS, VERDICT].contains(&name)
}
