//! Leases: granted once, given back by their holder or freed by facts that are final.

use super::member::{all_leases, lease};
use super::{Harness, Member, pool, resource, term, wanted};
use crate::lease::{BeatNumber, Token};
use crate::store::{Acquired, Answer, EndSilent, Freed, Offer, Release, Released, Revoked, Wanted};

/// proves R001, R026
pub async fn a_free_resource_is_granted_with_the_ttl_of_its_session<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    assert_eq!(held, term("a", 1));
    let record = lease(&store, "a").await;
    assert_eq!((record.token, record.holder.as_ref()), (held.token, Some(one.id())));
    assert_eq!((record.ttl, record.revoked, record.offer), (one.session.ttl, false, None));
}

/// proves R002, R003, R060
pub async fn a_held_resource_is_refused_to_everybody_and_to_its_holder<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let held = one.take("a").await;
    let refused = Acquired::Held { by: one.id().clone(), token: held.token };
    assert_eq!(two.ask("a").await, refused, "to another");
    assert_eq!(one.ask("a").await, refused, "to its holder: an old grant is not a new one");
    assert_eq!(lease(&store, "a").await.token, held.token, "asking changes nothing");
}

/// proves R005, R073
pub async fn a_release_frees_exactly_the_named_term<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let held = one.take("a").await;
    let kept = one.take("b").await;
    assert_eq!(two.give_back(&held).await, Released::NotHeld, "not the holder");
    assert_eq!(one.give_back(&term("a", held.token.0 + 1)).await, Released::NotHeld, "not the token");
    assert_eq!(one.give_back(&term("never-seen", 1)).await, Released::NotHeld, "no such lease");
    assert_eq!(lease(&store, "a").await.holder.as_ref(), Some(one.id()), "still held");
    assert_eq!(one.give_back(&held).await, Released::Freed);
    assert_eq!(one.give_back(&held).await, Released::NotHeld, "repeated");
    assert_eq!(lease(&store, "a").await.holder, None);
    assert_eq!(lease(&store, "b").await.holder.as_ref(), Some(one.id()));
    let both = [Release { term: held, offer: None }, Release { term: kept, offer: None }];
    assert_eq!(one.release(&both).await, Answer::Done(vec![Released::NotHeld, Released::Freed]));
}

/// A release that arrives after its term was given to somebody else, or to its sender again.
pub async fn a_late_release_of_an_old_term_frees_nothing<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let old = one.take("a").await;
    assert_eq!(one.give_back(&old).await, Released::Freed);
    let newer = one.take("a").await;
    assert_eq!(one.give_back(&old).await, Released::NotHeld, "its sender has a newer term");
    assert_eq!(one.give_back(&newer).await, Released::Freed);
    let newest = two.take("a").await;
    assert_eq!(one.give_back(&old).await, Released::NotHeld, "somebody else has a newer term");
    assert_eq!(lease(&store, "a").await.token, newest.token);
    assert_eq!(lease(&store, "a").await.holder.as_ref(), Some(two.id()));
}

/// proves R065
pub async fn an_offer_is_kept_until_the_next_grant<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    for load in [0, 7, u64::MAX] {
        let held = one.take("a").await;
        let offer = Some(Offer { to: two.id().clone(), load });
        let freed = one.release(&[Release { term: held, offer: offer.clone() }]).await;
        assert_eq!(freed, Answer::Done(vec![Released::Freed]));
        assert_eq!(lease(&store, "a").await.offer, offer, "the offer is there for the others to read");
        let taken = two.take("a").await;
        assert_eq!(lease(&store, "a").await.offer, None, "a grant answers it");
        assert_eq!(two.give_back(&taken).await, Released::Freed);
    }
}

/// proves R010
pub async fn what_a_closed_session_held_is_free<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let held = [one.take("a").await, one.take("b").await];
    one.close().await;
    for old in held {
        let new = two.take(old.resource.as_str()).await;
        assert_eq!(new.token.0, old.token.0 + 1);
    }
}

/// proves R007, R055
pub async fn what_a_silent_session_held_is_free<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let old = one.take("a").await;
    let verdict = store.end_silent(one.id(), BeatNumber(1), two.era).await.expect("the store answers");
    assert_eq!(verdict, EndSilent::Ended);
    assert_eq!(two.take("a").await, term("a", old.token.0 + 1));
}

