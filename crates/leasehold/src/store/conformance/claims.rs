//! Claims: a session is opened with the resource it is for, or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::hints::{expect, expect_none, quieten};
use super::member::{all_sessions, freeze, lease, session, session_of};
use super::{Harness, Member, pool, resource, wanted};
use crate::lease::{BeatNumber, MemberId, Nonce, TOKEN_MAX, Term, Token};
use crate::store::{Acquired, Answer, Claimed, OpenSession, Store, StoreErrorKind, Wanted};

async fn claim(store: &Arc<dyn Store>, open: &OpenSession, name: &str) -> Answer<Claimed> {
    store.claim(open, &wanted(name)).await.expect("the store answers")
}

/// Claims what must be free.
async fn take(store: &Arc<dyn Store>, open: &OpenSession, name: &str) -> (Term, Nonce) {
    match claim(store, open, name).await {
        Answer::Done(Claimed::Granted { term, era }) => (term, era),
        other => panic!("{name} should be free, but the claim got {other:?}"),
    }
}

async fn living(store: &Arc<dyn Store>) -> BTreeSet<MemberId> {
    let sessions = all_sessions(store, &pool("work")).await;
    sessions.into_iter().filter(|session| !session.ended).map(|session| session.id).collect()
}

/// proves R026
pub async fn a_free_resource_is_claimed_with_a_session_of_its_own<H: Harness>() {
    let harness = H::fresh().await;
    let (store, mut one) = (harness.store(), session("one"));
    one.profile.labels.insert("leasehold.holder".to_owned(), "tracker-0".to_owned());
    let wish = Wanted { resource: resource("a"), floor: Token(41) };
    let claimed = store.claim(&one, &wish).await.expect("the store answers");
    let read = store.leases(&one.pool, crate::store::Cursor::START).await.expect("the store answers");
    let term = Term { resource: resource("a"), token: Token(42) };
    assert_eq!(claimed, Answer::Done(Claimed::Granted { term, era: read.era.nonce }));
    assert_eq!(read.era.ttl_max, one.ttl, "the longest TTL is known");
    let held = lease(&store, "a").await;
    assert_eq!((held.holder.as_ref(), held.token, held.ttl), (Some(&one.id), Token(42), one.ttl));
    let seen = session_of(&store, &one.id).await;
    assert_eq!((seen.ttl, seen.beat, seen.ended), (one.ttl, BeatNumber(1), false));
    assert_eq!(seen.profile, one.profile);
    assert_eq!(store.pools().await.expect("the store answers"), [one.pool]);
}

/// It beats, releases and ends as a session does that was opened by itself.
pub async fn a_claimed_session_goes_on_like_any_other<H: Harness>() {
    let harness = H::fresh().await;
    let (store, one) = (harness.store(), session("one"));
    let (term, era) = take(&store, &one, "a").await;
    let mut member = Member { store: store.clone(), session: one, era, sent: 1, confirmed: 1 };
    assert_eq!(member.beat().await, Answer::Done(Vec::new()));
    assert_eq!(session_of(&store, member.id()).await.beat, BeatNumber(2));
    assert_eq!(member.give_back(&term).await, crate::store::Released::Freed);
    let (again, _) = take(&store, &session("two"), "a").await;
    assert_eq!(again.token.0, term.token.0 + 1);
    member.close().await;
    assert_eq!(member.beat().await, Answer::Gone);
}

/// proves R025
pub async fn what_is_held_is_refused_and_opens_no_session<H: Harness>() {
    let harness = H::fresh().await;
    let (store, one) = (harness.store(), session("one"));
    let (term, _) = take(&store, &one, "a").await;
    let before = all_sessions(&store, &one.pool).await;
    let answer = claim(&harness.second_handle().await, &session("two"), "a").await;
    assert_eq!(answer, Answer::Done(Claimed::Held { by: one.id.clone(), token: term.token }));
    assert_eq!(all_sessions(&store, &one.pool).await, before, "nobody came, not even for a moment");
}

