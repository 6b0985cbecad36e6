//! Ledgers made by hand: violations that must be found, and what must not be taken for one.

use std::time::Duration;

use leasehold::ledger::verify::{Verdict, Violation, Why, verify};
use leasehold::ledger::{Entry, Event, Reason};

use crate::rows::{Make, row, term};

pub(crate) fn judge(rows: &[Vec<Entry>]) -> Verdict {
    verify(&rows.concat(), Duration::ZERO)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn whys(verdict: &Verdict) -> Vec<(Why, Duration)> {
    verdict.resources[0].gaps.iter().map(|gap| (gap.why, gap.length)).collect()
}

#[test]
fn two_tasks_at_once_are_found() {
    let one = term("one", 4, 0, 10_000, Reason::Rebalance);
    let two = term("two", 5, 9_000, 20_000, Reason::Shutdown);
    let verdict = judge(&[one, two]);
    assert!(!verdict.is_clean());
    assert_eq!(verdict.overlap(), ms(1000));
    let [Violation::Overlap { first, second, length, .. }] = &verdict.violations[..] else {
        panic!("{:?}", verdict.violations)
    };
    assert_eq!((first.token.0, second.token.0, *length), (4, 5, ms(1000)));
    assert_eq!(
        verdict.violations[0].to_string(),
        "a had two owners for 1.000 s: one (one-1) under token 4 from +0.000 s to +10.000 s, \
         and two (two-1) under token 5 from +9.000 s to +20.000 s"
    );
}

#[test]
fn trust_that_was_counted_too_long_is_found_without_a_row_that_says_stopped() {
    let one = vec![
        row("one", Event::Acquired, 0).of(1).until(9_000),
        row("one", Event::Started, 0).of(1).until(9_000),
        row("one", Event::Renewed, 8_000).until(17_000),
    ];
    let two = vec![
        row("two", Event::Expired, 15_000).other("one").why(Reason::TtlExpiry),
        row("two", Event::TakenOver, 15_000).of(2).until(24_000).other("one"),
    ];
    let verdict = judge(&[one, two]);
    assert_eq!(verdict.overlap(), ms(2000), "{verdict:#?}");
    assert_eq!(verdict.violations.len(), 1);
}

#[test]
fn a_holder_that_was_killed_is_believed_until_its_trust_ends_and_no_longer() {
    let one = vec![
        row("one", Event::Started, 0).of(1).until(9_000),
        row("one", Event::Renewed, 3_000).until(12_000),
    ];
    let two = vec![
        row("two", Event::Expired, 13_000).other("one").why(Reason::TtlExpiry),
        row("two", Event::TakenOver, 13_500).of(2).until(22_000).other("one"),
    ];
    let verdict = judge(&[one, two]);
    assert!(verdict.is_clean(), "{verdict:#?}");
    assert_eq!(whys(&verdict), [(Why::TtlExpiry, ms(1500))]);
    assert_eq!(verdict.resources[0].owned, ms(12_000));
}

#[test]
fn nothing_written_after_a_missing_row_makes_a_belief_longer() {
    let lived_on = |number| {
        vec![
            row("one", Event::Acquired, 0).of(1).until(9_000).numbered(1),
            row("one", Event::Started, 0).of(1).until(9_000).numbered(2),
            row("one", Event::Renewed, 3_000).until(12_000).numbered(2),
            row("one", Event::Renewed, 30_000).until(39_000).numbered(number),
        ]
    };
    let two = vec![row("two", Event::Acquired, 15_000).of(2).until(24_000)];
    let verdict = judge(&[lived_on(4), two.clone()]);
    assert!(verdict.is_clean(), "the rows that say stopped and released are missing: {verdict:#?}");
    let verdict = judge(&[lived_on(2), two]);
    assert_eq!(verdict.overlap(), ms(9000), "no row is missing: it did not stop");
}

/// One that was drained and then killed before the rows that say so were written.
pub(crate) fn drained_and_killed() -> Vec<Entry> {
    vec![
        row("one", Event::Acquired, 0).of(1).until(9_000).numbered(1),
        row("one", Event::Started, 0).of(1).until(9_000).numbered(2),
        row("one", Event::Renewed, 8_000).until(17_000).numbered(2),
    ]
}

#[test]
fn a_holder_whose_last_rows_are_lost_leaves_the_handoff_undecided() {
    let two = vec![row("two", Event::Acquired, 10_000).of(2).until(19_000).numbered(1)];
    let verdict = judge(&[drained_and_killed(), two.clone()]);
    assert!(verdict.is_clean() && verdict.overlap().is_zero(), "{verdict:#?}");
    assert_eq!(verdict.undecided.len(), 1, "{verdict:#?}");
    assert_eq!(
        verdict.undecided[0].to_string(),
        "a for up to 7.000 s: one (one-1) under token 1 from +0.000 s to +17.000 s, \
         and two (two-1) under token 2 from +10.000 s to +19.000 s"
    );
    assert!(verdict.to_string().ends_with(", 1 undecided"), "{verdict}");
    let alive = vec![row("one", Event::Joined, 10_500).numbered(2)];
    let verdict = judge(&[drained_and_killed(), alive, two.clone()]);
    assert_eq!(
        (verdict.overlap(), verdict.undecided.len()),
        (ms(7000), 0),
        "it lived on and had not stopped"
    );
    let released = vec![row("one", Event::Released, 18_000).of(1).numbered(4)];
    let verdict = judge(&[drained_and_killed(), released, two]);
    assert!(verdict.is_clean(), "the row that says stopped is missing: {verdict:#?}");
}

#[test]
fn a_lease_taken_over_from_one_that_trusts_itself_is_found_though_its_last_rows_are_lost() {
    let two = vec![row("two", Event::TakenOver, 10_000).of(2).until(19_000).other("one")];
    let verdict = judge(&[drained_and_killed(), two]);
    assert_eq!((verdict.overlap(), verdict.undecided.len()), (ms(7000), 0), "{verdict:#?}");
    let lower = vec![row("two", Event::Acquired, 10_000).of(0).until(19_000)];
    assert_eq!(judge(&[drained_and_killed(), lower]).overlap(), ms(7000));
}

#[test]
fn what_is_undecided_hides_nothing_that_is_sure() {
    let two = term("two", 2, 10_000, 14_000, Reason::Rebalance);
    let three = term("three", 3, 13_000, 20_000, Reason::Rebalance);
    let verdict = judge(&[drained_and_killed(), two, three]);
    let [Violation::Overlap { first, length, .. }] = &verdict.violations[..] else { panic!("{verdict:#?}") };
    assert_eq!((first.token.0, *length, verdict.undecided.len()), (2, ms(1000), 1), "{verdict:#?}");
}

#[test]
fn a_release_is_written_after_the_next_grant_and_is_no_overlap() {
    let mut one = term("one", 1, 0, 10_000, Reason::Rebalance);
    one.remove(2);
    let two = vec![row("two", Event::Acquired, 9_999).of(2).until(19_000)];
    assert!(judge(&[one, two]).is_clean());
}

#[test]
fn a_frozen_holder_that_wakes_late_is_a_late_stop_and_no_overlap() {
    let one = vec![
        row("one", Event::Started, 0).of(1).until(9_000),
        row("one", Event::Renewed, 3_000).until(12_000),
        row("one", Event::Stopped, 60_000).of(1).until(12_000).why(Reason::TtlExpiry),
        row("one", Event::Lost, 60_000).of(1).until(12_000).why(Reason::TtlExpiry),
    ];
    let two = term("two", 2, 13_000, 61_000, Reason::Shutdown);
    let verdict = judge(&[one, two]);
    assert!(verdict.is_clean(), "{verdict:#?}");
    let late: Vec<_> = verdict.late_stops().collect();
    assert_eq!((late.len(), late[0].late), (1, ms(48_000)));
    assert!(late[0].to_string().starts_with("stopped 48.000 s after trust ended: one (one-1) under token 1"));
}

#[test]
fn work_that_went_on_after_its_holder_knew_of_the_loss_is_found() {
    let one = vec![
        row("one", Event::Acquired, 0).of(1).until(9_000),
        row("one", Event::Lost, 5_000).of(1).until(9_000).why(Reason::Superseded),
        row("one", Event::Stopped, 8_000).of(1).until(9_000).why(Reason::Superseded),
    ];
    let two = vec![row("two", Event::Acquired, 6_000).of(2).until(15_000)];
    assert_eq!(judge(&[one.clone(), two.clone()]).overlap(), ms(2000));
    let verdict = judge(&[one[..2].to_vec(), two]);
    assert!(verdict.is_clean(), "no row says that it went on: {verdict:#?}");
}

#[test]
fn a_revoked_term_is_not_extended_by_later_heartbeats() {
    let one = vec![
        row("one", Event::Started, 0).of(1).until(9_000),
        row("one", Event::Revoked, 4_000).of(1).until(12_000).why(Reason::Revoked),
        row("one", Event::Renewed, 20_000).until(29_000),
    ];
    let two = vec![row("two", Event::Acquired, 13_000).of(2).until(22_000)];
    let verdict = judge(&[one, two]);
    assert!(verdict.is_clean(), "{verdict:#?}");
    assert_eq!(whys(&verdict), [(Why::Revoked, ms(1000))]);
}

#[test]
fn one_token_under_two_members_is_found() {
    let one = term("one", 7, 0, 1_000, Reason::Rebalance);
    let two = term("two", 7, 2_000, 3_000, Reason::Rebalance);
    let verdict = judge(&[one, two]);
    assert!(matches!(verdict.violations[..], [Violation::TokenShared { .. }]), "{verdict:#?}");
}

#[test]
fn a_token_granted_twice_to_one_member_is_found() {
    let again = term("one", 7, 2_000, 3_000, Reason::Rebalance);
    let verdict = judge(&[term("one", 7, 0, 1_000, Reason::Rebalance), again]);
    assert!(matches!(verdict.violations[..], [Violation::TokenFell { .. }]), "{verdict:#?}");
}

#[test]
fn a_token_that_fell_is_found() {
    let one = term("one", 15, 0, 1_000, Reason::Rebalance);
    let two = term("two", 11, 2_000, 3_000, Reason::Rebalance);
    let verdict = judge(&[one, two]);
    assert!(matches!(verdict.violations[..], [Violation::TokenFell { .. }]), "{verdict:#?}");
}

#[test]
fn a_grant_written_by_one_who_was_frozen_meanwhile_is_no_fallen_token() {
    let one = vec![row("one", Event::Acquired, 30_000).of(1).until(9_000)];
    let two = term("two", 2, 12_000, 40_000, Reason::Shutdown);
    assert!(judge(&[one, two]).is_clean());
}

#[test]
fn a_stale_write_is_found() {
    let write = |token, at| row("gate", Event::Accepted, at).of(token);
    let verdict = judge(&[vec![write(4, 1), write(4, 2), write(5, 3), write(5, 4)]]);
    assert!(verdict.is_clean());
    assert_eq!(verdict.resources[0].writes, 4);
    let verdict = judge(&[vec![write(4, 1), write(5, 3), write(4, 4), write(5, 5)]]);
    let said: Vec<String> = verdict.violations.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "a took a stale write: gate let one through under token 4 at +0.003 s, after one under token 5 at +0.002 s"
        ]
    );
}

