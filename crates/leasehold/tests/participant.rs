//! The participant on the reference store, judged by what the work itself saw.

#[path = "participant/leaving.rs"]
mod leaving;
#[path = "participant/outage.rs"]
mod outage;
#[path = "participant/restless.rs"]
mod restless;
#[path = "participant/revoked.rs"]
mod revoked;
mod witness;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::participant::{Running, State, Status};
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Cursor, LeaseStore, MarkKind, Registry, Version};
use leasehold::{Participant, Pool, ResourceId};
use tokio::sync::watch;
use witness::Witness;

const TTL: Duration = Duration::from_millis(1500);
const PATIENCE: Duration = Duration::from_secs(20);

fn pool() -> Pool {
    Pool::new("jobs").unwrap()
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("r{number}")).collect()
}

fn log() {
    let filter = tracing_subscriber::EnvFilter::from_env("LEASEHOLD_LOG");
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
}

async fn member(store: &MemoryStore, witness: &Witness, name: &str, resources: usize) -> Running {
    member_for(TTL, store, witness, name, resources).await
}

async fn member_for(
    ttl: Duration,
    store: &MemoryStore,
    witness: &Witness,
    name: &str,
    resources: usize,
) -> Running {
    log();
    Participant::join(Arc::new(store.clone()), pool())
        .name(name)
        .unwrap()
        .ttl(ttl)
        .resources(ids(resources))
        .unwrap()
        .start(witness.work(name))
        .await
        .unwrap()
}

async fn until(member: &Running, what: &str, mut holds: impl FnMut(&Status) -> bool) {
    let mut status: watch::Receiver<Status> = member.status();
    let waited = tokio::time::timeout(PATIENCE, status.wait_for(|status| holds(status))).await;
    assert!(waited.is_ok(), "{what} did not come about; the last status was {:?}", member.status().borrow());
}

