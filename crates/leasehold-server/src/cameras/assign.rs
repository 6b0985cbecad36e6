//! Which runner should have which camera: the plan of all pools, with runners as its members.
//!
//! Pure: what was read of cameras, runners and reservations goes in, what should move comes out. Nothing is decided by it.
//! Whoever asks for a free camera that it may have gets it; the plan says what to ask for, and what should change hands.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use leasehold::plan::{Facts, Member, Plan, Resource};
use leasehold::store::MarkKind;
use leasehold::{MemberId, MemberName, ResourceId};

use super::camera::Kept;
use super::offers::Offers;
use super::runner::{Runner, RunnerStatus};
use crate::deploy::{Deployment, Duty};
use crate::holders::{Known, label_of};

/// The most cameras that change hands at a time.
const BUDGET: usize = 64;
/// Among what else is known of a lease: which incarnation of its runner holds it.
pub(super) const INCARNATION: &str = "incarnation";

/// What a camera asks of a runner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Demand {
    site: String,
    capabilities: Vec<String>,
    group: Option<String>,
}

impl Demand {
    pub(super) fn of(kept: Kept<'_>) -> Self {
        let document = kept.declared().document.as_ref();
        let field = |name: &str| document.and_then(|document| document.get(name));
        let capabilities = field("capabilities").and_then(|list| list.as_array()).into_iter().flatten();
        Self {
            site: kept.site().to_owned(),
            capabilities: capabilities.filter_map(|one| one.as_str().map(str::to_owned)).collect(),
            group: field("deployment_group").and_then(|group| group.as_str()).map(str::to_owned),
        }
    }

    /// Why a runner may not have such a camera.
    pub(super) fn fits(&self, runner: &Runner) -> Result<(), String> {
        runner.fits(&self.site, &self.capabilities, self.group.as_deref())
    }
}

/// A camera as the plan sees it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) id: ResourceId,
    pub(super) demand: Demand,
    pub(super) paused: bool,
    /// Runners that were offered it and did not take it.
    pub(super) passed_over: BTreeSet<MemberId>,
    /// The session of the runner that has it, or that it is reserved for; the lease's own, if no living runner has it.
    pub(super) holder: Option<MemberId>,
}

/// Who should have what.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) plan: Plan,
}

impl Assignment {
    /// What the plan makes of it. `duty` is what deployments want of each runner.
    pub(super) fn of(
        runners: &[&Runner],
        items: Vec<Item>,
        in_flight: usize,
        duty: impl Fn(&Runner) -> Duty,
    ) -> Self {
        let members =
            runners.iter().enumerate().map(|(place, runner)| member(runner, place, duty(runner))).collect();
        let mut classes: HashMap<(Demand, BTreeSet<MemberId>), Arc<[usize]>> = HashMap::new();
        let nothing: Arc<BTreeMap<String, String>> = Arc::default();
        let resources = items.into_iter().map(|item| {
            let able = || {
                let fitting =
                    || runners.iter().enumerate().filter(|(_, runner)| item.demand.fits(runner).is_ok());
                let wanting = fitting().filter(|(_, runner)| !item.passed_over.contains(&runner.session));
                let wanting: Vec<usize> = wanting.map(|(place, _)| place).collect();
                // Where nobody took it, all are asked again.
                if wanting.is_empty() { fitting().map(|(place, _)| place).collect() } else { wanting }.into()
            };
            let class = (item.demand.clone(), item.passed_over.clone());
            let listed_by = Arc::clone(classes.entry(class).or_insert_with(able));
            Resource {
                id: item.id,
                weight: 1,
                requires: Arc::clone(&nothing),
                declared: false,
                listed_by,
                paused: item.paused,
                pinned: None,
                holder: item.holder,
                offer: None,
            }
        });
        let budget = BUDGET.saturating_sub(in_flight);
        let facts = Facts { members, resources: resources.collect(), budget };
        Self { plan: Plan::compute(&facts) }
    }

    /// Free cameras that this runner should take.
    pub(super) fn offers<'a>(&'a self, runner: &'a MemberId) -> impl Iterator<Item = &'a ResourceId> {
        let placements = self.plan.placements().iter();
        placements.filter(move |placement| placement.to == *runner).map(|placement| &placement.resource)
    }

    /// Cameras of others that should move to this runner, now.
    pub(super) fn moves<'a>(&'a self, runner: &'a MemberId) -> impl Iterator<Item = &'a ResourceId> {
        let moves = self.plan.moves().iter();
        moves.filter(move |one| one.to == *runner && one.now).map(|one| &one.resource)
    }
}

/// A runner as the plan sees it: its place stands for what it may have.
fn member(runner: &Runner, place: usize, duty: Duty) -> Member {
    let status = runner.status();
    Member {
        id: runner.session.clone(),
        name: runner.name.clone(),
        capacity: Some(runner.record.capacity.into()),
        labels: BTreeMap::new(),
        ready: status != RunnerStatus::Inactive,
        settled: true,
        leaving: false,
        drained: status == RunnerStatus::Draining || duty == Duty::HandsOver,
        cordoned: status == RunnerStatus::Maintenance || duty == Duty::Waits,
        listing: Some(place),
    }
}

/// What deployments want of a runner.
pub(super) fn duty(cameras: &Known, runner: &Runner) -> Duty {
    let mark = cameras.view.mark(MarkKind::Deployment, &runner.record.deployment_group);
    let deployment = mark.and_then(Deployment::of);
    deployment.map_or(Duty::Usual, |deployment| deployment.duty(&runner.record.deployment_version))
}

