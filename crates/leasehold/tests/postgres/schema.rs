//! The schema: missing, older, newer, changed, made by two at once; and what others may look at.

use leasehold::store::conformance::member::{all_leases, open as open_session, session};
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{Begin, Migrated, StoreErrorKind};
use leasehold_testkit::Postgres;

use super::postgres_server::{Database, open};
use super::{assert_misconfigured, era_of, prepared, refusal, url};

/// What `migrate` makes.
const NEWEST: u32 = 18;

#[tokio::test]
async fn a_database_without_a_schema_is_refused_with_what_to_run() {
    let server = Postgres::start();
    server.create("work");
    assert_misconfigured(&refusal(&server.url("work")).await, "run `leasehold migrate");
    let there = "SELECT count(*) FROM pg_namespace WHERE nspname = 'leasehold'";
    assert_eq!(server.sql("work", there).trim(), "0", "opening creates nothing");
}

#[tokio::test]
async fn an_older_a_newer_and_a_changed_schema_are_refused() {
    let server = prepared(&["fsync=off"]).await;
    // A build that is as old as this one cannot use what comes next.
    let newer = "UPDATE leasehold.migrations SET version = version + 1 WHERE version = (SELECT max(version) FROM leasehold.migrations); \
                 CREATE OR REPLACE FUNCTION leasehold.schema_range(OUT newest bigint, OUT oldest bigint) \
                 LANGUAGE sql AS 'SELECT max(version), max(version) FROM leasehold.migrations'";
    server.sql("work", newer);
    assert_misconfigured(&refusal(&server.url("work")).await, "it is older than the schema; upgrade it");
    let migrated = leasehold::store::migrate(&url(&server), Begin::Frozen).await;
    assert_misconfigured(&migrated.expect_err("it is newer"), "it is older than the schema; upgrade it");
    server.sql("work", "DELETE FROM leasehold.migrations WHERE version > 8");
    assert_misconfigured(&refusal(&server.url("work")).await, "run `leasehold migrate");
    server.sql("work", "UPDATE leasehold.migrations SET checksum = 'x' WHERE version = 3");
    let migrated = leasehold::store::migrate(&url(&server), Begin::Frozen).await;
    assert_misconfigured(&migrated.expect_err("it was changed"), "migration 3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_migrate_at_once_make_one_schema_and_one_era() {
    let server = Postgres::start();
    server.create("work");
    let url = url(&server);
    let (one, two) = tokio::join!(
        leasehold::store::migrate(&url, Begin::Live),
        leasehold::store::migrate(&url, Begin::Frozen)
    );
    let mut befores = [one, two].map(|migrated| {
        let Migrated { before, now } = migrated.expect("both can prepare it");
        assert_eq!(now, NEWEST);
        before
    });
    befores.sort_unstable();
    assert_eq!(befores, [None, Some(NEWEST)], "one of them did it");
    let store = open(&url).await;
    let era = era_of(&store).await;
    let again = leasehold::store::migrate(&url, Begin::Live).await.expect("nothing is left to do");
    assert_eq!(again.before, Some(NEWEST));
    assert_eq!(era_of(&store).await, era, "an era that is there is never touched");
}

#[tokio::test]
async fn a_store_that_begins_frozen_is_heard_for_as_long_as_anybody_may_trust_another() {
    let server = Postgres::start();
    server.create("work");
    leasehold::store::migrate(&url(&server), Begin::Frozen).await.expect("it can be prepared");
    let store = open(&url(&server)).await;
    let era = era_of(&store).await;
    assert!(era.frozen);
    assert_eq!(era.ttl_max.as_secs(), 60);
    server.sql("work", "DELETE FROM leasehold.era");
    let again = era_of(&store).await;
    assert!(again.frozen && again.nonce != era.nonce, "a store without an era may have forgotten everything");
    assert_eq!(again.ttl_max.as_secs(), 60);
}

/// proves R018, R019, R020, R021
#[tokio::test]
async fn the_view_of_scenes_shows_who_holds_what_and_a_tombstone_holds_nothing() {
    let database = Database::fresh().await;
    let store = open(&database.url()).await;
    let mut new = session("one");
    new.pool = pool("scenes");
    let era = open_session(&store, &new).await;
    let mut one = Member { store: store.clone(), session: new, era, sent: 0, confirmed: 0 };
    let _ = one.take("scene-1").await;
    let scenes =
        "SELECT scene_id, holder_id, expires_at > clock_timestamp(), version FROM leasehold.scene_leases";
    assert_eq!(database.query(scenes).await, format!("scene-1|{}|t|1", one.id()));
    one.close().await;
    assert_eq!(database.query(scenes).await, "scene-1|||1");
    assert_eq!(all_leases(&store, &pool("scenes")).await.len(), 1);
}

#[tokio::test]
async fn text_that_the_server_cannot_keep_is_refused_for_good() {
    let database = Database::fresh().await;
    let store = open(&database.url()).await;
    let kind = leasehold::store::MarkKind::Drain;
    let set = store.set_mark(&pool("work"), kind, "a\0b", None, leasehold::store::Version(0)).await;
    assert_eq!(set.expect_err("text has no NUL").kind(), StoreErrorKind::Misconfigured);
}
