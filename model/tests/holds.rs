//! The protocol as designed keeps what it promises, in every state that two members can reach.
//!
//! `LEASEHOLD_MODEL=full` visits the larger worlds too: some minutes and gigabytes.

use leasehold_model::{Forgetting, Protocol, Rules, World};
use stateright::{Checker, HasDiscoveries, Model};

const RULES: Rules = Rules::with_eager_listeners();
const WORLD: World = World::two_members();

/// Visits every state; what must hold does, and what must happen somewhere does.
fn holds(name: &str, rules: Rules, world: World) {
    let checker =
        Protocol { rules, world }.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{name}: {} states, {} steps deep", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
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
    holds("base", RULES, either(WORLD, World { numbers: 4, ..WORLD }));
}

#[test]
fn with_a_heartbeat_and_an_acquire_at_the_same_time() {
    let world = World { concurrent: true, ..WORLD };
    holds("concurrent", RULES, either(World { numbers: 2, ..world }, world));
}

#[test]
fn with_crashes_newcomers_and_lost_sessions() {
    let world = World { sessions: 3, crashes: true, closes: true, losses: 1, numbers: 2, ..WORLD };
    holds("crashes", RULES, either(World { numbers: 1, ..world }, world));
}

#[test]
fn with_clocks_that_drift_within_the_margin() {
    let world = World { slip_every: Some(WORLD.ttl), ..WORLD };
    holds("drift", RULES, either(World { numbers: 2, ..world }, world));
}

#[test]
fn with_listeners_that_start_again_when_deaf() {
    let world = World { hears_all: true, ..WORLD };
    holds("careful listeners", Rules::as_designed(), World { numbers: 2, hears_all: is_full(), ..world });
}

#[test]
fn with_reads_that_take_time() {
    let world = World { slow_reads: true, ..WORLD };
    holds("slow reads", RULES, World { numbers: if is_full() { 2 } else { 1 }, ..world });
}

#[test]
fn with_a_store_that_forgets() {
    let world = World::forgetful(Forgetting::Seen);
    holds("forgets", RULES, World { numbers: if is_full() { 3 } else { 2 }, ..world });
}

#[test]
fn with_a_store_that_forgets_without_a_sign() {
    let world = World::forgetful(Forgetting::Unseen);
    holds("forgets without a sign", RULES, either(World { sessions: 1, ..world }, World { numbers: 2, ..world }));
}
