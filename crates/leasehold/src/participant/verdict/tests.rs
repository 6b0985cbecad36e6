//! Who is ended, when and by whom; what is forgotten; who writes down that a store was thawed.

use super::super::scene::{Log, Scene, TTL, id, listing, pool, resource};
use super::super::session::tests::ms;
use super::*;
use crate::lease::{BeatNumber, Term, Token};
use crate::store::{LeaseStore, Pulse, Registry, Revoked, Wanted};
use crate::view::News;

fn ended(scene: &Scene, of: &str) -> bool {
    scene.member.view.sessions()[&id(of)].ended
}

/// A member and another that has been silent since it came, read again every ten seconds up to `seconds`.
async fn beside(silent: &str, seconds: u64) -> Scene {
    let mut scene = Scene::joined(&[]).await;
    scene.other(silent, |_| ()).await;
    for second in (0..=seconds).step_by(10) {
        scene.clock.show(second * 1000);
        scene.beat().await;
        scene.pass().await;
    }
    scene
}

/// An id that is ended by somebody else first.
async fn not_ours_first() -> String {
    let ids = (0..64).map(|number| format!("two-{number}"));
    for silent in ids {
        if beside(&silent, 0).await.member.stagger_for(&id(&silent)) == Duration::from_millis(100) {
            return silent;
        }
    }
    panic!("we come first for everybody");
}

/// The same, and one that beats as the first does.
async fn beside_with(beating: &str, silent: &str, millis: &[u64]) -> Scene {
    let mut scene = Scene::joined(&[]).await;
    scene.other(silent, |_| ()).await;
    let beats = scene.other(beating, |_| ()).await;
    for (number, at) in millis.iter().enumerate() {
        scene.clock.show(*at);
        scene.beat().await;
        beats.beats(number as u64 + 1).await;
        scene.pass().await;
        scene.refresh().await;
    }
    scene
}

#[tokio::test]
async fn the_silent_are_ended_after_their_ttl_and_the_moment_of_those_who_come_first() {
    let all = [0, 10_000, 20_000, 30_099];
    // For one of so many beating members, we come second.
    for number in 0..64 {
        let (beating, silent) = (format!("three-{number}"), "two-1");
        let mut scene = beside_with(&beating, silent, &all).await;
        if scene.member.stagger_for(&id(silent)) != Duration::from_millis(100) {
            continue;
        }
        assert!(!ended(&scene, silent));
        scene.clock.show(30_100);
        scene.pass().await;
        scene.refresh().await;
        assert!(ended(&scene, silent));
        let rows: Vec<_> =
            scene.rows(Event::Expired).await.into_iter().map(|row| (row.member, row.other)).collect();
        assert_eq!(rows, [(id("one-1"), Some(id(silent)))]);
        return;
    }
    panic!("we come first beside everybody");
}

#[tokio::test]
async fn nobody_waits_for_who_is_silent_as_well() {
    let silent = not_ours_first().await;
    let mut scene = beside(&silent, 10).await;
    assert_eq!(scene.member.stagger_for(&id(&silent)), Duration::from_millis(100), "it was heard lately");
    scene.clock.show(15_000);
    scene.pass().await;
    assert_eq!(scene.member.stagger_for(&id(&silent)), Duration::ZERO);
    for millis in [20_000, 29_999] {
        scene.clock.show(millis);
        scene.beat().await;
        scene.pass().await;
        scene.refresh().await;
        assert!(!ended(&scene, &silent), "its TTL is not over after {millis} ms");
    }
    scene.clock.show(30_000);
    scene.pass().await;
    scene.refresh().await;
    assert!(ended(&scene, &silent));
}

#[tokio::test]
async fn what_a_living_member_keeps_though_it_was_revoked_is_freed_after_its_ttl_and_our_own_is_not() {
    let mut scene = Scene::holding(&["mine"]).await;
    let two = scene.other("two-1", |_| ()).await;
    let wanted = [Wanted { resource: resource("theirs"), floor: Token(0) }];
    let era = scene.member.view.era().unwrap().nonce;
    let pulse = |number| Pulse { era, number: BeatNumber(number), confirmed: BeatNumber(0) };
    let _ = scene.store.acquire(&two.open.id, pulse(1), &wanted).await.unwrap();
    let holder = |scene: &Scene, id: &str| scene.member.view.holder(&resource(id)).cloned();
    for id in ["mine", "theirs"] {
        let term = Term { resource: resource(id), token: Token(1) };
        assert_eq!(scene.store.revoke(&pool(), &term).await.unwrap(), Revoked::Marked);
    }
    for second in 0..=29 {
        scene.clock.show(second * 1000);
        scene.beat().await;
        let _ = scene.store.beat(&two.open.id, pulse(second + 2)).await.unwrap();
        scene.refresh().await;
        scene.member.listener.hear(&scene.member.view, ms(second * 1000), &News::Anything);
        scene.member.end_the_silent().await.unwrap();
        scene.refresh().await;
        assert_eq!(holder(&scene, "theirs"), Some(id("two-1")), "after {second} s");
    }
    scene.clock.show(30_500);
    scene.member.end_the_silent().await.unwrap();
    scene.refresh().await;
    assert_eq!(holder(&scene, "theirs"), None);
    assert_eq!(holder(&scene, "mine"), Some(id("one-1")), "our own is ours to give back");
    assert!(!ended(&scene, "two-1"), "its holder goes on with the rest");
}

