//! The Redis store on lines that break, stall and lose answers: unknown is unknown, soon, and what comes back is used.

#[path = "support/redis_reconnect.rs"]
mod redis_reconnect;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{self, Acquired, Answer, Begin, Cursor, Hints, Store, StoreErrorKind, StoreUrl};
use leasehold_testkit::{Faults, Persistence, Proxy, Redis, RedisSetup};
use redis_reconnect::reconnect;

const SOON: Duration = Duration::from_secs(8);

/// A server behind a line that can be cut, and a store that uses the line.
async fn on_a_line(setup: RedisSetup) -> (Redis, Proxy, Arc<dyn Store>) {
    let server = Redis::start_with(setup);
    let line = Proxy::to(server.port());
    let url: StoreUrl = format!("redis://127.0.0.1:{}", line.port()).parse().expect("a good address");
    store::migrate(&url, Begin::Live).await.expect("an empty server");
    let store = store::open(&url).await.expect("the store can be opened");
    (server, line, store)
}

async fn next(hints: &mut Hints, within: Duration) -> bool {
    tokio::time::timeout(within, poll_fn(|context| hints.as_mut().poll_next(context))).await.is_ok()
}

#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_unknown_and_found_afterwards() {
    let (_server, line, store) = on_a_line(RedisSetup::default()).await;
    let mut one = Member::join(&store, "one").await;
    line.set(Faults { swallow_down: true, ..Faults::default() });
    let before = clock::now();
    let pulse = one.pulse();
    let wanted = [leasehold::store::conformance::wanted("a")];
    let error = store.acquire(one.id(), pulse, &wanted).await.expect_err("the answer is lost");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(clock::now().since(before) < SOON);
    line.heal();
    reconnect(&store).await;
    let leases = store.leases(&pool("work"), Cursor::START).await.expect("the store answers").items;
    assert_eq!(leases[0].holder.as_ref(), Some(one.id()), "it took effect all the same");
    assert!(matches!(one.ask("a").await, Acquired::Held { .. }), "it is not granted a second time");
}

#[tokio::test]
async fn calls_on_a_line_that_is_cut_end_in_time_and_go_on_when_it_is_whole() {
    let (_server, line, store) = on_a_line(RedisSetup::default()).await;
    let mut one = Member::join(&store, "one").await;
    for faults in [Faults::cut(), Faults { refuse: true, ..Faults::default() }] {
        line.set(faults);
        for _ in 0..2 {
            let before = clock::now();
            let pulse = one.pulse();
            let error = store.beat(one.id(), pulse).await.expect_err("nothing passes");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            let took = clock::now().since(before);
            assert!(took < SOON, "it took {took:?}");
        }
        line.heal();
        reconnect(&store).await;
        assert_eq!(one.beat().await, Answer::Done(vec![]));
    }
}

#[tokio::test]
async fn many_calls_at_once_on_a_slow_line_are_all_answered() {
    let (_server, line, store) = on_a_line(RedisSetup::default()).await;
    line.set(Faults { delay: Duration::from_millis(30), ..Faults::default() });
    let members: Vec<_> = (0..20)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut member = Member::join(&store, "many").await;
                member.take(&format!("r{number}")).await;
                member.beat().await
            })
        })
        .collect();
    for member in members {
        assert_eq!(member.await.expect("it was answered"), Answer::Done(vec![]));
    }
}

#[tokio::test]
async fn hints_come_back_by_themselves() {
    let setup = RedisSetup { persistence: Persistence::Always, ..RedisSetup::default() };
    let (mut server, line, store) = on_a_line(setup).await;
    let mut hints = store.changes(&pool("work"));
    assert!(next(&mut hints, SOON).await, "one at the beginning");
    while next(&mut hints, Duration::from_millis(200)).await {}
    line.set(Faults { refuse: true, ..Faults::default() });
    assert!(!next(&mut hints, Duration::from_millis(300)).await, "nothing is heard through a broken line");
    line.heal();
    assert!(
        next(&mut hints, Duration::from_secs(30)).await,
        "one when it is whole: something may have been missed"
    );
    server.restart();
    assert!(next(&mut hints, Duration::from_secs(30)).await, "one when the server is back");
    drop(store);
    let end = tokio::time::timeout(SOON, async {
        while poll_fn(|context| hints.as_mut().poll_next(context)).await.is_some() {}
    });
    assert!(end.await.is_ok(), "they end with the store");
}
