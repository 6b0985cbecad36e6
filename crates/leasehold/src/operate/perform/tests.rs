//! A resignation that was cut short.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::lease::{BeatNumber, MemberId, Nonce, Token};
use crate::store::memory::MemoryStore;
use crate::store::{Answer, LeaseStore, OpenSession, Profile, Pulse, Release, Wanted};

fn pool() -> Pool {
    Pool::new("backup").unwrap()
}

async fn candidate(store: &MemoryStore, name: &str) -> (MemberId, Nonce) {
    let id = MemberId::new(format!("{name}-1")).unwrap();
    let profile = Profile {
        name: MemberName::new(name).unwrap(),
        capacity: None,
        labels: BTreeMap::new(),
        ready: true,
        settled: true,
        leaving: false,
        listing: None,
        plan_version: 1,
        flaps: 0,
        version: None,
    };
    let open = OpenSession { pool: pool(), id: id.clone(), ttl: Duration::from_secs(30), profile };
    let Answer::Done(era) = store.open(&open).await.unwrap() else { panic!("no session") };
    (id, era)
}

async fn view(store: &MemoryStore) -> View {
    let mut view = View::new(pool());
    view.refresh(store, &SystemClock).await.unwrap();
    view
}

#[tokio::test]
async fn a_resignation_that_nobody_took_back_says_nothing_once_somebody_else_leads() {
    let store = MemoryStore::new();
    let (anna, era) = candidate(&store, "anna").await;
    let (bert, _) = candidate(&store, "bert").await;
    let pulse = |number| Pulse { era, number: BeatNumber(number), confirmed: BeatNumber(0) };
    let seat = [Wanted { resource: SEAT.parse().unwrap(), floor: Token(0) }];
    let _ = store.acquire(&anna, pulse(1), &seat).await.unwrap();
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let resigning = tokio::spawn(async move { perform(&*shared, &pool(), &Act::Resign, None).await });
    while !view(&store).await.is_drained("anna") {
        tokio::task::yield_now().await;
    }
    resigning.abort();
    let drained = |view: &View| view.facts(1).members.iter().map(|m| m.drained).collect::<Vec<_>>();
    assert_eq!(drained(&view(&store).await), [true, false]);
    let term = Term { resource: SEAT.parse().unwrap(), token: Token(1) };
    let _ = store.release(&anna, pulse(2), &[Release { term, offer: None }]).await.unwrap();
    assert_eq!(drained(&view(&store).await), [true, false], "not until somebody else has it");
    let _ = store.acquire(&bert, pulse(1), &seat).await.unwrap();
    let after = view(&store).await;
    assert_eq!(drained(&after), [false, false]);
    assert!(after.mark(MarkKind::Drain, "anna").is_some(), "the mark is still to be seen");

    // An ordinary drain stays one, whoever leads.
    put_mark(&store, &pool(), MarkKind::Drain, "anna", Some("")).await.unwrap();
    assert!(view(&store).await.is_drained("anna"));
}
