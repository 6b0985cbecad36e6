//! What is asked for, how much of it at a time, and when.

use std::time::Duration;

use super::super::member::BATCH_MAX;
use super::super::scene::{Scene, id, resource};
use super::super::session::tests::ms;
use super::*;
use crate::ledger::Reason;
use crate::store::{LeaseStore, Listing, Offer};

/// As many resources as are taken in one pass, and a few more.
async fn with_many(more: usize) -> Scene {
    let ids = (0..BATCH_MAX * BATCHES_MAX + more).map(|number| resource(&format!("r{number}"))).collect();
    let mut scene = Scene::new(Listing::new(ids).unwrap());
    assert!(scene.pass().await, "who has joined passes again at once");
    scene
}

#[tokio::test]
async fn one_pass_takes_what_fits_into_its_calls() {
    let mut scene = with_many(0).await;
    assert!(!scene.pass().await, "nothing is left to take");
    assert_eq!(scene.held().len(), 4096);
}

#[tokio::test]
async fn what_does_not_fit_into_one_pass_is_for_the_next_at_once() {
    let mut scene = with_many(1).await;
    assert!(scene.pass().await);
    assert_eq!(scene.held().len(), 4096);
    assert!(!scene.pass().await);
    assert_eq!(scene.held().len(), 4097);
}

#[tokio::test]
async fn who_leaves_takes_nothing() {
    let mut scene = Scene::joined(&["a"]).await;
    scene.member.leaving = true;
    scene.refresh().await;
    scene.plan(|_| ());
    assert!(!scene.member.take_free().await.unwrap());
    assert!(scene.held().is_empty());
    scene.member.leaving = false;
    scene.plan(|_| ());
    assert!(!scene.member.take_free().await.unwrap());
    assert_eq!(scene.held(), ["a"]);
}

#[tokio::test]
async fn nothing_is_asked_of_a_frozen_store() {
    let mut scene = Scene::joined(&["a"]).await;
    scene.store.restore(&scene.store.snapshot());
    scene.refresh().await;
    assert!(scene.member.view.era().unwrap().frozen);
    let before = scene.session().sending().pulse.number;
    scene.plan(|_| ());
    assert!(!scene.member.take_free().await.unwrap());
    assert_eq!(scene.session().sending().pulse.number.0, before.0 + 1, "no call was made");
}

#[tokio::test]
async fn what_is_held_or_on_its_way_back_or_rests_is_not_asked_for() {
    let mut scene = Scene::holding(&["held"]).await;
    let (now, term) = (ms(1000), Term { resource: resource("back"), token: Token(5) });
    let returning =
        super::super::release::Returning { term: term.clone(), offer: None, reason: Reason::Voluntary };
    scene.member.returning.insert(term, returning);
    scene.member.resting.insert(resource("rests"), (ms(1001), 1));
    scene.member.resting.insert(resource("rested"), (ms(1000), 1));
    let may = |id| scene.member.may_ask_for(&resource(id), now);
    assert_eq!(["held", "back", "rests"].map(may), [false, false, false]);
    assert_eq!(["rested", "other"].map(may), [true, true]);
}

#[tokio::test]
async fn what_rests_is_left_alone_until_it_has() {
    let mut scene = Scene::joined(&["a"]).await;
    scene.member.resting.insert(resource("a"), (ms(1000), 1));
    scene.pass().await;
    assert!(scene.held().is_empty());
    scene.clock.show(1000);
    scene.pass().await;
    assert_eq!(scene.held(), ["a"]);
}

#[tokio::test]
async fn no_more_is_taken_in_anothers_place_than_there_is_room_for() {
    let mut scene = Scene::new(super::super::scene::listing(&["a", "b"]));
    scene.member.identity.capacity = Some(1);
    scene.other("two-1", |profile| profile.capacity = Some(1)).await;
    scene.pass().await;
    scene.clock.show(5000);
    scene.member.free_since = [(resource("a"), ms(0)), (resource("b"), ms(0))].into();
    scene.pass().await;
    assert_eq!(scene.held().len(), 1);
}

#[tokio::test]
async fn what_another_should_have_taken_is_taken_after_a_moment() {
    let mut scene = Scene::joined(&["a", "b", "c", "d"]).await;
    scene.other("two-1", |_| ()).await;
    scene.pass().await;
    let ours = scene.held().len();
    assert!((1..4).contains(&ours), "the plan gives each of them something");
    scene.clock.show(99);
    scene.pass().await;
    assert_eq!(scene.held().len(), ours);
    scene.clock.show(600);
    scene.pass().await;
    assert_eq!(scene.held().len(), 4);
}

#[tokio::test]
async fn what_was_offered_to_another_is_left_to_it_for_as_long_as_to_anybody() {
    let mut scene = Scene::joined(&["a"]).await;
    scene.refresh().await;
    scene.plan(|facts| {
        for resource in &mut facts.resources {
            resource.offer = Some(Offer { to: id("two-1"), load: 1 });
        }
    });
    scene.member.free_since.insert(resource("a"), ms(1000));
    let left = |now| scene.member.was_left(scene.member.planner.free()[0], &id("one-1"), now);
    assert_eq!([ms(1000), ms(1499), ms(1500)].map(left), [false, false, true]);
}

#[tokio::test]
async fn the_pass_wakes_for_what_it_may_take_in_anothers_place_or_again() {
    let mut scene = Scene::new(super::super::scene::listing(&[]));
    assert_eq!(scene.member.next_fallback(ms(0)), None);
    scene.member.free_since.insert(resource("a"), ms(1000));
    assert_eq!(scene.member.next_fallback(ms(1499)), Some(ms(1599)));
    assert_eq!(scene.member.next_fallback(ms(1500)), None, "whoever may take it has had its moment");
    scene.member.resting.insert(resource("b"), (ms(1550), 1));
    assert_eq!(scene.member.next_fallback(ms(1499)), Some(ms(1550)));
    assert_eq!(scene.member.next_fallback(ms(1549)), Some(ms(1550)));
    assert_eq!(scene.member.next_fallback(ms(1550)), None, "it has rested");
}

#[tokio::test]
async fn what_comes_back_from_whom_it_was_handed_to_is_counted() {
    let mut scene = Scene::joined(&["a"]).await;
    scene.member.handed.insert(resource("a"), (id("two-1"), 1));
    scene.pass().await;
    assert_eq!(scene.member.handed[&resource("a")], (id("two-1"), 2));
}

#[tokio::test]
async fn a_grant_says_whether_somebody_held_it_before() {
    let mut scene = Scene::joined(&["a", "b"]).await;
    let two = scene.other("two-1", |_| ()).await;
    two.acquires("a").await;
    scene.store.close(&two.open.id).await.unwrap();
    scene.pass().await;
    assert_eq!(scene.held(), ["a", "b"]);
    let of = |rows: Vec<crate::ledger::Entry>| {
        rows.into_iter().map(|row| (row.resource, row.other)).collect::<Vec<_>>()
    };
    assert_eq!(of(scene.rows(Event::TakenOver).await), [(Some(resource("a")), Some(id("two-1")))]);
    assert_eq!(of(scene.rows(Event::Acquired).await), [(Some(resource("b")), None)]);
    assert_eq!(scene.session().trusted_until(), ms(27_000), "a grant moves no trust");
    assert_eq!(scene.member.tenures["a"].lease.remaining(), Duration::from_secs(27));
}
