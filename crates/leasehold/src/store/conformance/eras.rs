//! Eras: what a store that may have forgotten does, and how it goes back into use.

use std::time::Duration;

use super::member::{all_leases, all_sessions, freeze, lease, profile, session, session_of};
use super::{Harness, Member, pool};
use crate::lease::{BeatNumber, MemberId, Nonce};
use crate::store::{
    Acquired, Answer, Cursor, EndSilent, Era, Freed, Pulse, Reasserted, Release, Released, Revoked, Thawed,
};

/// The nonce of an answer that must be `Frozen`.
pub(super) fn frozen<T: std::fmt::Debug>(answer: Answer<T>) -> Nonce {
    match answer {
        Answer::Frozen(nonce) => nonce,
        other => panic!("a store that has forgotten answered {other:?}"),
    }
}

pub(super) async fn era_of<H: Harness>(harness: &H) -> Era {
    let read = harness.store().sessions(&pool("work"), Cursor::START).await;
    read.expect("the store answers").era
}

/// To know the nonce is not to have said what one holds.
pub async fn who_has_not_reasserted_is_refused_under_the_new_nonce_too<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let nonce = freeze(&store).await;
    one.era = nonce;
    assert_eq!(frozen(one.beat().await), nonce);
    assert_eq!(session_of(&store, one.id()).await.beat, BeatNumber(0), "it was not raised");
    assert_eq!(one.reassert(nonce, &[]).await, Answer::Done(vec![]));
    assert_eq!(one.beat().await, Answer::Done(vec![]));
}

/// Whoever lived through an era that the store never had, knows that it forgot.
pub async fn an_era_the_store_never_had_freezes_it<H: Harness>() {
    for call in ["beat", "describe", "acquire"] {
        let harness = H::fresh().await;
        let store = harness.store();
        let mut one = Member::join(&store, "one").await;
        let known = one.era;
        one.era = Nonce::generate();
        let nonce = match call {
            "beat" => frozen(one.beat().await),
            "acquire" => frozen(one.acquire(&["a"]).await),
            _ => {
                let pulse = one.pulse();
                frozen(store.describe(one.id(), pulse, &profile("new")).await.expect("the store answers"))
            }
        };
        assert!(nonce != known && nonce != one.era, "{call}: a freeze has a nonce of its own");
        let era = era_of(&harness).await;
        assert_eq!((era.nonce, era.frozen), (nonce, true), "{call}: everybody sees it");
        assert_eq!(session_of(&store, one.id()).await.beat, BeatNumber(0), "{call} changed nothing else");
        assert_eq!(all_leases(&store, &pool("work")).await, [], "{call} granted nothing");
    }
}

/// Verdicts about others are as good a witness.
pub async fn a_listener_from_an_unknown_era_freezes_it_too<H: Harness>() {
    for call in ["end_silent", "free_orphan", "free_revoked"] {
        let harness = H::fresh().await;
        let store = harness.store();
        let mut one = Member::join(&store, "one").await;
        let held = one.take("a").await;
        let unknown = Nonce::generate();
        let refused = match call {
            "end_silent" => match store.end_silent(one.id(), BeatNumber(1), unknown).await {
                Ok(EndSilent::Frozen(nonce)) => nonce,
                other => panic!("{call} got {other:?}"),
            },
            "free_orphan" => match store.free_orphan(&pool("work"), one.id(), &held, unknown).await {
                Ok(Freed::Frozen(nonce)) => nonce,
                other => panic!("{call} got {other:?}"),
            },
            _ => match store.free_revoked(&pool("work"), &held, unknown).await {
                Ok(Freed::Frozen(nonce)) => nonce,
                other => panic!("{call} got {other:?}"),
            },
        };
        let era = era_of(&harness).await;
        assert_eq!((era.nonce, era.frozen), (refused, true), "{call}");
        assert!(!session_of(&store, one.id()).await.ended, "{call} ended nobody");
        assert_eq!(lease(&store, "a").await.holder.as_ref(), Some(one.id()), "{call} freed nothing");
    }
}

/// A store that answers with less than was confirmed has forgotten.
pub async fn a_confirmed_beat_that_is_missing_freezes_the_store<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    one.confirmed = 5;
    one.sent = 5;
    let nonce = frozen(one.beat().await);
    assert_ne!(nonce, one.era);
    assert_eq!(session_of(&store, one.id()).await.beat, BeatNumber(1), "it was not raised");
    assert!(era_of(&harness).await.frozen);
}

/// Failover, restored backup, replaced file.
pub async fn a_store_that_was_rolled_back_is_frozen_for_writers<H: Harness>() {
    let mut harness = H::fresh().await;
    let mut one = Member::join(&harness.store(), "one").await;
    harness.snapshot().await;
    let _ = one.take("a").await;
    harness.roll_back().await;
    one.store = harness.store();
    let nonce = frozen(one.beat().await);
    let newcomer = harness.store().open(&session("newcomer")).await.expect("the store answers");
    assert_eq!(newcomer, Answer::Frozen(nonce), "it is frozen once, under one nonce");
}

