//! What a member hears when it describes itself.

use super::super::scene::{Scene, id};

/// A member that has something new to say about itself: it has settled.
async fn settling() -> Scene {
    let mut scene = Scene::joined(&[]).await;
    scene.refresh().await;
    scene.clock.show(2000);
    scene
}

async fn shown_as_settled(scene: &mut Scene) -> bool {
    scene.refresh().await;
    scene.member.view.sessions()[&id("one-1")].profile.settled
}

#[tokio::test]
async fn who_has_settled_says_so_once() {
    let mut scene = settling().await;
    assert!(!shown_as_settled(&mut scene).await);
    scene.pass().await;
    assert!(shown_as_settled(&mut scene).await);
    let before = scene.session().sending().pulse.number;
    scene.pass().await;
    assert_eq!(scene.session().sending().pulse.number.0, before.0 + 1, "no call was made");
}

#[tokio::test]
async fn who_is_told_that_it_is_gone_describes_itself_no_more() {
    let mut scene = settling().await;
    scene.store.lose_session(&id("one-1"));
    scene.pass().await;
    assert!(scene.member.view.sessions().contains_key(&id("one-1")), "it was lost without a trace");
    assert!(scene.session().is_over());
    assert!(scene.pass().await, "it joins anew");
}

#[tokio::test]
async fn who_is_told_that_the_store_is_frozen_goes_on() {
    let mut scene = settling().await;
    scene.store.restore(&scene.store.snapshot());
    scene.pass().await;
    assert!(scene.member.view.era().unwrap().frozen);
    assert!(!scene.session().is_over());
    assert!(!shown_as_settled(&mut scene).await);
}
