//! Races: many at once, and the store decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::member::lease;
use super::{Harness, Member, pool};
use crate::lease::BeatNumber;
use crate::store::{Acquired, Answer, EndSilent, MarkKind, Marked, Released, Store, Version};

const MANY: usize = 16;

/// Members on two handles by turns.
async fn crowd<H: Harness>(harness: &H) -> Vec<Member> {
    let handles: [Arc<dyn Store>; 2] = [harness.store(), harness.second_handle().await];
    let mut members = Vec::new();
    for number in 0..MANY {
        members.push(Member::join(&handles[number % 2], &format!("m{number}")).await);
    }
    members
}

/// How many of the members, all at once, get the resource.
async fn winners(members: Vec<Member>, name: &'static str) -> (usize, Vec<Member>) {
    let mut tasks = JoinSet::new();
    for mut member in members {
        tasks.spawn(async move { (matches!(member.ask(name).await, Acquired::Granted(_)), member) });
    }
    let all = tasks.join_all().await;
    let count = all.iter().filter(|(won, _)| *won).count();
    (count, all.into_iter().map(|(_, member)| member).collect())
}

/// proves R002, R003, R059
pub async fn of_many_acquirers_one_wins<H: Harness>() {
    let harness = H::fresh().await;
    let mut members = crowd(&harness).await;
    for name in ["a", "b", "c", "d"] {
        let (count, back) = winners(members, name).await;
        assert_eq!(count, 1, "{name} has {count} owners");
        members = back;
    }
}

/// proves R059, R070
pub async fn every_resource_of_many_has_one_winner<H: Harness>() {
    let harness = H::fresh().await;
    let names: Vec<String> = (0..20).map(|number| format!("r{number}")).collect();
    let mut tasks = JoinSet::new();
    for (turn, mut member) in crowd(&harness).await.into_iter().enumerate() {
        let mut names = names.clone();
        let middle = turn % names.len();
        names.rotate_left(middle);
        tasks.spawn(async move {
            let wishes: Vec<&str> = names.iter().map(String::as_str).collect();
            match member.acquire(&wishes).await {
                Answer::Done(outcomes) => outcomes,
                other => panic!("a living session got {other:?}"),
            }
        });
    }
    let outcomes = tasks.join_all().await.into_iter().flatten();
    let granted: Vec<_> = outcomes
        .filter_map(|outcome| match outcome {
            Acquired::Granted(term) => Some(term),
            Acquired::Held { .. } => None,
        })
        .collect();
    let resources: BTreeSet<_> = granted.iter().map(|term| &term.resource).collect();
    assert_eq!((granted.len(), resources.len()), (20, 20), "each has exactly one owner: {granted:?}");
}

/// proves R003, R007
pub async fn of_many_heirs_of_a_tombstone_one_wins<H: Harness>() {
    let harness = H::fresh().await;
    let mut dead = Member::join(&harness.store(), "dead").await;
    let old = dead.take("a").await;
    let members = crowd(&harness).await;
    dead.close().await;
    let (count, _) = winners(members, "a").await;
    assert_eq!(count, 1);
    assert_eq!(lease(&harness.store(), "a").await.token.0, old.token.0 + 1);
}

/// proves R006
pub async fn tokens_rise_under_churn<H: Harness>() {
    let harness = H::fresh().await;
    let mut tasks = JoinSet::new();
    for mut member in crowd(&harness).await.into_iter().take(6) {
        tasks.spawn(async move {
            let mut mine = Vec::new();
            for _ in 0..12 {
                if let Acquired::Granted(term) = member.ask("a").await {
                    mine.push(term.token);
                    assert_eq!(member.give_back(&term).await, Released::Freed, "nobody else can have {term}");
                }
            }
            assert!(mine.is_sorted(), "tokens fell: {mine:?}");
            mine
        });
    }
    let all: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "a token was given twice: {all:?}");
    assert_eq!(lease(&harness.store(), "a").await.token.0, all.len() as u64, "and none was skipped");
}

/// proves R004, R007
pub async fn a_verdict_and_a_beat_agree<H: Harness>() {
    let harness = H::fresh().await;
    let (store, second) = (harness.store(), harness.second_handle().await);
    for round in 0..24 {
        let mut one = Member::join(&store, "one").await;
        let (id, era, listener) = (one.id().clone(), one.era, second.clone());
        let verdict =
            tokio::spawn(async move { listener.end_silent(&id, BeatNumber(0), era).await.expect("answers") });
        let answer = one.beat().await;
        let verdict = verdict.await.expect("the listener does not panic");
        let agree = matches!(
            (&answer, verdict),
            (Answer::Done(_), EndSilent::Alive(BeatNumber(1))) | (Answer::Gone, EndSilent::Ended)
        );
        assert!(agree, "round {round}: the holder was told {answer:?} and the listener {verdict:?}");
    }
}

/// Two operators at once.
pub async fn of_many_writers_of_a_mark_one_wins<H: Harness>() {
    let harness = H::fresh().await;
    let handles = [harness.store(), harness.second_handle().await];
    let mut tasks = JoinSet::new();
    for number in 0..MANY {
        let store = handles[number % 2].clone();
        tasks.spawn(async move {
            store.set_mark(&pool("work"), MarkKind::Drain, "api-1", Some("x"), Version(0)).await
        });
    }
    let outcomes: Vec<_> = tasks.join_all().await.into_iter().map(|set| set.expect("answers")).collect();
    let set = outcomes.iter().filter(|set| **set == Marked::Set(Version(1))).count();
    let refused = outcomes.iter().filter(|set| **set == Marked::Conflict(Version(1))).count();
    assert_eq!((set, refused), (1, MANY - 1), "{outcomes:?}");
}
