//! What is let go: because the store says so, because the plan does, because the member leaves, and how it goes back.

use super::super::member::BATCH_MAX;
use super::super::scene::{Scene, id, listing, resource};
use super::super::session::tests::ms;
use super::super::work::Lost;
use super::*;
use crate::lease::Token;
use crate::store::{LeaseStore, Thawed};

fn told(scene: &Scene, of: &str) -> Option<Reason> {
    scene.member.tenures[of].leaving.as_ref().map(|returning| returning.reason)
}

#[tokio::test]
async fn what_was_superseded_is_dead_and_what_was_revoked_only_stops() {
    let mut scene = Scene::holding(&["a", "b"]).await;
    let (a, b) = (scene.term("a"), scene.term("b"));
    scene.member.stop_term(&Term { token: Token(a.token.0 + 1), ..a.clone() }, Reason::Superseded);
    assert_eq!(
        (told(&scene, "a"), scene.member.tenures["a"].lease.is_stopping()),
        (None, false),
        "another term"
    );
    scene.member.stop_term(&a, Reason::Superseded);
    assert_eq!(told(&scene, "a"), Some(Reason::Superseded));
    assert_eq!(scene.member.tenures["a"].lease.term(), Err(Lost));
    scene.member.stop_term(&b, Reason::Revoked);
    assert_eq!(told(&scene, "b"), Some(Reason::Revoked));
    assert!(scene.member.tenures["b"].lease.is_stopping());
    assert_eq!(scene.member.tenures["b"].lease.term(), Ok(&b));
    scene.member.stop_term(&b, Reason::Superseded);
    assert_eq!(scene.member.tenures["b"].lease.term(), Err(Lost), "whatever it was stopping for");
    assert_eq!(told(&scene, "b"), Some(Reason::Revoked));
    let lost: Vec<_> = scene.rows(Event::Lost).await.into_iter().map(|row| row.resource.unwrap()).collect();
    assert_eq!(lost, [resource("a"), resource("b")]);
}

#[tokio::test]
async fn what_the_store_gave_to_another_is_lost() {
    let mut scene = Scene::holding(&["a", "b"]).await;
    let (me, a) = (scene.session().id().clone(), scene.term("a"));
    let two = scene.other("two-1", |_| ()).await;
    let release = [Release { term: a.clone(), offer: None }];
    let _ = scene.store.release(&me, scene.session().sending().pulse, &release).await.unwrap();
    two.acquires("a").await;
    scene.refresh().await;
    scene.member.compare_with_view();
    assert_eq!(told(&scene, "a"), Some(Reason::Superseded));
    assert_eq!(scene.member.tenures["a"].lease.term(), Err(Lost));
    assert_eq!(told(&scene, "b"), None);
    assert!(scene.member.tenures["b"].lease.term().is_ok());
}

#[tokio::test]
async fn what_is_ours_under_another_token_is_lost_and_goes_back() {
    let mut scene = Scene::holding(&["a"]).await;
    let (me, a) = (scene.session().id().clone(), scene.term("a"));
    let release = [Release { term: a.clone(), offer: None }];
    let _ = scene.store.release(&me, scene.session().sending().pulse, &release).await.unwrap();
    let wanted = [crate::store::Wanted { resource: resource("a"), floor: Token(0) }];
    let _ = scene.store.acquire(&me, scene.session().sending().pulse, &wanted).await.unwrap();
    scene.refresh().await;
    scene.member.compare_with_view();
    assert_eq!(told(&scene, "a"), Some(Reason::Superseded));
    let back: Vec<_> = scene.member.returning.values().map(|r| (r.term.token, r.reason)).collect();
    assert_eq!(back, [(Token(a.token.0 + 1), Reason::Unconfirmed)]);
}