/// Each time is noticed, also by who knows nothing of the times before.
pub async fn a_store_that_was_rolled_back_again_is_frozen_again<H: Harness>() {
    let mut harness = H::fresh().await;
    let mut eras = vec![era_of(&harness).await.nonce];
    for _ in 0..3 {
        harness.snapshot().await;
        let mut one = Member::join(&harness.store(), "one").await;
        let _ = one.take("a").await;
        harness.roll_back().await;
        let era = era_of(&harness).await;
        assert!(era.frozen && !eras.contains(&era.nonce), "{era:?} after {eras:?}");
        let thawed = harness.store().thaw(era.nonce).await.expect("the store answers");
        assert_eq!(thawed, Thawed::Thawed);
        eras.push(era.nonce);
    }
}

/// A reader that saw the old era as live could take silence for an end.
pub async fn a_store_that_was_rolled_back_is_frozen_for_readers<H: Harness>() {
    let mut harness = H::fresh().await;
    let mut one = Member::join(&harness.store(), "one").await;
    harness.snapshot().await;
    let _ = one.take("a").await;
    harness.roll_back().await;
    let store = harness.store();
    let era = era_of(&harness).await;
    assert!(era.frozen && era.nonce != one.era, "who reads first finds it frozen: {era:?}");
    let leases = store.leases(&pool("work"), Cursor::START).await.expect("the store answers");
    assert_eq!(leases.era.nonce, era.nonce, "every read tells the era");
    let marks = store.marks(&pool("work"), Cursor::START).await.expect("the store answers");
    if harness.registry_is_apart() {
        eprintln!("this store's registry is apart from its leases; it has forgotten nothing");
    } else {
        assert_eq!(marks.era.nonce, era.nonce, "of marks too");
    }
    assert_eq!(leases.items, [], "the grant was forgotten");
}

/// proves R002
pub async fn while_frozen_nothing_is_granted_or_ended<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let mut lost = Member::join(&store, "lost").await;
    let (held, orphan) = (one.take("a").await, lost.take("b").await);
    assert_eq!(store.revoke(&pool("work"), &held).await.expect("the store answers"), Revoked::Marked);
    harness.lose_session(lost.id()).await;
    let nonce = freeze(&store).await;
    let before = (all_sessions(&store, &pool("work")).await, all_leases(&store, &pool("work")).await);

    assert_eq!(two.beat().await, Answer::Frozen(nonce), "beat");
    assert_eq!(two.acquire(&["c"]).await, Answer::Frozen(nonce), "acquire");
    let pulse = two.pulse();
    let described = store.describe(two.id(), pulse, &profile("new")).await.expect("the store answers");
    assert_eq!(described, Answer::Frozen(nonce), "describe");
    let opened = store.open(&session("new")).await.expect("the store answers");
    assert_eq!(opened, Answer::Frozen(nonce), "open");
    for era in [two.era, nonce] {
        let ended = store.end_silent(one.id(), BeatNumber(1), era).await.expect("the store answers");
        assert_eq!(ended, EndSilent::Frozen(nonce), "end_silent");
        let freed = store.free_revoked(&pool("work"), &held, era).await.expect("the store answers");
        assert_eq!(freed, Freed::Frozen(nonce), "free_revoked");
        let revoked = store.revoke(&pool("work"), &orphan).await.expect("the store answers");
        assert_eq!(revoked, Revoked::Frozen(nonce), "revoke");
        let freed = store.free_orphan(&pool("work"), lost.id(), &orphan, era).await;
        assert_eq!(freed.expect("the store answers"), Freed::Frozen(nonce), "free_orphan");
    }
    let after = (all_sessions(&store, &pool("work")).await, all_leases(&store, &pool("work")).await);
    assert_eq!(before, after, "nothing changed");

    assert_eq!(two.reassert(nonce, &[]).await, Answer::Done(vec![]));
    assert_eq!(two.beat().await, Answer::Done(vec![]), "who reasserted is heard");
    assert_eq!(two.acquire(&["c"]).await, Answer::Frozen(nonce), "and is granted nothing all the same");
}

/// What was sent before a freeze and arrives after its sender has reasserted says nothing: trust that it would
/// confirm was counted in an era that is over.
pub async fn a_call_of_an_old_era_is_answered_frozen_while_frozen<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    let old = one.era;
    let nonce = freeze(&store).await;
    assert_eq!(one.reassert(nonce, std::slice::from_ref(&held)).await, Answer::Done(vec![Reasserted::Kept]));
    let before = (all_sessions(&store, &pool("work")).await, all_leases(&store, &pool("work")).await);

    one.era = old;
    assert_eq!(one.beat().await, Answer::Frozen(nonce), "beat");
    assert_eq!(one.acquire(&["b"]).await, Answer::Frozen(nonce), "acquire");
    let release = [Release { term: held, offer: None }];
    assert_eq!(one.release(&release).await, Answer::Frozen(nonce), "release");
    let pulse = one.pulse();
    let described = store.describe(one.id(), pulse, &profile("new")).await.expect("the store answers");
    assert_eq!(described, Answer::Frozen(nonce), "describe");
    let after = (all_sessions(&store, &pool("work")).await, all_leases(&store, &pool("work")).await);
    assert_eq!(before, after, "nothing changed, no beat was raised");
}