#[test]
fn every_gap_says_why() {
    let reasons = [
        (Reason::Rebalance, Why::Handoff),
        (Reason::Shutdown, Why::Shutdown),
        (Reason::Voluntary, Why::Voluntary),
        (Reason::SessionPaused, Why::Paused),
        (Reason::SessionDeleted, Why::Unlisted),
        (Reason::Revoked, Why::Revoked),
        (Reason::Uncertain, Why::TtlExpiry),
        (Reason::Superseded, Why::Superseded),
    ];
    for (reason, why) in reasons {
        let one = term("one", 1, 0, 1_000, reason);
        let two = term("two", 2, 1_500, 9_000, Reason::Shutdown);
        let left = vec![row("two", Event::Left, 9_000)];
        let verdict = judge(&[one, two[..3].to_vec(), left]);
        assert_eq!(whys(&verdict), [(why, ms(500))]);
        assert_eq!(verdict.unexplained(), Duration::ZERO);
    }
}

#[test]
fn a_holder_that_was_killed_before_it_wrote_a_row_is_named_all_the_same() {
    let one = term("one", 1, 0, 1_000, Reason::Rebalance);
    let two = vec![row("two", Event::Joined, 500).until(3_000)];
    let again = vec![row("one", Event::TakenOver, 4_000).of(3).until(9_000).other("two")];
    let verdict = judge(&[one, two, again]);
    let gap = &verdict.resources[0].gaps[0];
    assert_eq!(gap.to_string(), "3.000 s from +1.000 s: silence (two had it)");
}

