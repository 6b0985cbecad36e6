//! Slow and lossy lines to a cluster, here two lines to one member.

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::conformance::member::lease;
use leasehold::store::conformance::{Member, wanted};
use leasehold::store::{Acquired, Answer, Store};
use leasehold_testkit::{Etcd, Faults, Proxy};

use super::support::{eventually, live, timed};

async fn by_two_lines(server: &Etcd) -> ([Proxy; 2], Arc<dyn Store>) {
    let lines = [Proxy::to(server.port()), Proxy::to(server.port())];
    let address = format!("etcd://127.0.0.1:{},127.0.0.1:{}/lines", lines[0].port(), lines[1].port());
    let store = live(&address).await;
    (lines, store)
}

#[tokio::test]
async fn lines_that_are_all_slow_are_waited_for_and_lose_nothing() {
    let server = Etcd::start();
    let (lines, store) = by_two_lines(&server).await;
    let mut one = Member::join(&store, "one").await;
    for line in &lines {
        line.set(Faults { delay: Duration::from_millis(600), ..Faults::default() });
    }
    let beat = eventually("a heartbeat is confirmed", async || {
        let pulse = one.pulse();
        store.beat(one.id(), pulse).await.ok()
    });
    assert_eq!(beat.await, Answer::Done(vec![]));
    one.confirmed = one.sent;
    lines.iter().for_each(Proxy::heal);
    let _ = one.take("a").await;
}

// proves L8: what a heartbeat that was given up has learned spares the next one a second round trip
#[tokio::test]
async fn a_heartbeat_that_was_given_up_does_not_make_the_next_one_slower() {
    let server = Etcd::start();
    let line = Proxy::to(server.port());
    let store = live(&format!("etcd://127.0.0.1:{}/line", line.port())).await;
    let mut one = Member::join(&store, "one").await;
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    let round_trip = Duration::from_millis(1000);
    line.set(Faults { delay: round_trip / 2, ..Faults::default() });
    for given_up_after in [round_trip / 5, round_trip * 4 / 5] {
        let pulse = one.pulse();
        let given_up = tokio::time::timeout(given_up_after, store.beat(one.id(), pulse)).await;
        assert!(given_up.is_err(), "the line is slow");
        // It is over, or nearly so.
        tokio::time::sleep(round_trip * 3 / 4 - given_up_after / 2).await;
        let (answer, took) = timed(one.beat()).await;
        assert_eq!(answer, Answer::Done(vec![]));
        assert!(took < round_trip * 9 / 5, "it took {took:?}");
    }
}

// proves R005
#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_made_once_and_the_other_line_is_used() {
    let server = Etcd::start();
    let (lines, store) = by_two_lines(&server).await;
    let mut one = Member::join(&store, "one").await;
    lines[0].set(Faults { swallow_down: true, ..Faults::default() });
    let pulse = one.pulse();
    let (answer, took) = timed(store.acquire(one.id(), pulse, &[wanted("a")])).await;
    assert!(took < Duration::from_secs(6), "it took {took:?}");
    let Ok(Answer::Done(outcomes)) = answer else { panic!("the other line works: {answer:?}") };
    let mine = match &outcomes[0] {
        Acquired::Granted(term) => term.token,
        // It was applied, which its repetition found.
        Acquired::Held { by, token } => {
            assert_eq!(by, one.id());
            *token
        }
    };
    let record = lease(&store, "a").await;
    assert_eq!((record.token, record.token.0, record.holder.as_ref()), (mine, 1, Some(one.id())));
}

#[tokio::test]
async fn a_line_that_breaks_is_replaced_by_the_other_within_one_call() {
    let server = Etcd::start();
    let (lines, store) = by_two_lines(&server).await;
    let mut one = Member::join(&store, "one").await;
    for broken in &lines {
        broken.set(Faults { refuse: true, ..Faults::default() });
        assert_eq!(one.beat().await, Answer::Done(vec![]));
        broken.heal();
    }
    lines[1].set(Faults::cut());
    let pulse = one.pulse();
    let beat = store.beat(one.id(), pulse).await.expect("the other line works");
    assert_eq!(beat, Answer::Done(vec![]));
}
