//! What must always hold, and what must happen somewhere or the model says nothing.

use stateright::Property;

use crate::member::Member;
use crate::memory::Standing;
use crate::protocol::Protocol;
use crate::state::State;
use crate::world::{Forgetting, World};

/// At no instant do two members trust a term of the resource.
pub const EXCLUSION: &str = "at most one member trusts";
/// Every token given out is above all before it.
pub const TOKENS: &str = "tokens strictly rise";
/// A session that has ended is never confirmed again.
pub const ENDED: &str = "ended never comes back";
/// A confirmed beat never covers a term that the store does not have.
pub const CONFIRMED: &str = "a confirmed beat covers the term";
/// A listener never ends a session that trusts itself.
pub const VERDICT: &str = "a verdict ends nobody who trusts";

/// A silent holder is succeeded.
pub const TAKEOVER: &str = "a takeover after silence happens";
/// A store that forgot is in use again.
pub const THAW: &str = "a thaw after a rollback happens";
/// A holder keeps its term through a freeze.
pub const KEPT: &str = "a reasserted term outlives the freeze";
/// An orphan is freed and taken.
pub const ORPHAN: &str = "an orphan finds a new holder";

/// The properties that a world calls for.
pub(crate) fn of(world: &World) -> Vec<Property<Protocol>> {
    let mut all = vec![
        Property::<Protocol>::always(CONFIRMED, |_, state| !is_broken(CONFIRMED, state)),
        Property::<Protocol>::always(VERDICT, |_, state| !is_broken(VERDICT, state)),
    ];
    if world.sessions > 1 {
        all.push(Property::<Protocol>::sometimes(TAKEOVER, |_, state| {
            is_held(state) && has_session(state, Standing::Silent)
        }));
    }
    // A store that forgets without a sign may give away what it forgot. What is left is the two above.
    if world.forgetting != Forgetting::Unseen {
        all.push(Property::<Protocol>::always(EXCLUSION, |_, state| !is_broken(EXCLUSION, state)));
        all.push(Property::<Protocol>::always(TOKENS, |_, state| !is_broken(TOKENS, state)));
        all.push(Property::<Protocol>::always(ENDED, |_, state| !is_broken(ENDED, state)));
    }
    if world.rollbacks > 0 {
        all.push(Property::<Protocol>::sometimes(THAW, |_, state| is_thawed(state)));
        all.push(Property::<Protocol>::sometimes(KEPT, |_, state| {
            let memory = &state.store.memory;
            is_thawed(state) && is_held(state) && memory.lease.token <= memory.token_base
        }));
    }
    if world.losses > 0 {
        all.push(Property::<Protocol>::sometimes(ORPHAN, |_, state| {
            is_held(state) && has_session(state, Standing::Absent)
        }));
    }
    all
}

/// Whether a promise is broken in this state.
pub(crate) fn is_broken(property: &str, state: &State) -> bool {
    match property {
        EXCLUSION => state.trusting() > 1,
        TOKENS => state.witness.token_fell,
        ENDED => state.witness.revived,
        CONFIRMED => state.witness.confirmed_in_vain,
        VERDICT => state.witness.ended_in_trust,
        _ => false,
    }
}

/// Whether a member trusts the term that the store has.
fn is_held(state: &State) -> bool {
    let lease = state.store.memory.lease;
    let is_holder = |member: &Member| {
        member.session == lease.holder && member.term == Some(lease.token) && member.trusts()
    };
    state.members.iter().any(is_holder)
}

/// Whether one of the sessions that were opened stands so, and held a term before the present one.
fn has_session(state: &State, standing: Standing) -> bool {
    let opened = usize::from(state.sessions_opened);
    let sessions = &state.store.memory.sessions[..opened];
    state.store.memory.lease.token > 1 && sessions.iter().any(|session| session.standing == standing)
}

fn is_thawed(state: &State) -> bool {
    let memory = &state.store.memory;
    state.rollbacks > 0 && memory.nonce > 0 && !memory.frozen
}
