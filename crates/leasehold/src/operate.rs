//! What operators do: drain, cordon, pin, pause, revoke, resign, and the way back from each where there is one.
//!
//! An act is looked at first ([`Preview`]: what would change hands, by the plan itself) and then done ([`perform`]). A preview has a
//! *basis*, the version of what the act changes. Whoever acts on it with that basis does nothing if somebody else was there in
//! between, and is told so.
//!
//! Nothing here decides ownership: marks are facts for everybody's plan, and a revocation is the store's.

mod act;
mod perform;
mod preview;

pub use act::{Act, ActError, Word};
pub(crate) use act::{RESIGNS, SEAT};
pub use perform::{Outcome, perform, put_mark};
pub use preview::{Load, Preview, Shift, Shifts};

use crate::view::View;

/// The version of what an act would change: a mark's, or for a revocation the token of the term. Whoever looked at one basis
/// and acts on another is told that somebody else was there.
#[must_use]
pub fn basis(view: &View, act: &Act) -> u64 {
    match act {
        Act::Revoke { resource } => view.leases().get(resource).map_or(0, |lease| lease.token.0),
        Act::Resign => view.leases().get(act::SEAT).map_or(0, |lease| lease.token.0),
        _ => act.mark().map_or(0, |(kind, subject, _)| view.version_of_mark(kind, subject).0),
    }
}

/// Whether everything is already as the act would have it.
#[must_use]
pub fn is_done(view: &View, act: &Act) -> bool {
    match act {
        Act::Revoke { resource } => view.leases().get(resource).is_some_and(|lease| lease.revoked),
        Act::Resign => false,
        _ => act.mark().is_some_and(|(kind, subject, value)| {
            let set = view.mark(kind, subject).map(|mark| mark.value.as_deref().unwrap_or_default());
            match (kind, value, set) {
                // What a pin says counts, what any other mark says is a remark.
                (crate::store::MarkKind::Pin, value, set) => value == set,
                (_, value, set) => value.is_some() == set.is_some(),
            }
        }),
    }
}

/// What should be known before it is done: somebody or something is not there.
#[must_use]
pub fn note(view: &View, act: &Act) -> Option<String> {
    let is_member = |name: &str| {
        let mut living = view.sessions().values().filter(|session| !session.ended);
        living.any(|session| session.profile.name.as_str() == name)
    };
    let is_resource = |id: &str| view.resources().iter().any(|resource| resource.id.as_str() == id);
    let waits =
        |what: &str, name: &str| Some(format!("no {what} {name} is there now; the mark waits for it"));
    match act {
        Act::Drain { member } | Act::Cordon { member } if !is_member(member.as_str()) => {
            waits("member", member.as_str())
        }
        Act::Pin { resource, .. } | Act::Pause { resource } if !is_resource(resource.as_str()) => {
            waits("resource", resource.as_str())
        }
        Act::Pin { member, .. } if !is_member(member.as_str()) => waits("member", member.as_str()),
        Act::Revoke { .. } => Some(
            "whoever the plan names takes it next, perhaps the same member; drain or pause keeps it away"
                .to_owned(),
        ),
        _ => None,
    }
}
