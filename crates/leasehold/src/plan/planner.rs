//! Plans for facts of which little has changed since the last one.
//!
//! Invariant: [`Planner::plan`] says exactly what [`Plan::compute`] says of the same facts. It takes the same steps, on a board on
//! which only those resources are laid out that do not simply stay with their holders. Of the others it knows how many there are, which is
//! all that the steps ask of them; where a step would move one of them, everything is laid out after all.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Plan;
use super::board::{Board, NOBODY, Standing};
use super::eligible::{Class, Demand, classify};
use super::facts::{Facts, Member, Resource};
use super::kept::{Kept, Lot};
use crate::lease::ResourceId;

/// Remembers the facts, and which of them have to be looked at.
#[derive(Debug)]
pub struct Planner {
    /// The members are in the order of their ids.
    facts: Facts,
    /// Where each resource is in the facts; only for those who tell of single ones.
    places: Option<HashMap<ResourceId, u32>>,
    sorted: Option<Sorted>,
}

impl Planner {
    /// Begins with these facts.
    #[must_use]
    pub fn new(mut facts: Facts) -> Self {
        facts.members.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        Self { facts, places: None, sorted: None }
    }

    /// The facts as they are now.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Every resource that nobody holds.
    #[must_use]
    pub fn free(&self) -> Vec<&Resource> {
        let resource = |at: &u32| &self.facts.resources[*at as usize];
        let is_free = |resource: &&Resource| resource.holder.is_none();
        match &self.sorted {
            Some(sorted) => sorted.open.iter().map(resource).filter(is_free).collect(),
            None => self.facts.resources.iter().filter(is_free).collect(),
        }
    }

    /// Takes in who is there.
    pub fn set_members(&mut self, mut members: Vec<Member>) {
        members.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        if members != self.facts.members {
            self.facts.members = members;
            self.sorted = None;
        }
    }

    /// Takes in a resource that is new, or other than before.
    pub fn put(&mut self, resource: Resource) {
        let before = self.take_out(&resource.id);
        let class = self.class_of(&resource, before);
        let at = self.facts.resources.len() as u32;
        // A class of its own changes the places of the others.
        self.sorted = self.sorted.take().zip(class).map(|(mut sorted, class)| {
            sorted.put_in(at, &resource, class, &self.facts.members);
            sorted
        });
        self.places().insert(resource.id.clone(), at);
        self.facts.resources.push(resource);
    }

    /// Takes in that there is no such resource any more.
    pub fn remove(&mut self, id: &ResourceId) {
        self.take_out(id);
    }

    /// What should happen to every resource.
    pub fn plan(&mut self) -> Plan {
        if self.places.is_some() {
            let sorted = self.sorted.get_or_insert_with(|| Sorted::of(&self.facts));
            let mut board = sorted.board(&self.facts);
            let plan = Plan::on(&mut board, self.facts.budget);
            if !board.missed {
                return plan;
            }
        }
        Plan::compute(&self.facts)
    }

    fn places(&mut self) -> &mut HashMap<ResourceId, u32> {
        let ids = self.facts.resources.iter().map(|resource| resource.id.clone());
        self.places.get_or_insert_with(|| ids.zip(0..).collect())
    }

    /// Takes a resource out; the last one takes its place.
    fn take_out(&mut self, id: &ResourceId) -> Option<(Resource, Option<u32>)> {
        let at = self.places().remove(id)?;
        let Self { facts, sorted, .. } = self;
        let class = sorted.as_mut().map(|sorted| sorted.take_out(at, facts));
        let resource = facts.resources.swap_remove(at as usize);
        if let Some(moved) = facts.resources.get(at as usize).map(|moved| moved.id.clone()) {
            self.places().insert(moved, at);
        }
        Some((resource, class))
    }

    /// The class of a resource, if that is known; most often it asks for what it asked for before.
    fn class_of(&self, resource: &Resource, before: Option<(Resource, Option<u32>)>) -> Option<u32> {
        let demand = Demand::of(resource);
        match before {
            Some((before, class)) if Demand::of(&before) == demand => class,
            _ => {
                let members: Vec<&Member> = self.facts.members.iter().collect();
                Class::of(&demand, &members).place_in(&self.sorted.as_ref()?.classes)
            }
        }
    }
}

/// The resources, sorted by whether anything is to be done about them. What is kept has been counted, what is foreign is nobody's
/// business, and everything else is open.
#[derive(Debug)]
struct Sorted {
    classes: Arc<[Class]>,
    /// The class of each resource, in the order of the facts.
    class_of: Vec<u32>,
    kept: Kept,
    open: BTreeSet<u32>,
}

