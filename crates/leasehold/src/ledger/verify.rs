//! Judges a ledger: was any resource ever held by two, and why was it held by nobody?
//!
//! Pure: rows in, a verdict out, in O(n log n). Rows may come in any order and more than once, as they do when a
//! store's rows and several members' logs are read together. Rows that are missing make the verdict weaker, never
//! wrong: nothing is a violation that the rows at hand do not show. What they leave open is undecided: a lease that was
//! free to be acquired while its last holder, of which no later row is there, may still have trusted itself. It was
//! given back before, and the row that says so is missing; or it was not, and two were at it.
//!
//! What is judged, for each resource:
//!
//! - **Belief.** A term is believed from its grant until its work stopped or its trust ended, whichever came first.
//!   Of a holder that was killed the last bound of trust is known, from the last heartbeat that was confirmed. No
//!   two terms may be believed at once. A holder that was frozen and stopped its work after its trust had ended is
//!   no overlap, because what is frozen does nothing; it is reported as a late stop.
//! - **Tokens.** One token, one member; a later grant has a higher token.
//! - **Writes.** After a guard let a write through, it lets none through under a lower token.
//! - **Gaps.** Every moment without an owner, and what the rows say about why.
//!
//! Moments of one boot of a machine are compared exactly. Rows of several boots are compared by their wall clocks,
//! and the verdict says so.

mod believed;
mod gaps;
mod judge;
mod report;
mod timeline;
mod trust;

use std::time::Duration;

pub use report::{
    Gap, LateStop, ResourceReport, Tenure, Undecided, Verdict, Violation, When, Why, Write, seconds,
};

use super::Entry;
use timeline::Timeline;

/// Judges the entries of one pool.
///
/// `clock_error` is how far the wall clocks of two machines may be apart: what two machines did within it is not
/// held against them. It means nothing for rows of one machine.
///
/// ```
/// use std::time::Duration;
/// use leasehold::ledger::verify::verify;
///
/// let verdict = verify(&[], Duration::ZERO);
/// assert!(verdict.is_clean());
/// assert_eq!(verdict.overlap(), Duration::ZERO);
/// ```
#[must_use]
pub fn verify(entries: &[Entry], clock_error: Duration) -> Verdict {
    let timeline = Timeline::of(entries);
    let pool = gaps::Circumstances::of(&timeline);
    let mut verdict = Verdict {
        begins: timeline.when(timeline.begins()),
        span: timeline.between(timeline.begins(), timeline.ends()),
        rows: timeline.rows().len(),
        missing: timeline.missing(),
        machines: timeline.machines(),
        resources: Vec::new(),
        violations: Vec::new(),
        undecided: Vec::new(),
    };
    for (resource, rows) in timeline.by_resource() {
        let terms = believed::terms(&rows, &timeline);
        let judge = judge::Judge { resource, timeline: &timeline, clock_error };
        let overlap = judge.overlaps(&terms, &mut verdict);
        judge.tokens(&terms, &mut verdict.violations);
        judge.writes(&rows, &mut verdict.violations);
        let (owned, gaps) = gaps::gaps(&rows, &terms, &pool, &timeline);
        verdict.resources.push(ResourceReport {
            resource: resource.clone(),
            terms: terms.iter().filter(|term| term.is_held()).count(),
            writes: rows.iter().filter(|row| row.entry.event == super::Event::Accepted).count(),
            overlap,
            owned,
            unowned: report::total(gaps.iter().map(|gap| gap.length)),
            gaps,
            late_stops: terms.iter().filter_map(|term| term.late_stop(&timeline)).collect(),
        });
    }
    verdict
}