#[test]
fn a_gap_before_the_first_grant_in_a_freeze_or_without_a_word_says_so() {
    let waiting = vec![row("one", Event::AcquireFailed, 0).on("a")];
    let one = vec![row("one", Event::Started, 1_000).of(1).until(5_000)];
    let freeze = vec![row("two", Event::Frozen, 6_000), row("two", Event::Thawed, 8_000)];
    let two = vec![row("two", Event::Started, 9_000).of(2).until(12_000)];
    let end = vec![row("two", Event::Joined, 20_000)];
    let verdict = judge(&[waiting, one, freeze, two, end]);
    let expected =
        [(Why::BeforeFirstGrant, ms(1000)), (Why::StoreFrozen, ms(4000)), (Why::Unknown, ms(8000))];
    assert_eq!(whys(&verdict), expected);
    assert_eq!((verdict.unexplained(), verdict.unowned()), (ms(8000), ms(13_000)));
}

#[test]
fn machines_are_compared_by_their_wall_clocks_and_the_verdict_says_so() {
    let far = |rows: Vec<Entry>| rows.into_iter().map(|row| row.elsewhere("far", 500)).collect::<Vec<_>>();
    let one = term("one", 1, 1_000, 10_000, Reason::Rebalance);
    let verdict = judge(&[one.clone(), far(term("two", 2, 10_500, 20_000, Reason::Shutdown))]);
    assert!(verdict.is_clean(), "{verdict:#?}");
    assert_eq!((verdict.machines, whys(&verdict)[0]), (2, (Why::Handoff, ms(500))));
    assert_eq!(verdict.compared(), "2 machines, compared by their wall clocks");
    let early = far(term("two", 2, 9_970, 20_000, Reason::Shutdown));
    let rows = [one, early];
    assert_eq!(judge(&rows).overlap(), ms(30));
    assert!(verify(&rows.concat(), ms(30)).is_clean(), "clocks that are known to differ that much");
    assert!(!verify(&rows.concat(), ms(29)).is_clean());
}

