//! Each rule is there for a reason: without it the checker finds a trace that breaks what is promised.
//!
//! The traces are the shortest there are. `--nocapture` prints them.

use leasehold_model::properties::{CONFIRMED, ENDED, EXCLUSION, TOKENS, VERDICT};
use leasehold_model::{Forgetting, Protocol, Rules, World};
use stateright::{Checker, HasDiscoveries, Model};

const RULES: Rules = Rules::with_less_care();
const WORLD: World = World::two_members();

/// Where only those who remember more can tell that the store forgot, all care is needed.
const DESIGNED: Rules = Rules { deaf_listeners_start_again: false, ..Rules::as_designed() };

/// Asserts that the property is broken, and prints how.
fn breaks(rule: &str, rules: Rules, world: World, property: &'static str) {
    let protocol = Protocol { rules, world, sought: Some(property) };
    let only_this = HasDiscoveries::AnyOf([property].into_iter().collect());
    let checker = protocol.checker().finish_when(only_this).spawn_bfs().join();
    let visited = checker.unique_state_count();
    let Some(trace) = checker.discovery(property) else {
        panic!("{rule}: \"{property}\" holds in all {visited} states: the rule was not missed");
    };
    let steps = trace.into_actions();
    println!("{rule}: not \"{property}\" after {} steps ({visited} states)", steps.len());
    for step in steps {
        println!("    {step:?}");
    }
}

#[test]
fn trust_counted_from_the_answer() {
    breaks("trust from the answer", Rules { trust_from_before_sending: false, ..RULES }, WORLD, EXCLUSION);
}

#[test]
fn silence_counted_from_before_the_read() {
    let rules = Rules { silence_from_after_answer: false, ..RULES };
    let world = World { slow_reads: true, numbers: 2, numbers_later: 1, ..WORLD };
    breaks("silence from before the read", rules, world, EXCLUSION);
}

#[test]
fn a_beat_that_revives_a_tombstone() {
    let rules = Rules { tombstones_are_final: false, ..RULES };
    breaks("beat revives a tombstone", rules, WORLD, EXCLUSION);
    breaks("beat revives a tombstone", rules, WORLD, ENDED);
}

#[test]
fn a_release_that_does_not_compare_the_token() {
    let rules = Rules { release_compares_token: false, ..RULES };
    breaks("release without the token", rules, WORLD, EXCLUSION);
}

#[test]
fn a_verdict_that_does_not_compare_the_beat() {
    let rules = Rules { verdict_compares_beat: false, ..RULES };
    breaks("verdict without the beat", rules, WORLD.with_numbers(2), EXCLUSION);
}

#[test]
fn a_lease_freed_by_absence() {
    let rules = Rules { only_tombstones_free: false, ..RULES };
    breaks("absence frees", rules, World { losses: 1, ..WORLD }, EXCLUSION);
}

#[test]
fn a_term_used_again_after_its_release_was_sent() {
    breaks("release is not final", Rules { release_is_final: false, ..RULES }, WORLD, EXCLUSION);
}

#[test]
fn a_heartbeat_repeated_with_its_old_number() {
    let rules = Rules { repeats_draw_new_numbers: false, ..RULES };
    breaks("old number, new instant", rules, WORLD.with_numbers(2), EXCLUSION);
}

#[test]
fn a_tombstone_collected_while_its_session_still_calls() {
    let rules = Rules { tombstones_outlive_calls: false, ..RULES };
    breaks(
        "tombstone collected early",
        rules,
        World { collects: true, sessions: 1, ..WORLD.with_numbers(2) },
        ENDED,
    );
}

#[test]
fn a_rollback_without_eras() {
    let world = World::forgetful(Forgetting::Seen);
    breaks("no era", Rules { era: false, ..RULES }, world, EXCLUSION);
    breaks("no era", Rules { era: false, ..RULES }, world, TOKENS);
}

#[test]
fn a_term_reasserted_after_trust_lapsed() {
    let world = World::forgetful(Forgetting::Seen);
    breaks("reassert without trust", Rules { reassert_needs_trust: false, ..RULES }, world, EXCLUSION);
}

#[test]
fn a_term_reasserted_without_a_new_beat() {
    let world = World { ttl: 4, sessions: 1, ..World::forgetful(Forgetting::Seen) };
    breaks("reassert without a beat", Rules { reassert_raises_beat: false, ..RULES }, world, VERDICT);
}

#[test]
fn a_thaw_that_does_not_wait() {
    let world = World::forgetful(Forgetting::Seen);
    breaks("thaw at once", Rules { thaw_waits_a_ttl: false, ..RULES }, world, EXCLUSION);
}

#[test]
fn tokens_that_go_on_where_the_store_remembers() {
    let world = World::forgetful(Forgetting::Seen);
    breaks("no token base", Rules { token_base_after_thaw: false, ..RULES }, world, TOKENS);
}

#[test]
fn a_grant_lost_under_a_live_session() {
    let world = World { sessions: 1, ..World::forgetful(Forgetting::Unseen) };
    breaks("grants raise no beat", Rules { grants_raise_beat: false, ..DESIGNED }, world, CONFIRMED);
    breaks("confirmed not compared", Rules { confirmed_is_compared: false, ..DESIGNED }, world, CONFIRMED);
}

#[test]
fn a_late_grant_lost_under_a_live_session() {
    let world = World { numbers: 4, sessions: 1, ..World::forgetful(Forgetting::Unseen) };
    breaks("late grants raise no beat", RULES, world, CONFIRMED);
}

#[test]
fn a_beat_issued_twice_by_the_store() {
    let world = World { sessions: 1, ..World::forgetful(Forgetting::Unseen) };
    breaks("store issues beats", Rules { holders_number_beats: false, ..DESIGNED }, world, VERDICT);
}

#[test]
fn clocks_that_drift_further_than_the_margin() {
    let world = World { slip_every: Some(1), ..WORLD.with_numbers(2) };
    breaks("drift beyond the margin", RULES, world, EXCLUSION);
}

#[test]
fn trust_without_a_margin() {
    let world = World { slip_every: Some(WORLD.ttl), ..WORLD.with_numbers(2) };
    breaks("no margin", Rules { trust_less_margin: false, ..RULES }, world, EXCLUSION);
}

#[test]
fn expiry_by_a_store_whose_clock_jumps() {
    let rules = Rules { listeners_decide: false, ..RULES };
    breaks("store's clock decides", rules, World { jumps: 1, ..WORLD }, EXCLUSION);
}
