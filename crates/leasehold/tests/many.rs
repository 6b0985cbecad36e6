//! A member with ten thousand leases dies: everything is owned again, and no living lease is lost meanwhile.

use std::time::Duration;

use leasehold::clock;
use leasehold::participant::{Running, State};
use leasehold::store::{Begin, StoreUrl, migrate, open};
use leasehold::{Participant, Pool};
use leasehold_testkit::{Etcd, Postgres, Redis};

const COUNT: usize = 10_000;
const TTL: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(120);

async fn member(url: &StoreUrl, name: &str, resources: Vec<String>) -> Running {
    let store = open(url).await.unwrap();
    Participant::join(store, Pool::new("many").unwrap())
        .name(name)
        .unwrap()
        .ttl(TTL)
        .resources(resources)
        .unwrap()
        .start(|lease| async move {
            lease.lost().await;
        })
        .await
        .unwrap()
}

async fn until_holding(member: &Running, count: usize) {
    let mut status = member.status();
    let held = tokio::time::timeout(PATIENCE, status.wait_for(|status| status.held.len() == count)).await;
    assert!(held.is_ok(), "holding {} of {count}", member.status().borrow().held.len());
}

async fn ten_thousand_leases_are_owned_again(url: &str) {
    let url: StoreUrl = url.parse().unwrap();
    migrate(&url, Begin::Live).await.unwrap();
    let all: Vec<String> = (0..COUNT).map(|number| format!("r{number}")).collect();

    let doomed = tokio::runtime::Runtime::new().unwrap();
    let (its_url, its_list) = (url.clone(), all.clone());
    let dying = doomed.spawn(async move { member(&its_url, "dying", its_list).await }).await.unwrap();
    until_holding(&dying, COUNT).await;

    // The bystander lists one resource of its own and keeps it through everything.
    let bystander = member(&url, "bystander", vec!["own".to_owned()]).await;
    until_holding(&bystander, 1).await;
    let kept = bystander.status().borrow().held.clone();

    std::mem::forget(dying);
    doomed.shutdown_background();
    let died = clock::now();
    let heir = member(&url, "heir", all).await;
    until_holding(&heir, COUNT).await;
    let took = clock::now().since(died);
    println!("{url}: {COUNT} leases owned again after {took:?} with a TTL of {TTL:?}");
    assert_eq!(bystander.status().borrow().held, kept, "the bystander lost its lease");
    assert_eq!(bystander.status().borrow().state, State::Held);
    heir.leave().await;
    bystander.leave().await;
}

// proves the design's L3
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_leases_of_a_dead_member_are_owned_again_on_sqlite_and_no_living_one_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("many.db");
    ten_thousand_leases_are_owned_again(&format!("sqlite:{}", file.display())).await;
}

// proves the design's L3
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by ./test --long"]
async fn ten_thousand_leases_of_a_dead_member_are_owned_again_on_redis_and_no_living_one_is_lost() {
    let server = Redis::start();
    ten_thousand_leases_are_owned_again(&server.url()).await;
}

// proves the design's L3
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by ./test --long"]
async fn ten_thousand_leases_of_a_dead_member_are_owned_again_on_postgres_and_no_living_one_is_lost() {
    let server = Postgres::start();
    server.create("work");
    ten_thousand_leases_are_owned_again(&server.url("work")).await;
}

// proves the design's L3
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by ./test --long"]
async fn ten_thousand_leases_of_a_dead_member_are_owned_again_on_etcd_and_no_living_one_is_lost() {
    let server = Etcd::start();
    ten_thousand_leases_are_owned_again(&server.url("leasehold")).await;
}
