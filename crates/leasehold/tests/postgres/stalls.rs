//! Servers and standbys that stand still, and calls that wait for each other.

use std::time::Duration;

use leasehold::clock;
use leasehold::store::conformance::member::lease;
use leasehold::store::conformance::{Member, pool, wanted};
use leasehold::store::{Answer, Cursor, Grade, StoreErrorKind, Wanted};

use super::postgres_server::{Database, open};
use super::{era_soon, prepared, url};

/// Longer than any call takes, on a busy machine too.
const BOUNDED: Duration = Duration::from_secs(15);

#[tokio::test]
async fn every_call_ends_while_the_server_stands_still_and_works_when_it_goes_on() {
    let server = prepared(&["fsync=off"]).await;
    let store = open(&url(&server)).await;
    let mut one = Member::join(&store, "one").await;
    let _ = one.take("a").await;
    server.pause();
    for round in 0..2 {
        let before = clock::now();
        let pulse = one.pulse();
        let beat = store.beat(one.id(), pulse).await.expect_err("nothing answers");
        let pulse = one.pulse();
        let grant = store.acquire(one.id(), pulse, &[wanted("b")]).await.expect_err("nothing answers");
        let read = store.leases(&pool("work"), Cursor::START).await.expect_err("nothing answers");
        let took = clock::now().since(before);
        assert!(took < 3 * BOUNDED, "round {round}: three calls took {took:?}");
        for error in [beat, grant, read] {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "round {round}: it may yet be: {error}");
        }
    }
    server.resume();
    let era = era_soon(&store).await;
    assert!(!era.frozen, "standing still is not forgetting");
    let answered = loop {
        let pulse = one.pulse();
        if let Ok(answer) = store.beat(one.id(), pulse).await {
            break answer;
        }
    };
    assert_eq!(answered, Answer::Done(vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waited_while_the_era_changed_is_judged_in_the_new_one() {
    let server = prepared(&["fsync=off"]).await;
    let store = open(&url(&server)).await;
    let mut one = Member::join(&store, "one").await;
    let alone = "SELECT pg_advisory_xact_lock(7810756276994469740)";
    let freeze = "UPDATE leasehold.era SET frozen = true, written = leasehold.here()";
    let answer = std::thread::scope(|scope| {
        let freezing = scope.spawn(|| {
            server.sql("work", &format!("BEGIN; {alone}; {freeze}; SELECT pg_sleep(1); COMMIT"));
        });
        leasehold_testkit::wait_for("the era is about to change", || {
            let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted";
            server.sql("work", locks).trim() == "1"
        });
        let (pulse, wanted) = (one.pulse(), [wanted("a")]);
        let asked = store.acquire(one.id(), pulse, &wanted);
        let answer = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(asked));
        freezing.join().expect("the era has changed");
        answer
    });
    assert!(matches!(answer, Ok(Answer::Frozen(_))), "{answer:?}");
    assert!(store.leases(&pool("work"), Cursor::START).await.expect("it answers").items.is_empty());
}

/// proves P7
#[tokio::test]
async fn a_stalled_standby_stops_grants_but_no_heartbeat() {
    let server = prepared(&["fsync=off"]).await;
    let store = open(&url(&server)).await;
    let mut one = Member::join(&store, "one").await;
    server.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.sql("postgres", "SELECT pg_reload_conf()");
    leasehold_testkit::wait_for("commits wait for a standby", || {
        server.sql("postgres", "SHOW synchronous_standby_names").trim() == "nobody"
    });
    let checkup = store.checkup().await.expect("reads go on");
    assert_eq!(checkup.grade, Grade::MayLoseWrites, "fsync is off");
    assert!(checkup.findings.iter().any(|found| found.what.contains("none is connected")), "{checkup:?}");
    for name in ["a", "b"] {
        let before = clock::now();
        let pulse = one.pulse();
        let refused = store.acquire(one.id(), pulse, &[wanted(name)]).await.expect_err("no standby answers");
        assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{refused}");
        assert!(clock::now().since(before) < BOUNDED);
        // What hung is let go, and with it the session's row.
        assert_eq!(one.beat().await, Answer::Done(vec![]), "a heartbeat waits for no standby");
    }
    leasehold_testkit::wait_for("nothing hangs on the server", || {
        let hanging = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        server.sql("postgres", hanging).trim() == "0"
    });
    assert_eq!(lease(&store, "a").await.holder.as_ref(), Some(one.id()), "a call given up may take effect");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beats_get_in_while_others_acquire_in_bulk() {
    let database = Database::fresh().await;
    let (store, busy) = (open(&database.url()).await, open(&database.url()).await);
    let mut one = Member::join(&store, "one").await;
    let mut greedy = Member::join(&busy, "greedy").await;
    let most = busy.capabilities().batch_max;
    let bulk = tokio::spawn(async move {
        for batch in 0..24 {
            let all: Vec<Wanted> = (0..most).map(|number| wanted(&format!("r{batch}-{number}"))).collect();
            assert!(matches!(greedy.acquire_wanted(&all).await, Answer::Done(_)));
        }
        greedy
    });
    while !bulk.is_finished() {
        assert_eq!(one.beat().await, Answer::Done(vec![]));
    }
    let greedy = bulk.await.expect("everything was granted");
    greedy.close().await;
    busy.collect(greedy.id()).await.expect("more than one step");
    let leases = store.leases(&pool("work"), Cursor::START).await.expect("the store answers").items;
    assert_eq!(leases.len(), 24 * most);
    assert!(leases.iter().all(|lease| lease.holder.is_none()), "everything it held is cleared");
}

/// What one reads again and again is what is new, also while somebody else is in the middle of something for long.
#[tokio::test]
async fn a_long_transaction_of_somebody_else_does_not_show_the_same_change_again() {
    let database = Database::fresh().await;
    let store = open(&database.url()).await;
    let held_open = database.execute("CREATE TABLE theirs (); SELECT pg_sleep(3)".to_owned());
    let held_open = tokio::spawn(held_open);
    let in_the_middle = "SELECT count(*) FROM pg_locks WHERE relation IS NOT NULL AND locktype = 'relation' \
                         AND mode = 'AccessExclusiveLock' AND granted";
    while database.query(in_the_middle).await == "0" && !held_open.is_finished() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut one = Member::join(&store, "one").await;
    let _ = one.take("a").await;
    let cursor = store.leases(&pool("work"), Cursor::START).await.expect("the store answers").cursor;
    let again = store.leases(&pool("work"), cursor).await.expect("the store answers");
    assert_eq!(again.items, [], "it was read already");
    let _ = one.take("b").await;
    let new = store.leases(&pool("work"), again.cursor).await.expect("the store answers").items;
    assert_eq!(new.len(), 1, "{new:?}");
    held_open.await.expect("somebody else is done");
}