/// An answer that was lost is found out by asking again.
pub async fn a_claim_that_is_repeated_changes_nothing<H: Harness>() {
    let harness = H::fresh().await;
    let (store, one) = (harness.store(), session("one"));
    let (term, _) = take(&store, &one, "a").await;
    let answer = claim(&store, &one, "a").await;
    assert_eq!(answer, Answer::Done(Claimed::Held { by: one.id.clone(), token: term.token }));
    assert_eq!(living(&store).await, [one.id.clone()].into());
    assert_eq!(session_of(&store, &one.id).await.beat, BeatNumber(1));
}

/// proves R026
pub async fn what_an_ended_session_held_can_be_claimed<H: Harness>() {
    let harness = H::fresh().await;
    let (store, one, two) = (harness.store(), session("one"), session("two"));
    let (old, _) = take(&store, &one, "a").await;
    store.close(&one.id).await.expect("the store answers");
    let (new, _) = take(&store, &two, "a").await;
    assert_eq!(new.token.0, old.token.0 + 1);
    assert_eq!(lease(&store, "a").await.holder, Some(two.id));
}

/// proves R005, R006
pub async fn whoever_retires_leaves_what_it_claimed_to_the_next<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    for token in 1..=5 {
        let one = session("one");
        let (term, era) = take(&store, &one, "a").await;
        assert_eq!(term.token, Token(token));
        store.retire(&one.id).await.expect("the store answers");
        let mut gone = Member { store: store.clone(), session: one, era, sent: 1, confirmed: 1 };
        assert_eq!(gone.beat().await, Answer::Gone);
    }
    assert_eq!(living(&store).await, BTreeSet::new());
    assert_eq!(lease(&store, "a").await.token, Token(5));
}

/// Whoever was seen is seen to be over, or not at all.
pub async fn a_session_that_retires_is_alive_to_nobody<H: Harness>() {
    let harness = H::fresh().await;
    let (store, one, two) = (harness.store(), session("one"), session("two"));
    let _ = take(&store, &one, "a").await;
    assert!(living(&store).await.contains(&one.id));
    let read = store.sessions(&one.pool, crate::store::Cursor::START).await.expect("the store answers");
    store.retire(&one.id).await.expect("the store answers");
    let new = store.sessions(&one.pool, read.cursor).await.expect("the store answers");
    let told: Vec<_> = new.items.iter().map(|session| (&session.id, session.ended)).collect();
    assert_eq!(told, [(&one.id, true)], "whoever reads what changed hears of it");
    let (_, second) = (take(&store, &two, "a").await, harness.second_handle().await);
    second.retire(&two.id).await.expect("the store answers");
    assert_eq!(living(&store).await, BTreeSet::new());
}

/// proves R005, C02
pub async fn a_late_word_to_retire_frees_nothing_of_the_next<H: Harness>() {
    let harness = H::fresh().await;
    let (store, one, two) = (harness.store(), session("one"), session("two"));
    let _ = take(&store, &one, "a").await;
    for who in [&one.id, &one.id, &session("nobody").id] {
        store.retire(who).await.expect("the store answers");
    }
    let (term, _) = take(&store, &two, "a").await;
    store.retire(&one.id).await.expect("the store answers");
    let answer = claim(&store, &session("three"), "a").await;
    assert_eq!(answer, Answer::Done(Claimed::Held { by: two.id, token: term.token }));
}

/// proves R006
pub async fn what_was_claimed_and_retired_is_known_after_a_restart<H: Harness>() {
    let mut harness = H::fresh().await;
    let (store, one, two) = (harness.store(), session("one"), session("two"));
    let _ = take(&store, &one, "a").await;
    store.retire(&one.id).await.expect("the store answers");
    let (term, _) = take(&store, &two, "a").await;
    let _ = take(&store, &session("three"), "b").await;
    drop(store);
    if !harness.restart().await {
        eprintln!("this store keeps nothing across a restart by its nature; nothing to prove");
        return;
    }
    let (store, held) = (harness.store(), lease(&harness.store(), "a").await);
    assert_eq!((held.token, held.holder), (term.token, Some(two.id)));
    assert_eq!(living(&store).await.len(), 2);
}

/// Only positive facts free a lease.
pub async fn an_absent_holder_keeps_what_is_claimed<H: Harness>() {
    let harness = H::fresh().await;
    let (store, one) = (harness.store(), session("one"));
    let (term, _) = take(&store, &one, "a").await;
    harness.lose_session(&one.id).await;
    let answer = claim(&store, &session("two"), "a").await;
    assert_eq!(answer, Answer::Done(Claimed::Held { by: one.id, token: term.token }));
}