#[tokio::test]
async fn what_was_revoked_stops_and_what_is_ours_does_not() {
    let mut scene = Scene::holding(&["a", "b"]).await;
    let _ = scene.store.revoke(&super::super::scene::pool(), &scene.term("a")).await.unwrap();
    scene.refresh().await;
    scene.member.compare_with_view();
    assert_eq!((told(&scene, "a"), told(&scene, "b")), (Some(Reason::Revoked), None));
    assert!(scene.member.tenures["a"].lease.term().is_ok(), "until its trust ends");
    assert!(scene.member.returning.is_empty(), "what we know of does not go back by itself");
}

#[tokio::test]
async fn what_is_ours_and_unknown_goes_back_wherever_it_stands_among_what_is_known() {
    let mut scene = Scene::holding(&["b", "d"]).await;
    let wanted = ["a", "c", "e"].map(|of| crate::store::Wanted { resource: resource(of), floor: Token(0) });
    let session = scene.session();
    let _ = scene.store.acquire(session.id(), session.sending().pulse, &wanted).await.unwrap();
    scene.refresh().await;
    scene.member.compare_with_view();
    let back: Vec<_> = scene.member.returning.keys().map(|term| term.resource.as_str()).collect();
    assert_eq!(back, ["a", "c", "e"]);
    assert_eq!((told(&scene, "b"), told(&scene, "d")), (None, None));
}

#[tokio::test]
async fn who_doubts_everything_finds_what_the_news_would_have_told() {
    let mut scene = Scene::holding(&["b", "d"]).await;
    let (session, b) = (scene.session(), scene.term("b"));
    let release = [Release { term: b, offer: None }];
    let _ = scene.store.release(session.id(), session.sending().pulse, &release).await.unwrap();
    let wanted = ["a", "c"].map(|of| crate::store::Wanted { resource: resource(of), floor: Token(0) });
    let _ = scene.store.acquire(session.id(), session.sending().pulse, &wanted).await.unwrap();
    scene.refresh().await;
    scene.member.doubts = News::Anything;
    scene.member.compare_with_view();
    let back: Vec<_> = scene.member.returning.keys().map(|term| term.resource.as_str()).collect();
    assert_eq!(back, ["a", "c"]);
    assert_eq!((told(&scene, "b"), told(&scene, "d")), (Some(Reason::Superseded), None));
    assert_eq!(scene.member.doubts, News::Nothing, "it has compared");
}

#[tokio::test]
async fn what_the_store_decides_after_a_pass_that_changed_nothing_is_seen_by_the_next() {
    let mut scene = Scene::holding(&["a", "b"]).await;
    scene.pass().await;
    assert_eq!((told(&scene, "a"), told(&scene, "b")), (None, None));
    let _ = scene.store.revoke(&super::super::scene::pool(), &scene.term("a")).await.unwrap();
    scene.pass().await;
    assert_eq!((told(&scene, "a"), told(&scene, "b")), (Some(Reason::Revoked), None));
}

/// A member that holds what its store has forgotten, with the store frozen.
async fn forgotten(listed: &[&str]) -> Scene {
    let mut scene = Scene::joined(listed).await;
    let before = scene.store.snapshot();
    scene.pass().await;
    assert_eq!(scene.held(), listed);
    scene.store.restore(&before);
    scene.refresh().await;
    scene
}

#[tokio::test]
async fn a_frozen_store_has_nothing_final_to_say() {
    let mut scene = forgotten(&["a"]).await;
    let era = scene.member.view.era().unwrap();
    assert!(era.frozen);
    scene.member.compare_with_view();
    assert_eq!(told(&scene, "a"), None, "the era is another");
    let session = scene.session();
    assert!(session.begin_reassert(era.nonce).is_some());
    assert!(session.reasserted(session.sending(), &[]));
    scene.member.compare_with_view();
    assert_eq!(told(&scene, "a"), None, "the era is ours, and frozen");
}

#[tokio::test]
async fn a_store_of_another_era_has_nothing_final_to_say() {
    let mut scene = forgotten(&["a"]).await;
    let nonce = scene.member.view.era().unwrap().nonce;
    assert_eq!(scene.store.thaw(nonce).await.unwrap(), Thawed::Thawed);
    scene.refresh().await;
    assert!(!scene.member.view.era().unwrap().frozen);
    scene.member.compare_with_view();
    assert_eq!(told(&scene, "a"), None);
}

