//! The protocol as designed keeps what it promises, in every state that two members can reach.
//!
//! `LEASEHOLD_MODEL=full` visits the larger worlds too: some minutes and gigabytes.

use leasehold_model::properties::{CONFIRMED, ENDED, EXCLUSION, TOKENS};
use leasehold_model::{Forgetting, Protocol, Rules, World};
use stateright::{Checker, HasDiscoveries, Model};

const RULES: Rules = Rules::with_less_care();
const WORLD: World = World::two_members();

/// Visits every state; what must hold does, and what must happen somewhere does.
fn holds(name: &str, rules: Rules, world: World) {
    let checker = check(rules, world);
    println!("{name}: {} states, {} steps deep", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

/// Visits every state; what must hold does.
fn holds_but_for_takeovers(name: &str, rules: Rules, world: World) {
    let checker = check(rules, world);
    println!("{name}: {} states, {} steps deep", checker.unique_state_count(), checker.max_depth());
    for property in [EXCLUSION, TOKENS, ENDED, CONFIRMED] {
        checker.assert_no_discovery(property);
    }
}

fn check(rules: Rules, world: World) -> impl Checker<Protocol> {
    Protocol { rules, world, sought: None }
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join()
}

fn is_full() -> bool {
    std::env::var("LEASEHOLD_MODEL").is_ok_and(|wanted| wanted == "full")
}

/// The world, or the larger one if that is wanted.
fn either(small: World, large: World) -> World {
    if is_full() { large } else { small }
}

#[test]
fn with_a_store_that_remembers() {
    holds("base", RULES, either(WORLD, WORLD.with_numbers(4)));
}

#[test]
fn with_a_heartbeat_and_an_acquire_at_the_same_time() {
    let world = World { concurrent: true, ..WORLD };
    holds("concurrent", RULES, either(world.with_numbers(2), world));
}

#[test]
fn with_crashes_newcomers_and_lost_sessions() {
    let world = World { sessions: 3, crashes: true, closes: true, losses: 1, ..WORLD.with_numbers(1) };
    holds("crashes", RULES, either(world, World { numbers: 2, ..world }));
}

#[test]
fn with_clocks_that_drift_within_the_margin() {
    let world = World { slip_every: Some(WORLD.ttl), ..WORLD };
    holds("drift", RULES, either(world.with_numbers(2), world));
}

#[test]
fn with_listeners_that_start_again_when_deaf() {
    let world = World { hears_all: is_full(), ..WORLD.with_numbers(2) };
    holds("careful listeners", Rules::as_designed(), world);
}

#[test]
fn with_reads_that_take_time() {
    let world = World { slow_reads: true, ..WORLD };
    holds("slow reads", RULES, world.with_numbers(if is_full() { 2 } else { 1 }));
}

#[test]
fn with_a_store_that_forgets() {
    let world = World::forgetful(Forgetting::Seen);
    holds("forgets", RULES, either(world, World { numbers_later: 2, ..world }));
}

#[test]
fn with_a_store_that_forgets_and_a_finer_clock() {
    let world = World { ttl: 4, numbers: 4, sessions: 1, ..World::forgetful(Forgetting::Seen) };
    holds("forgets, finer", RULES, either(world, World { numbers: 3, sessions: 2, ..world }));
}

#[test]
fn with_a_store_that_forgets_without_a_sign() {
    let world = World { numbers: 4, sessions: 1, ..World::forgetful(Forgetting::Unseen) };
    let rules = Rules { deaf_listeners_start_again: false, ..Rules::as_designed() };
    holds("forgets without a sign", rules, either(world, World { sessions: 2, ..world }));
}

/// What a listener heard before a new era counts for nothing in it even if the listener does not forget it:
/// its verdict would carry the old nonce's silence to a session that reasserted, and so has a new beat, or to
/// one that did not, and so is over.
#[test]
fn with_listeners_that_count_through_a_new_era() {
    let rules = Rules { silence_restarts_with_era: false, ..RULES };
    let world = World { ttl: 4, sessions: 1, ..World::forgetful(Forgetting::Seen) };
    holds("silence through eras", rules, world);
}

/// It is the jump that breaks expiry by a store's clock, not the expiry.
#[test]
fn with_a_store_whose_clock_decides_and_never_jumps() {
    let world = WORLD.with_numbers(2);
    holds_but_for_takeovers("store's clock", Rules { listeners_decide: false, ..RULES }, world);
}