impl Sorted {
    fn of(facts: &Facts) -> Self {
        let members: Vec<&Member> = facts.members.iter().collect();
        let (classes, class_of) = classify(&members, &facts.resources);
        let mut sorted = Self {
            classes: classes.into(),
            class_of: Vec::with_capacity(class_of.len()),
            kept: Kept::default(),
            open: BTreeSet::new(),
        };
        for ((at, resource), class) in (0..).zip(&facts.resources).zip(class_of) {
            sorted.put_in(at, resource, class, &facts.members);
        }
        sorted
    }

    fn board<'a>(&'a self, facts: &'a Facts) -> Board<'a> {
        let open = self.open.iter().copied();
        Board::lay_out_some(facts, open, Arc::clone(&self.classes), &self.class_of, &self.kept)
    }

    /// Puts a resource behind all others.
    fn put_in(&mut self, at: u32, resource: &Resource, class: u32, members: &[Member]) {
        match self.sort(resource, class, members) {
            Sort::Kept(lot) => self.kept.add(lot),
            Sort::Foreign => {}
            Sort::Open => {
                self.open.insert(at);
            }
        }
        self.class_of.push(class);
    }

    /// Takes a resource out, before the last one takes its place in the facts. Says which class it was.
    fn take_out(&mut self, at: u32, facts: &Facts) -> u32 {
        let (resource, last) = (&facts.resources[at as usize], facts.resources.len() as u32 - 1);
        let class = self.class_of.swap_remove(at as usize);
        if let Sort::Kept(lot) = self.sort(resource, class, &facts.members) {
            self.kept.take(lot);
        }
        self.open.remove(&at);
        if self.open.remove(&last) {
            self.open.insert(at);
        }
        class
    }

    fn sort(&self, resource: &Resource, class: u32, members: &[Member]) -> Sort {
        let place = |id| members.binary_search_by(|member| member.id.cmp(id)).ok();
        let holder = resource.holder.as_ref().and_then(place).map_or(NOBODY, |place| place as u32);
        match Standing::of(resource, holder, &self.classes[class as usize]) {
            Standing::Kept => Sort::Kept(Lot { holder, class, weight: resource.load() }),
            Standing::Foreign => Sort::Foreign,
            _ => Sort::Open,
        }
    }
}

/// What a resource is to the plan.
enum Sort {
    Kept(Lot),
    Foreign,
    Open,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn member(number: usize) -> Member {
        Member {
            id: format!("m{number}").parse().unwrap(),
            name: format!("m{number}").parse().unwrap(),
            capacity: None,
            labels: BTreeMap::new(),
            ready: true,
            settled: true,
            leaving: false,
            drained: false,
            cordoned: false,
            listing: None,
        }
    }

    fn resource(number: usize, holder: Option<usize>) -> Resource {
        Resource {
            id: format!("r{number}").parse().unwrap(),
            weight: 1,
            requires: Arc::default(),
            declared: true,
            listed_by: Arc::default(),
            paused: false,
            pinned: None,
            holder: holder.map(|number| member(number).id),
            offer: None,
        }
    }

    /// Three members with ten resources each, of which one is as it is given.
    fn planner(other: Resource) -> Planner {
        let members = (0..3).map(member).collect();
        let resources = (0..30).map(|number| resource(number, Some(number % 3))).collect();
        let mut planner = Planner::new(Facts { members, resources, budget: usize::MAX });
        planner.put(other);
        planner
    }

    /// How many resources are laid out to plan what is so by now, and whether that is enough.
    fn laid_out(planner: &mut Planner) -> (usize, bool) {
        planner.plan();
        let mut board = planner.sorted.as_ref().unwrap().board(&planner.facts);
        Plan::on(&mut board, usize::MAX);
        (board.items.len(), !board.missed)
    }

    #[test]
    fn what_stays_is_not_laid_out() {
        assert_eq!(laid_out(&mut planner(resource(7, Some(1)))), (0, true));
        assert_eq!(laid_out(&mut planner(resource(7, None))), (1, true));
        assert_eq!(laid_out(&mut planner(resource(30, None))), (1, true), "a new one");
        let mut removed = planner(resource(7, None));
        removed.remove(&resource(7, None).id);
        assert_eq!(laid_out(&mut removed), (0, true));
    }

    #[test]
    fn where_something_that_stayed_has_to_move_everything_is_laid_out() {
        let mut uneven = planner(resource(7, Some(0)));
        assert_eq!(laid_out(&mut uneven), (0, false));
        assert_eq!(uneven.plan().moves().len(), 1);
        let mut full = planner(resource(7, Some(1)));
        let small = Member { capacity: Some(9), ..member(1) };
        full.set_members(vec![member(0), small, member(2)]);
        assert_eq!(laid_out(&mut full), (0, false));
    }
}
