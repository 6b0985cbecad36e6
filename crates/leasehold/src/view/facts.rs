//! What a view has for the plan: all of it, or one resource alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{News, View};
use crate::lease::{MemberId, ResourceId};
use crate::plan::{self, Facts, Planner};
use crate::store::{Declared, LeaseRecord, ListingId, Mark, MarkKind};

/// The kinds of marks that say something about a resource to the plan.
const ABOUT_RESOURCES: [MarkKind; 3] = [MarkKind::Pause, MarkKind::Floor, MarkKind::Pin];

impl View {
    /// Everything the plan needs.
    #[must_use]
    pub fn facts(&self, budget: usize) -> Facts {
        Facts { members: self.members(), resources: self.resources(), budget }
    }

    /// Brings a planner up to date that knows everything but this news. Its members are given, because whoever plans may know
    /// more of itself than the view does.
    pub fn inform(&self, planner: &mut Planner, news: &News, members: Vec<plan::Member>) {
        if *news == News::Anything {
            let budget = planner.facts().budget;
            *planner = Planner::new(Facts { members, resources: self.resources(), budget });
            return;
        }
        for id in news.resources() {
            match self.resource(id) {
                Some(resource) => planner.put(resource),
                None => planner.remove(id),
            }
        }
        planner.set_members(members);
    }

    /// Everybody whose session is alive.
    #[must_use]
    pub fn members(&self) -> Vec<plan::Member> {
        let order = self.listing_order();
        let living = self.sessions.values().filter(|session| !session.ended);
        let member = living.map(|session| {
            let profile = &session.profile;
            let listing = profile.listing.as_ref().and_then(|id| order.iter().position(|known| *known == id));
            let mut labels = profile.labels.clone();
            labels.entry(plan::NAME_LABEL.to_owned()).or_insert_with(|| profile.name.to_string());
            plan::Member {
                id: session.id.clone(),
                name: profile.name.clone(),
                capacity: profile.capacity,
                labels,
                ready: profile.ready,
                settled: profile.settled,
                leaving: profile.leaving,
                drained: self.is_drained(profile.name.as_str()),
                cordoned: self.mark(MarkKind::Cordon, profile.name.as_str()).is_some(),
                listing,
            }
        });
        member.collect()
    }

    /// Every resource of the pool: listed by a living member, declared, or still held.
    #[must_use]
    pub fn resources(&self) -> Vec<plan::Resource> {
        let nothing: Arc<BTreeMap<String, String>> = Arc::default();
        let plain = |id: &ResourceId| plain(id, &nothing);
        let listed = self.listed().into_iter();
        let mut resources: BTreeMap<ResourceId, plan::Resource> = listed
            .map(|(resource, listed_by)| (resource.clone(), plan::Resource { listed_by, ..plain(resource) }))
            .collect();
        for declared in self.declared.values().filter(|declared| !declared.removed) {
            let entry =
                resources.entry(declared.resource.clone()).or_insert_with(|| plain(&declared.resource));
            declare(entry, declared);
        }
        let ended: BTreeSet<&MemberId> =
            self.sessions.values().filter(|session| session.ended).map(|session| &session.id).collect();
        let holder = |lease: &LeaseRecord| lease.holder.clone().filter(|holder| !ended.contains(holder));
        let (mut leases, mut unlisted) = (self.leases.values().peekable(), Vec::new());
        for entry in resources.values_mut() {
            // Both are in order: nothing is looked for.
            while let Some(lease) = leases.next_if(|lease| lease.resource <= entry.id) {
                if lease.resource != entry.id {
                    unlisted.push(lease);
                    continue;
                }
                entry.holder = holder(lease);
                entry.offer = lease.offer.clone().filter(|_| entry.holder.is_none());
            }
        }
        for lease in unlisted.into_iter().chain(leases) {
            if let Some(holder) = holder(lease) {
                let entry = plan::Resource { holder: Some(holder), ..plain(&lease.resource) };
                resources.insert(lease.resource.clone(), entry);
            }
        }
        for mark in self.marks().filter(|mark| ABOUT_RESOURCES.contains(&mark.kind)) {
            if let Some(entry) = resources.get_mut(mark.subject.as_str()) {
                self.follow(mark, entry);
            }
        }
        resources.into_values().collect()
    }

