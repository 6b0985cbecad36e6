//! Whatever the rows are, and however they come, there is a verdict, and always the same.

use std::time::Duration;

use leasehold::ledger::verify::{Violation, verify};
use leasehold::ledger::{Entry, Event, Reason};
use proptest::prelude::*;

use crate::rows::{Make, row, term};

fn ledger() -> Vec<Entry> {
    let mut rows = term("one", 1, 0, 10_000, Reason::Rebalance);
    rows.extend(term("two", 2, 9_000, 20_000, Reason::Shutdown));
    rows.extend(
        term("one", 3, 21_000, 30_000, Reason::Shutdown).into_iter().map(|r| r.elsewhere("far", 100)),
    );
    rows.extend([row("gate", Event::Accepted, 15_000).of(2), row("gate", Event::Accepted, 16_000).of(1)]);
    rows.extend([row("one", Event::Renewed, 9_000).until(12_000), row("two", Event::Frozen, 20_500)]);
    rows
}

fn event() -> impl Strategy<Value = Event> {
    use Event::*;
    proptest::sample::select(vec![
        Joined, Left, Acquired, TakenOver, Renewed, Started, Stopped, Released, Expired, Lost, Revoked,
        Frozen, Thawed, Reasserted, Accepted, Refused,
    ])
}

fn reason() -> impl Strategy<Value = Reason> {
    use Reason::*;
    proptest::sample::select(vec![
        Voluntary,
        Shutdown,
        Rebalance,
        TtlExpiry,
        SessionPaused,
        Unconfirmed,
        Superseded,
    ])
}

fn moment() -> impl Strategy<Value = u64> {
    prop_oneof![0..20_u64, Just(u64::MAX), any::<u64>()]
}

prop_compose! {
    fn anything()(
        event in event(),
        (at, wall, until) in (moment(), moment(), proptest::option::of(moment())),
        (member, other) in ("[abc]", proptest::option::of("[abc]")),
        (resource, token) in (proptest::option::of("[rs]"), proptest::option::of(prop_oneof![0..4_u64, any::<u64>()])),
        boot in "[xy]?",
        (number, reason) in (proptest::option::of(moment()), proptest::option::of(reason())),
    ) -> Entry {
        let mut entry = row(&member, event, 0);
        (entry.at.0, entry.wall_nanos, entry.boot) = (at, wall, boot);
        entry.trusted_until = until.map(leasehold::clock::Moment);
        entry.resource = resource.map(|id| leasehold::ResourceId::new(id).unwrap());
        entry.token = token.map(leasehold::Token);
        entry.other = other.map(|id| leasehold::MemberId::new(id).unwrap());
        (entry.number, entry.reason) = (number, reason);
        entry
    }
}

#[test]
fn of_two_rows_that_differ_in_their_numbers_the_same_is_kept_whichever_comes_first() {
    let grant = |number| row("one", Event::Acquired, 0).of(1).until(10).numbered(number);
    let rest = [row("one", Event::Renewed, 5).until(50).numbered(7), row("gate", Event::Accepted, 90).of(1)];
    let judged = |first, second| {
        let rows = [[grant(first), grant(second)], rest.clone()].concat();
        verify(&rows, Duration::ZERO)
    };
    assert_eq!(judged(0, 7), judged(7, 0));
}

proptest! {
    #[test]
    fn shuffled_and_doubled_rows_give_the_same_verdict(
        rows in Just(ledger()).prop_shuffle(),
        doubled in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let expected = verify(&ledger(), Duration::ZERO);
        prop_assert_eq!(expected.violations.len(), 2);
        let mut rows = rows;
        for index in doubled {
            let row = index.get(&rows).clone();
            rows.push(row);
        }
        prop_assert_eq!(verify(&rows, Duration::ZERO), expected);
    }

    #[test]
    fn any_rows_give_a_verdict_that_does_not_depend_on_their_order(
        rows in proptest::collection::vec(anything(), 0..40),
        error in moment(),
    ) {
        let error = Duration::from_nanos(error);
        let verdict = verify(&rows, error);
        let backwards: Vec<Entry> = rows.iter().rev().cloned().collect();
        prop_assert_eq!(&verify(&backwards, error), &verdict);
        prop_assert!(serde_json::to_string(&verdict).is_ok());
        prop_assert_eq!(verdict.overlap().is_zero(), !verdict.violations.iter().any(|found| matches!(found, Violation::Overlap { .. })));
        prop_assert!(!verdict.to_string().is_empty());
        for found in &verdict.violations {
            prop_assert!(!found.to_string().contains('\n'));
        }
    }
}