/// What the plan does not want held.
fn pause(scene: &mut Scene, of: &str) {
    let id = resource(of);
    scene.plan(|facts| {
        let held = facts.resources.iter_mut().find(|resource| resource.id == id).expect("a resource");
        held.paused = true;
    });
}

#[tokio::test]
async fn nothing_moves_by_what_a_frozen_store_or_one_of_another_era_shows() {
    let mut scene = Scene::holding(&["a"]).await;
    scene.store.restore(&scene.store.snapshot());
    scene.refresh().await;
    let era = scene.member.view.era().unwrap();
    assert!(era.frozen && era.nonce != scene.session().era());
    pause(&mut scene, "a");
    scene.member.obey_plan();
    assert_eq!(told(&scene, "a"), None, "frozen and of another era");
    let session = scene.session();
    let (open, terms) = session.begin_reassert(era.nonce).expect("it is trusted");
    let sent = session.sending();
    let answer = scene.store.reassert(&open, sent.pulse, &terms).await.unwrap();
    assert!(matches!(answer, Answer::Done(_)) && session.reasserted(sent, &[]));
    scene.refresh().await;
    pause(&mut scene, "a");
    scene.member.obey_plan();
    assert_eq!(told(&scene, "a"), None, "of our era and frozen");
    assert_eq!(scene.store.thaw(era.nonce).await.unwrap(), Thawed::Thawed);
    scene.refresh().await;
    pause(&mut scene, "a");
    scene.member.obey_plan();
    assert_eq!(told(&scene, "a"), Some(Reason::SessionPaused), "thawed");
}

#[tokio::test]
async fn who_leaves_stops_everything_whatever_the_store_shows() {
    let mut scene = Scene::holding(&["a", "b"]).await;
    scene.store.restore(&scene.store.snapshot());
    scene.refresh().await;
    scene.member.leaving = true;
    scene.plan(|_| ());
    scene.member.obey_plan();
    assert_eq!(["a", "b"].map(|of| told(&scene, of)), [Some(Reason::Shutdown); 2]);
}

#[tokio::test]
async fn who_leaves_names_the_successors_of_the_plan() {
    let mut scene = Scene::holding(&["a"]).await;
    scene.other("two-1", |_| ()).await;
    scene.refresh().await;
    scene.member.leaving = true;
    scene.plan(|facts| {
        facts.members.iter_mut().filter(|m| m.id == id("one-1")).for_each(|m| m.leaving = true)
    });
    scene.member.obey_plan();
    let returning = scene.member.tenures["a"].leaving.clone().expect("on its way back");
    assert_eq!(returning.offer.expect("an offer").to, id("two-1"));
    assert_eq!(returning.reason, Reason::Shutdown);
}

#[tokio::test]
async fn what_nobody_should_hold_is_let_go_by_its_holder_only() {
    let mut scene = Scene::holding(&["a", "b"]).await;
    let two = scene.other("two-1", |_| ()).await;
    scene.refresh().await;
    pause(&mut scene, "a");
    scene.member.obey_plan();
    assert_eq!((told(&scene, "a"), told(&scene, "b")), (Some(Reason::SessionPaused), None));
    scene.plan(|facts| {
        for resource in &mut facts.resources {
            resource.paused = true;
            resource.holder = Some(two.open.id.clone());
        }
    });
    scene.member.obey_plan();
    assert_eq!(told(&scene, "b"), None, "the plan speaks to another");
}

#[tokio::test]
async fn what_our_own_source_does_not_list_is_let_go_and_what_it_lists_is_not() {
    let mut scene = Scene::holding(&["a", "b"]).await;
    scene.member.listing = Some(tokio::sync::watch::channel(std::sync::Arc::new(listing(&["a"]))).1);
    scene.plan(|facts| {
        for resource in &mut facts.resources {
            resource.listed_by = std::sync::Arc::from([]);
        }
    });
    scene.member.obey_plan();
    assert_eq!((told(&scene, "a"), told(&scene, "b")), (None, Some(Reason::SessionDeleted)));
}