/// Everything there is to share out, as it was read, and how much of it changes hands already.
pub(super) fn items(
    cameras: &Known,
    pending: &Known,
    runners: &BTreeMap<MemberName, Runner>,
    offers: &Offers,
) -> (Vec<Item>, usize) {
    let living: HashMap<&str, &MemberId> = runners
        .values()
        .filter(|runner| !runner.ended)
        .map(|runner| (runner.record.incarnation.as_str(), &runner.session))
        .collect();
    let label = label_of(INCARNATION);
    let whose = |known: &Known, camera: &ResourceId| {
        let lease = known.view.holder(camera)?;
        let runner = known.label_of_holder(camera, &label).and_then(|incarnation| living.get(incarnation));
        Some(runner.map_or_else(|| lease.clone(), |session| (*session).clone()))
    };
    let mut in_flight = 0;
    let all = cameras.view.declared().values().filter_map(Kept::of);
    let items = all.map(|kept| {
        let held = whose(cameras, kept.id());
        let reserved = held.as_ref().and_then(|_| whose(pending, kept.id()));
        in_flight += usize::from(reserved.is_some());
        Item {
            id: kept.id().clone(),
            demand: Demand::of(kept),
            paused: kept.is_deleting() || cameras.is_paused(kept.id()),
            passed_over: offers.passed_over(kept.id()),
            holder: reserved.or(held),
        }
    });
    (items.collect(), in_flight)
}

/// The cameras that an incarnation has leases of.
pub(super) fn cameras_of(cameras: &Known, of: &str) -> Vec<ResourceId> {
    cameras.held_by(&label_of(INCARNATION)).get(of).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::runner::tests::runner;
    use super::*;

    fn item(id: usize, site: &str, holder: Option<&Runner>) -> Item {
        Item {
            id: ResourceId::new(format!("cam-{id:04}")).unwrap(),
            demand: Demand { site: site.to_owned(), capabilities: Vec::new(), group: None },
            paused: false,
            passed_over: BTreeSet::new(),
            holder: holder.map(|runner| runner.session.clone()),
        }
    }

    fn usual(_: &Runner) -> Duty {
        Duty::Usual
    }

    // proves R235
    #[test]
    fn a_version_that_is_promoted_gets_the_cameras_of_the_others() {
        let (old, new) = (runner("old", "*", 9), runner("new", "*", 9));
        let items = || (0..4).map(|number| item(number, "s", Some(&old))).collect::<Vec<_>>();
        let warming = |one: &Runner| if one.name == new.name { Duty::Waits } else { Duty::Usual };
        let found = Assignment::of(&[&old, &new], [items(), vec![item(9, "s", None)]].concat(), 0, warming);
        assert_eq!((found.moves(&new.session).count(), found.offers(&new.session).count()), (0, 0));
        let promoting = |one: &Runner| if one.name == old.name { Duty::HandsOver } else { Duty::Usual };
        assert_eq!(Assignment::of(&[&old, &new], items(), 0, promoting).moves(&new.session).count(), 4);
    }

    // proves U25
    #[test]
    fn a_thousand_cameras_on_fifty_sites_are_shared_out_within_one() {
        let runners: Vec<Runner> = (0..20).map(|number| runner(&format!("r{number}"), "*", 64)).collect();
        let runners: Vec<&Runner> = runners.iter().collect();
        let items = (0..1000).map(|number| item(number, &format!("site-{}", number % 50), None)).collect();
        let found = Assignment::of(&runners, items, 0, usual);
        let counts: Vec<usize> = runners.iter().map(|runner| found.offers(&runner.session).count()).collect();
        assert_eq!(counts, vec![50; 20]);
    }

    #[test]
    fn a_camera_goes_to_nobody_who_may_not_have_it() {
        let (here, there) = (runner("here", "s1", 2), runner("there", "s2", 9));
        let items = vec![item(1, "s1", None), item(2, "s1", None), item(3, "s1", None), item(4, "s2", None)];
        let found = Assignment::of(&[&here, &there], items, 0, usual);
        assert_eq!(found.offers(&here.session).count(), 2, "no more than its capacity");
        assert_eq!(found.offers(&there.session).count(), 1);
    }

    #[test]
    fn what_one_runner_did_not_take_is_offered_to_another_and_to_all_again_if_nobody_did() {
        let (one, two) = (runner("one", "*", 9), runner("two", "*", 9));
        let offered = |passed_over: &[&Runner]| {
            let passed_over = passed_over.iter().map(|runner| runner.session.clone()).collect();
            let item = Item { passed_over, ..item(1, "s", None) };
            let found = Assignment::of(&[&one, &two], vec![item], 0, usual);
            [&one, &two].map(|runner| found.offers(&runner.session).count())
        };
        assert_eq!((offered(&[&one]), offered(&[&two])), ([0, 1], [1, 0]));
        assert_eq!(offered(&[&one, &two]).iter().sum::<usize>(), 1);
    }

    // proves U24
    #[test]
    fn who_drains_hands_over_and_who_is_in_maintenance_keeps() {
        let (mut one, two) = (runner("one", "*", 9), runner("two", "*", 9));
        let held = |one: &Runner| (0..4).map(|number| item(number, "s", Some(one))).collect::<Vec<_>>();
        one.record.status = RunnerStatus::Maintenance;
        let found = Assignment::of(&[&one, &two], [held(&one), vec![item(9, "s", None)]].concat(), 0, usual);
        assert_eq!(found.offers(&one.session).count(), 0);
        one.record.status = RunnerStatus::Draining;
        let found = Assignment::of(&[&one, &two], held(&one), 0, usual);
        assert_eq!(found.moves(&two.session).count(), 4);
        // No more at a time than the budget allows.
        assert_eq!(
            Assignment::of(&[&one, &two], held(&one), BUDGET - 1, usual).moves(&two.session).count(),
            1
        );
    }
}
