//! Hints: a change is told to who listens, soon, and nothing else is.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::member::{freeze, profile};
use super::{Harness, Member, pool, resource};
use crate::store::{Answer, Declared, Hints, MarkKind, Marked, Released, Revoked, Store, Thawed, Version};

/// Longer than any hint takes.
const SOON: Duration = Duration::from_secs(10);
/// How long nothing must be heard before a change is made, so that its hint is its own.
const QUIET: Duration = Duration::from_millis(120);

async fn next(hints: &mut Hints, within: Duration) -> bool {
    let next = poll_fn(|context| hints.as_mut().poll_next(context));
    match tokio::time::timeout(within, next).await {
        Ok(Some(_)) => true,
        Ok(None) => panic!("hints end only with the store"),
        Err(_) => false,
    }
}

pub(super) async fn quieten(hints: &mut Hints) {
    while next(hints, QUIET).await {}
}

pub(super) async fn expect(hints: &mut Hints, what: &str) {
    assert!(next(hints, SOON).await, "no hint after {what}");
}

pub(super) async fn expect_none(hints: &mut Hints, what: &str) {
    assert!(!next(hints, QUIET).await, "a hint after {what}");
}

async fn changes_are_hinted(writer: &Arc<dyn Store>, listener: &Arc<dyn Store>) {
    let mut hints = listener.changes(&pool("work"));
    quieten(&mut hints).await;
    let mut one = Member::join(writer, "one").await;
    expect(&mut hints, "a session was opened").await;
    quieten(&mut hints).await;
    let held = one.take("a").await;
    expect(&mut hints, "a grant").await;
    quieten(&mut hints).await;
    assert_eq!(writer.revoke(&pool("work"), &held).await.expect("the store answers"), Revoked::Marked);
    expect(&mut hints, "a revocation").await;
    quieten(&mut hints).await;
    assert_eq!(one.give_back(&held).await, Released::Freed);
    expect(&mut hints, "a release").await;
    quieten(&mut hints).await;
    let pulse = one.pulse();
    let described = writer.describe(one.id(), pulse, &profile("new")).await.expect("the store answers");
    assert_eq!(described, Answer::Done(()));
    expect(&mut hints, "a new profile").await;
    quieten(&mut hints).await;
    one.close().await;
    expect(&mut hints, "a session was closed").await;
}

/// Planned moves take milliseconds.
pub async fn a_change_gives_a_hint_on_the_same_handle<H: Harness>() {
    let harness = H::fresh().await;
    changes_are_hinted(&harness.store(), &harness.store()).await;
}

/// Also between processes, if the store says that it pushes changes.
pub async fn a_change_gives_a_hint_on_another_handle<H: Harness>() {
    let harness = H::fresh().await;
    let second = harness.second_handle().await;
    if !second.capabilities().pushes_changes {
        eprintln!("this store does not push changes; its listeners read");
        return;
    }
    changes_are_hinted(&harness.store(), &second).await;
}

/// A drain begins at once.
pub async fn a_mark_or_a_declaration_gives_a_hint<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let mut hints = store.changes(&work);
    quieten(&mut hints).await;
    let set = store.set_mark(&work, MarkKind::Drain, "api-1", Some(""), Version(0)).await;
    assert_eq!(set.expect("the store answers"), Marked::Set(Version(1)));
    expect(&mut hints, "a mark").await;
    quieten(&mut hints).await;
    let new = Declared::new(resource("a"));
    assert_eq!(store.declare(&work, &new).await.expect("the store answers"), Marked::Set(Version(1)));
    expect(&mut hints, "a declaration").await;
}

/// Everybody who listens must hear it: holders to reassert, listeners to begin anew.
pub async fn a_freeze_and_a_thaw_give_a_hint<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let _one = Member::join(&store, "one").await;
    let mut hints = store.changes(&pool("work"));
    quieten(&mut hints).await;
    let nonce = freeze(&store).await;
    expect(&mut hints, "a freeze").await;
    quieten(&mut hints).await;
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    expect(&mut hints, "a thaw").await;
}

/// Who asks again in vain must not be woken by that, nor wake the others.
pub async fn what_changes_nothing_gives_no_hint<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    one.close().await;
    harness.lose_session(two.id()).await;
    let mut hints = store.changes(&pool("work"));
    quieten(&mut hints).await;
    one.close().await;
    expect_none(&mut hints, "an end that was known").await;
    let pulse = two.pulse();
    let described = store.describe(two.id(), pulse, &profile("new")).await.expect("the store answers");
    assert_eq!(described, Answer::Gone);
    expect_none(&mut hints, "a profile of nobody").await;
    assert_eq!(two.acquire(&["a"]).await, Answer::Gone);
    expect_none(&mut hints, "a grant to nobody").await;
    two.close().await;
    expect_none(&mut hints, "the end of nobody").await;
}
