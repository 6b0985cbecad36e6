//! Moments without an owner, and why.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::believed::Term;
use super::timeline::{Place, Row, Timeline};
use super::{Gap, Why};
use crate::lease::{MemberId, MemberName};
use crate::ledger::{Event, Reason};

/// What concerned the whole pool.
#[derive(Debug)]
pub(super) struct Circumstances<'e> {
    /// Stretches in which the store was frozen, in order.
    frozen: Vec<(Place, Place)>,
    /// Who was ended for being silent.
    silent: HashSet<&'e MemberId>,
    names: HashMap<&'e MemberId, &'e MemberName>,
}

impl<'e> Circumstances<'e> {
    pub(super) fn of(timeline: &Timeline<'e>) -> Self {
        let mut frozen: Vec<(Place, Place)> = Vec::new();
        let mut since = None;
        let mut silent = HashSet::new();
        let mut names = HashMap::new();
        for row in timeline.rows() {
            names.entry(&row.entry.member).or_insert(&row.entry.name);
            match row.entry.event {
                Event::Frozen => since = since.or(Some(row.at)),
                Event::Thawed => frozen.extend(since.take().map(|since| (since, row.at))),
                Event::Expired => silent.extend(&row.entry.other),
                _ => {}
            }
        }
        frozen.extend(since.map(|since| (since, timeline.ends())));
        Self { frozen, silent, names }
    }

    /// Whether the store was frozen at some moment between.
    fn was_frozen(&self, from: Place, to: Place) -> bool {
        let next = self.frozen.partition_point(|(_, thawed)| *thawed <= from);
        self.frozen.get(next).is_some_and(|(since, _)| *since < to)
    }
}

/// How long a resource had an owner, and each stretch in which it had none, from the first row that names it to the
/// last of the pool. `terms` are in the order in which they began.
pub(super) fn gaps(
    rows: &[Row<'_>],
    terms: &[Term<'_>],
    pool: &Circumstances<'_>,
    timeline: &Timeline<'_>,
) -> (Duration, Vec<Gap>) {
    let Some(begins) = rows.first().map(|row| row.at) else { return (Duration::ZERO, Vec::new()) };
    let ends = timeline.ends();
    let mut owned = Duration::ZERO;
    let mut gaps = Vec::new();
    let mut covered = begins;
    let mut last: Option<&Term<'_>> = None;
    let mut leave = |from: Place, to: Place, last: Option<&Term<'_>>, next: Option<&Term<'_>>| {
        let length = timeline.between(from, to);
        if !length.is_zero() {
            let why = why(last, next, pool, (from, to));
            let after = unseen(last, next).or(last.map(|last| last.member));
            let after = after.and_then(|member| pool.names.get(member)).map(|name| (*name).clone());
            gaps.push(Gap { from: timeline.when(from), length, why, after });
        }
    };
    for term in terms.iter().filter(|term| term.is_held()) {
        leave(covered, term.from.min(ends), last, Some(term));
        owned = owned.saturating_add(timeline.between(term.from.max(covered), term.until.min(ends)));
        if last.is_none_or(|last| last.until <= term.until) {
            last = Some(term);
        }
        covered = covered.max(term.until);
    }
    leave(covered, ends, last, None);
    (owned, gaps)
}

/// A holder in between of whose term no row is left: it was killed before it had written one.
fn unseen<'e>(last: Option<&Term<'e>>, next: Option<&Term<'e>>) -> Option<&'e MemberId> {
    let taken_from = next.and_then(|next| next.taken_from)?;
    last.is_none_or(|last| last.member != taken_from).then_some(taken_from)
}

fn why(
    last: Option<&Term<'_>>,
    next: Option<&Term<'_>>,
    pool: &Circumstances<'_>,
    (from, to): (Place, Place),
) -> Why {
    if unseen(last, next).is_some() && !pool.was_frozen(from, to) {
        return Why::TtlExpiry;
    }
    let Some(last) = last else { return Why::BeforeFirstGrant };
    let taken_over = next.is_some_and(|next| next.taken_from == Some(last.member));
    let was_silent = taken_over || pool.silent.contains(last.member);
    match last.reason {
        Some(Reason::SessionPaused) => Why::Paused,
        Some(Reason::SessionDeleted) => Why::Unlisted,
        _ if pool.was_frozen(from, to) => Why::StoreFrozen,
        Some(Reason::Rebalance) => Why::Handoff,
        Some(Reason::Shutdown) => Why::Shutdown,
        Some(Reason::Voluntary) => Why::Voluntary,
        Some(Reason::Revoked) => Why::Revoked,
        Some(Reason::TtlExpiry | Reason::Uncertain) => Why::TtlExpiry,
        _ if was_silent => Why::TtlExpiry,
        Some(Reason::Superseded) => Why::Superseded,
        _ if last.revoked => Why::Revoked,
        _ => Why::Unknown,
    }
}
