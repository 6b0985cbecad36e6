//! Why a resource is where it is.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Plan;
use super::board::Board;
use super::eligible::{Demand, Obstacle};
use super::facts::{Facts, Member, Resource};
use super::outcome::{DropReason, MoveReason, Quota, UnplaceableReason};
use super::rank::{by_preference, has_room, present_loads};
use crate::lease::{MemberId, MemberName, ResourceId};

/// Where a resource is, who could have it, and what the plan wants to do with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Which resource.
    pub resource: ResourceId,
    /// What it counts for.
    pub weight: u64,
    /// Where it is.
    pub whereabouts: Whereabouts,
    /// The name it is pinned to.
    pub pinned: Option<MemberName>,
    /// Whether a member with that name is there and able to hold it; if not, the pin is ignored until one is.
    pub pin_followed: bool,
    /// What the plan wants to do with it.
    pub outlook: Outlook,
    /// Every member, the most preferred first.
    pub members: Vec<Candidate>,
}

/// Where a resource is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Whereabouts {
    /// Somebody holds it.
    Held {
        /// Who.
        by: MemberId,
    },
    /// Nobody holds it; its last holder named a successor.
    Offered {
        /// Whom.
        to: MemberId,
    },
    /// Nobody holds it.
    Free,
}

/// What the plan wants to do with a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outlook", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outlook {
    /// It stays: moving it would not even out anything.
    Stay,
    /// It should be elsewhere, but nobody else can take it, and work is never left alone.
    Stuck,
    /// Its holder is no member of the pool's plan.
    Foreign,
    /// It should change hands.
    Move {
        /// Who gets it.
        to: MemberId,
        /// Why.
        reason: MoveReason,
        /// Whether at once, or after other moves.
        now: bool,
    },
    /// Its holder must let go.
    Drop {
        /// Why.
        reason: DropReason,
    },
    /// It is free and has a taker.
    Take {
        /// Who.
        by: MemberId,
    },
    /// It is free and nobody can take it.
    Nobody {
        /// Why.
        reason: UnplaceableReason,
    },
}

/// A member as a candidate for the resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Which session.
    pub member: MemberId,
    /// Its name.
    pub name: MemberName,
    /// Its place in the order of preference, from 1.
    pub rank: usize,
    /// What it holds at present, by weight.
    pub load: u64,
    /// Its fair share.
    pub quota: Quota,
    /// Whether work may be moved to it yet.
    pub settled: bool,
    /// What keeps it from getting the resource; nothing if it is eligible.
    pub obstacles: Vec<Obstacle>,
}

/// Explains a resource; `None` if there is no such resource.
#[must_use]
pub fn explain(facts: &Facts, resource: &ResourceId) -> Option<Explanation> {
    let resource = facts.resources.iter().find(|other| other.id == *resource)?;
    let plan = Plan::on(&mut Board::lay_out(facts), usize::MAX);
    let mut members: Vec<&Member> = facts.members.iter().collect();
    by_preference(&mut members, resource);
    let demand = Demand::of(resource);
    let pin = demand.pin(&members);
    let loads = present_loads(facts);
    let candidate = |(rank, member): (usize, &&Member)| {
        let mut obstacles = demand.obstacles(member);
        if let Some(name) = pin.filter(|name| **name != member.name) {
            obstacles.push(Obstacle::Pinned { to: name.clone() });
        }
        if let (Some(capacity), false) = (member.capacity, has_room(member, resource, &loads))
            && resource.holder.as_ref() != Some(&member.id)
        {
            obstacles.push(Obstacle::Full { capacity });
        }
        Candidate {
            member: member.id.clone(),
            name: member.name.clone(),
            rank,
            load: plan.load(&member.id),
            quota: plan.quota(&member.id),
            settled: member.settled,
            obstacles,
        }
    };
    let members: Vec<Candidate> = (1..).zip(&members).map(candidate).collect();
    Some(Explanation {
        resource: resource.id.clone(),
        weight: resource.load(),
        whereabouts: whereabouts(resource),
        pinned: resource.pinned.clone(),
        pin_followed: pin.is_some(),
        outlook: outlook(&plan, resource, &members),
        members,
    })
}

