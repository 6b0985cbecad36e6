//! What the plan does in the cases that operators meet.

#[path = "plan/world.rs"]
mod world;

use std::sync::Arc;

use leasehold::plan::{
    DropReason, Facts, MoveReason, Obstacle, Outlook, Plan, Quota, UnplaceableReason, explain, rank, rank_of,
    rendezvous,
};
use leasehold::store::Offer;
use world::*;

/// Members with as many resources of weight 1 as given.
fn holding(counts: &[usize]) -> Facts {
    let mut facts = pool(counts.len(), &vec![1; counts.iter().sum()]);
    let holders = counts.iter().enumerate().flat_map(|(number, count)| vec![number; *count]);
    for (resource, holder) in facts.resources.iter_mut().zip(holders) {
        resource.holder = Some(member_id(holder));
    }
    facts
}

fn label(facts: &mut Facts, member: usize, label: &str) {
    facts.members[member].labels.insert(label.to_owned(), "yes".to_owned());
}

// proves C18, R063, R064
#[test]
fn a_fourth_member_gets_two_of_nine() {
    let mut facts = holding(&[3, 3, 3, 0]);
    let plan = Plan::compute(&facts);
    assert_eq!(plan.moves().len(), 2);
    assert!(plan.moves().iter().all(|step| step.to == member_id(3) && step.load == 3 && step.now));
    assert_ne!(plan.moves()[0].from, plan.moves()[1].from);
    assert_eq!(plan.quota(&member_id(3)), Quota { floor: 2, ceiling: 3 });
    assert_eq!((plan.load(&member_id(3)), plan.planned(&member_id(3))), (0, 2));
    assert_eq!(settle(&mut facts), 2);
}

#[test]
fn work_waits_for_nobody_who_has_not_settled_unless_it_is_free() {
    let mut facts = holding(&[6, 0]);
    facts.members[1].settled = false;
    facts.resources.push(resource(6, 1));
    let plan = Plan::compute(&facts);
    assert!(plan.moves().is_empty());
    assert_eq!(plan.placements()[0].to, member_id(1));
    facts.members[0].drained = true;
    assert_eq!(Plan::compute(&facts).moves().len(), 6, "better somebody new than somebody drained");
}

#[test]
fn a_cordoned_member_keeps_what_it_has_and_gets_nothing() {
    let mut facts = holding(&[6, 0, 1]);
    facts.members[0].cordoned = true;
    facts.members[1].cordoned = true;
    facts.resources.push(resource(7, 1));
    let plan = Plan::compute(&facts);
    assert!(plan.moves().is_empty());
    assert_eq!(plan.placements()[0].to, member_id(2));
    assert_eq!(plan.quota(&member_id(0)), Quota { floor: 6, ceiling: 6 });
}

#[test]
fn nobody_is_relieved_of_work_that_nobody_else_can_do() {
    let mut facts = holding(&[2]);
    facts.members[0].drained = true;
    assert!(Plan::compute(&facts).moves().is_empty());
    let explained = explain(&facts, &resource_id(0)).unwrap();
    assert_eq!(explained.outlook, Outlook::Stuck);
    assert_eq!(explained.members[0].obstacles, [Obstacle::Drained]);
}

#[test]
fn what_is_paused_is_let_go_and_not_taken() {
    let mut facts = holding(&[1, 0]);
    facts.resources.push(resource(1, 1));
    facts.resources.iter_mut().for_each(|resource| resource.paused = true);
    let plan = Plan::compute(&facts);
    assert_eq!(plan.drops()[0].reason, DropReason::Paused);
    assert_eq!(plan.unplaceable()[0].reason, UnplaceableReason::Paused);
    assert!(rank(&facts, &resource_id(1)).is_empty());
}

#[test]
fn what_its_holder_does_not_list_goes_to_one_that_does_or_is_dropped() {
    let mut facts = holding(&[2, 0]);
    facts.members[0].listing = Some(0);
    facts.members[1].listing = Some(1);
    facts.resources[0].declared = false;
    facts.resources[0].listed_by = Arc::new([1]);
    facts.resources[1].declared = false;
    let plan = Plan::compute(&facts);
    assert_eq!(plan.moves().len(), 1);
    assert_eq!(plan.moves()[0].resource, resource_id(0));
    assert_eq!((plan.moves()[0].reason, plan.moves()[0].load), (MoveReason::Ineligible, u64::MAX));
    assert_eq!(plan.drops().len(), 1);
    assert_eq!((&plan.drops()[0].resource, plan.drops()[0].reason), (&resource_id(1), DropReason::Unlisted));
}

