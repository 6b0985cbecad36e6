//! Who may hold what, and why not.
//!
//! Resources that ask for the same things form one class, so that the question is asked once for each class
//! and member, however many resources there are.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::facts::{Facts, Member, Resource};
use super::outcome::MoveReason;
use crate::lease::MemberName;

/// Why a member cannot take a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "obstacle", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Obstacle {
    /// Its listing does not contain it.
    NotListed,
    /// It is on its way out.
    Leaving,
    /// An operator drains it.
    Drained,
    /// It is not ready.
    NotReady,
    /// It lacks a label.
    Label {
        /// Which label.
        label: String,
        /// With which value.
        value: String,
    },
    /// An operator cordoned it: it keeps what it has and gets nothing new.
    Cordoned,
    /// An operator pinned the resource to another name.
    Pinned {
        /// Which name.
        to: MemberName,
    },
    /// It has no room.
    Full {
        /// The most it takes.
        capacity: u64,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed => f.write_str("does not list it"),
            Self::Leaving => f.write_str("is leaving"),
            Self::Drained => f.write_str("is drained"),
            Self::NotReady => f.write_str("is not ready"),
            Self::Label { label, value } => write!(f, "lacks the label {label}={value}"),
            Self::Cordoned => f.write_str("is cordoned"),
            Self::Pinned { to } => write!(f, "is not {to}, to which it is pinned"),
            Self::Full { capacity } => write!(f, "is full (capacity {capacity})"),
        }
    }
}

/// What a resource asks of its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Demand<'a> {
    requires: &'a BTreeMap<String, String>,
    declared: bool,
    listed_by: &'a [usize],
    pinned: Option<&'a MemberName>,
}

impl<'a> Demand<'a> {
    pub(super) fn of(resource: &'a Resource) -> Self {
        Self {
            requires: &resource.requires,
            declared: resource.declared,
            listed_by: if resource.declared { &[] } else { &resource.listed_by },
            pinned: resource.pinned.as_ref(),
        }
    }

    /// What keeps the member from taking such a resource, pins and room aside. The first is the gravest.
    pub(super) fn obstacles(&self, member: &Member) -> Vec<Obstacle> {
        let mut found = Vec::new();
        let listed = member.listing.is_some_and(|listing| self.listed_by.contains(&listing));
        let mut note = |holds: bool, obstacle: Obstacle| {
            if holds {
                found.push(obstacle);
            }
        };
        note(!self.declared && !listed, Obstacle::NotListed);
        note(member.leaving, Obstacle::Leaving);
        note(member.drained, Obstacle::Drained);
        note(!member.ready, Obstacle::NotReady);
        for (label, value) in self.requires {
            let lacks = member.labels.get(label) != Some(value);
            note(lacks, Obstacle::Label { label: label.clone(), value: value.clone() });
        }
        note(member.cordoned, Obstacle::Cordoned);
        found
    }

    /// The pin, if a member with that name can follow it. Work is never left alone for somebody who is not there.
    pub(super) fn pin(&self, members: &[&Member]) -> Option<&'a MemberName> {
        let able = |member: &&Member| Some(&member.name) == self.pinned && self.obstacles(member).is_empty();
        self.pinned.filter(|_| members.iter().any(able))
    }
}

/// Whether a member may take a resource that is free, room aside. A pin keeps everybody else away while somebody
/// is there to follow it.
#[must_use]
pub fn may_take(facts: &Facts, member: &Member, resource: &Resource) -> bool {
    let demand = Demand::of(resource);
    let members: Vec<&Member> = facts.members.iter().collect();
    let pinned = demand.pin(&members).is_none_or(|name| *name == member.name);
    pinned && !resource.paused && demand.obstacles(member).is_empty()
}

/// What a holder is to do with a resource of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Fit {
    /// It may keep it.
    Keep,
    /// Somebody else should have it; until somebody can, it stays.
    Evict(MoveReason),
    /// Its own source does not know it any more.
    Unlisted,
}