/// A member with two resources, and another with none that could have one of them.
async fn uneven() -> Scene {
    let mut scene = Scene::holding(&["a", "b"]).await;
    scene.other("two-1", |_| ()).await;
    scene.refresh().await;
    scene.plan(|_| ());
    scene
}

fn leaving(scene: &Scene) -> usize {
    scene.member.tenures.values().filter(|tenure| tenure.leaving.is_some()).count()
}

#[tokio::test]
async fn moves_for_balance_wait_until_the_lease_was_held_for_a_while() {
    let mut scene = uneven().await;
    scene.clock.show(4999);
    scene.member.obey_plan();
    assert_eq!(leaving(&scene), 0);
    scene.clock.show(5000);
    scene.member.obey_plan();
    assert_eq!(leaving(&scene), 1);
    let returning = scene.member.tenures.values().find_map(|tenure| tenure.leaving.clone()).unwrap();
    assert_eq!((returning.reason, returning.offer.unwrap().to), (Reason::Rebalance, id("two-1")));
}

#[tokio::test]
async fn a_move_is_for_balance_unless_our_own_source_knows_that_the_work_is_gone() {
    let of = |ids: &[&str]| Some(tokio::sync::watch::channel(std::sync::Arc::new(listing(ids))).1);
    for (listed, why) in
        [(of(&["a", "b"]), Reason::Rebalance), (of(&[]), Reason::SessionDeleted), (None, Reason::Rebalance)]
    {
        let mut scene = uneven().await;
        scene.member.listing = listed;
        scene.clock.show(5000);
        scene.member.obey_plan();
        let told: Vec<Reason> = ["a", "b"].into_iter().filter_map(|of| told(&scene, of)).collect();
        assert_eq!(told, [why]);
    }
}

#[tokio::test]
async fn moves_for_balance_wait_until_nobody_has_come_or_gone_for_a_while() {
    let mut scene = uneven().await;
    scene.member.members_changed_at = ms(6000);
    scene.clock.show(6999);
    scene.member.obey_plan();
    assert_eq!(leaving(&scene), 0);
    scene.clock.show(7000);
    scene.member.obey_plan();
    assert_eq!(leaving(&scene), 1);
}

#[tokio::test]
async fn moves_that_must_be_wait_for_nothing() {
    let mut scene = uneven().await;
    scene.plan(|facts| {
        facts.members.iter_mut().filter(|m| m.id == id("one-1")).for_each(|m| m.drained = true)
    });
    scene.member.obey_plan();
    assert_eq!(leaving(&scene), 2);
}

#[tokio::test]
async fn what_came_back_from_a_member_stays_longer_each_time_before_it_is_offered_there_again() {
    let mut scene = Scene::new(listing(&[]));
    let seconds = |scene: &Scene, to: &str| scene.member.came_back(&resource("a"), &id(to)).as_secs();
    assert_eq!(seconds(&scene, "two-1"), 0);
    for (times, stays) in [(0, 5), (1, 10), (3, 40), (7, 600), (u32::MAX, 600)] {
        scene.member.handed.insert(resource("a"), (id("two-1"), times));
        assert_eq!((seconds(&scene, "two-1"), seconds(&scene, "three-1")), (stays, 0));
    }
}

#[tokio::test]
async fn every_end_of_work_that_was_told_is_taken_in() {
    let mut scene = Scene::holding(&["a", "b"]).await;
    for of in ["a", "b"] {
        scene.member.ended.0.send(Ended { term: scene.term(of), told: Some(Reason::Shutdown) }).unwrap();
    }
    scene.member.take_ended();
    assert!(scene.held().is_empty());
    assert_eq!(scene.member.returning.len(), 2);
}

