//! Where one more nanosecond, one more machine or one more row decides: the edges of what the judge holds against
//! anybody.

use std::time::Duration;

use leasehold::ledger::verify::{Verdict, Violation, Why, seconds, verify};
use leasehold::ledger::{Entry, Event, Reason};

use crate::planted::{drained_and_killed, judge, ms, whys};
use crate::rows::{Make, row, term};

fn elsewhere(boot: &str, rows: Vec<Entry>) -> Vec<Entry> {
    rows.into_iter().map(|row| row.elsewhere(boot, 0)).collect()
}

/// The tokens of the two that overlap in each violation of that kind.
fn overlapping(verdict: &Verdict) -> Vec<(u64, u64)> {
    let tokens = |violation: &Violation| match violation {
        Violation::Overlap { first, second, .. } => Some((first.token.0, second.token.0)),
        _ => None,
    };
    verdict.violations.iter().filter_map(tokens).collect()
}

#[test]
fn a_grant_written_as_trust_ended_is_no_fallen_token() {
    let two = term("two", 2, 8_000, 40_000, Reason::Shutdown);
    let late = vec![row("one", Event::Acquired, 9_000).of(1).until(9_000)];
    let verdict = judge(&[two, late]);
    assert!(verdict.is_clean(), "{verdict:#?}");
}

#[test]
fn a_grant_that_went_back_unused_is_no_term() {
    let one = term("one", 1, 0, 10_000, Reason::Rebalance);
    let two = term("two", 3, 11_000, 20_000, Reason::Rebalance);
    let unused = vec![row("three", Event::Released, 10_500).of(2).why(Reason::Unconfirmed)];
    let verdict = judge(&[one, unused, two]);
    assert_eq!((verdict.terms(), verdict.resources[0].terms), (2, 2), "{verdict:#?}");
    assert_eq!(whys(&verdict)[0], (Why::Handoff, ms(1000)));
}

#[test]
fn what_is_undecided_hides_no_one_of_several_that_are_sure() {
    let killed = vec![
        row("one", Event::Acquired, 0).of(1).until(40_000).numbered(1),
        row("one", Event::Started, 0).of(1).until(40_000).numbered(2),
    ];
    let two = term("two", 2, 10_000, 20_000, Reason::Rebalance);
    let three = term("three", 3, 12_000, 13_000, Reason::Rebalance);
    let four = term("four", 4, 15_000, 30_000, Reason::Rebalance);
    assert_eq!(overlapping(&judge(&[killed, two, three, four])), [(2, 3), (2, 4)]);
}

#[test]
fn a_member_that_was_ended_for_its_silence_explains_the_gap_after_it() {
    let one = vec![row("one", Event::Started, 0).of(1).until(5_000)];
    let two = vec![row("two", Event::Acquired, 7_000).of(2).until(9_000)];
    let ended = vec![row("two", Event::Expired, 6_000).other("one").why(Reason::TtlExpiry)];
    assert_eq!(whys(&judge(&[one.clone(), ended, two.clone()])), [(Why::TtlExpiry, ms(2000))]);
    assert_eq!(whys(&judge(&[one, two])), [(Why::Unknown, ms(2000))]);
}

#[test]
fn a_freeze_that_began_as_the_gap_ended_explains_nothing() {
    let one = term("one", 1, 0, 1_000, Reason::Rebalance);
    let two = term("two", 2, 1_500, 9_000, Reason::Shutdown);
    let freeze = |at| vec![row("two", Event::Frozen, at), row("two", Event::Thawed, 2_000)];
    let gap = |at| whys(&judge(&[one.clone(), two.clone(), freeze(at)]))[0];
    assert_eq!(gap(1_500), (Why::Handoff, ms(500)));
    assert_eq!(gap(1_499), (Why::StoreFrozen, ms(500)));
}

#[test]
fn each_gap_is_explained_by_the_term_before_it() {
    let one = term("one", 1, 0, 1_000, Reason::Rebalance);
    let two = term("two", 2, 1_500, 3_000, Reason::Voluntary);
    let three = term("three", 3, 5_000, 6_000, Reason::Revoked);
    let verdict = judge(&[one, two, three, vec![row("one", Event::Left, 9_000)]]);
    assert_eq!(
        whys(&verdict),
        [(Why::Handoff, ms(500)), (Why::Voluntary, ms(2000)), (Why::Revoked, ms(3000))]
    );
    assert_eq!(verdict.resources[0].worst_gap().map(|gap| gap.length), Some(ms(3000)));
}

#[test]
fn a_late_release_excuses_no_one_who_has_the_same_token() {
    let mut one = term("one", 1, 0, 10_000, Reason::Rebalance);
    one.remove(2);
    let two = vec![row("two", Event::Acquired, 9_000).of(1).until(19_000)];
    assert_eq!(overlapping(&judge(&[one, two])), [(1, 1)]);
}

