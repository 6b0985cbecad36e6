//! The checker of the ledger: what is planted is found, what is only missing or late is no alarm, and real members'
//! ledgers are clean.

#[path = "verify/any.rs"]
mod any;
#[path = "verify/edges.rs"]
mod edges;
#[path = "verify/planted.rs"]
mod planted;
#[path = "verify/rows.rs"]
mod rows;

use std::sync::Arc;
use std::time::Duration;

use leasehold::ledger::Entry;
use leasehold::ledger::verify::{Verdict, Why, verify};
use leasehold::participant::Running;
use leasehold::store::Registry;
use leasehold::store::memory::MemoryStore;
use leasehold::{Participant, Pool};

const TTL: Duration = Duration::from_millis(1500);
const PATIENCE: Duration = Duration::from_secs(20);

fn pool() -> Pool {
    Pool::new("jobs").unwrap()
}

async fn member(store: MemoryStore, name: &'static str) -> Running {
    Participant::join(Arc::new(store), pool())
        .name(name)
        .unwrap()
        .ttl(TTL)
        .resources((0..6).map(|number| format!("r{number}")))
        .unwrap()
        .start(|lease| async move {
            lease.lost().await;
        })
        .await
        .unwrap()
}

async fn until_shared(members: &[&Running], counts: &[usize]) {
    let shared = tokio::time::timeout(PATIENCE, async {
        loop {
            let mut held: Vec<usize> = members.iter().map(|m| m.status().borrow().held.len()).collect();
            held.sort_unstable();
            if held == counts {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(shared.await.is_ok(), "{counts:?} did not come about");
}

async fn judged(store: &MemoryStore) -> Verdict {
    let rows = store.ledger(&pool(), None, 0, usize::MAX).await.unwrap();
    let rows: Vec<Entry> = rows.into_iter().map(|(_, entry)| entry).collect();
    verify(&rows, Duration::ZERO)
}

fn gaps(verdict: &Verdict, why: Why) -> usize {
    let gaps = verdict.resources.iter().flat_map(|report| &report.gaps);
    gaps.filter(|gap| gap.why == why).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_of_members_that_come_go_and_die_is_clean() {
    let store = MemoryStore::new();
    let one = member(store.clone(), "one").await;
    until_shared(&[&one], &[6]).await;
    let two = member(store.clone(), "two").await;
    until_shared(&[&one, &two], &[3, 3]).await;
    let doomed = tokio::runtime::Runtime::new().unwrap();
    let three = doomed.spawn(member(store.clone(), "three")).await.unwrap();
    until_shared(&[&one, &two, &three], &[2, 2, 2]).await;
    std::mem::forget(three);
    doomed.shutdown_background();
    until_shared(&[&one, &two], &[3, 3]).await;
    two.leave().await;
    until_shared(&[&one], &[6]).await;
    one.leave().await;
    let verdict = judged(&store).await;
    assert!(verdict.is_clean(), "{verdict:#?}");
    assert_eq!((verdict.overlap(), verdict.unexplained()), (Duration::ZERO, Duration::ZERO), "{verdict:#?}");
    assert_eq!((verdict.resources.len(), verdict.machines), (6, 1));
    assert!(verdict.terms() >= 16 && gaps(&verdict, Why::TtlExpiry) >= 2, "{verdict:#?}");
    assert!(verdict.to_string().starts_with("overlap 0 s,"), "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_of_a_store_that_forgot_is_clean() {
    let store = MemoryStore::new();
    let one = member(store.clone(), "one").await;
    until_shared(&[&one], &[6]).await;
    let before = store.snapshot();
    let two = member(store.clone(), "two").await;
    until_shared(&[&one, &two], &[3, 3]).await;
    store.restore(&before);
    let three = member(store.clone(), "three").await;
    until_shared(&[&one, &two, &three], &[2, 2, 2]).await;
    for member in [three, two, one] {
        member.leave().await;
    }
    let verdict = judged(&store).await;
    assert!(verdict.is_clean(), "{verdict:#?}");
}