#[test]
fn a_pin_to_somebody_absent_is_ignored_until_it_is_there() {
    let mut facts = holding(&[1, 1]);
    facts.resources[0].pinned = Some(name(2));
    assert!(Plan::compute(&facts).moves().is_empty());
    let said = explain(&facts, &resource_id(0)).unwrap().to_string();
    assert!(
        said.contains("pinned to host-2, who is not there or cannot hold it: ignored until then"),
        "{said}"
    );
    facts.members.push(member(2));
    let plan = Plan::compute(&facts);
    assert_eq!(plan.moves().len(), 1);
    assert_eq!((plan.moves()[0].reason, &plan.moves()[0].to), (MoveReason::Pin, &member_id(2)));
}

#[test]
fn a_full_member_makes_room_for_what_is_pinned_to_it() {
    let mut facts = holding(&[2, 1]);
    facts.members[0].capacity = Some(2);
    facts.resources[2].pinned = Some(name(0));
    let plan = Plan::compute(&facts);
    let steps: Vec<_> = plan.moves().iter().map(|step| (step.reason, step.now)).collect();
    assert_eq!(steps, [(MoveReason::Pin, false), (MoveReason::Capacity, true)]);
    settle(&mut facts);
    assert_eq!(facts.resources[2].holder, Some(member_id(0)));
    assert_eq!(load(&facts, &member_id(0)), 2);
}

#[test]
fn members_of_one_name_share_what_is_pinned_to_it() {
    let mut facts = pool(3, &[1; 6]);
    facts.members[1].name = name(0);
    facts.resources.iter_mut().for_each(|resource| resource.pinned = Some(name(0)));
    settle(&mut facts);
    assert_eq!(loads(&facts), [3, 3, 0]);
}

// proves R065
#[test]
fn a_chain_evens_out_members_that_have_nothing_in_common() {
    let mut facts = holding(&[4, 3, 0]);
    label(&mut facts, 0, "gpu");
    label(&mut facts, 1, "gpu");
    label(&mut facts, 1, "site");
    label(&mut facts, 2, "site");
    for resource in &mut facts.resources {
        let first = resource.holder == Some(member_id(0));
        resource.requires = requires(if first { "gpu" } else { "site" });
    }
    facts.resources.retain(|resource| resource.id != resource_id(6));
    settle(&mut facts);
    assert_eq!(loads(&facts), [2, 2, 2]);
}

#[test]
fn the_far_end_of_a_chain_goes_first_and_carries_the_load_of_its_head() {
    let mut facts = holding(&[3, 2, 1]);
    for (member, labels) in [(0, &["gpu"][..]), (1, &["gpu", "site"]), (2, &["site"])] {
        labels.iter().for_each(|one| label(&mut facts, member, one));
    }
    for resource in &mut facts.resources {
        let first = resource.holder == Some(member_id(0));
        resource.requires = requires(if first { "gpu" } else { "site" });
    }
    let plan = Plan::compute(&facts);
    let steps: Vec<_> = plan.moves().iter().map(|step| (&step.from, &step.to, step.load, step.now)).collect();
    let (x, y, z) = (&member_id(0), &member_id(1), &member_id(2));
    assert_eq!(steps, [(y, z, 3, true), (x, y, 3, false)]);
    settle(&mut facts);
    assert_eq!(loads(&facts), [2, 2, 2]);
}

// proves C28
#[test]
fn an_offer_is_honoured_only_if_it_evens_out() {
    let mut facts = holding(&[3, 3]);
    facts.resources.push(resource(6, 1));
    let offered = |load| Some(Offer { to: member_id(0), load });
    facts.resources[6].offer = offered(5);
    assert_eq!(Plan::compute(&facts).placements()[0].to, member_id(0));
    facts.members.push(member(2));
    facts.resources[6].offer = offered(4);
    assert_eq!(Plan::compute(&facts).placements()[0].to, member_id(2));
    facts.resources[6].offer = offered(u64::MAX);
    assert_eq!(Plan::compute(&facts).placements()[0].to, member_id(0));
}

#[test]
fn a_void_offer_does_not_keep_the_one_it_names_from_taking() {
    let mut facts = holding(&[3, 4]);
    facts.resources.push(resource(7, 1));
    facts.resources[7].offer = Some(Offer { to: member_id(0), load: 4 });
    let plan = Plan::compute(&facts);
    assert_eq!((&plan.placements()[0].to, plan.placements()[0].offered), (&member_id(0), false));
}

// proves C28
#[test]
fn handoffs_in_flight_count_against_the_budget() {
    let mut facts = holding(&[9, 0, 0]);
    facts.budget = 3;
    assert_eq!(Plan::compute(&facts).moves().len(), 3);
    (facts.resources[0].holder, facts.resources[0].offer) =
        (None, Some(Offer { to: member_id(1), load: u64::MAX }));
    assert_eq!(Plan::compute(&facts).moves().len(), 2);
}

