//! Servers that forget: restarted, restored, promoted, written into by somebody else.

use std::time::Duration;

use leasehold::store::conformance::member::{open as open_session, session};
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{Answer, Begin, Reasserted, Released, StoreUrl, Thawed};
use leasehold_testkit::{Postgres, wait_for};

use super::postgres_server::{Database, open};
use super::{era_of, era_soon, frozen, hinted, prepared, url};

#[tokio::test]
async fn a_restart_freezes_once_and_work_goes_on() {
    for kill in [false, true] {
        let mut server = prepared(&["fsync=off"]).await;
        let (store, other) = (open(&url(&server)).await, open(&url(&server)).await);
        let mut one = Member::join(&store, "one").await;
        let held = one.take("a").await;
        if kill {
            server.kill();
        }
        server.restart();
        let era = era_soon(&other).await;
        assert!(era.frozen && era.nonce != one.era, "killed {kill}: beats may be missing");
        assert_eq!(era_soon(&store).await.nonce, era.nonce, "it is frozen once");
        // A connection that nobody has used since is found to be lost by whoever does.
        let kept = loop {
            let pulse = leasehold::store::Pulse { era: era.nonce, ..one.pulse() };
            if let Ok(answer) = store.reassert(&one.session, pulse, std::slice::from_ref(&held)).await {
                break answer;
            }
        };
        assert_eq!(kept, Answer::Done(vec![Reasserted::Kept]));
    }
}

/// proves the contract's second point across an asynchronous failover
#[tokio::test]
async fn a_replica_that_lagged_is_frozen_when_it_is_promoted_and_tokens_do_not_fall() {
    let mut server = prepared(&["fsync=off"]).await;
    let replica = server.replica(&["fsync=off"]);
    let both = format!("postgres://leasehold@127.0.0.1:{},127.0.0.1:{}/work", server.port(), replica.port());
    let both: StoreUrl = both.parse().expect("a good URL");
    let store = open(&both).await;
    let mut one = Member::join(&store, "one").await;
    let early = one.take("a").await;
    let tokens = "SELECT token FROM leasehold.leases";
    wait_for("the replica has the grant", || replica.sql("work", tokens).trim() == "1");
    replica.cut_off();
    wait_for("the replica is cut off", || {
        server.sql("postgres", "SELECT count(*) FROM pg_stat_replication").trim() == "0"
    });
    let _ = one.give_back(&early).await;
    let late = one.take("a").await;
    assert!(late.token > early.token);
    server.kill();
    replica.promote();
    let era = era_soon(&store).await;
    assert!(era.frozen && era.nonce != one.era, "what was confirmed may be missing");
    assert_eq!(replica.sql("work", tokens).trim(), "1", "it is: the newer grant was not replicated");
    let kept = one.reassert(era.nonce, std::slice::from_ref(&late)).await;
    assert_eq!(kept, Answer::Done(vec![Reasserted::Kept]), "its holder knows better");
    let newcomer = open(&both).await;
    assert_eq!(newcomer.thaw(era.nonce).await.expect("the store answers"), Thawed::Thawed);
    let _ = one.give_back(&late).await;
    assert!(Member::join(&newcomer, "two").await.take("a").await.token > late.token);
}

/// proves the contract's second point across a restored backup
#[tokio::test]
async fn files_that_were_put_back_are_frozen_and_tokens_do_not_fall() {
    let mut server = prepared(&["fsync=off"]).await;
    let store = open(&url(&server)).await;
    let early = Member::join(&store, "one").await.take("a").await;
    server.stop();
    let backup = server.copy_files("backup");
    server.restart();
    let era = era_soon(&store).await;
    assert_eq!(store.thaw(era.nonce).await.expect("the store answers"), Thawed::Thawed);
    let late = Member::join(&store, "two").await.take("a").await;
    assert!(late.token > early.token);
    drop(store);
    server.stop();
    server.put_back(&backup);
    server.restart();
    // Nobody is left who remembers.
    let store = open(&url(&server)).await;
    let era = era_of(&store).await;
    assert!(era.frozen);
    // Between two thaws lies a TTL, and tokens go on from the second in which a store is thawed.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(store.thaw(era.nonce).await.expect("the store answers"), Thawed::Thawed);
    assert!(Member::join(&store, "three").await.take("a").await.token > late.token);
}

/// Kills one of the server's processes: the others are thrown out, and it recovers from its log as the same server.
fn lose_what_was_not_waited_for(server: &Postgres) {
    let own = "SELECT pid FROM pg_stat_activity WHERE application_name = 'leasehold' LIMIT 1";
    server.kill_child(server.sql("work", own).trim());
    wait_for("the server throws everybody out", || server.log().contains("reinitializing"));
    wait_for("the server is back", || server.try_sql("work", "SELECT 1").is_ok());
}

