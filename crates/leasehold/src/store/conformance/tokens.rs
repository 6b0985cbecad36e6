//! Tokens: they rise with every change of hands, whatever happens in between.

use super::member::lease;
use super::{Harness, Member, pool, resource, wanted};
use crate::lease::{BeatNumber, TOKEN_MAX, Token};
use crate::store::{
    Acquired, Answer, Declared, EndSilent, Marked, Release, Released, StoreErrorKind, Version, Wanted,
};

/// proves R006, R021
pub async fn a_released_resource_gets_the_next_token<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    for round in 0..3 {
        let mine = one.take("a").await;
        assert_eq!(mine.token, Token(2 * round + 1));
        assert_eq!(one.beat().await, Answer::Done(vec![]), "a beat changes no token");
        assert_eq!(lease(&store, "a").await.token, mine.token);
        assert_eq!(one.give_back(&mine).await, Released::Freed);
        assert_eq!(lease(&store, "a").await.token, mine.token, "a release changes no token");
        let theirs = two.take("a").await;
        assert_eq!(theirs.token, Token(2 * round + 2));
        assert_eq!(two.give_back(&theirs).await, Released::Freed);
    }
}

/// proves R006
pub async fn a_token_survives_the_end_of_its_holder<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    for round in 1..=3 {
        let mut one = Member::join(&store, "one").await;
        assert_eq!(one.take("a").await.token, Token(round));
        if round == 1 {
            one.close().await;
        } else {
            let ended = store.end_silent(one.id(), BeatNumber(1), one.era).await;
            assert_eq!(ended.expect("the store answers"), EndSilent::Ended);
        }
    }
}

/// proves R006
pub async fn a_token_survives_the_tombstone_being_forgotten<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let old = one.take("a").await;
    one.close().await;
    store.collect(one.id()).await.expect("the store answers");
    let mut two = Member::join(&store, "two").await;
    assert_eq!(two.take("a").await.token.0, old.token.0 + 1);
}

/// proves R006
pub async fn a_token_survives_deletion_and_declaration_of_the_resource<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let declare = |version, removed| {
        let store = store.clone();
        let declared = Declared { removed, version, ..Declared::new(resource("a")) };
        async move { store.declare(&pool("work"), &declared).await.expect("the store answers") }
    };
    assert_eq!(declare(Version(0), false).await, Marked::Set(Version(1)));
    let old = one.take("a").await;
    assert_eq!(one.give_back(&old).await, Released::Freed);
    assert_eq!(declare(Version(1), true).await, Marked::Set(Version(2)));
    assert_eq!(declare(Version(2), false).await, Marked::Set(Version(3)));
    assert_eq!(one.take("a").await.token.0, old.token.0 + 1);
}

/// proves R006
pub async fn a_token_survives_a_restart<H: Harness>() {
    let mut harness = H::fresh().await;
    let mut one = Member::join(&harness.store(), "one").await;
    let (given_back, held) = (one.take("a").await, one.take("b").await);
    assert_eq!(one.give_back(&given_back).await, Released::Freed);
    let (session, era, sent) = (one.session.clone(), one.era, one.sent);
    drop(one);
    if !harness.restart().await {
        eprintln!("this store keeps nothing across a restart by its nature; nothing to prove");
        return;
    }
    let store = harness.store();
    let mut one = Member { store: store.clone(), session, era, sent, confirmed: sent };
    assert_eq!(one.beat().await, Answer::Done(vec![]), "a restart ends nobody and freezes nothing");
    assert_eq!(one.take("a").await.token.0, given_back.token.0 + 1);
    let mut two = Member::join(&store, "two").await;
    let refused = Acquired::Held { by: one.id().clone(), token: held.token };
    assert_eq!(two.ask("b").await, refused, "what was held is held");
}

/// proves R006
pub async fn a_token_is_above_the_floor<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let ask = |name, floor| Wanted { resource: resource(name), floor: Token(floor) };
    for (floor, expected) in [(41, 42), (7, 43), (43, 44)] {
        let Answer::Done(outcomes) = one.acquire_wanted(&[ask("a", floor)]).await else {
            panic!("a living session was refused")
        };
        let [Acquired::Granted(term)] = outcomes.as_slice() else { panic!("a free one: {outcomes:?}") };
        assert_eq!(term.token, Token(expected), "the floor was {floor}");
        assert_eq!(one.give_back(term).await, Released::Freed);
    }
}

/// Every language's numbers can hold a token.
pub async fn tokens_stay_below_their_bound<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let last = Wanted { resource: resource("a"), floor: Token(TOKEN_MAX - 1) };
    let Answer::Done(outcomes) = one.acquire_wanted(&[last]).await else { panic!("a living session") };
    let [Acquired::Granted(term)] = outcomes.as_slice() else { panic!("the last token: {outcomes:?}") };
    assert_eq!(term.token, Token(TOKEN_MAX));
    let back = [Release { term: term.clone(), offer: None }];
    assert_eq!(one.release(&back).await, Answer::Done(vec![Released::Freed]));
    let beyond = Wanted { resource: resource("b"), floor: Token(u64::MAX) };
    for used_up in [wanted("a"), beyond] {
        let pulse = one.pulse();
        let refused = store.acquire(one.id(), pulse, &[used_up]).await;
        let error = refused.expect_err("there is no token left");
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    }
    assert_eq!(lease(&store, "a").await.token, Token(TOKEN_MAX), "a refused grant changes nothing");
    assert_eq!(lease(&store, "a").await.holder, None);
}
