//! What a former leader writes, whatever it still believes.

use std::time::Duration;

use leasehold::Election;
use leasehold::election::Key;
use leasehold::store::{Begin, StoreUrl};
use leasehold_example_scheduler::etcd::{Etcd, Write};
use leasehold_example_scheduler::schedule::assignments;
use leasehold_example_scheduler::world::{PENDING, PREFIX, READY, World, instance_key, worker_key};
use leasehold_testkit::EtcdCluster;

async fn world(etcd: &Etcd) -> World {
    let (revision, kvs) = etcd.read(PREFIX).await.unwrap();
    World::read(revision, kvs)
}

// proves C39
#[tokio::test]
async fn an_assignment_is_refused_once_another_leads_though_the_instance_is_still_pending() {
    let server = leasehold_testkit::Etcd::start();
    let endpoint = format!("127.0.0.1:{}", server.port());
    let etcd = Etcd::new(std::slice::from_ref(&endpoint)).unwrap();
    let put = |key, value: &str| Write::Put(key, value.to_owned());
    let setting = [
        put(worker_key("w", "state"), READY),
        put(worker_key("w", "capacity"), "9"),
        put(instance_key("a", "state"), PENDING),
        put(instance_key("b", "state"), PENDING),
    ];
    etcd.write(&[], &setting).await.unwrap();
    let url: StoreUrl = format!("etcd://{endpoint}").parse().unwrap();
    leasehold::store::migrate(&url, Begin::Live).await.unwrap();
    let (one, two) =
        (leasehold::store::open(&url).await.unwrap(), leasehold::store::open(&url).await.unwrap());
    let candidate = |store| {
        Election::new(store, Key::new("/ccm/scheduler/leader").unwrap()).ttl(Duration::from_secs(2)).start()
    };
    let first = candidate(one).await.unwrap();
    let leadership = first.campaign().await;
    let (token, guard) = (leadership.token(), leadership.guard().unwrap());
    let [a, b] = assignments(&world(&etcd).await, token).try_into().unwrap();
    let written = etcd.write(&a.conditions(&guard).unwrap(), &a.writes).await.unwrap();
    assert!(written.is_some(), "a leader writes");
    let again = etcd.write(&a.conditions(&guard).unwrap(), &a.writes).await.unwrap();
    assert_eq!(again, None, "the same assignment a second time");
    drop(leadership);
    let second = candidate(two).await.unwrap();
    let later = second.campaign().await;
    let late = etcd.write(&b.conditions(&guard).unwrap(), &b.writes).await.unwrap();
    assert_eq!(late, None, "the guard of a leader that is no more");
    let guard = later.guard().unwrap();
    let [b] = assignments(&world(&etcd).await, later.token()).try_into().unwrap();
    assert!(etcd.write(&b.conditions(&guard).unwrap(), &b.writes).await.unwrap().is_some());
}

// proves U17: all endpoints are used, and one that is away costs a call, not the others
#[tokio::test]
async fn every_endpoint_is_asked_in_turn() {
    let mut cluster = EtcdCluster::start();
    let endpoints: Vec<String> = cluster.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let etcd = Etcd::new(&endpoints).unwrap();
    etcd.write(&[], &[Write::Put("/ccm/x".to_owned(), "1".to_owned())]).await.unwrap();
    cluster.kill(0);
    let mut failed = 0;
    // Until the two that are left have a leader, none of them answers.
    let kvs = loop {
        match etcd.read(PREFIX).await {
            Ok((_, kvs)) => break kvs,
            Err(_) => failed += 1,
        }
        assert!(failed < 60, "nobody answers");
    };
    assert!(failed > 0 && kvs.len() == 1, "{failed} {kvs:?}");
}
