//! A pooler in transaction mode in between: every call may go to another connection of the server.

use leasehold::store::conformance::{Member, pool, wanted};
use leasehold::store::{Acquired, Answer, Begin, Cursor, Reasserted, Released, Thawed};
use leasehold_testkit::{PgBouncer, Postgres};

use super::postgres_server::open;
use super::{era_of, frozen};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_through_a_pooler_but_hints() {
    let server = Postgres::start();
    server.create("work");
    let pooler = PgBouncer::before(&server);
    let url = pooler.url("work").parse().expect("a good URL");
    leasehold::store::migrate(&url, Begin::Live).await.expect("it can be prepared through it");
    let (store, other) = (open(&url).await, open(&url).await);
    assert!(!store.capabilities().pushes_changes, "LISTEN is taken and passes nothing on");
    let checkup = store.checkup().await.expect("the store answers");
    assert!(checkup.findings.iter().any(|found| found.weak && found.what.contains("pooler")), "{checkup:?}");

    let mut one = Member::join(&store, "one").await;
    let mut crowd = Vec::new();
    for number in 0..8 {
        crowd.push(Member::join(&other, &format!("m{number}")).await);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for mut member in crowd {
        tasks.spawn(async move {
            let all: Vec<_> = (0..50).map(|number| wanted(&format!("r{number}"))).collect();
            match member.acquire_wanted(&all).await {
                Answer::Done(outcomes) => outcomes,
                refused => panic!("a living session got {refused:?}"),
            }
        });
    }
    while !tasks.is_empty() {
        assert_eq!(one.beat().await, Answer::Done(vec![]), "heartbeats go on meanwhile");
        if let Some(outcomes) = tasks.join_next().await {
            outcomes.expect("nobody panics");
        }
    }
    let leases = store.leases(&pool("work"), Cursor::START).await.expect("the store answers").items;
    assert_eq!(leases.len(), 50);
    assert!(leases.iter().all(|lease| lease.token.0 == 1), "each was granted once: {leases:?}");

    let mine = one.take("mine").await;
    assert!(matches!(Member::join(&other, "two").await.ask("mine").await, Acquired::Held { .. }));
    one.era = leasehold::lease::Nonce::generate();
    let nonce = frozen(one.beat().await);
    assert_eq!(one.reassert(nonce, std::slice::from_ref(&mine)).await, Answer::Done(vec![Reasserted::Kept]));
    assert_eq!(other.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    assert_eq!(one.give_back(&mine).await, Released::Freed);
    assert!(!era_of(&other).await.frozen);
}