async fn until_shared(members: &[&Running], counts: &[usize]) {
    let start = tokio::time::timeout(PATIENCE, async {
        loop {
            let mut held: Vec<usize> = members.iter().map(|m| m.status().borrow().held.len()).collect();
            held.sort_unstable();
            if held == counts {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let held: Vec<usize> = members.iter().map(|m| m.status().borrow().held.len()).collect();
    assert!(start.await.is_ok(), "wanted {counts:?}, the last seen was {held:?}");
}

/// Waits until the work of everything that is held has begun, which is a moment later than it is held.
async fn until_begun(witness: &Witness, members: &[&Running]) {
    let begun = || {
        let all = witness.stretches();
        let seen = |resource: &ResourceId, token: u64| {
            all.iter().any(|stretch| stretch.resource == resource.as_str() && stretch.token == token)
        };
        members.iter().all(|member| member.status().borrow().held.iter().all(|(id, token)| seen(id, token.0)))
    };
    let waited = tokio::time::timeout(PATIENCE, async {
        while !begun() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "some work did not begin: {:?}", witness.stretches());
}

// proves R002, R063, C17, U12
#[tokio::test(flavor = "multi_thread")]
async fn members_share_evenly_and_a_newcomer_gets_exactly_its_share() {
    let (store, witness) = (MemoryStore::new(), Witness::default());
    // So long that no machine is too busy for a heartbeat: that would move work, too.
    let calm = Duration::from_secs(12);
    let member = |name| member_for(calm, &store, &witness, name, 9);
    let one = member("one").await;
    until(&one, "owning all nine", |status| status.held.len() == 9).await;
    let two = member("two").await;
    let three = member("three").await;
    until_shared(&[&one, &two, &three], &[3, 3, 3]).await;
    until_begun(&witness, &[&one, &two, &three]).await;
    let before = witness.stretches().len();
    let four = member("four").await;
    until_shared(&[&one, &two, &three, &four], &[2, 2, 2, 3]).await;
    tokio::time::sleep(TTL).await;
    until_shared(&[&one, &two, &three, &four], &[2, 2, 2, 3]).await;
    assert_eq!(witness.stretches().len() - before, 2, "exactly two leases moved");
    for member in [one, two, three, four] {
        member.leave().await;
    }
    witness.verify();
}

// proves R010, C30
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_leaves_hands_its_work_over_without_waiting_for_a_ttl() {
    let (store, witness) = (MemoryStore::new(), Witness::default());
    let one = member(&store, &witness, "one", 6).await;
    let two = member(&store, &witness, "two", 6).await;
    until_shared(&[&one, &two], &[3, 3]).await;
    one.leave().await;
    until(&two, "owning all six", |status| status.held.len() == 6).await;
    let (mut left, mut taken) = (BTreeMap::new(), BTreeMap::new());
    for stretch in witness.stretches() {
        let last = if stretch.name == "one" { &mut left } else { &mut taken };
        last.insert(stretch.resource.clone(), if stretch.name == "one" { stretch.to } else { stretch.from });
    }
    for (resource, from) in taken {
        let gap = left.get(&resource).map_or(Duration::ZERO, |to| from.since(*to));
        assert!(gap < TTL / 2, "{resource} was left alone for {gap:?}");
    }
    two.leave().await;
    witness.verify();
}

// proves R007, R055, C16
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_members_work_is_taken_over_after_its_silence() {
    let (store, witness) = (MemoryStore::new(), Witness::default());
    let doomed = tokio::runtime::Runtime::new().unwrap();
    let (dead_store, dead_witness) = (store.clone(), witness.clone());
    let one = doomed.spawn(async move { member(&dead_store, &dead_witness, "one", 4).await }).await.unwrap();
    let two = member(&store, &witness, "two", 4).await;
    until_shared(&[&one, &two], &[2, 2]).await;
    std::mem::forget(one);
    doomed.shutdown_background();
    until(&two, "owning all four", |status| status.held.len() == 4).await;
    two.leave().await;
    witness.verify();
}

// proves C20, U26
#[tokio::test(flavor = "multi_thread")]
async fn work_goes_on_through_a_store_that_forgets() {
    let (store, witness) = (MemoryStore::new(), Witness::default());
    let empty = store.snapshot();
    let one = member(&store, &witness, "one", 4).await;
    let two = member(&store, &witness, "two", 4).await;
    until_shared(&[&one, &two], &[2, 2]).await;
    let before: Vec<_> = [&one, &two].iter().map(|m| m.status().borrow().held.clone()).collect();
    store.restore(&empty);
    until(&one, "the freeze", |status| status.frozen).await;
    let three = member(&store, &witness, "three", 4).await;
    until(&one, "the thaw", |status| !status.frozen).await;
    until_shared(&[&one, &two, &three], &[1, 1, 2]).await;
    for (member, before) in [&one, &two].iter().zip(before) {
        let held = member.status().borrow().held.clone();
        assert!(
            held.iter().any(|(id, token)| before.get(id) == Some(token)),
            "a term was reasserted: {held:?}"
        );
    }
    for member in [one, two, three] {
        member.leave().await;
    }
    witness.verify();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_lost_under_a_living_member_ends_in_a_new_session_and_no_overlap() {
    let (store, witness) = (MemoryStore::new(), Witness::default());
    let one = member(&store, &witness, "one", 3).await;
    let two = member(&store, &witness, "two", 3).await;
    until_shared(&[&one, &two], &[1, 2]).await;
    let first = one.status().borrow().member.clone().unwrap();
    store.lose_session(&first);
    until(&one, "a new session", |status| status.member.as_ref().is_some_and(|id| *id != first)).await;
    until_shared(&[&one, &two], &[1, 2]).await;
    one.leave().await;
    two.leave().await;
    witness.verify();
}

// proves R034, U24
#[tokio::test(flavor = "multi_thread")]
async fn operators_marks_are_obeyed() {
    let (store, witness) = (MemoryStore::new(), Witness::default());
    let one = member(&store, &witness, "one", 4).await;
    let two = member(&store, &witness, "two", 4).await;
    until_shared(&[&one, &two], &[2, 2]).await;
    let mark = |kind, subject: &'static str, value: Option<&'static str>, version| {
        let store = store.clone();
        async move { store.set_mark(&pool(), kind, subject, value, Version(version)).await.unwrap() }
    };
    let _ = mark(MarkKind::Drain, "one", Some(""), 0).await;
    until(&one, "being drained", |status| status.held.is_empty()).await;
    until(&two, "owning all four", |status| status.held.len() == 4).await;
    let _ = mark(MarkKind::Drain, "one", None, 1).await;
    until_shared(&[&one, &two], &[2, 2]).await;
    let pinned = ResourceId::new("r0").unwrap();
    let holder = if one.status().borrow().held.contains_key(&pinned) { "two" } else { "one" };
    let _ = mark(MarkKind::Pin, "r0", Some(holder), 0).await;
    let target = if holder == "one" { &one } else { &two };
    until(target, "owning what is pinned to it", |status| status.held.contains_key(&pinned)).await;
    let _ = mark(MarkKind::Pause, "r1", Some(""), 0).await;
    until_shared(&[&one, &two], &[1, 2]).await;
    one.leave().await;
    two.leave().await;
    witness.verify();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_lease_is_given_up_and_comes_back_under_a_higher_token() {
    let (store, witness) = (MemoryStore::new(), Witness::default());
    let one = member(&store, &witness, "one", 1).await;
    until(&one, "owning it", |status| status.held.len() == 1).await;
    let lease = store.leases(&pool(), Cursor::START).await.unwrap().items.remove(0);
    let term = leasehold::Term { resource: lease.resource.clone(), token: lease.token };
    let _ = store.revoke(&pool(), &term).await.unwrap();
    until(&one, "a new term", |status| {
        status.held.get(&lease.resource).is_some_and(|token| *token > lease.token)
    })
    .await;
    one.leave().await;
    witness.verify();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_given_back_is_dead_to_whoever_kept_a_clone() {
    let store = MemoryStore::new();
    let kept = Arc::new(std::sync::Mutex::new(None));
    let keep = Arc::clone(&kept);
    let one = Participant::join(Arc::new(store), pool())
        .ttl(TTL)
        .resources(["a"])
        .unwrap()
        .start(move |lease| {
            keep.lock().unwrap().get_or_insert(lease.clone());
            async move {
                lease.lost().await;
            }
        })
        .await
        .unwrap();
    until(&one, "owning it", |status| status.held.len() == 1).await;
    let lease = loop {
        if let Some(lease) = kept.lock().unwrap().clone() {
            break lease;
        }
        tokio::task::yield_now().await;
    };
    assert!(lease.term().is_ok());
    assert_eq!(lease.state(), State::Held);
    one.leave().await;
    assert!(lease.term().is_err());
    assert_eq!(lease.state(), State::Lost);
}