#[tokio::test]
async fn how_often_work_came_back_counts_for_the_same_taker_only() {
    for (to, times) in [("two-1", 3), ("three-1", 0)] {
        let mut scene = Scene::holding(&["a"]).await;
        scene.member.handed.insert(resource("a"), (id("two-1"), 3));
        let offer = Some(Offer { to: id(to), load: 1 });
        scene.member.begin_release(&resource("a"), Reason::Rebalance, offer);
        scene.member.end_tenure(&Ended { term: scene.term("a"), told: Some(Reason::Rebalance) });
        assert_eq!(scene.member.handed[&resource("a")], (id(to), times));
    }
}

#[tokio::test]
async fn work_that_ends_by_itself_rests_longer_each_time_and_is_forgiven_in_the_end() {
    let mut scene = Scene::new(listing(&[]));
    let a = resource("a");
    let rests = |scene: &Scene| {
        let (until, times) = scene.member.resting[&resource("a")];
        (until.since(ms(100_000)).as_secs(), times)
    };
    scene.clock.show(100_000);
    for rested in [(1, 1), (2, 2), (4, 3), (8, 4), (16, 5), (32, 6), (32, 7)] {
        scene.member.rest(&a, ms(100_000));
        assert_eq!(rests(&scene), rested);
    }
    scene.member.rest(&a, ms(40_000));
    assert_eq!(rests(&scene), (1, 1), "it went well for a minute");
    scene.member.rest(&a, ms(40_001));
    assert_eq!(rests(&scene), (2, 2));
    scene.member.resting.insert(resource("old"), (ms(40_000), 3));
    scene.member.resting.insert(resource("new"), (ms(40_001), 3));
    scene.member.rest(&a, ms(100_000));
    let known = |of: &str| scene.member.resting.contains_key(&resource(of));
    assert_eq!((known("old"), known("new")), (false, true));
}

#[tokio::test]
async fn work_that_ended_by_itself_rests_and_what_was_told_to_stop_does_not() {
    for (why, rests) in [(None, true), (Some(Reason::Rebalance), false)] {
        let mut scene = Scene::holding(&["a"]).await;
        scene.member.end_tenure(&Ended { term: scene.term("a"), told: why });
        assert_eq!(scene.member.resting.contains_key(&resource("a")), rests);
    }
}

#[tokio::test]
async fn what_has_stopped_goes_back_and_is_written_down_if_it_was_ours() {
    let mut scene = Scene::holding(&["a"]).await;
    let term = scene.term("a");
    let offer = Some(Offer { to: id("two-1"), load: 1 });
    scene.member.begin_release(&resource("a"), Reason::Rebalance, offer);
    scene.member.end_tenure(&Ended { term: term.clone(), told: Some(Reason::Rebalance) });
    let unknown = Term { token: Token(9), ..term.clone() };
    let never = Returning { term: unknown.clone(), offer: None, reason: Reason::Unconfirmed };
    scene.member.returning.insert(unknown, never);
    scene.member.give_back().await.unwrap();
    assert!(scene.member.returning.is_empty());
    scene.refresh().await;
    let lease = &scene.member.view.leases()[&resource("a")];
    assert_eq!((&lease.holder, lease.offer.as_ref().map(|offer| &offer.to)), (&None, Some(&id("two-1"))));
    let rows: Vec<_> =
        scene.rows(Event::Released).await.into_iter().map(|row| (row.token, row.reason, row.other)).collect();
    assert_eq!(rows, [(Some(term.token), Some(Reason::Rebalance), Some(id("two-1")))]);
}

#[tokio::test]
async fn what_goes_back_goes_in_calls_of_the_size_that_others_can_wait_for() {
    let mut scene = Scene::joined(&["a"]).await;
    assert!(scene.store.capabilities().batch_max > BATCH_MAX, "the store would take more");
    for number in 0..=BATCH_MAX {
        let term = Term { resource: resource(&format!("r{number}")), token: Token(1) };
        let returning = Returning { term: term.clone(), offer: None, reason: Reason::Voluntary };
        scene.member.returning.insert(term, returning);
    }
    let before = scene.session().sending().pulse.number;
    scene.member.give_back().await.unwrap();
    assert_eq!(scene.session().sending().pulse.number.0, before.0 + 3, "two calls were made");
    assert!(scene.member.returning.is_empty());
}