/// A tombstone is final, whether what it would claim is free or held.
pub async fn an_ended_session_claims_nothing<H: Harness>() {
    let harness = H::fresh().await;
    let (store, one) = (harness.store(), session("one"));
    let _ = take(&store, &one, "a").await;
    store.close(&one.id).await.expect("the store answers");
    assert_eq!(claim(&store, &one, "b").await, Answer::Gone);
    let _ = take(&store, &session("two"), "b").await;
    assert_eq!(claim(&store, &one, "b").await, Answer::Gone);
    assert!(session_of(&store, &one.id).await.ended, "it stays one");
}

/// What is claimed in vain costs nobody anything.
pub async fn a_session_that_is_there_keeps_what_it_has_when_it_claims_in_vain<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let term = one.take("a").await;
    let (other, _) = take(&store, &session("two"), "b").await;
    let answer = claim(&store, &one.session, "b").await;
    assert!(
        matches!(answer, Answer::Done(Claimed::Held { token, .. }) if token == other.token),
        "{answer:?}"
    );
    let (third, era) = take(&store, &one.session, "c").await;
    assert_eq!((third.token, era), (Token(1), one.era), "what is free it gets");
    assert_eq!(one.beat().await, Answer::Done(Vec::new()));
    assert!(matches!(one.ask("a").await, Acquired::Held { token, .. } if token == term.token));
    assert_eq!(lease(&store, "a").await.holder.as_ref(), Some(one.id()));
}

/// While frozen nothing is granted.
pub async fn a_frozen_store_grants_no_claim<H: Harness>() {
    let harness = H::fresh().await;
    let (store, one) = (harness.store(), session("one"));
    let _ = take(&store, &one, "a").await;
    let nonce = freeze(&store).await;
    for name in ["a", "b"] {
        let two = session("two");
        assert_eq!(claim(&store, &two, name).await, Answer::Frozen(nonce), "{name}");
        assert!(!living(&store).await.contains(&two.id));
    }
}

/// What cannot be granted leaves nothing behind.
pub async fn tokens_that_are_used_up_leave_no_session<H: Harness>() {
    let harness = H::fresh().await;
    let (store, one) = (harness.store(), session("one"));
    let last = Wanted { resource: resource("a"), floor: Token(TOKEN_MAX) };
    let error = store.claim(&one, &last).await.expect_err("there is no token above it");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert_eq!(living(&store).await, BTreeSet::new());
}

/// A hint wakes every member: one that asks in vain wakes nobody.
pub async fn a_claim_gives_a_hint_and_one_in_vain_none<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut hints = store.changes(&pool("work"));
    quieten(&mut hints).await;
    let _ = take(&store, &session("one"), "a").await;
    expect(&mut hints, "a claim").await;
    quieten(&mut hints).await;
    let answer = claim(&store, &session("two"), "a").await;
    assert!(matches!(answer, Answer::Done(Claimed::Held { .. })), "{answer:?}");
    expect_none(&mut hints, "a claim in vain").await;
}

/// proves R022, R026
pub async fn of_many_claimants_one_wins<H: Harness>() {
    let harness = H::fresh().await;
    let handles: [Arc<dyn Store>; 2] = [harness.store(), harness.second_handle().await];
    for name in ["a", "b", "c"] {
        let before = living(&handles[0]).await;
        let mut tasks = JoinSet::new();
        for number in 0..16 {
            let store = Arc::clone(&handles[number % 2]);
            tasks.spawn(async move {
                let one = session(&format!("m{number}"));
                (claim(&store, &one, name).await, one.id)
            });
        }
        let mut winners = Vec::new();
        for (answer, id) in tasks.join_all().await {
            match answer {
                Answer::Done(Claimed::Granted { .. }) => winners.push(id),
                Answer::Done(Claimed::Held { .. }) => {}
                other => panic!("a claim got {other:?}"),
            }
        }
        assert_eq!(winners.len(), 1, "{name} has the owners {winners:?}");
        assert_eq!(lease(&handles[0], name).await.holder.as_ref(), winners.first());
        let new: Vec<_> = living(&handles[0]).await.difference(&before).cloned().collect();
        assert_eq!(new, winners, "the others left no session");
    }
}