/// Who may hold a kind of resource. Members are given by their place in the order of their ids, ascending.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Class {
    /// Who should get one: those who are eligible and, if there is a pin to follow, have that name.
    pub(super) wanted: Vec<u32>,
    /// Those among them to whom held resources may be moved.
    pub(super) settled: Vec<u32>,
    /// Who could get one, pin or no pin.
    pub(super) able: Vec<u32>,
    /// What each member is to do with one that it holds.
    pub(super) fits: Vec<Fit>,
    /// Whether there is a pin to follow.
    pub(super) pinned: bool,
}

impl Class {
    pub(super) fn of(demand: &Demand<'_>, members: &[&Member]) -> Self {
        let pin = demand.pin(members);
        let (mut able, mut fits) = (Vec::new(), Vec::new());
        for (at, member) in (0..).zip(members) {
            let obstacles = demand.obstacles(member);
            if obstacles.is_empty() {
                able.push(at);
            }
            let away = pin.is_some_and(|name| *name != member.name);
            fits.push(match obstacles.first() {
                Some(Obstacle::NotListed) => Fit::Unlisted,
                Some(Obstacle::Leaving) => Fit::Evict(MoveReason::Leaving),
                Some(Obstacle::Drained) => Fit::Evict(MoveReason::Drain),
                Some(Obstacle::NotReady | Obstacle::Label { .. }) => Fit::Evict(MoveReason::Ineligible),
                _ if away => Fit::Evict(MoveReason::Pin),
                _ => Fit::Keep,
            });
        }
        let named = |at: &u32| pin.is_none_or(|name| *name == members[*at as usize].name);
        let wanted: Vec<u32> = able.iter().copied().filter(named).collect();
        let settled = wanted.iter().copied().filter(|at| members[*at as usize].settled).collect();
        Self { wanted, settled, able, fits, pinned: pin.is_some() }
    }

    /// Classes come in the order of how many members should get one, then of what they are.
    fn order(&self, other: &Self) -> Ordering {
        (self.wanted.len(), self).cmp(&(other.wanted.len(), other))
    }

    /// Where the class is among those that are known.
    pub(super) fn place_in(&self, known: &[Self]) -> Option<u32> {
        known.binary_search_by(|known| known.order(self)).ok().map(|place| place as u32)
    }
}

/// The classes of all resources, those with the fewest members first, and the class of each resource.
pub(super) fn classify(members: &[&Member], resources: &[Resource]) -> (Vec<Class>, Vec<u32>) {
    let mut by_demand: HashMap<Demand<'_>, u32> = HashMap::new();
    let mut by_content: HashMap<Class, u32> = HashMap::new();
    let mut last: Option<(&Resource, u32)> = None;
    let mut found: Vec<u32> = Vec::with_capacity(resources.len());
    for resource in resources {
        // Most resources ask for what their neighbour asks for, and share its very allocations.
        let class = match last {
            Some((before, class)) if same_allocations(before, resource) => class,
            _ => *by_demand.entry(Demand::of(resource)).or_insert_with_key(|demand| {
                let next = by_content.len() as u32;
                *by_content.entry(Class::of(demand, members)).or_insert(next)
            }),
        };
        last = Some((resource, class));
        found.push(class);
    }
    let mut classes: Vec<(Class, u32)> = by_content.into_iter().collect();
    // The order must not depend on the order of the resources.
    classes.sort_unstable_by(|(a, _), (b, _)| a.order(b));
    let mut place = vec![0; classes.len()];
    for (now, (_, before)) in (0..).zip(&classes) {
        place[*before as usize] = now;
    }
    found.iter_mut().for_each(|class| *class = place[*class as usize]);
    (classes.into_iter().map(|(class, _)| class).collect(), found)
}

fn same_allocations(one: &Resource, two: &Resource) -> bool {
    Arc::ptr_eq(&one.requires, &two.requires)
        && Arc::ptr_eq(&one.listed_by, &two.listed_by)
        && one.declared == two.declared
        && one.pinned == two.pinned
}
