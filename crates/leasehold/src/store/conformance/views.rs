//! What listeners read: everything, or what changed since.

use std::collections::BTreeMap;

use super::member::{TTL, all_leases, all_sessions};
use super::{Harness, Member, pool};
use crate::lease::{BeatNumber, MemberId, ResourceId};
use crate::store::{Acquired, Answer, Cursor, LeaseRecord, Released, SessionRecord};

/// proves R078
pub async fn a_cursor_gives_exactly_what_changed<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let (_, held) = (one.take("a").await, two.take("b").await);
    let sessions = store.sessions(&work, Cursor::START).await.expect("the store answers");
    let leases = store.leases(&work, Cursor::START).await.expect("the store answers");
    assert_eq!((sessions.items.len(), leases.items.len()), (2, 2));
    let nothing = store.sessions(&work, sessions.cursor).await.expect("the store answers");
    assert_eq!(nothing.items, [], "nothing has changed");
    let nothing = store.leases(&work, leases.cursor).await.expect("the store answers");
    assert_eq!(nothing.items, [], "nothing has changed");

    assert_eq!(one.beat().await, Answer::Done(vec![]));
    let changed = store.sessions(&work, sessions.cursor).await.expect("the store answers");
    let ids: Vec<_> = changed.items.iter().map(|session| (&session.id, session.beat)).collect();
    assert_eq!(ids, [(one.id(), BeatNumber(2))], "only who beat");
    let nothing = store.leases(&work, leases.cursor).await.expect("the store answers");
    assert_eq!(nothing.items, [], "a beat changes no lease");
    assert_eq!(two.give_back(&held).await, Released::Freed);
    let freed = store.leases(&work, leases.cursor).await.expect("the store answers");
    let ids: Vec<_> = freed.items.iter().map(|lease| lease.resource.as_str()).collect();
    assert_eq!(ids, ["b"], "only what was given back");
    let seen_before = store.sessions(&work, changed.cursor).await.expect("the store answers");
    let ids: Vec<_> = seen_before.items.iter().map(|session| &session.id).collect();
    assert_eq!(ids, [two.id()], "a cursor goes on where it stood");
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
