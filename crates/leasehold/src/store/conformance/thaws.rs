//! The way back: holders reassert, somebody thaws, and tokens continue above everything forgotten.

use super::eras::{era_of, frozen};
use super::member::{all_leases, all_sessions, freeze, lease, session_of};
use super::{Harness, Member, pool, term};
use crate::clock;
use crate::lease::{BeatNumber, Nonce};
use crate::store::{Acquired, Answer, Freed, Pulse, Reasserted, Released, Revoked, Thawed};

/// Holders whose trust is unbroken say what they hold.
pub async fn reasserting_brings_back_what_was_forgotten<H: Harness>() {
    let mut harness = H::fresh().await;
    harness.snapshot().await;
    let mut one = Member::join(&harness.store(), "one").await;
    let (a, b) = (one.take("a").await, one.take("b").await);
    harness.roll_back().await;
    let store = harness.store();
    one.store = store.clone();
    let nonce = frozen(one.beat().await);
    let kept = one.reassert(nonce, &[a.clone(), b]).await;
    assert_eq!(kept, Answer::Done(vec![Reasserted::Kept, Reasserted::Kept]));
    let record = session_of(&store, one.id()).await;
    assert_eq!((record.ttl, record.ended, record.beat.0), (one.session.ttl, false, one.sent));
    assert_eq!(record.profile, one.session.profile);
    let record = lease(&store, "a").await;
    assert_eq!((record.token, record.holder.as_ref()), (a.token, Some(one.id())));
    assert_eq!(one.beat().await, Answer::Done(vec![]), "it is heard while the store is frozen");
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    let mut two = Member::join(&store, "two").await;
    assert_eq!(two.ask("a").await, Acquired::Held { by: one.id().clone(), token: a.token });
}

/// A reassertion whose answer was lost is repeated.
pub async fn reasserting_again_changes_nothing<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    let nonce = freeze(&store).await;
    for _ in 0..2 {
        let kept = one.reassert(nonce, std::slice::from_ref(&held)).await;
        assert_eq!(kept, Answer::Done(vec![Reasserted::Kept]));
        assert_eq!(session_of(&store, one.id()).await.beat.0, one.sent, "it raises the beat");
    }
    let late = Pulse { era: nonce, number: BeatNumber(1), confirmed: BeatNumber(0) };
    let answer = store.reassert(&one.session, late, std::slice::from_ref(&held)).await;
    assert_eq!(answer.expect("the store answers"), Answer::Done(vec![Reasserted::Kept]));
    assert_eq!(session_of(&store, one.id()).await.beat.0, one.sent, "a beat never falls");
    assert_eq!(all_sessions(&store, &pool("work")).await.len(), 1);
    assert_eq!(lease(&store, "a").await.token, held.token);
}

/// What the store knows to be newer wins.
pub async fn a_term_is_lost_to_a_newer_one_or_to_another_holder<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let old = one.take("a").await;
    assert_eq!(one.give_back(&old).await, Released::Freed);
    let (newer, other) = (two.take("a").await, two.take("b").await);
    let nonce = freeze(&store).await;
    let claims = [old, other.clone(), term("c", 9)];
    let answer = one.reassert(nonce, &claims).await;
    assert_eq!(answer, Answer::Done(vec![Reasserted::Lost, Reasserted::Lost, Reasserted::Kept]));
    assert_eq!(lease(&store, "a").await.holder.as_ref(), Some(two.id()));
    assert_eq!(lease(&store, "b").await.holder.as_ref(), Some(two.id()));
    let answer = two.reassert(nonce, &[newer, other, term("c", 8)]).await;
    assert_eq!(answer, Answer::Done(vec![Reasserted::Kept, Reasserted::Kept, Reasserted::Lost]));
    assert_eq!(lease(&store, "c").await.holder.as_ref(), Some(one.id()));
    let answer = two.reassert(nonce, &[term("c", 10)]).await;
    assert_eq!(answer, Answer::Done(vec![Reasserted::Kept]), "a newer one than the store knows");
    assert_eq!(lease(&store, "c").await.token.0, 10);
}

/// What was given back may be on its way to another; that its token has not been given out again proves nothing.
pub async fn a_term_that_the_store_knows_to_be_free_is_lost<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let freed = one.take("a").await;
    assert_eq!(one.give_back(&freed).await, Released::Freed);
    let nonce = freeze(&store).await;
    assert_eq!(one.reassert(nonce, std::slice::from_ref(&freed)).await, Answer::Done(vec![Reasserted::Lost]));
    assert_eq!(lease(&store, "a").await.holder, None, "it stays free");
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    assert!(one.take("a").await.token > freed.token);
}