#[test]
fn nobody_and_nothing_make_an_empty_plan() {
    assert_eq!(Plan::compute(&pool(0, &[])), Plan::default());
    assert!(Plan::compute(&pool(2, &[])).moves().is_empty());
    assert_eq!(Plan::compute(&pool(0, &[1])).unplaceable()[0].reason, UnplaceableReason::NoMembers);
    assert_eq!(explain(&pool(1, &[]), &resource_id(0)), None);
}

#[test]
fn what_is_held_by_somebody_who_is_no_member_is_left_alone() {
    let mut facts = pool(2, &[1]);
    facts.resources[0].holder = Some(member_id(7));
    assert_eq!(Plan::compute(&facts).placements(), []);
    assert_eq!(explain(&facts, &resource_id(0)).unwrap().outlook, Outlook::Foreign);
}

// proves R083, R084
#[test]
fn the_most_preferred_takes_and_the_others_are_fallbacks_in_order() {
    let facts = pool(4, &[1]);
    let ranked = rank(&facts, &resource_id(0));
    assert_eq!(Plan::compute(&facts).placements()[0].to, ranked[0]);
    let hash = |id: &str| rendezvous::hash_id(id);
    let hashes: Vec<u64> = facts.members.iter().map(|member| hash(member.id.as_str())).collect();
    for (place, member) in ranked.iter().enumerate() {
        assert_eq!(rank_of(&hashes, hash(resource_id(0).as_str()), hash(member.as_str())), place);
    }
}

#[test]
fn an_explanation_says_why_each_member_does_or_does_not_have_it() {
    let mut facts = holding(&[1, 0, 0, 1]);
    facts.resources[0].requires = requires("gpu");
    label(&mut facts, 0, "gpu");
    label(&mut facts, 3, "gpu");
    facts.members[1].ready = false;
    facts.members[3].capacity = Some(1);
    let explained = explain(&facts, &resource_id(0)).unwrap();
    assert_eq!(explained.outlook, Outlook::Stay);
    let said = explained.to_string();
    assert!(said.starts_with("endpoint-0 is held by host-0\nit stays: "), "{said}");
    for part in [
        "host-0: holds 1, share 0 to 1; eligible",
        "host-1: holds 0, share 0; is not ready, lacks the label gpu=yes",
        "host-2: holds 0, share 0 to 1; lacks the label gpu=yes",
        "host-3: holds 1, share 0 to 1; is full (capacity 1)",
    ] {
        assert!(said.contains(part), "{part:?} is missing from\n{said}");
    }
    let json = serde_json::to_value(&explained).unwrap();
    assert_eq!(json["whereabouts"]["state"], "held");
}

// A resource that is given to a name is assigned by hand: nobody else takes it, whoever is there.
#[tokio::test]
async fn a_resource_that_requires_a_name_goes_to_nobody_else() {
    use leasehold::clock::SystemClock;
    use leasehold::store::conformance::member::{open, session};
    use leasehold::store::{Declared, Marked, Store, Version, memory::MemoryStore};
    use leasehold::view::View;

    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut other = session("tracker-1");
    other.profile.settled = true;
    open(&store, &other).await;
    // A label of one's own is not overruled.
    let mut liar = session("tracker-2");
    liar.profile.labels.insert("name".to_owned(), "somebody".to_owned());
    open(&store, &liar).await;
    for (id, to) in [("a", "tracker-0"), ("b", "tracker-2"), ("c", "somebody"), ("d", "tracker-1")] {
        let requires = [("name".to_owned(), to.to_owned())].into();
        let declared = Declared { requires, ..Declared::new(id.parse().unwrap()) };
        let set = store.declare(&other.pool, &declared).await.unwrap();
        assert_eq!(set, Marked::Set(Version(1)));
    }
    let placed = async || {
        let mut view = View::new(other.pool.clone());
        view.refresh(&*store, &SystemClock).await.unwrap();
        let facts = view.facts(usize::MAX);
        let plan = Plan::compute(&facts);
        let name = |id: &leasehold::MemberId| {
            facts.members.iter().find(|member| member.id == *id).unwrap().name.to_string()
        };
        let mut placed: Vec<_> =
            plan.placements().iter().map(|placed| (placed.resource.to_string(), name(&placed.to))).collect();
        placed.sort_unstable();
        let mut waits: Vec<_> = plan.unplaceable().iter().map(|left| left.resource.to_string()).collect();
        waits.sort_unstable();
        (placed, waits)
    };
    let given = |resource: &str, to: &str| (resource.to_owned(), to.to_owned());
    let (first, waits) = placed().await;
    assert_eq!(first, [given("c", "tracker-2"), given("d", "tracker-1")]);
    assert_eq!(waits, ["a", "b"], "who is away is waited for");
    open(&store, &session("tracker-0")).await;
    let (then, waits) = placed().await;
    assert_eq!(then[0], given("a", "tracker-0"));
    assert_eq!(waits, ["b"]);
}
