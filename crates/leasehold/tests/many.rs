//! A member with ten thousand leases dies: everything is owned again, and no living lease is lost meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::participant::{Running, State};
use leasehold::store::sqlite::SqliteStore;
use leasehold::{Participant, Pool};

const COUNT: usize = 10_000;
const TTL: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(120);

async fn member(path: &Path, name: &str, resources: Vec<String>) -> Running {
    let store = SqliteStore::open(path).await.unwrap();
    Participant::join(Arc::new(store), Pool::new("many").unwrap())
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

// proves the design's L3
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_leases_of_a_dead_member_are_owned_again_and_no_living_one_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("many.db");
    let all: Vec<String> = (0..COUNT).map(|number| format!("r{number}")).collect();

    let doomed = tokio::runtime::Runtime::new().unwrap();
    let (its_path, its_list) = (path.clone(), all.clone());
    let dying = doomed.spawn(async move { member(&its_path, "dying", its_list).await }).await.unwrap();
    until_holding(&dying, COUNT).await;

    // The bystander lists one resource of its own and keeps it through everything.
    let bystander = member(&path, "bystander", vec!["own".to_owned()]).await;
    until_holding(&bystander, 1).await;
    let kept = bystander.status().borrow().held.clone();

    std::mem::forget(dying);
    doomed.shutdown_background();
    let died = clock::now();
    let heir = member(&path, "heir", all).await;
    until_holding(&heir, COUNT).await;
    let took = clock::now().since(died);
    println!("{COUNT} leases owned again after {took:?} with a TTL of {TTL:?}");
    assert_eq!(bystander.status().borrow().held, kept, "the bystander lost its lease");
    assert_eq!(bystander.status().borrow().state, State::Held);
    heir.leave().await;
    bystander.leave().await;
}