#[tokio::test]
async fn what_was_revoked_is_freed_after_the_moment_of_those_who_come_first_and_whoever_frees_it_says_so() {
    let (log, _reads) = Log::begin();
    let keeper = not_ours_first().await;
    let mut scene = Scene::joined(&[]).await;
    let other = scene.other(&keeper, |_| ()).await;
    other.acquires("theirs").await;
    let term = Term { resource: resource("theirs"), token: Token(1) };
    assert_eq!(scene.store.revoke(&pool(), &term).await.unwrap(), Revoked::Marked);
    let holder = |scene: &Scene| scene.member.view.holder(&term.resource).cloned();
    for (number, millis) in [0, 10_000, 20_000, 30_099].into_iter().enumerate() {
        scene.clock.show(millis);
        scene.beat().await;
        other.beats(number as u64 + 2).await;
        scene.pass().await;
        scene.refresh().await;
        assert_eq!(holder(&scene), Some(id(&keeper)), "after {millis} ms");
    }
    assert_eq!(log.lines_with("not given back: freed"), 0);
    scene.clock.show(30_100);
    scene.pass().await;
    scene.refresh().await;
    assert_eq!(holder(&scene), None);
    assert_eq!(log.lines_with("not given back: freed"), 1);
}

#[tokio::test]
async fn nobody_ends_itself() {
    let mut scene = Scene::joined(&[]).await;
    for second in [0, 10, 20, 26] {
        scene.clock.show(second * 1000);
        scene.pass().await;
    }
    // Trust has ended by now, so that a beat is too late; the session has not.
    scene.clock.show(36_000);
    scene.refresh().await;
    scene.member.listener.hear(&scene.member.view, ms(36_000), &News::Anything);
    scene.member.end_the_silent().await.unwrap();
    scene.refresh().await;
    assert!(!ended(&scene, "one-1"));
}

#[tokio::test]
async fn who_has_no_session_waits_longest() {
    let scene = Scene::new(listing(&[]));
    assert_eq!(scene.member.stagger_for(&id("two-1")), Duration::from_millis(500));
}

#[tokio::test]
async fn a_tombstone_and_the_listings_that_nobody_uses_are_forgotten_after_ten_ttls() {
    let mut scene = Scene::joined(&[]).await;
    let two = scene.other("two-1", |_| ()).await;
    scene.store.close(&two.open.id).await.unwrap();
    let unused = listing(&["unused"]);
    scene.store.publish(&pool(), &unused.id(), &unused).await.unwrap();
    let known = |scene: &Scene| scene.member.view.sessions().contains_key(&id("two-1"));
    for second in (0..=290).step_by(10).map(|second| second * 1000).chain([299_999]) {
        scene.clock.show(second);
        scene.beat().await;
        scene.pass().await;
    }
    assert_eq!(TTL * TOMBSTONE_TTLS, Duration::from_secs(300));
    assert!(known(&scene));
    assert!(
        scene.store.listing(&pool(), &unused.id()).await.unwrap().is_some(),
        "somebody may be about to use it"
    );
    scene.clock.show(300_000);
    scene.pass().await;
    assert!(!known(&scene));
    assert!(scene.store.listing(&pool(), &unused.id()).await.unwrap().is_none());
}

#[tokio::test]
async fn whoever_thaws_a_store_writes_it_down_and_nobody_else() {
    for somebody_was_faster in [false, true] {
        let mut scene = Scene::new(listing(&[]));
        scene.other("two-1", |_| ()).await;
        scene.store.restore(&scene.store.snapshot());
        for second in [0, 10, 20, 30] {
            scene.clock.show(second * 1000);
            scene.refresh().await;
            scene.member.listener.hear(&scene.member.view, ms(second * 1000), &News::Anything);
        }
        let nonce = scene.member.view.era().unwrap().nonce;
        if somebody_was_faster {
            assert_eq!(scene.store.thaw(nonce).await.unwrap(), Thawed::Thawed);
        }
        scene.member.thaw_if_due().await.unwrap();
        scene.refresh().await;
        assert!(!scene.member.view.era().unwrap().frozen);
        let rows: Vec<_> = scene.rows(Event::Thawed).await.into_iter().map(|row| row.detail).collect();
        let expected: &[Option<String>] =
            if somebody_was_faster { &[] } else { &[Some(format!("era {nonce}"))] };
        assert_eq!(rows, expected);
    }
}