/// Only positive, final facts free a lease.
pub async fn an_absent_holder_keeps_its_lease_until_it_is_freed_as_an_orphan<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut lost = Member::join(&store, "lost").await;
    let mut two = Member::join(&store, "two").await;
    let held = lost.take("a").await;
    harness.lose_session(lost.id()).await;
    let refused = Acquired::Held { by: lost.id().clone(), token: held.token };
    assert_eq!(two.ask("a").await, refused, "a holder that is merely absent has not ended");
    let freed = store.free_orphan(&pool("work"), lost.id(), &held, two.era).await;
    assert_eq!(freed.expect("the store answers"), Freed::Freed);
    assert_eq!(lease(&store, "a").await.holder, None);
    assert_eq!(two.take("a").await.token.0, held.token.0 + 1);
}

/// Compare-and-set on holder and token, and the holder's session must be absent.
pub async fn only_an_orphan_is_freed_as_an_orphan<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut lost = Member::join(&store, "lost").await;
    let mut two = Member::join(&store, "two").await;
    let mut ended = Member::join(&store, "ended").await;
    let (orphan, held, left) = (lost.take("a").await, two.take("b").await, ended.take("c").await);
    ended.close().await;
    harness.lose_session(lost.id()).await;
    let (orphan_of, wrong) = (lost.id(), term("a", orphan.token.0 + 1));
    for (holder, term, why) in [
        (two.id(), &held, "its holder lives"),
        (ended.id(), &left, "its holder has a tombstone"),
        (orphan_of, &wrong, "it has another token"),
        (two.id(), &orphan, "it has another holder"),
    ] {
        let freed = store.free_orphan(&pool("work"), holder, term, two.era).await;
        assert_eq!(freed.expect("the store answers"), Freed::Changed, "{why}");
    }
    assert_eq!(lease(&store, "a").await.holder.as_ref(), Some(orphan_of));
    assert_eq!(lease(&store, "b").await.holder.as_ref(), Some(two.id()));
}

/// A revoked holder that goes on beating must let go all the same.
pub async fn a_revoked_term_is_told_with_every_beat_and_can_be_freed<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let (revoked, kept) = (one.take("a").await, one.take("b").await);
    let marked = store.revoke(&pool("work"), &revoked).await.expect("the store answers");
    assert_eq!(marked, Revoked::Marked);
    assert!(lease(&store, "a").await.revoked, "others see it");
    for _ in 0..2 {
        assert_eq!(one.beat().await, Answer::Done(vec![revoked.clone()]), "told again and again");
    }
    assert!(matches!(two.ask("a").await, Acquired::Held { .. }), "revoked is not free");
    let freed = store.free_revoked(&pool("work"), &revoked, two.era).await.expect("the store answers");
    assert_eq!(freed, Freed::Freed);
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    assert_eq!(two.take("a").await.token.0, revoked.token.0 + 1);
    assert_eq!(lease(&store, "b").await.token, kept.token);
}

/// What is free is not revoked, however it became so.
pub async fn a_revocation_ends_with_its_term<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    for given_back in [true, false] {
        let held = one.take("a").await;
        assert_eq!(store.revoke(&pool("work"), &held).await.expect("the store answers"), Revoked::Marked);
        if given_back {
            assert_eq!(one.give_back(&held).await, Released::Freed);
        } else {
            let freed = store.free_revoked(&pool("work"), &held, one.era).await.expect("the store answers");
            assert_eq!(freed, Freed::Freed);
        }
        let record = lease(&store, "a").await;
        assert_eq!((record.holder, record.revoked), (None, false), "given back: {given_back}");
    }
}

/// Compare-and-set on the token.
pub async fn only_what_is_held_can_be_revoked_and_only_what_is_revoked_freed<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    let newer = term("a", held.token.0 + 1);
    let free = store.free_revoked(&pool("work"), &held, one.era).await.expect("the store answers");
    assert_eq!(free, Freed::Changed, "it was not revoked");
    let wrong = store.revoke(&pool("work"), &newer).await.expect("the store answers");
    assert_eq!(wrong, Revoked::NotHeld, "nobody has that token");
    let absent = store.revoke(&pool("work"), &term("never-seen", 1)).await.expect("the store answers");
    assert_eq!(absent, Revoked::NotHeld, "no such lease");
    assert_eq!(store.revoke(&pool("work"), &held).await.expect("the store answers"), Revoked::Marked);
    let wrong = store.free_revoked(&pool("work"), &newer, one.era).await.expect("the store answers");
    assert_eq!(wrong, Freed::Changed, "it has another token");
    assert_eq!(lease(&store, "a").await.holder.as_ref(), Some(one.id()));
    assert_eq!(one.give_back(&held).await, Released::Freed);
    let late = store.revoke(&pool("work"), &held).await.expect("the store answers");
    assert_eq!(late, Revoked::NotHeld, "it was given back");
}