fn whereabouts(resource: &Resource) -> Whereabouts {
    match (&resource.holder, &resource.offer) {
        (Some(by), _) => Whereabouts::Held { by: by.clone() },
        (None, Some(offer)) => Whereabouts::Offered { to: offer.to.clone() },
        (None, None) => Whereabouts::Free,
    }
}

fn outlook(plan: &Plan, resource: &Resource, members: &[Candidate]) -> Outlook {
    let id = &resource.id;
    if let Some(found) = plan.moves.iter().find(|one| one.resource == *id) {
        return Outlook::Move { to: found.to.clone(), reason: found.reason, now: found.now };
    }
    if let Some(found) = plan.drops.iter().find(|one| one.resource == *id) {
        return Outlook::Drop { reason: found.reason };
    }
    if let Some(found) = plan.placements.iter().find(|one| one.resource == *id) {
        return Outlook::Take { by: found.to.clone() };
    }
    if let Some(found) = plan.unplaceable.iter().find(|one| one.resource == *id) {
        return Outlook::Nobody { reason: found.reason };
    }
    let holder = members.iter().find(|one| Some(&one.member) == resource.holder.as_ref());
    match holder {
        None => Outlook::Foreign,
        Some(holder) if holder.obstacles.iter().all(|found| *found == Obstacle::Cordoned) => Outlook::Stay,
        Some(_) => Outlook::Stuck,
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |id: &MemberId| {
            let known = self.members.iter().find(|one| one.member == *id);
            known.map_or_else(|| id.to_string(), |one| self.name_of(one))
        };
        match &self.whereabouts {
            Whereabouts::Held { by } => writeln!(f, "{} is held by {}", self.resource, name(by))?,
            Whereabouts::Offered { to } => {
                writeln!(f, "{} is free and was offered to {}", self.resource, name(to))?;
            }
            Whereabouts::Free => writeln!(f, "{} is free", self.resource)?,
        }
        match &self.outlook {
            Outlook::Stay => writeln!(f, "it stays: moving it would not even out the load")?,
            Outlook::Stuck => writeln!(f, "it should move, but nobody else can take it")?,
            Outlook::Foreign => writeln!(f, "its holder is not a member, so it is left alone")?,
            Outlook::Move { to, reason, now } => {
                let when = if *now { "" } else { " after other moves" };
                writeln!(f, "it should move to {}{when}: {reason}", name(to))?;
            }
            Outlook::Drop { reason } => writeln!(f, "its holder must let go: {reason}")?,
            Outlook::Take { by } => writeln!(f, "{} should take it", name(by))?,
            Outlook::Nobody { reason } => writeln!(f, "nobody takes it: {reason}")?,
        }
        if let Some(pin) = &self.pinned {
            let note = if self.pin_followed {
                ""
            } else {
                ", who is not there or cannot hold it: ignored until then"
            };
            writeln!(f, "it is pinned to {pin}{note}")?;
        }
        for candidate in &self.members {
            let Candidate { rank, load, quota, .. } = candidate;
            let name = self.name_of(candidate);
            writeln!(f, "{rank:>3}. {name}: holds {load}, share {quota}; {}", candidate.verdict())?;
        }
        Ok(())
    }
}

impl Explanation {
    /// A member's name, with its id where several members go by that name.
    fn name_of(&self, one: &Candidate) -> String {
        if self.members.iter().any(|other| other.name == one.name && other.member != one.member) {
            format!("{} ({})", one.name, one.member)
        } else {
            one.name.to_string()
        }
    }
}

impl Candidate {
    fn verdict(&self) -> String {
        match (self.obstacles.as_slice(), self.settled) {
            ([], true) => "eligible".to_owned(),
            ([], false) => "eligible, not settled yet".to_owned(),
            (obstacles, _) => obstacles.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}
