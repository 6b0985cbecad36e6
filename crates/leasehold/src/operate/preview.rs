//! What would change hands, by the plan itself. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::act::SEAT;
use super::{Act, basis, is_done, note};
use crate::lease::{MemberId, MemberName, Pool, ResourceId};
use crate::plan::{Facts, Plan};
use crate::view::View;

/// Everything that a plan would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Shifts {
    /// The pool.
    pub pool: Pool,
    /// How many resources it has.
    pub resources: usize,
    /// Held resources that go to somebody else.
    pub moves: Vec<Shift>,
    /// Free resources that somebody takes.
    pub taken: Vec<Shift>,
    /// Held resources that are let go, with nobody to take over.
    pub dropped: Vec<Shift>,
    /// Free resources that nobody can take.
    pub unowned: Vec<Shift>,
    /// What each member holds, and would hold.
    pub members: Vec<Load>,
}

/// What becomes of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Shift {
    /// Which.
    pub resource: ResourceId,
    /// Whose it is, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whose it would be, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What a member holds, and would hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Load {
    /// Its name.
    pub name: String,
    /// Its id.
    pub member: String,
    /// By weight, now.
    pub holds: u64,
    /// By weight, once everything has moved.
    pub would_hold: u64,
}

/// What an act would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Preview {
    /// What would be so, in a sentence.
    pub sentence: String,
    /// To be sent with the act: it is then done to what was looked at, or not at all.
    pub basis: u64,
    /// Whether everything is so already.
    pub already: bool,
    /// What should be known before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What would change hands.
    pub shifts: Shifts,
}

impl Preview {
    /// What the act would do to the pool that the view shows.
    #[must_use]
    pub fn of(pool: &Pool, view: &View, act: &Act) -> Self {
        let mut facts = view.facts(usize::MAX);
        apply(&mut facts, act);
        Self {
            sentence: act.sentence(),
            basis: basis(view, act),
            already: is_done(view, act),
            note: note(view, act),
            shifts: Shifts::of(pool.clone(), &facts),
        }
    }
}

/// The facts as the act would make them.
fn apply(facts: &mut Facts, act: &Act) {
    let leader = facts.resources.iter().find(|resource| resource.id.as_str() == SEAT);
    let leader = leader.and_then(|seat| seat.holder.clone());
    for member in &mut facts.members {
        match act {
            Act::Drain { member: name } if member.name == *name => member.drained = true,
            Act::Undrain { member: name } if member.name == *name => member.drained = false,
            Act::Cordon { member: name } if member.name == *name => member.cordoned = true,
            Act::Uncordon { member: name } if member.name == *name => member.cordoned = false,
            Act::Resign if leader.as_ref() == Some(&member.id) => member.drained = true,
            _ => {}
        }
    }
    let of_act = act.resource();
    for resource in facts.resources.iter_mut().filter(|resource| Some(&resource.id) == of_act) {
        match act {
            Act::Pin { member, .. } => resource.pinned = Some(member.clone()),
            Act::Unpin { .. } => resource.pinned = None,
            Act::Pause { .. } => resource.paused = true,
            Act::Resume { .. } => resource.paused = false,
            Act::Revoke { .. } => resource.holder = None,
            _ => {}
        }
    }
}

impl Shifts {
    /// What the plan of these facts would change.
    #[must_use]
    pub fn of(pool: Pool, facts: &Facts) -> Self {
        let plan = Plan::compute(facts);
        let names: BTreeMap<&MemberId, &MemberName> =
            facts.members.iter().map(|m| (&m.id, &m.name)).collect();
        let name = |id: &MemberId| names.get(id).map_or_else(|| id.to_string(), ToString::to_string);
        let shift =
            |resource: &ResourceId, from: Option<&MemberId>, to: Option<&MemberId>, why: Option<String>| {
                Shift { resource: resource.clone(), from: from.map(name), to: to.map(name), why }
            };
        let moves = plan.moves().iter();
        let moves = moves.map(|m| shift(&m.resource, Some(&m.from), Some(&m.to), Some(m.reason.to_string())));
        let taken = plan.placements().iter().map(|p| shift(&p.resource, None, Some(&p.to), None));
        let dropped =
            plan.drops().iter().map(|d| shift(&d.resource, Some(&d.from), None, Some(d.reason.to_string())));
        let unowned =
            plan.unplaceable().iter().map(|u| shift(&u.resource, None, None, Some(u.reason.to_string())));
        let members = facts.members.iter().map(|member| Load {
            name: member.name.to_string(),
            member: member.id.to_string(),
            holds: plan.load(&member.id),
            would_hold: plan.planned(&member.id),
        });
        let mut members: Vec<Load> = members.collect();
        members.sort_by(|one, two| (&one.name, &one.member).cmp(&(&two.name, &two.member)));
        Self {
            pool,
            resources: facts.resources.len(),
            moves: sorted(moves),
            taken: sorted(taken),
            dropped: sorted(dropped),
            unowned: sorted(unowned),
            members,
        }
    }

    /// How many resources would change hands.
    #[must_use]
    pub fn total(&self) -> usize {
        self.moves.len() + self.taken.len() + self.dropped.len()
    }
}

fn sorted(shifts: impl Iterator<Item = Shift>) -> Vec<Shift> {
    let mut shifts: Vec<Shift> = shifts.collect();
    shifts.sort_by(|one, two| one.resource.cmp(&two.resource));
    shifts
}
