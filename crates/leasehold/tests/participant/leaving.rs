//! Leaving, whatever the store does meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::participant::Lease;
use leasehold::store::around::{Fault, Faulty};
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Cursor, LeaseStore};
use leasehold::{Participant, clock};

use crate::witness::Witness;
use crate::{PATIENCE, TTL, pool, until};

/// The calls that a pass reads with.
const READS: [&str; 5] = ["sessions", "leases", "marks", "resources", "listing"];

async fn leaves_with(what: &str, fault: impl FnOnce(&Faulty)) {
    let witness = Witness::default();
    let store = Faulty::new(Arc::new(MemoryStore::new()));
    let builder = Participant::join(Arc::new(store.clone()), pool()).ttl(TTL).resources(["a", "b"]).unwrap();
    let member = builder.start(witness.work("one")).await.unwrap();
    until(&member, "owning both", |status| status.held.len() == 2).await;
    fault(&store);
    let left = tokio::time::timeout(PATIENCE, member.leave()).await;
    assert!(left.is_ok(), "leaving takes for ever while {what}");
    let before = witness.stretches();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let after = witness.stretches();
    assert!(before.iter().zip(&after).all(|(before, after)| before.to == after.to), "the work goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_leaves_in_bounded_time_though_reads_fail() {
    leaves_with("reads fail", |store| store.break_calls(&READS, Fault::Fails)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_leaves_in_bounded_time_though_reads_hang() {
    leaves_with("reads hang", |store| store.break_calls(&READS, Fault::Hangs)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_leaves_in_bounded_time_though_nothing_is_answered() {
    leaves_with("nothing is answered", |store| store.break_everything(Fault::Hangs)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_dropped_leaves_and_does_not_spin_while_its_work_stops() {
    let memory = MemoryStore::new();
    let store = Faulty::new(Arc::new(memory.clone()));
    let done = Arc::new(AtomicBool::new(false));
    let may_end = Arc::clone(&done);
    let builder = Participant::join(Arc::new(store.clone()), pool()).ttl(TTL).resources(["a"]).unwrap();
    let work = move |_: Lease| {
        let may_end = Arc::clone(&may_end);
        async move {
            while !may_end.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    };
    let member = builder.without_abort().start(work).await.unwrap();
    until(&member, "owning it", |status| status.held.len() == 1).await;
    let (before, dropped) = (store.calls("leases"), clock::now());
    drop(member);
    let sessions = async || memory.sessions(&pool(), Cursor::START).await.unwrap().items;
    while clock::now() < dropped.after(TTL) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let passes = store.calls("leases") - before;
    assert!(passes < 100, "{passes} passes in {TTL:?}");
    assert!(sessions().await.iter().all(|session| !session.ended), "its work still runs");
    done.store(true, Ordering::SeqCst);
    let left = async {
        while !sessions().await.iter().all(|session| session.ended) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, left).await.expect("it leaves");
    assert_eq!(
        memory.leases(&pool(), Cursor::START).await.unwrap().items[0].holder,
        None,
        "its lease went back"
    );
}
