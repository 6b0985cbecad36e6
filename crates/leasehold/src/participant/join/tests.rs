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

#[cfg(feature = "conformance")]
#[tokio::test]
async fn a_session_that_ended_while_the_store_was_away_is_closed_when_it_is_back() {
    use std::sync::Arc;

    use crate::clock::SystemClock;
    use crate::ledger::Reason;
    use crate::store::around::{Fault, Faulty};

    let mut scene = Scene::joined(&[]).await;
    let away = Faulty::new(Arc::new(scene.store.clone()));
    away.break_calls(&["close"], Fault::Fails);
    scene.member.store = Arc::new(away.clone());
    scene.member.clock = Arc::new(SystemClock);
    scene.session().end(Reason::TtlExpiry);
    scene.member.leave_what_is_over();
    let asking = async {
        while away.calls("close") < 3 {
            tokio::time::sleep(super::PERIOD).await;
        }
    };
    tokio::time::timeout(super::CLOSING_MAX / 30, asking).await.expect("it is asked again");
    scene.refresh().await;
    assert!(!scene.member.view.sessions()[&id("one-1")].ended);
    away.mend();
    while !scene.member.view.sessions()[&id("one-1")].ended {
        tokio::time::sleep(super::PERIOD).await;
        scene.refresh().await;
    }
    let asked = away.calls("close");
    tokio::time::sleep(super::PERIOD * 4).await;
    assert_eq!(away.calls("close"), asked, "who was heard says it no more");
}
