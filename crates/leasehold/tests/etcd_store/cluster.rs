//! A cluster of three that loses one.

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::conformance::Member;
use leasehold::store::{Acquired, Answer, Grade, Store};
use leasehold_testkit::EtcdCluster;

use super::support::{era_of, eventually, live, open, timed};

/// Calls may be unknown while a leader is elected; they are answered again soon, and nothing is forgotten.
async fn goes_on(store: &Arc<dyn Store>, one: &mut Member) {
    let era = one.era;
    let (beat, took) = timed(eventually("a heartbeat is confirmed", async || {
        let pulse = one.pulse();
        let (answer, took) = timed(store.beat(one.id(), pulse)).await;
        assert!(took < Duration::from_secs(6), "one call took {took:?}");
        answer.ok()
    }))
    .await;
    assert_eq!(beat, Answer::Done(vec![]));
    assert!(took < Duration::from_secs(30), "it took {took:?}");
    one.confirmed = one.sent;
    let after = eventually("it can be read", async || {
        store.sessions(&one.session.pool, leasehold::store::Cursor::START).await.ok()
    })
    .await
    .era;
    assert_eq!((after.nonce, after.frozen), (era, false), "an election forgets nothing");
}

#[tokio::test]
async fn calls_go_on_by_other_endpoints_when_the_leader_is_killed_or_paused() {
    let mut cluster = EtcdCluster::start();
    let store = live(&cluster.url("work")).await;
    assert_eq!(store.capabilities().grade, Grade::DurableAndLinearizable);
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;

    let leader = cluster.leader();
    cluster.kill(leader);
    goes_on(&store, &mut one).await;
    cluster.start_again(leader);

    let leader = cluster.leader();
    cluster.pause(leader);
    goes_on(&store, &mut one).await;
    cluster.resume(leader);
    goes_on(&store, &mut one).await;

    let mut two = Member::join(&store, "two").await;
    assert_eq!(two.ask("a").await, Acquired::Held { by: one.id().clone(), token: held.token });
}

#[tokio::test]
async fn a_store_is_opened_with_one_endpoint_of_three_dead_and_says_which() {
    let mut cluster = EtcdCluster::start();
    let era = era_of(&live(&cluster.url("work")).await).await;
    cluster.kill(0);
    let opened = eventually("two of three elect a leader", async || {
        let url = super::support::url(&cluster.url("work"));
        leasehold::store::open(&url).await.ok()
    });
    let store = opened.await;
    assert_eq!(era_of(&store).await, era);
    let checkup = store.checkup().await.expect("it can be looked over");
    let dead = format!("127.0.0.1:{} does not answer", cluster.ports()[0]);
    assert!(
        checkup.findings.iter().any(|finding| finding.weak && finding.what.contains(&dead)),
        "{checkup:?}"
    );
    assert_eq!(checkup.grade, Grade::DurableAndLinearizable);
    cluster.start_again(0);
    assert_eq!(era_of(&open(&cluster.url("work")).await).await, era);
}
