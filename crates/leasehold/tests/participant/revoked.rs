//! A lease that was revoked while its work does not stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::participant::{Lease, Running};
use leasehold::store::around::{Fault, Faulty};
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Cursor, LeaseStore, Store};
use leasehold::{Participant, Term, clock};

use crate::{PATIENCE, TTL, pool, until};

/// Work that ends when the test says so, whatever it is told, and the leases it got.
#[derive(Clone, Default)]
struct Stubborn {
    done: Arc<AtomicBool>,
    leases: Arc<Mutex<Vec<Lease>>>,
}

impl Stubborn {
    async fn member(&self, store: Arc<dyn Store>) -> Running {
        let stubborn = self.clone();
        let work = move |lease: Lease| {
            let stubborn = stubborn.clone();
            async move {
                stubborn.leases.lock().unwrap().push(lease.clone());
                while !stubborn.done.load(Ordering::SeqCst) || !lease.is_stopping() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        };
        let builder = Participant::join(store, pool()).ttl(TTL).resources(["a", "b"]).unwrap();
        let member = builder.without_abort().start(work).await.unwrap();
        until(&member, "owning both", |status| status.held.len() == 2).await;
        member
    }

    /// The lease of `resource` that was started last.
    async fn lease(&self, resource: &str) -> Lease {
        let find = || {
            let leases = self.leases.lock().unwrap();
            leases.iter().rev().find(|lease| lease.resource().as_str() == resource).cloned()
        };
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(lease) = find() {
                    return lease;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        found.await.expect("the work was started")
    }
}

async fn beats(store: &MemoryStore) -> u64 {
    let sessions = store.sessions(&pool(), Cursor::START).await.unwrap().items;
    sessions.iter().map(|session| session.beat.0).max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_holder_that_does_not_stop_is_trusted_no_longer_than_a_ttl_though_it_goes_on_beating() {
    let (store, stubborn) = (MemoryStore::new(), Stubborn::default());
    let member = stubborn.member(Arc::new(store.clone())).await;
    let trust = member.trusted_until();
    let (lease, other) = (stubborn.lease("a").await, stubborn.lease("b").await);
    let term = lease.term().unwrap().clone();
    let _ = store.revoke(&pool(), &term).await.unwrap();
    let revoked = clock::now();
    let end = revoked.after(TTL);
    let beat = beats(&store).await;
    while clock::now() < end.after(TTL) {
        assert!(lease.trusted_until() <= end, "{:?} too long", lease.trusted_until().since(end));
        let all = trust.borrow().expect("a session");
        assert!(all <= end, "work that goes on by itself may go on for {:?} too long", all.since(end));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(lease.term().is_err());
    assert!(beats(&store).await > beat + 2, "the member goes on");
    assert!(other.term().is_ok(), "its other lease stands");
    assert_eq!(
        store.leases(&pool(), Cursor::START).await.unwrap().items[0].token,
        term.token,
        "it is not back"
    );
    stubborn.done.store(true, Ordering::SeqCst);
    until(&member, "a new term", |status| status.held.get(&term.resource) > Some(&term.token)).await;
    let mut trust = member.trusted_until();
    let moved = trust.wait_for(|until| until.is_some_and(|until| until > end.after(TTL)));
    tokio::time::timeout(PATIENCE, moved).await.expect("trust moves on").unwrap();
    member.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_lease_that_has_gone_back_bounds_nothing_any_more() {
    let (memory, stubborn) = (MemoryStore::new(), Stubborn::default());
    let store = Faulty::new(Arc::new(memory.clone()));
    stubborn.done.store(true, Ordering::SeqCst);
    let member = stubborn.member(Arc::new(store.clone())).await;
    let term: Term = stubborn.lease("a").await.term().unwrap().clone();
    store.break_calls(&["release"], Fault::Fails);
    let _ = memory.revoke(&pool(), &term).await.unwrap();
    until(&member, "the work stops", |status| !status.held.contains_key(&term.resource)).await;
    // Heartbeats still say that it is revoked, because it has not gone back.
    let beat = beats(&memory).await;
    while beats(&memory).await <= beat + 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    store.mend();
    until(&member, "a new term", |status| status.held.get(&term.resource) > Some(&term.token)).await;
    let end = clock::now().after(TTL * 2);
    let mut trust = member.trusted_until();
    let moved = trust.wait_for(|until| until.is_some_and(|until| until > end));
    assert!(tokio::time::timeout(PATIENCE, moved).await.is_ok(), "trust stands still");
    member.leave().await;
}
