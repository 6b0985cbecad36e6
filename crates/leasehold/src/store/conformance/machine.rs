//! Random sequences of calls against a small model of the contract.
//!
//! Three members share four resources and do everything a member, a listener and an operator can do, in any
//! order; the store is frozen, rolled back and thawed in between. After every step the answer and everything the
//! store shows are compared with the model, and three invariants are checked on what the members were told:
//! nobody else believes in a term of one's own, no token is given twice or falls, and who is over stays over.
//!
//! Time does not pass here, but for the second in which tokens were given that are forgotten. Where the protocol waits for a
//! whole TTL before it acts, whoever was waited for is taken to have stopped trusting itself.

mod model;
mod others;
mod player;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use self::player::Game;
use super::Harness;

/// How many sequences are tried, and how long they are at most.
const CASES: u32 = 48;
const STEPS_MAX: usize = 40;

/// The names of the resources.
const RESOURCES: [&str; 4] = ["a", "b", "c", "d"];

/// One of the three members.
type Who = usize;
/// One of the four resources.
type What = usize;

/// What can happen.
#[derive(Debug, Clone, Copy)]
enum Step {
    Open(Who),
    Beat(Who),
    /// A beat that was overtaken by later ones.
    LateBeat(Who),
    Describe(Who),
    Close(Who),
    /// The same by a session whose id is never used again.
    Retire(Who),
    Acquire(Who, What),
    /// A session opened with one resource, or one that is there already.
    Claim(Who, What),
    Release(Who, What),
    /// A release of a term that the member does not have.
    ReleaseOther(Who, What),
    EndSilent(Who),
    /// A verdict on a beat that is not the last.
    EndHeard(Who),
    Revoke(What),
    FreeRevoked(What),
    Collect(Who),
    /// A member from an era that the store never had.
    Freeze,
    /// A member that was told of a beat that the store does not have.
    Miss(Who),
    Reassert(Who),
    Thaw,
    ThawOther,
    Snapshot,
    RollBack,
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..3_usize;
    let what = || 0..RESOURCES.len();
    prop_oneof![
        6 => who().prop_map(Step::Open),
        4 => who().prop_map(Step::Beat),
        1 => who().prop_map(Step::LateBeat),
        1 => who().prop_map(Step::Describe),
        2 => who().prop_map(Step::Close),
        4 => who().prop_map(Step::Retire),
        10 => (who(), what()).prop_map(|(who, what)| Step::Acquire(who, what)),
        5 => (who(), what()).prop_map(|(who, what)| Step::Claim(who, what)),
        4 => (who(), what()).prop_map(|(who, what)| Step::Release(who, what)),
        1 => (who(), what()).prop_map(|(who, what)| Step::ReleaseOther(who, what)),
        2 => who().prop_map(Step::EndSilent),
        1 => who().prop_map(Step::EndHeard),
        1 => what().prop_map(Step::Revoke),
        1 => what().prop_map(Step::FreeRevoked),
        2 => who().prop_map(Step::Collect),
        1 => Just(Step::Freeze),
        1 => who().prop_map(Step::Miss),
        5 => who().prop_map(Step::Reassert),
        3 => Just(Step::Thaw),
        1 => Just(Step::ThawOther),
        1 => Just(Step::Snapshot),
        1 => Just(Step::RollBack),
    ]
}

/// Plays random sequences and panics with the shortest that breaks the contract.
pub fn run<H: Harness>() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime for the suite");
    let config =
        Config { cases: CASES, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    let played = TestRunner::new(config).run(&vec((step(), any::<bool>()), 1..STEPS_MAX), |steps| {
        runtime.block_on(play::<H>(&steps)).map_err(TestCaseError::fail)
    });
    if let Err(error) = played {
        panic!("the contract is broken: {error}");
    }
}

/// Plays steps, and looks at what the store shows after those that say so: to look can change how it goes on.
async fn play<H: Harness>(steps: &[(Step, bool)]) -> Result<(), String> {
    let mut game = Game::<H>::begin().await;
    for (number, (step, look)) in steps.iter().enumerate() {
        let played = match game.play(*step).await {
            Ok(()) if *look || game.must_look() || number + 1 == steps.len() => game.check().await,
            played => played,
        };
        played.map_err(|why| format!("step {number}, {step:?}: {why}"))?;
    }
    Ok(())
}
