//! The checker of the ledger: what is planted is found, what is only missing or late is no alarm, and real members'
//! ledgers are clean.

#[path = "verify/planted.rs"]
mod planted;
#[path = "verify/rows.rs"]
mod rows;

use std::sync::Arc;
use std::time::Duration;

use leasehold::ledger::Entry;
use leasehold::ledger::verify::{Verdict, Why, verify};
use leasehold::store::Registry;
use leasehold::store::memory::MemoryStore;
use leasehold::{Lease, Participant, Pool};

const TTL: Duration = Duration::from_millis(1000);

fn pool() -> Pool {
    Pool::new("jobs").unwrap()
}

async fn ledger(store: &MemoryStore) -> Vec<Entry> {
    let rows = store.ledger(&pool(), None, 0, usize::MAX).await.unwrap();
    rows.into_iter().map(|(_, entry)| entry).collect()
}

async fn judged_until(store: &MemoryStore, what: &str, holds: impl Fn(&Verdict) -> bool) -> Verdict {
    for _ in 0..2000 {
        let verdict = verify(&ledger(store).await, Duration::ZERO);
        if holds(&verdict) {
            return verdict;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not come about: {:#?}", verify(&ledger(store).await, Duration::ZERO));
}

async fn work(lease: Lease) {
    lease.lost().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_of_members_that_come_go_and_die_is_clean() {
    let store = MemoryStore::new();
    let member = |name: &'static str| {
        Participant::join(Arc::new(store.clone()), pool())
            .name(name)
            .unwrap()
            .ttl(TTL)
            .resources((0..6).map(|number| format!("r{number}")))
            .unwrap()
            .start(work)
    };
    let one = member("one").await.unwrap();
    judged_until(&store, "one owning all", |verdict| verdict.terms() == 6).await;
    let two = member("two").await.unwrap();
    judged_until(&store, "two taking its share", |verdict| verdict.terms() == 9).await;
    let doomed = tokio::runtime::Runtime::new().unwrap();
    let three = doomed.spawn(member("three")).await.unwrap().unwrap();
    judged_until(&store, "three taking its share", |verdict| verdict.terms() == 11).await;
    std::mem::forget(three);
    doomed.shutdown_background();
    let silence = |verdict: &Verdict| {
        let gaps = verdict.resources.iter().flat_map(|report| &report.gaps);
        verdict.terms() == 13 && gaps.filter(|gap| gap.why == Why::TtlExpiry).count() == 2
    };
    judged_until(&store, "three's share being taken over", silence).await;
    two.leave().await;
    judged_until(&store, "one owning all again", |verdict| verdict.terms() == 16).await;
    one.leave().await;
    let verdict = verify(&ledger(&store).await, Duration::ZERO);
    assert!(verdict.is_clean(), "{verdict:#?}");
    assert_eq!((verdict.overlap(), verdict.unexplained()), (Duration::ZERO, Duration::ZERO), "{verdict:#?}");
    assert_eq!((verdict.resources.len(), verdict.machines), (6, 1));
    assert!(verdict.to_string().starts_with("overlap 0 s,"), "{verdict}");
}
