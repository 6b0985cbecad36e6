//! Clusters that forget, and those that only seem to.

use std::time::Duration;

use leasehold::lease::Nonce;
use leasehold::store::conformance::member::session;
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{Answer, MarkKind, Marked, Reasserted, Thawed, Version};
use leasehold_testkit::Etcd;

use super::support::{era_of, eventually, handled, live, next_hint as next, open};

fn frozen<T: std::fmt::Debug>(answer: Answer<T>) -> Nonce {
    match answer {
        Answer::Frozen(nonce) => nonce,
        other => panic!("a store that has forgotten answered {other:?}"),
    }
}

// proves R006
#[tokio::test]
async fn a_snapshot_restored_under_the_same_cluster_id_freezes_the_store_and_no_token_falls() {
    let mut server = Etcd::start();
    let store = live(&server.url("restored")).await;
    let mut one = Member::join(&store, "one").await;
    server.save("early");
    let held = one.take("a").await;
    let mut last = held.clone();
    for _ in 0..5 {
        let _ = one.give_back(&last).await;
        last = one.take("a").await;
    }
    server.restore("early", false);
    let pulse = one.pulse();
    let nonce = eventually("the server is back", async || match store.beat(one.id(), pulse).await {
        Ok(answer) => Some(frozen(answer)),
        Err(_) => None,
    })
    .await;
    assert_eq!(one.reassert(nonce, std::slice::from_ref(&last)).await, Answer::Done(vec![Reasserted::Kept]));
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    let _ = one.give_back(&last).await;
    assert!(one.take("a").await.token > last.token, "a token was given out again");
}

#[tokio::test]
async fn a_newcomer_without_a_memory_finds_a_restored_snapshot_by_the_length_of_the_log() {
    let mut server = Etcd::start();
    for number in 0..40 {
        let _ = server.ctl(&["put", "somebody-elses", &number.to_string()]);
    }
    let store = live(&server.url("newcomer")).await;
    let before = era_of(&store).await;
    server.save("early");
    let mut one = Member::join(&store, "one").await;
    let _ = one.take("a").await;
    drop((one, store));
    server.restore("early", false);
    let store = open(&server.url("newcomer")).await;
    let era = era_of(&store).await;
    assert!(era.frozen && era.nonce != before.nonce, "{era:?} after {before:?}");
}

#[tokio::test]
async fn a_restart_forgets_nothing_and_freezes_nothing() {
    let mut server = Etcd::start();
    let store = live(&server.url("restarted")).await;
    let before = era_of(&store).await;
    let mut one = Member::join(&store, "one").await;
    for _ in 0..3 {
        server.restart();
        let pulse = one.pulse();
        let beat = eventually("the server is back", async || store.beat(one.id(), pulse).await.ok()).await;
        assert_eq!(beat, Answer::Done(vec![]));
        let newcomer = open(&server.url("restarted")).await;
        assert_eq!(era_of(&newcomer).await.nonce, before.nonce);
    }
}

#[tokio::test]
async fn a_prefix_that_was_deleted_is_a_store_that_has_forgotten_everything() {
    let server = Etcd::start();
    let store = live(&server.url("deleted")).await;
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    let _ = server.ctl(&["del", "--prefix", "deleted/"]);
    let nonce = frozen(store.open(&session("newcomer")).await.expect("the store answers"));
    assert_eq!(one.beat().await, Answer::Frozen(nonce));
    assert_eq!(one.reassert(nonce, std::slice::from_ref(&held)).await, Answer::Done(vec![Reasserted::Kept]));
    assert!(era_of(&store).await.ttl_max >= Duration::from_secs(60));
}

#[tokio::test]
async fn hints_go_on_after_a_compaction_and_after_a_restart() {
    let mut server = Etcd::start();
    let (store, work) = (live(&server.url("hinted")).await, pool("work"));
    let mut hints = store.changes(&work);
    while next(&mut hints, Duration::from_millis(300)).await {}
    for _ in 0..20 {
        let _ = server.ctl(&["put", "somebody-elses", "x"]);
    }
    server.compact();
    let set = store.set_mark(&work, MarkKind::Drain, "api-1", Some(""), Version(0)).await;
    assert_eq!(set.expect("the store answers"), Marked::Set(Version(1)));
    assert!(next(&mut hints, Duration::from_secs(10)).await, "no hint after a compaction");
    while next(&mut hints, Duration::from_millis(300)).await {}
    server.restart();
    assert!(next(&mut hints, Duration::from_secs(30)).await, "one hint after each reconnection");
    while next(&mut hints, Duration::from_millis(300)).await {}
    let _ = eventually("the mark is set", async || {
        store.set_mark(&work, MarkKind::Drain, "api-1", None, Version(1)).await.ok()
    })
    .await;
    assert!(next(&mut hints, Duration::from_secs(30)).await, "no hint after a restart");
}

#[tokio::test]
async fn a_heartbeat_is_one_request_whatever_the_session_holds() {
    let server = Etcd::start();
    let store = live(&server.url("beats")).await;
    let mut one = Member::join(&store, "one").await;
    for name in ["a", "b", "c"] {
        let _ = one.take(name).await;
    }
    let all = || ["Txn", "Range", "Put"].map(|method| handled(server.port(), method)).iter().sum::<u64>();
    let before = all();
    for _ in 0..10 {
        assert_eq!(one.beat().await, Answer::Done(vec![]));
    }
    assert_eq!(all() - before, 10);
}