/// Whoever revoked a term waits for its holder's TTL, not for a word from the holder.
pub async fn a_revocation_survives_a_reassertion<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    assert_eq!(store.revoke(&pool("work"), &held).await.expect("the store answers"), Revoked::Marked);
    let nonce = freeze(&store).await;
    assert_eq!(one.reassert(nonce, std::slice::from_ref(&held)).await, Answer::Done(vec![Reasserted::Kept]));
    assert_eq!(one.beat().await, Answer::Done(vec![held.clone()]), "it is still revoked");
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    let freed = store.free_revoked(&pool("work"), &held, nonce).await.expect("the store answers");
    assert_eq!(freed, Freed::Freed);
}

/// A reassertion that comes late must not reach into another freeze, or into a live store.
pub async fn reasserting_under_another_nonce_does_nothing<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    let live = one.reassert(one.era, std::slice::from_ref(&held)).await;
    assert_eq!(live, Answer::Gone, "the store is not frozen");
    let nonce = freeze(&store).await;
    let other = one.reassert(Nonce::generate(), &[term("b", 3)]).await;
    assert!(!matches!(other, Answer::Done(_)), "another nonce got {other:?}");
    assert_eq!(one.beat().await, Answer::Frozen(nonce), "it has not reasserted");
    assert_eq!(all_leases(&store, &pool("work")).await.len(), 1, "nothing was kept");
}

/// proves R009
pub async fn a_tombstone_cannot_reassert<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    one.close().await;
    let nonce = freeze(&store).await;
    assert_eq!(one.reassert(nonce, std::slice::from_ref(&held)).await, Answer::Gone);
    store.collect(one.id()).await.expect("the store answers");
    assert_eq!(one.reassert(nonce, &[held]).await, Answer::Gone, "tombstones are kept while it is frozen");
    assert!(session_of(&store, one.id()).await.ended);
}

/// Who did not reassert in a whole TTL is over.
pub async fn thawing_ends_who_did_not_reassert<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let (kept, left) = (one.take("a").await, two.take("b").await);
    let nonce = freeze(&store).await;
    assert_eq!(one.reassert(nonce, &[kept]).await, Answer::Done(vec![Reasserted::Kept]));
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    let era = era_of(&harness).await;
    assert_eq!((era.nonce, era.frozen), (nonce, false), "the era goes on, live");
    assert_eq!(two.beat().await, Answer::Gone);
    assert!(session_of(&store, two.id()).await.ended);
    assert!(!session_of(&store, one.id()).await.ended);
    assert!(one.take("b").await.token > left.token, "what it held is free");
}

/// Holders work through a freeze.
pub async fn who_reasserted_goes_on_after_the_thaw<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    let nonce = freeze(&store).await;
    assert_eq!(one.reassert(nonce, std::slice::from_ref(&held)).await, Answer::Done(vec![Reasserted::Kept]));
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    assert_eq!(lease(&store, "a").await.token, held.token, "a thaw changes no token that is held");
    assert_eq!(one.give_back(&held).await, Released::Freed);
    let again = freeze(&store).await;
    assert_eq!(one.beat().await, Answer::Frozen(again), "one reassertion counts for one freeze");
}

/// proves R006
pub async fn tokens_jump_above_everything_forgotten<H: Harness>() {
    let mut harness = H::fresh().await;
    harness.snapshot().await;
    let mut one = Member::join(&harness.store(), "one").await;
    let mut forgotten = one.take("a").await;
    for _ in 0..4 {
        assert_eq!(one.give_back(&forgotten).await, Released::Freed);
        forgotten = one.take("a").await;
    }
    harness.roll_back().await;
    let store = harness.store();
    one.store = store.clone();
    let nonce = frozen(one.beat().await);
    let base = clock::token_base(clock::unix_nanos());
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    let mut two = Member::join(&store, "two").await;
    let first = two.take("a").await;
    assert!(first.token > forgotten.token, "{first} is not above {forgotten}, which was forgotten");
    assert!(first.token.0 > base, "{first} is not above what needs no witness");
    assert_eq!(two.give_back(&first).await, Released::Freed);
    assert_eq!(two.take("a").await.token.0, first.token.0 + 1, "then they rise by one again");
}

/// Thawing is a compare-and-set.
pub async fn thawing_under_another_nonce_changes_nothing<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let one = Member::join(&store, "one").await;
    assert_eq!(store.thaw(one.era).await.expect("the store answers"), Thawed::Changed, "it is live");
    let nonce = freeze(&store).await;
    for other in [one.era, Nonce::generate()] {
        assert_eq!(store.thaw(other).await.expect("the store answers"), Thawed::Changed);
        assert!(era_of(&harness).await.frozen, "it is still frozen");
    }
    assert!(!session_of(&store, one.id()).await.ended, "nobody was ended");
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Changed, "it is live again");
}
