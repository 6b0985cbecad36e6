//! Sessions: opened once, heard by their beat, ended for good.

use super::member::{all_leases, all_sessions, open, profile, resource, session, session_of};
use super::{Harness, Member, pool, wanted};
use crate::lease::{BeatNumber, MemberId};
use crate::store::{Acquired, Answer, Cursor, EndSilent, Pulse, Release};

/// proves R001
pub async fn opening_a_session_answers_the_era_and_shows_it_to_listeners<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let new = session("one");
    let era = open(&store, &new).await;
    let seen = store.sessions(&pool("work"), Cursor::START).await.expect("the store answers");
    assert_eq!(seen.era.nonce, era, "the era that was answered is the one that listeners see");
    assert!(!seen.era.frozen, "a fresh store is live");
    let [record] = seen.items.as_slice() else { panic!("one session was opened: {:?}", seen.items) };
    assert_eq!((&record.id, record.ttl, record.ended), (&new.id, new.ttl, false));
    assert_eq!((record.beat, &record.profile), (BeatNumber(0), &new.profile));
}

/// An opening whose answer was lost is repeated.
pub async fn opening_a_living_session_again_changes_nothing<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    let mut again = one.session.clone();
    again.profile = profile("another");
    assert_eq!(open(&store, &again).await, one.era);
    let record = session_of(&store, one.id()).await;
    assert_eq!((record.beat, record.profile), (BeatNumber(1), one.session.profile.clone()));
}

/// proves R004
pub async fn a_beat_raises_the_number_that_listeners_hear<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    for number in 1..=3 {
        assert_eq!(one.beat().await, Answer::Done(vec![]), "beat {number} of a living session");
        assert_eq!(session_of(&store, one.id()).await.beat, BeatNumber(number));
    }
}

/// A beat that was overtaken by a later one.
pub async fn a_beat_at_or_below_the_stored_number_changes_nothing<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    one.sent = 6;
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    for late in [3, 7] {
        let pulse = Pulse { era: one.era, number: BeatNumber(late), confirmed: BeatNumber(0) };
        let answer = store.beat(one.id(), pulse).await.expect("the store answers");
        assert_eq!(answer, Answer::Done(vec![]), "a late beat is no sign of anything");
        assert_eq!(session_of(&store, one.id()).await.beat, BeatNumber(7), "a beat never falls");
    }
}

/// proves R009
pub async fn a_beat_never_creates_a_session<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let known = Member::join(&store, "known").await;
    let pulse = Pulse { era: known.era, number: BeatNumber(1), confirmed: BeatNumber(0) };
    let answer = store.beat(&MemberId::generate(), pulse).await.expect("the store answers");
    assert_eq!(answer, Answer::Gone, "the store remembers the era and knows no such session");
    assert_eq!(all_sessions(&store, &pool("work")).await.len(), 1, "nothing was created");
}

/// proves R004, R061
pub async fn a_beat_never_revives_an_ended_session<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let ended = store.end_silent(one.id(), BeatNumber(0), one.era).await.expect("the store answers");
    assert_eq!(ended, EndSilent::Ended);
    assert_eq!(one.beat().await, Answer::Gone);
    let record = session_of(&store, one.id()).await;
    assert_eq!((record.ended, record.beat), (true, BeatNumber(0)), "nothing came back");
}

/// proves R010
pub async fn closing_is_final_and_can_be_repeated<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let one = Member::join(&store, "one").await;
    one.close().await;
    one.close().await;
    let again = store.open(&one.session).await.expect("the store answers");
    assert_eq!(again, Answer::Gone, "a tombstone cannot be opened");
    assert!(session_of(&store, one.id()).await.ended);
}

/// A close whose session was collected long ago.
pub async fn closing_an_absent_session_changes_nothing<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    store.close(&MemberId::generate()).await.expect("the store answers");
    assert_eq!(all_sessions(&store, &pool("work")).await, []);
}

/// proves R007
pub async fn a_session_is_ended_only_on_the_beat_that_was_heard<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    let verdict = |heard| {
        let (store, id, era) = (store.clone(), one.id().clone(), one.era);
        async move { store.end_silent(&id, BeatNumber(heard), era).await.expect("the store answers") }
    };
    assert_eq!(verdict(0).await, EndSilent::Alive(BeatNumber(1)), "it was heard since");
    assert!(!session_of(&store, one.id()).await.ended);
    assert_eq!(verdict(1).await, EndSilent::Ended);
    assert!(session_of(&store, one.id()).await.ended);
    assert_eq!(verdict(1).await, EndSilent::Ended, "already ended");
    assert_eq!(verdict(0).await, EndSilent::Ended, "already ended, whatever was heard");
}