// What is collected waits for no disk: a tombstone may be there again, and what was granted because it was gone stays.
#[tokio::test]
async fn a_tombstone_that_is_back_says_what_it_said_before() {
    for taken in [false, true] {
        let server = prepared(&["fsync=off", "wal_writer_delay=10s"]).await;
        let store = open(&url(&server)).await;
        let (mut one, mut two) = (Member::join(&store, "one").await, Member::join(&store, "two").await);
        let held = one.take("a").await;
        store.close(one.id()).await.expect("the store answers");
        store.collect(one.id()).await.expect("the store answers");
        let next = if taken { Some(two.take("a").await) } else { None };
        lose_what_was_not_waited_for(&server);
        let store = open(&url(&server)).await;
        assert!(!era_of(&store).await.frozen, "nobody can tell");
        (one.store, two.store) = (store.clone(), store);
        assert_eq!(one.beat().await, Answer::Gone);
        let next = match next {
            Some(next) => next,
            None => two.take("a").await,
        };
        assert!(next.token > held.token);
        assert_eq!(two.give_back(&next).await, Released::Freed);
    }
}

#[tokio::test]
async fn a_process_of_the_server_that_dies_takes_no_confirmed_beat_with_it() {
    let server = prepared(&["fsync=off", "wal_writer_delay=10s"]).await;
    let store = open(&url(&server)).await;
    let mut one = Member::join(&store, "one").await;
    for _ in 0..5 {
        let _ = one.beat().await;
    }
    let before = server.sql("work", "SELECT identity FROM leasehold.era");
    lose_what_was_not_waited_for(&server);
    assert_eq!(server.sql("work", "SELECT leasehold.identity()"), before, "nobody can tell by its identity");
    assert_eq!(server.sql("work", "SELECT beat FROM leasehold.sessions").trim(), one.confirmed.to_string());
}

#[tokio::test]
async fn an_era_that_somebody_else_wrote_is_not_believed() {
    let database = Database::fresh().await;
    let store = open(&database.url()).await;
    let mut one = Member::join(&store, "one").await;
    // As a dump does that is restored into the same database.
    let restored = "CREATE TEMP TABLE dump AS SELECT * FROM leasehold.era; DELETE FROM leasehold.era; \
                    INSERT INTO leasehold.era SELECT * FROM dump";
    database.execute(restored.to_owned()).await;
    let nonce = frozen(one.beat().await);
    assert_eq!(era_of(&store).await.nonce, nonce, "frozen once");
    assert_eq!(one.reassert(nonce, &[]).await, Answer::Done(vec![]));
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    database.execute("VACUUM (FULL, FREEZE) leasehold.era".to_owned()).await;
    assert!(!era_of(&store).await.frozen, "tidying up is not writing");
}

#[tokio::test]
async fn a_server_whose_log_fell_behind_what_was_seen_has_forgotten() {
    let database = Database::fresh().await;
    let look = |ahead: &str| {
        format!(
            "SELECT (leasehold.look(ARRAY[nonce, (pg_current_wal_lsn() - '0/0')::bigint {ahead}, 0])).forgot \
             FROM leasehold.era"
        )
    };
    assert_eq!(database.query(&look("- 1000")).await, "f");
    assert_eq!(database.query(&look("+ 100000000")).await, "t");
}

#[tokio::test]
async fn a_database_that_was_made_anew_is_frozen_by_whoever_remembers_the_old_one() {
    let server = prepared(&["fsync=off"]).await;
    let store = open(&url(&server)).await;
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    server.sql("work", "DROP SCHEMA leasehold CASCADE");
    leasehold::store::migrate(&url(&server), Begin::Live).await.expect("it can be prepared again");
    let era = era_soon(&store).await;
    assert!(era.frozen, "somebody said that nobody holds anything; this handle knows better");
    assert!(era.ttl_max >= one.session.ttl, "who thaws waits as long as before");
    assert_eq!(one.reassert(era.nonce, &[held]).await, Answer::Done(vec![Reasserted::Kept]));
}

#[tokio::test]
async fn who_remembers_a_longer_ttl_than_a_restored_store_tells_it() {
    let database = Database::fresh().await;
    let store = open(&database.url()).await;
    let short = Member::join(&store, "short").await;
    database.copy().await;
    let mut long = session("long");
    long.ttl *= 3;
    // The copy threw everybody out; a read finds connections that are lost.
    let _ = era_soon(&store).await;
    let _ = open_session(&store, &long).await;
    database.put_copy_back().await;
    let newcomer = open(&database.url()).await;
    let era = era_of(&newcomer).await;
    assert!(era.frozen);
    assert_eq!(era.ttl_max, short.session.ttl, "the copy knows nothing of the other");
    assert_eq!(era_of(&store).await.ttl_max, long.ttl, "a reader tells it too");
    assert_eq!((era_of(&newcomer).await.ttl_max, era_of(&newcomer).await.nonce), (long.ttl, era.nonce));
}

#[tokio::test]
async fn hints_survive_a_restart_of_the_server() {
    let mut server = prepared(&["fsync=off"]).await;
    let store = open(&url(&server)).await;
    let mut hints = store.changes(&pool("work"));
    server.restart();
    assert!(hinted(&mut hints).await, "after each new connection there is one");
    let era = era_soon(&store).await;
    let mut hints = store.changes(&pool("work"));
    let other = open(&url(&server)).await;
    assert_eq!(other.thaw(era.nonce).await.expect("the store answers"), Thawed::Thawed);
    assert!(hinted(&mut hints).await, "what others do is heard again");
    drop((store, other));
    while hinted(&mut hints).await {}
}