/// A revocation belongs to a term, not to a resource.
pub async fn a_grant_forgets_a_revocation<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let old = one.take("a").await;
    assert_eq!(store.revoke(&pool("work"), &old).await.expect("the store answers"), Revoked::Marked);
    assert_eq!(one.give_back(&old).await, Released::Freed);
    let new = one.take("a").await;
    assert_eq!(one.beat().await, Answer::Done(vec![]), "the new term was not revoked");
    let free = store.free_revoked(&pool("work"), &new, one.era).await.expect("the store answers");
    assert_eq!(free, Freed::Changed);
}

/// `outcomes[i]` answers item `i`, and each item is decided by itself.
pub async fn outcomes_answer_items_in_order<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let held = two.take("b").await;
    let Answer::Done(outcomes) = one.acquire(&["c", "b", "a", "c"]).await else {
        panic!("a living session was refused")
    };
    assert_eq!(
        outcomes,
        [
            Acquired::Granted(term("c", 1)),
            Acquired::Held { by: two.id().clone(), token: held.token },
            Acquired::Granted(term("a", 1)),
            Acquired::Held { by: one.id().clone(), token: Token(1) },
        ]
    );
    assert_eq!(one.acquire(&[]).await, Answer::Done(vec![]), "nothing wanted");
    assert_eq!(one.release(&[]).await, Answer::Done(vec![]), "nothing released");
}

/// What was never given, what was given back, what an ended session held, what is held and what somebody knows a token of:
/// together each gets what it would get alone.
pub async fn in_a_batch_each_is_taken_for_its_own_reason<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let mut three = Member::join(&store, "three").await;
    let (given_back, held) = (two.take("given-back").await, two.take("held").await);
    assert_eq!(two.give_back(&given_back).await, Released::Freed);
    three.take("orphaned").await;
    three.close().await;
    let mut all = ["new-2", "held", "orphaned", "known", "given-back", "new-1"].map(wanted);
    all[3].floor = Token(41);
    let Answer::Done(outcomes) = one.acquire_wanted(&all).await else {
        panic!("a living session was refused")
    };
    assert_eq!(
        outcomes,
        [
            Acquired::Granted(term("new-2", 1)),
            Acquired::Held { by: two.id().clone(), token: held.token },
            Acquired::Granted(term("orphaned", 2)),
            Acquired::Granted(term("known", 42)),
            Acquired::Granted(term("given-back", 2)),
            Acquired::Granted(term("new-1", 1)),
        ]
    );
    store.collect(three.id()).await.expect("the store answers");
    let record = lease(&store, "orphaned").await;
    assert_eq!((record.token, record.holder.as_ref()), (Token(2), Some(one.id())), "it is left alone");
    one.close().await;
    store.collect(one.id()).await.expect("the store answers");
    let left = all_leases(&store, &pool("work")).await;
    let left: Vec<_> =
        left.iter().filter(|lease| lease.holder.is_some()).map(|lease| &lease.resource).collect();
    assert_eq!(left, [&held.resource], "all of it is found again");
}

/// The most items one call may carry are carried.
pub async fn a_batch_at_its_limit_is_granted_whole<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let count = store.capabilities().batch_max;
    let all: Vec<Wanted> = (0..count).map(|number| wanted(&format!("r{number:05}"))).collect();
    let Answer::Done(outcomes) = one.acquire_wanted(&all).await else {
        panic!("a living session was refused")
    };
    let terms: Vec<Release> = outcomes
        .into_iter()
        .zip(&all)
        .map(|(outcome, wanted)| match outcome {
            Acquired::Granted(term) if term.resource == wanted.resource => Release { term, offer: None },
            other => panic!("{} got {other:?}", wanted.resource),
        })
        .collect();
    assert_eq!(all_leases(&store, &pool("work")).await.len(), count);
    assert_eq!(one.release(&terms).await, Answer::Done(vec![Released::Freed; count]));
    let left = all_leases(&store, &pool("work")).await;
    assert!(left.iter().all(|lease| lease.holder.is_none()), "all were given back");
    assert_eq!(left[0].resource, resource("r00000"));
}