/// An absent session has not ended: nobody may act as if it had.
pub async fn ending_an_absent_session_is_not_an_end<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let one = Member::join(&store, "one").await;
    let answer = store.end_silent(&MemberId::generate(), BeatNumber(0), one.era).await;
    assert_eq!(answer.expect("the store answers"), EndSilent::Absent);
    assert_eq!(all_sessions(&store, &pool("work")).await.len(), 1, "no tombstone was made up");
}

/// proves R009, R057
pub async fn every_call_of_an_ended_session_is_gone<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    one.close().await;
    assert_eq!(one.beat().await, Answer::Gone, "beat");
    assert_eq!(one.acquire(&["b"]).await, Answer::Gone, "acquire");
    assert_eq!(one.release(&[Release { term: held, offer: None }]).await, Answer::Gone, "release");
    let pulse = one.pulse();
    let described = store.describe(one.id(), pulse, &profile("new")).await.expect("the store answers");
    assert_eq!(described, Answer::Gone, "describe");
    assert_eq!(store.open(&one.session).await.expect("the store answers"), Answer::Gone, "open");
    let record = session_of(&store, one.id()).await;
    assert_eq!((record.beat, record.profile), (BeatNumber(1), one.session.profile.clone()));
    assert_eq!(all_leases(&store, &pool("work")).await.len(), 1, "nothing was granted");
}

/// What others plan with.
pub async fn describing_replaces_the_profile_and_raises_the_beat<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let mut new = profile("one");
    new.capacity = Some(u64::MAX);
    new.labels.insert("zone".to_owned(), "a \"quoted\" ü".to_owned());
    new.settled = true;
    let pulse = one.pulse();
    let answer = store.describe(one.id(), pulse, &new).await.expect("the store answers");
    assert_eq!(answer, Answer::Done(()));
    let record = session_of(&store, one.id()).await;
    assert_eq!((record.profile, record.beat), (new, BeatNumber(1)));
    let stranger = store.describe(&MemberId::generate(), pulse, &profile("x")).await;
    assert_eq!(stranger.expect("the store answers"), Answer::Gone, "describing creates nothing");
}

/// A grant lost under a living session would otherwise go unnoticed.
pub async fn grants_and_releases_raise_the_beat<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    assert_eq!(session_of(&store, one.id()).await.beat, BeatNumber(1));
    let _ = one.give_back(&held).await;
    assert_eq!(session_of(&store, one.id()).await.beat, BeatNumber(2));
}

/// Tombstones are forgotten only when nothing rests on them.
pub async fn collecting_clears_leases_and_forgets_only_tombstones<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut gone = Member::join(&store, "gone").await;
    let mut here = Member::join(&store, "here").await;
    let mut known = Member::join(&store, "known").await;
    gone.take("a").await;
    here.take("b").await;
    known.take("c").await;
    gone.close().await;
    known.close().await;
    for id in [gone.id(), here.id(), &MemberId::generate()] {
        store.collect(id).await.expect("the store answers");
    }
    let held = [resource("b"), resource("c"), resource("nobody-has-it")];
    for id in [known.id(), here.id()] {
        store.collect_known(id, &held).await.expect("the store answers");
    }
    let left: Vec<MemberId> = all_sessions(&store, &pool("work")).await.into_iter().map(|s| s.id).collect();
    assert_eq!(left, [here.id().clone()], "tombstones are forgotten, the living session is not");
    let holders: Vec<_> = all_leases(&store, &pool("work")).await.into_iter().map(|l| l.holder).collect();
    assert_eq!(holders, [None, Some(here.id().clone()), None]);
    assert_eq!((gone.beat().await, known.beat().await), (Answer::Gone, Answer::Gone));
}

/// A store serves many pools.
pub async fn pools_do_not_see_each_other<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    let mut one = Member::join(&store, "one").await;
    let _ = one.take("a").await;
    let mut other = session("other");
    other.pool = pool("other");
    let era = open(&store, &other).await;
    assert_eq!(all_sessions(&store, &pool("other")).await.len(), 1);
    assert_eq!(all_leases(&store, &pool("other")).await, []);
    let pulse = Pulse { era, number: BeatNumber(1), confirmed: BeatNumber(0) };
    let same = store.acquire(&other.id, pulse, &[wanted("a")]).await.expect("the store answers");
    let Answer::Done(outcomes) = same else { panic!("a living session got {same:?}") };
    assert!(matches!(outcomes[..], [Acquired::Granted(_)]), "the same id in another pool: {outcomes:?}");
}