#[test]
fn what_is_excused_between_two_machines_hides_nothing_on_one() {
    let far = |rows: Vec<Entry>| rows.into_iter().map(|row| row.elsewhere("far", 50)).collect::<Vec<_>>();
    let one = term("one", 1, 0, 100, Reason::Rebalance);
    let two = far(term("two", 2, 95, 110, Reason::Rebalance));
    let three = term("three", 3, 98, 200, Reason::Rebalance);
    let verdict = verify(&[one, two, three].concat(), ms(20));
    let [Violation::Overlap { first, second, length, .. }] = &verdict.violations[..] else {
        panic!("{verdict:#?}")
    };
    assert_eq!((first.token.0, second.token.0, *length), (1, 3, ms(2)));
}

#[test]
fn what_is_excused_for_a_late_release_hides_nothing_else() {
    let mut one = term("one", 1, 0, 100, Reason::Rebalance);
    one.remove(2);
    let two = term("two", 2, 50, 80, Reason::Rebalance);
    let three = term("three", 3, 70, 200, Reason::Rebalance);
    let verdict = judge(&[one, two, three]);
    let [Violation::Overlap { first, second, length, .. }] = &verdict.violations[..] else {
        panic!("{verdict:#?}")
    };
    assert_eq!((first.token.0, second.token.0, *length), (2, 3, ms(10)));
}

#[test]
fn rows_that_are_missing_are_counted() {
    let numbered = |event, number| row("one", event, number * 10).of(1).until(900).numbered(number);
    let whole = vec![numbered(Event::Acquired, 1), numbered(Event::Started, 2), numbered(Event::Stopped, 3)];
    let verdict = judge(std::slice::from_ref(&whole));
    assert_eq!(verdict.missing, 0);
    assert!(!verdict.to_string().contains("missing"), "{verdict}");
    let holes = vec![numbered(Event::Started, 2), numbered(Event::Stopped, 5)];
    let left = vec![row("one", Event::Left, 60).numbered(6)];
    let verdict = judge(&[holes, left]);
    assert_eq!(verdict.missing, 4, "1, 3, 4, and 6, which the last one knows of");
    assert!(verdict.to_string().ends_with("one machine, 4 rows missing"), "{verdict}");
}

#[test]
fn a_clock_that_was_set_does_not_disturb_the_rows_of_one_machine() {
    let one = term("one", 1, 0, 10_000, Reason::Rebalance);
    let mut two = term("two", 2, 10_001, 20_000, Reason::Shutdown);
    two.iter_mut().for_each(|row| row.wall_nanos -= 3_600_000_000_000);
    assert!(judge(&[one, two]).is_clean());
}
