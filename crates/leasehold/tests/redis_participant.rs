//! Members on a real Redis server, judged by what their work itself saw.

#[path = "support/redis_server.rs"]
mod redis_server;
mod witness;

use std::time::Duration;

use leasehold::ledger::Event;
use leasehold::participant::Running;
use leasehold::store::{Begin, StoreUrl, migrate};
use leasehold::{Participant, Pool};
use leasehold_testkit::{Persistence, Redis, RedisSetup};
use redis_server::{OnRedis, address, open};
use witness::Witness;

const TTL: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(120);

fn endpoints() -> Pool {
    Pool::new("endpoints").unwrap()
}

async fn member(url: &StoreUrl, witness: &Witness, name: &str) -> Running {
    let resources: Vec<String> = (0..9).map(|number| format!("endpoint:{number}")).collect();
    Participant::join(open(url).await, endpoints())
        .name(name)
        .unwrap()
        .ttl(TTL)
        .resources(resources)
        .unwrap()
        .start(witness.work(name))
        .await
        .unwrap()
}

async fn until_shared(members: &[&Running], counts: &[usize]) {
    let held = || {
        let mut held: Vec<usize> = members.iter().map(|member| member.status().borrow().held.len()).collect();
        held.sort_unstable();
        held
    };
    let shared = tokio::time::timeout(PATIENCE, async {
        while held() != counts {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(shared.await.is_ok(), "{:?} instead of {counts:?}", held());
}

// proves R063, R088
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_share_endpoints_and_take_over_from_one_that_died() {
    let (on, witness) = (OnRedis::with("").await, Witness::default());
    let url = address(&on.server, "");
    let doomed = tokio::runtime::Runtime::new().unwrap();
    let (its_url, its_witness) = (url.clone(), witness.clone());
    let dying = doomed.spawn(async move { member(&its_url, &its_witness, "dying").await }).await.unwrap();
    let (one, two) = (member(&url, &witness, "one").await, member(&url, &witness, "two").await);
    until_shared(&[&dying, &one, &two], &[3, 3, 3]).await;
    std::mem::forget(dying);
    doomed.shutdown_background();
    until_shared(&[&one, &two], &[4, 5]).await;
    one.leave().await;
    until_shared(&[&two], &[9]).await;
    two.leave().await;
    witness.verify();
    assert!(witness.stretches().iter().any(|stretch| stretch.name == "dying"), "who died had worked");
    assert_eq!(on.server.cli(&["KEYS", "poll:lease:*"]), "", "what was held was given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_work_through_a_restart_of_a_server_that_kept_everything() {
    let witness = Witness::default();
    let mut server =
        Redis::start_with(RedisSetup { persistence: Persistence::Always, ..RedisSetup::default() });
    let url = address(&server, "");
    migrate(&url, Begin::Live).await.unwrap();
    let (one, two) = (member(&url, &witness, "one").await, member(&url, &witness, "two").await);
    until_shared(&[&one, &two], &[4, 5]).await;
    server.restart();
    // It was frozen, holders said what they hold, and it was thawed: a newcomer gets its share.
    let three = member(&url, &witness, "three").await;
    until_shared(&[&one, &two, &three], &[3, 3, 3]).await;
    for member in [one, two, three] {
        member.leave().await;
    }
    witness.verify();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_leave_a_foreigner_alone_until_its_lease_has_run_out() {
    let (on, witness) = (OnRedis::with("").await, Witness::default());
    let url = address(&on.server, "");
    let taken = on.server.cli(&["SET", "poll:lease:endpoint:0", "foreign-1", "NX", "PX", "15000"]);
    assert_eq!(taken, "OK");
    let (one, two) = (member(&url, &witness, "one").await, member(&url, &witness, "two").await);
    until_shared(&[&one, &two], &[4, 4]).await;
    assert_eq!(on.server.cli(&["GET", "poll:lease:endpoint:0"]), "foreign-1");
    until_shared(&[&one, &two], &[4, 5]).await;
    let rows = on.store.ledger(&endpoints(), None, 0, 10_000).await.unwrap();
    let refused = rows.iter().filter(|(_, entry)| entry.event == Event::Refused).count();
    assert!((1..20).contains(&refused), "it was asked for {refused} times");
    for member in [one, two] {
        member.leave().await;
    }
    witness.verify();
}
