//! Who is preferred for a resource: the first takes it, the others are fallbacks that wait a moment longer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::eligible::Demand;
use super::facts::{Facts, Member, Resource};
use super::rendezvous::{hash_id, score};
use crate::lease::{MemberId, ResourceId};

/// The members that may take a free resource and have room for it, the most preferred first. If it is pinned to
/// members that can take it, only those.
#[must_use]
pub fn rank(facts: &Facts, resource: &ResourceId) -> Vec<MemberId> {
    let Some(resource) = facts.resources.iter().find(|other| other.id == *resource) else {
        return Vec::new();
    };
    if resource.paused {
        return Vec::new();
    }
    let loads = present_loads(facts);
    let demand = Demand::of(resource);
    let able = |member: &&Member| demand.obstacles(member).is_empty() && has_room(member, resource, &loads);
    let mut able: Vec<&Member> = facts.members.iter().filter(able).collect();
    if let Some(name) = demand.pin(&able) {
        able.retain(|member| member.name == *name);
    }
    by_preference(&mut able, resource);
    able.into_iter().map(|member| member.id.clone()).collect()
}

/// How many members (by the hashes of their ids) are preferred to `me` for a resource (by the hash of its id):
/// 0 is the most preferred.
#[must_use]
pub fn rank_of(members: &[u64], resource: u64, me: u64) -> usize {
    let mine = (score(me, resource), me);
    members.iter().filter(|other| (score(**other, resource), **other) > mine).count()
}

pub(super) fn by_preference(members: &mut [&Member], resource: &Resource) {
    let hash = hash_id(resource.id.as_str());
    members
        .sort_by_cached_key(|member| (Reverse(score(hash_id(member.id.as_str()), hash)), member.id.clone()));
}

pub(super) fn present_loads(facts: &Facts) -> BTreeMap<&MemberId, u64> {
    let mut loads = BTreeMap::new();
    for resource in &facts.resources {
        if let Some(holder) = &resource.holder {
            *loads.entry(holder).or_insert(0) += resource.load();
        }
    }
    loads
}

pub(super) fn has_room(member: &Member, resource: &Resource, loads: &BTreeMap<&MemberId, u64>) -> bool {
    let load = loads.get(&member.id).copied().unwrap_or(0);
    member.capacity.is_none_or(|capacity| load + resource.load() <= capacity)
}
