//! What keeps ending, and who keeps coming and going, keeps nobody busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::participant::Running;
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Cursor, LeaseStore};
use leasehold::{Participant, clock};

use crate::witness::Witness;
use crate::{TTL, member, pool, until};

fn builder(store: &MemoryStore, name: &str) -> Participant {
    Participant::join(Arc::new(store.clone()), pool()).name(name).unwrap().ttl(TTL).resources(["a"]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_panics_before_it_begins_gives_its_lease_back_and_hurts_nobody() {
    let store = MemoryStore::new();
    let tries = AtomicUsize::new(0);
    let work = move |lease: leasehold::Lease| {
        assert!(tries.fetch_add(1, Ordering::SeqCst) > 0, "the first attempt panics, as this test wants it");
        async move {
            lease.lost().await;
        }
    };
    let one = builder(&store, "one").start(work).await.unwrap();
    until(&one, "owning it under a second token", |status| status.held.values().any(|token| token.0 == 2))
        .await;
    let sessions = store.sessions(&pool(), Cursor::START).await.unwrap().items;
    assert_eq!(sessions.len(), 1, "it is the same session");
    one.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_returns_at_once_is_not_played_between_two_members() {
    let store = MemoryStore::new();
    let idle = async |name| builder(&store, name).start(async |_| ()).await.unwrap();
    let (one, two): (Running, Running) = (idle("one").await, idle("two").await);
    let began = clock::now();
    while clock::now() < began.after(Duration::from_secs(4)) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let leases = store.leases(&pool(), Cursor::START).await.unwrap().items;
    let grants = leases.iter().map(|lease| lease.token.0).max().unwrap_or(0);
    assert!((2..=16).contains(&grants), "{grants} grants in four seconds");
    one.leave().await;
    two.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_keeps_coming_and_going_waits_longer_for_work() {
    let (store, witness) = (MemoryStore::new(), Witness::default());
    let steady = member(&store, &witness, "steady", 4).await;
    until(&steady, "owning all", |status| status.held.len() == 4).await;
    for _ in 0..6 {
        let restless = member(&store, &witness, "restless", 4).await;
        until(&restless, "a session", |status| status.member.is_some()).await;
        restless.leave().await;
    }
    let came = clock::now();
    let restless = member(&store, &witness, "restless", 4).await;
    until(&restless, "its share", |status| status.held.len() == 2).await;
    let waited = clock::now().since(came);
    let id = restless.status().borrow().member.clone();
    let sessions = store.sessions(&pool(), Cursor::START).await.unwrap().items;
    let flaps = sessions.iter().find(|session| Some(&session.id) == id.as_ref()).map(|s| s.profile.flaps);
    assert_eq!(flaps, Some(6));
    // A sixth of the TTL, and twice as long for every return after the third.
    assert!(waited >= TTL / 6 * 8, "it got work after {waited:?}");
    steady.leave().await;
    restless.leave().await;
    witness.verify();
}
