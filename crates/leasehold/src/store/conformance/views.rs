//! What listeners read: everything, or what changed since.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use super::member::{TTL, all_leases, all_sessions};
use super::{Harness, Member, pool};
use crate::lease::{BeatNumber, MemberId, ResourceId};
use crate::store::{Acquired, Answer, Changed, Cursor, LeaseRecord, Released, SessionRecord, StoreError};

/// What changed since a cursor, once the store gives exactly that. It may give more for a moment: a server cannot tell
/// what changed before a cursor while others are in the middle of something.
async fn comes_to<T, K: PartialEq + Debug>(
    read: impl AsyncFn() -> Result<Changed<T>, StoreError>,
    key: impl Fn(&T) -> K,
    expected: &[K],
    why: &str,
) -> Cursor {
    for _ in 0..200 {
        let changed = read().await.expect("the store answers");
        let found: Vec<K> = changed.items.iter().map(&key).collect();
        if found == expected {
            return changed.cursor;
        }
        assert!(
            expected.iter().all(|item| found.contains(item)),
            "{why}: {found:?} lacks some of {expected:?}"
        );
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{why}: the cursor gives more than {expected:?}, and goes on doing so")
}

/// proves R078
pub async fn a_cursor_gives_exactly_what_changed<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let (_, held) = (one.take("a").await, two.take("b").await);
    let beats = |session: &SessionRecord| (session.id.clone(), session.beat);
    let resource = |lease: &LeaseRecord| lease.resource.as_str().to_owned();
    let sessions = store.sessions(&work, Cursor::START).await.expect("the store answers");
    let leases = store.leases(&work, Cursor::START).await.expect("the store answers");
    assert_eq!((sessions.items.len(), leases.items.len()), (2, 2));
    let (at, held_at) = (sessions.cursor, leases.cursor);
    let at = comes_to(async || store.sessions(&work, at).await, beats, &[], "nothing has changed").await;
    let held_at =
        comes_to(async || store.leases(&work, held_at).await, resource, &[], "nothing has changed").await;

    assert_eq!(one.beat().await, Answer::Done(vec![]));
    let beat = [(one.id().clone(), BeatNumber(2))];
    let after = comes_to(async || store.sessions(&work, at).await, beats, &beat, "only who beat").await;
    comes_to(async || store.leases(&work, held_at).await, resource, &[], "a beat changes no lease").await;
    assert_eq!(two.give_back(&held).await, Released::Freed);
    let freed = ["b".to_owned()];
    comes_to(async || store.leases(&work, held_at).await, resource, &freed, "only what was given back").await;
    let gave = [(two.id().clone(), BeatNumber(2))];
    comes_to(async || store.sessions(&work, after).await, beats, &gave, "a cursor goes on where it stood")
        .await;
}

/// Ends are news.
pub async fn a_cursor_shows_ended_sessions_and_freed_leases<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    one.take("a").await;
    two.take("b").await;
    let sessions = store.sessions(&work, Cursor::START).await.expect("the store answers").cursor;
    let leases = store.leases(&work, Cursor::START).await.expect("the store answers").cursor;
    one.close().await;
    let _ = store.end_silent(two.id(), BeatNumber(1), two.era).await.expect("the store answers");
    let ended = store.sessions(&work, sessions).await.expect("the store answers").items;
    assert_eq!(ended.iter().filter(|session| session.ended).count(), 2, "both ends are seen: {ended:?}");
    for id in [one.id(), two.id()] {
        store.collect(id).await.expect("the store answers");
    }
    let freed = store.leases(&work, leases).await.expect("the store answers").items;
    let holders: Vec<_> = freed.iter().map(|lease| (lease.resource.as_str(), &lease.holder)).collect();
    assert_eq!(holders, [("a", &None), ("b", &None)], "what was cleared is seen");
}

/// What a listener keeps up to date by cursors.
#[derive(Default)]
struct View {
    sessions: BTreeMap<MemberId, SessionRecord>,
    leases: BTreeMap<ResourceId, LeaseRecord>,
}

/// A listener never has to read everything again to be right.
pub async fn the_incremental_view_equals_the_whole<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let mut view = View::default();
    let mut cursors = (Cursor::START, Cursor::START);
    let mut members = [
        Member::join(&store, "one").await,
        Member::join(&store, "two").await,
        Member::join(&store, "three").await,
    ];
    let names = ["a", "b", "c", "d"];
    for step in 0_usize..40 {
        let member = &mut members[step * 7 % 3];
        let name = names[step * 5 % 4];
        match (step % 5, member.acquire(&[name]).await) {
            (0 | 3, Answer::Done(outcomes)) => {
                if let [Acquired::Held { token, .. }] = outcomes.as_slice() {
                    let term = super::term(name, token.0);
                    let _ = member.give_back(&term).await;
                }
            }
            (4, _) if step == 24 => {
                member.close().await;
                *member = Member::join(&store, "again").await;
            }
            _ => {}
        }
        let sessions = store.sessions(&work, cursors.0).await.expect("the store answers");
        let leases = store.leases(&work, cursors.1).await.expect("the store answers");
        cursors = (sessions.cursor, leases.cursor);
        view.sessions.extend(sessions.items.into_iter().map(|session| (session.id.clone(), session)));
        view.leases.extend(leases.items.into_iter().map(|lease| (lease.resource.clone(), lease)));
        let mut whole = all_sessions(&store, &work).await;
        whole.sort_by(|one, two| one.id.cmp(&two.id));
        assert_eq!(view.sessions.values().cloned().collect::<Vec<_>>(), whole, "step {step}");
        let mut whole = all_leases(&store, &work).await;
        whole.sort_by(|one, two| one.resource.cmp(&two.resource));
        assert_eq!(view.leases.values().cloned().collect::<Vec<_>>(), whole, "step {step}");
    }
}

/// What one process confirmed, another reads.
pub async fn two_handles_read_the_same<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let second = harness.second_handle().await;
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&second, "two").await;
    assert_eq!(one.era, two.era, "one store, one era");
    let held = one.take("a").await;
    assert_eq!(two.ask("a").await, Acquired::Held { by: one.id().clone(), token: held.token });
    assert_eq!(all_sessions(&store, &work).await, all_sessions(&second, &work).await);
    assert_eq!(all_leases(&store, &work).await, all_leases(&second, &work).await);
    assert_eq!(one.give_back(&held).await, Released::Freed);
    assert_eq!(two.take("a").await.token.0, held.token.0 + 1);
    assert_eq!(super::member::lease(&store, "a").await.ttl, TTL);
}