/// A holder may always let go: by closing at once, of single terms once it has reasserted.
pub async fn a_holders_own_word_counts_while_frozen<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let (held, other) = (one.take("a").await, two.take("b").await);
    let nonce = freeze(&store).await;
    let release = [Release { term: held.clone(), offer: None }];
    assert_eq!(one.release(&release).await, Answer::Frozen(nonce), "what is not answered is sent again");
    assert_eq!(lease(&store, "a").await.holder.as_ref(), Some(one.id()));
    assert_eq!(one.reassert(nonce, &[]).await, Answer::Done(Vec::new()));
    let beat = session_of(&store, one.id()).await.beat;
    assert_eq!(one.release(&release).await, Answer::Done(vec![Released::Freed]));
    assert_eq!(lease(&store, "a").await.holder, None);
    assert!(session_of(&store, one.id()).await.beat > beat, "what is confirmed has raised the beat");
    two.close().await;
    assert!(session_of(&store, two.id()).await.ended);
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    let mut three = Member::join(&store, "three").await;
    assert!(three.take("a").await.token > held.token);
    assert!(three.take("b").await.token > other.token);
}

/// The store forgets everything, and somebody without a history comes first.
pub async fn a_newcomer_after_a_flush_gets_nothing<H: Harness>() {
    let mut harness = H::fresh().await;
    harness.snapshot().await;
    let mut holder = Member::join(&harness.store(), "holder").await;
    let held = holder.take("a").await;
    harness.roll_back().await;
    let store = harness.store();
    holder.store = store.clone();
    let newcomer = session("newcomer");
    let nonce = frozen(store.open(&newcomer).await.expect("the store answers"));
    assert_eq!(holder.beat().await, Answer::Frozen(nonce));
    assert_eq!(
        holder.reassert(nonce, std::slice::from_ref(&held)).await,
        Answer::Done(vec![Reasserted::Kept])
    );
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    let mut newcomer = Member::join(&store, "newcomer").await;
    assert_eq!(newcomer.ask("a").await, Acquired::Held { by: holder.id().clone(), token: held.token });
}

/// Who thaws must have waited for the longest TTL of all.
pub async fn the_longest_ttl_is_shown<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    for (seconds, longest) in [(30, 30), (90, 90), (5, 90)] {
        let mut new = session("one");
        new.ttl = Duration::from_secs(seconds);
        let opened = store.open(&new).await.expect("the store answers");
        assert!(matches!(opened, Answer::Done(_)), "{opened:?}");
        assert_eq!(era_of(&harness).await.ttl_max, Duration::from_secs(longest));
    }
    let nonce = freeze(&store).await;
    let mut returning = session("returning");
    returning.ttl = Duration::from_secs(120);
    let pulse = Pulse { era: nonce, number: BeatNumber(1), confirmed: BeatNumber(1) };
    let answer = store.reassert(&returning, pulse, &[]).await.expect("the store answers");
    assert_eq!(answer, Answer::Done(vec![]));
    assert_eq!(era_of(&harness).await.ttl_max, Duration::from_secs(120), "a session that was forgotten");
}

/// A freeze is a fact of the store, not of a process.
pub async fn a_freeze_survives_a_restart<H: Harness>() {
    let mut harness = H::fresh().await;
    let nonce = freeze(&harness.store()).await;
    if !harness.restart().await {
        eprintln!("this store keeps nothing across a restart by its nature; nothing to prove");
        return;
    }
    let era = era_of(&harness).await;
    assert_eq!((era.nonce, era.frozen), (nonce, true));
}

/// Who slept through a thaw has nothing to say any more.
pub async fn a_past_era_is_over<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let past = one.era;
    let held = one.take("a").await;
    let nonce = freeze(&store).await;
    assert_eq!(one.reassert(nonce, std::slice::from_ref(&held)).await, Answer::Done(vec![Reasserted::Kept]));
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    assert_eq!(store.revoke(&pool("work"), &held).await.expect("the store answers"), Revoked::Marked);
    let beat = session_of(&store, one.id()).await.beat;

    let late = Pulse { era: past, number: BeatNumber(99), confirmed: BeatNumber(1) };
    assert_eq!(store.beat(one.id(), late).await.expect("the store answers"), Answer::Gone);
    let ended = store.end_silent(one.id(), beat, past).await.expect("the store answers");
    assert_eq!(ended, EndSilent::Alive(beat), "silence counts begin anew with an era");
    let freed = store.free_revoked(&pool("work"), &held, past).await.expect("the store answers");
    assert_eq!(freed, Freed::Changed);
    let freed = store.free_orphan(&pool("work"), &MemberId::generate(), &held, past).await;
    assert_eq!(freed.expect("the store answers"), Freed::Changed);

    let era = era_of(&harness).await;
    assert_eq!((era.nonce, era.frozen), (nonce, false), "a past era freezes nothing");
    assert_eq!(session_of(&store, one.id()).await.beat, beat, "and raises nothing");
    assert_eq!(lease(&store, "a").await.holder.as_ref(), Some(one.id()));
}