    /// One of them, if it is a resource of the pool: the same as among [`resources`](Self::resources).
    #[must_use]
    pub fn resource(&self, id: &ResourceId) -> Option<plan::Resource> {
        let order = self.listing_order();
        let listed_by: Arc<[usize]> =
            (0..order.len()).filter(|place| self.listings[order[*place]].contains(id)).collect();
        let declared = self.declared.get(id).filter(|declared| !declared.removed);
        let holder = self.holder(id).cloned();
        if listed_by.is_empty() && declared.is_none() && holder.is_none() {
            return None;
        }
        let offer = self.leases.get(id).filter(|_| holder.is_none()).and_then(|lease| lease.offer.clone());
        let mut entry = plan::Resource { listed_by, holder, offer, ..plain(id, &Arc::default()) };
        if let Some(declared) = declared {
            declare(&mut entry, declared);
        }
        for mark in ABOUT_RESOURCES.into_iter().filter_map(|kind| self.mark(kind, id.as_str())) {
            self.follow(mark, &mut entry);
        }
        Some(entry)
    }

    fn follow(&self, mark: &Mark, entry: &mut plan::Resource) {
        match mark.kind {
            MarkKind::Pause => entry.paused = true,
            // Nobody is to hold it under that term; once it was let go, the next one is above.
            MarkKind::Floor => entry.paused |= self.is_below_floor(&entry.id),
            MarkKind::Pin => entry.pinned = mark.value.as_deref().and_then(|name| name.parse().ok()),
            _ => {}
        }
    }

    /// The listings in use, in a fixed order: their places are what the plan calls them by.
    fn listing_order(&self) -> Vec<&ListingId> {
        self.listings.keys().collect()
    }

    /// Every listed resource with the listings it is in.
    fn listed(&self) -> Vec<(&ResourceId, Arc<[usize]>)> {
        let order = self.listing_order();
        let mut single: Vec<Arc<[usize]>> = (0..order.len()).map(|place| Arc::from([place])).collect();
        let all: Arc<[usize]> = (0..order.len()).collect();
        if let [only] = order.as_slice() {
            let place = single.remove(0);
            return self.listings[*only].ids().iter().map(|id| (id, Arc::clone(&place))).collect();
        }
        let mut places: BTreeMap<&ResourceId, Vec<usize>> = BTreeMap::new();
        for (place, id) in order.iter().enumerate() {
            for resource in self.listings[*id].ids() {
                places.entry(resource).or_default().push(place);
            }
        }
        let shared = |places: Vec<usize>| match places.as_slice() {
            [place] => Arc::clone(&single[*place]),
            several if several.len() == all.len() => Arc::clone(&all),
            _ => places.into(),
        };
        places.into_iter().map(|(id, places)| (id, shared(places))).collect()
    }
}

/// A resource of which nothing is known.
fn plain(id: &ResourceId, nothing: &Arc<BTreeMap<String, String>>) -> plan::Resource {
    plan::Resource {
        id: id.clone(),
        weight: 1,
        requires: Arc::clone(nothing),
        declared: false,
        listed_by: Arc::default(),
        paused: false,
        pinned: None,
        holder: None,
        offer: None,
    }
}

fn declare(entry: &mut plan::Resource, declared: &Declared) {
    entry.declared = true;
    entry.weight = declared.weight.max(1);
    // Most ask for nothing, and share that.
    if !declared.requires.is_empty() {
        entry.requires = Arc::new(declared.requires.clone());
    }
}