#[test]
fn who_was_heard_as_the_next_one_began_had_not_given_it_back() {
    let two = |at| vec![row("two", Event::Acquired, at).of(2).until(19_000)];
    let verdict = judge(&[drained_and_killed(), two(8_000)]);
    assert_eq!((overlapping(&verdict).len(), verdict.undecided.len()), (1, 0), "{verdict:#?}");
    let verdict = judge(&[drained_and_killed(), two(8_001)]);
    assert_eq!((overlapping(&verdict).len(), verdict.undecided.len()), (0, 1), "{verdict:#?}");
    let same_token = vec![row("two", Event::Acquired, 10_000).of(1).until(19_000)];
    let verdict = judge(&[drained_and_killed(), same_token]);
    assert_eq!(
        (overlapping(&verdict).len(), verdict.undecided.len()),
        (1, 0),
        "a free one has a higher token"
    );
}

#[test]
fn a_token_that_fell_within_the_error_of_the_clocks_is_not_held_against_anybody() {
    let one = term("one", 15, 0, 10, Reason::Rebalance);
    let two = elsewhere("far", term("two", 11, 40, 50, Reason::Rebalance));
    let rows = [one, two].concat();
    assert!(verify(&rows, ms(40)).is_clean());
    assert!(matches!(verify(&rows, ms(39)).violations[..], [Violation::TokenFell { .. }]));
}

#[test]
fn the_one_that_reaches_furthest_is_found_on_whatever_machine() {
    let one = term("one", 1, 0, 10, Reason::Rebalance);
    let two = elsewhere("far", term("two", 2, 20, 60, Reason::Rebalance));
    let three = elsewhere("farther", term("three", 3, 50, 90, Reason::Rebalance));
    assert_eq!(overlapping(&judge(&[one, two, three])), [(2, 3)]);
}

#[test]
fn what_is_excused_between_two_machines_does_not_hide_the_furthest_on_one() {
    let zero = term("zero", 1, 0, 10, Reason::Rebalance);
    let one = term("one", 2, 20, 100, Reason::Rebalance);
    let two = elsewhere("far", term("two", 3, 95, 110, Reason::Rebalance));
    let three = term("three", 4, 98, 200, Reason::Rebalance);
    assert_eq!(overlapping(&verify(&[zero, one, two, three].concat(), ms(20))), [(2, 4)]);
}

#[test]
fn of_those_that_reach_equally_far_the_first_is_told() {
    let rows = [
        term("one", 1, 0, 100, Reason::Rebalance),
        term("two", 2, 50, 100, Reason::Rebalance),
        term("three", 3, 80, 200, Reason::Rebalance),
    ];
    assert_eq!(overlapping(&judge(&rows)), [(1, 2), (1, 3)]);
    let [one, two, three] = rows;
    let rows = [one, elsewhere("far", two), elsewhere("farther", three)];
    assert_eq!(overlapping(&judge(&rows)), [(1, 2), (1, 3)]);
}

#[test]
fn who_closed_its_session_believes_nothing_any_more() {
    let one = vec![row("one", Event::Started, 0).of(1).until(9_000), row("one", Event::Left, 3_000)];
    let two = vec![row("two", Event::Acquired, 4_000).of(2).until(19_000)];
    let verdict = judge(&[one, two]);
    assert!(verdict.is_clean() && verdict.undecided.is_empty(), "{verdict:#?}");
    assert_eq!((verdict.resources[0].owned, whys(&verdict)[0].1), (ms(3000), ms(1000)));
}

#[test]
fn a_few_rows_written_while_a_clock_was_set_move_no_machine() {
    let one = term("one", 1, 0, 10_000, Reason::Rebalance);
    let mut two = elsewhere("far", term("two", 2, 10_500, 20_000, Reason::Shutdown));
    two.extend(elsewhere("far", vec![row("two", Event::Left, 21_000)]));
    two[..2].iter_mut().for_each(|row| row.wall_nanos -= 3_600_000_000_000);
    let verdict = judge(&[one, two]);
    assert_eq!((verdict.machines, whys(&verdict)[0]), (2, (Why::Handoff, ms(500))), "{verdict:#?}");
}

#[test]
fn a_row_without_a_real_number_stands_for_no_other() {
    let numbered = |event, number| row("one", event, number * 10).of(1).until(900).numbered(number);
    let verdict = judge(&[vec![numbered(Event::Started, 0), numbered(Event::Stopped, 2)]]);
    assert_eq!(verdict.missing, 1);
}

#[test]
fn trust_that_was_told_once_is_not_taken_back_by_a_row_that_knows_of_less() {
    let one = vec![
        row("one", Event::Acquired, 0).of(1).until(12_000).numbered(1),
        row("one", Event::Started, 1_000).of(1).until(9_000).numbered(2),
    ];
    let end = vec![row("two", Event::Joined, 20_000)];
    assert_eq!(judge(&[one, end]).resources[0].owned, ms(12_000));
}

#[test]
fn a_duration_is_nothing_only_if_it_is_nothing_at_all() {
    let said = [0, 500, 999_999, 1_000_000, 1_500_000_000].map(|nanos| seconds(Duration::from_nanos(nanos)));
    assert_eq!(said, ["0 s", "0.000000500 s", "0.000999999 s", "0.001 s", "1.500 s"]);
}
