//! Doing it.
//!
//! Invariant: what is done with a basis is done to exactly what was looked at, or not at all: marks are compare-and-set, and a
//! revocation names its term.

use std::time::Duration;

use super::act::{RESIGNS, SEAT};
use super::{Act, basis, is_done};
use crate::clock::{Clock, SystemClock};
use crate::lease::{MemberName, Pool, Term};
use crate::store::{Cursor, MarkKind, Marked, Revoked, Store, StoreError, Version};
use crate::view::View;

/// How often a mark is tried again because somebody else changed it at the same moment.
const TRIES_MAX: usize = 16;
/// How often to look whether somebody else leads, and for how long.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const RESIGN_MAX: Duration = Duration::from_secs(60);

/// What became of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It is done.
    Done,
    /// Everything was so already; nothing was changed.
    Already,
    /// Somebody else changed it since it was looked at; nothing was done.
    Changed,
    /// It cannot be done at present; the sentence says why.
    Refused(String),
}

/// Does it. With a basis, only if that is what there still is.
///
/// # Errors
/// The store did not answer: look whether it was done.
pub async fn perform(
    store: &dyn Store,
    pool: &Pool,
    act: &Act,
    expected: Option<u64>,
) -> Result<Outcome, StoreError> {
    let mut view = View::new(pool.clone());
    view.refresh(store, &SystemClock).await?;
    let found = basis(&view, act);
    if expected.is_some_and(|expected| expected != found) {
        return Ok(Outcome::Changed);
    }
    if is_done(&view, act) {
        return Ok(Outcome::Already);
    }
    match (act, act.mark()) {
        (_, Some((kind, subject, value))) => {
            if expected.is_none() {
                return put_mark(store, pool, kind, subject, value).await.map(|()| Outcome::Done);
            }
            Ok(match store.set_mark(pool, kind, subject, value, Version(found)).await? {
                Marked::Set(_) => Outcome::Done,
                Marked::Conflict(_) => Outcome::Changed,
            })
        }
        (Act::Revoke { resource }, None) => {
            let Some(lease) = view.leases().get(resource).filter(|_| view.holder(resource).is_some()) else {
                return Ok(Outcome::Refused(format!("nobody holds {resource}; there is nothing to revoke")));
            };
            let term = Term { resource: resource.clone(), token: lease.token };
            Ok(match store.revoke(pool, &term).await? {
                Revoked::Marked => Outcome::Done,
                Revoked::NotHeld => Outcome::Changed,
                Revoked::Frozen(_) => Outcome::Refused(
                    "the store is frozen, and holders would not hear of a revocation; try again in a while"
                        .to_owned(),
                ),
            })
        }
        (_, None) => resign(store, pool, &mut view).await,
    }
}

/// Has the leader hand its seat over: it is drained from the term it leads under, until somebody else leads. Whoever is cut short in
/// between leaves a mark that everybody sees, anybody can take back, and that says nothing once somebody else leads.
async fn resign(store: &dyn Store, pool: &Pool, view: &mut View) -> Result<Outcome, StoreError> {
    let refused = |said: &str| Ok(Outcome::Refused(said.to_owned()));
    let leader = |view: &View| {
        let seat = view.leases().get(SEAT)?;
        let holder = view.holder(&seat.resource)?;
        view.sessions().get(holder).map(|session| session.profile.name.clone())
    };
    let Some(name) = leader(view) else { return refused("nobody leads here; there is nothing to resign") };
    let able = |name: &MemberName| {
        let mut living = view.sessions().values().filter(|session| !session.ended && session.profile.ready);
        living.any(|session| {
            let other = session.profile.name.as_str();
            other != name.as_str() && !view.is_drained(other) && view.mark(MarkKind::Cordon, other).is_none()
        })
    };
    if !able(&name) {
        return refused("there is no other candidate who could lead; start one first, or drain the leader");
    }
    let before = view.version_of_mark(MarkKind::Drain, name.as_str());
    if view.is_drained(name.as_str()) {
        return refused("the leader is drained, and hands its seat over already");
    }
    let from = view.leases().get(SEAT).map(|seat| format!("{RESIGNS}{}", seat.token)).unwrap_or_default();
    let drain = store.set_mark(pool, MarkKind::Drain, name.as_str(), Some(&from), before);
    let Marked::Set(mine) = drain.await? else { return Ok(Outcome::Changed) };
    let began = SystemClock.now();
    let mut outcome = Outcome::Refused(format!(
        "{name} has not handed its seat over within {RESIGN_MAX:?}, and was left alone"
    ));
    while SystemClock.now().since(began) < RESIGN_MAX {
        SystemClock.sleep(LOOK_AGAIN).await;
        if view.refresh(store, &SystemClock).await.is_ok() && leader(view).is_some_and(|now| now != name) {
            outcome = Outcome::Done;
            break;
        }
    }
    // If somebody else has changed the mark since, it is theirs.
    let _ = store.set_mark(pool, MarkKind::Drain, name.as_str(), None, mine).await?;
    Ok(outcome)
}

/// Sets or removes a mark, whatever its version.
///
/// # Errors
/// The store did not answer, or others keep changing the mark.
pub async fn put_mark(
    store: &dyn Store,
    pool: &Pool,
    kind: MarkKind,
    subject: &str,
    value: Option<&str>,
) -> Result<(), StoreError> {
    let marks = store.marks(pool, Cursor::START).await?.items;
    let found = marks.iter().find(|mark| mark.kind == kind && mark.subject == subject);
    let mut version = found.map_or(Version(0), |mark| mark.version);
    if found.is_none_or(|mark| mark.value.is_none()) && value.is_none() {
        return Ok(());
    }
    for _ in 0..TRIES_MAX {
        match store.set_mark(pool, kind, subject, value, version).await? {
            Marked::Set(_) => return Ok(()),
            Marked::Conflict(now) => version = now,
        }
    }
    Err(StoreError::unavailable(format!("the mark on {subject} keeps being changed by others; try again")))
}

#[cfg(test)]
mod tests;
