//! The checker of the ledger: any rows give a verdict, whatever their order and however often they come.

#![no_main]

use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::ledger::verify::{Violation, verify};
use leasehold::ledger::{Entry, Event, Reason};
use leasehold::{MemberId, MemberName, ResourceId, Token};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

const EVENTS: [Event; 16] = [
    Event::Joined,
    Event::Left,
    Event::Acquired,
    Event::TakenOver,
    Event::Renewed,
    Event::Started,
    Event::Stopped,
    Event::Released,
    Event::Expired,
    Event::Lost,
    Event::Revoked,
    Event::Frozen,
    Event::Thawed,
    Event::Reasserted,
    Event::Accepted,
    Event::Refused,
];
const REASONS: [Reason; 7] = [
    Reason::Voluntary,
    Reason::Shutdown,
    Reason::Rebalance,
    Reason::TtlExpiry,
    Reason::SessionPaused,
    Reason::Unconfirmed,
    Reason::Superseded,
];
const ROWS_MAX: usize = 64;

/// A moment that is mostly near the others.
fn moment(bytes: &mut Unstructured<'_>) -> Result<u64> {
    if bytes.ratio(15, 16)? { bytes.int_in_range(0..=40) } else { bytes.arbitrary() }
}

fn perhaps<T>(
    bytes: &mut Unstructured<'_>,
    value: impl FnOnce(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Option<T>> {
    if bytes.ratio(3, 4)? { value(bytes).map(Some) } else { Ok(None) }
}

fn row(bytes: &mut Unstructured<'_>) -> Result<Entry> {
    let member = *bytes.choose(&["a", "b", "c"])?;
    Ok(Entry {
        wall_nanos: moment(bytes)?,
        at: Moment(moment(bytes)?),
        boot: (*bytes.choose(&["x", "y", ""])?).to_owned(),
        number: perhaps(bytes, moment)?,
        member: MemberId::new(member).expect("a letter is an id"),
        name: MemberName::new(member).expect("a letter is a name"),
        event: *bytes.choose(&EVENTS)?,
        resource: perhaps(bytes, |bytes| {
            Ok(ResourceId::new(bytes.choose(&["r", "s"])?).expect("a letter is an id"))
        })?,
        token: perhaps(bytes, |bytes| moment(bytes).map(Token))?,
        trusted_until: perhaps(bytes, |bytes| moment(bytes).map(Moment))?,
        ttl_ms: perhaps(bytes, moment)?,
        reason: perhaps(bytes, |bytes| bytes.choose(&REASONS).copied())?,
        error: None,
        other: perhaps(bytes, |bytes| {
            Ok(MemberId::new(bytes.choose(&["a", "b", "c"])?).expect("a letter is an id"))
        })?,
        detail: None,
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Unstructured::new(bytes);
    let Ok(error) = moment(&mut bytes).map(Duration::from_nanos) else { return };
    let mut rows = Vec::new();
    while rows.len() < ROWS_MAX && !bytes.is_empty() {
        let Ok(row) = row(&mut bytes) else { break };
        rows.push(row);
    }
    let verdict = verify(&rows, error);
    let overlaps = verdict.violations.iter().any(|found| matches!(found, Violation::Overlap { .. }));
    assert_eq!(verdict.overlap().is_zero(), !overlaps);
    assert_eq!(verdict.is_clean(), verdict.violations.is_empty());
    // A span of centuries is cut off at what a duration holds.
    for report in verdict.resources.iter().filter(|_| verdict.span < Duration::from_nanos(u64::MAX)) {
        assert!(report.owned <= verdict.span && report.unowned <= verdict.span, "{verdict:#?}");
    }
    for found in &verdict.violations {
        assert!(!found.to_string().contains('\n'));
    }
    assert!(serde_json::to_string(&verdict).is_ok());
    rows.reverse();
    assert_eq!(verify(&rows, error), verdict, "in another order");
    rows.extend(rows.clone());
    assert_eq!(verify(&rows, error), verdict, "each row twice");
});
