//! A database of an earlier version is upgraded and keeps what it has, and builds of that version go on beside newer ones.

use leasehold::store::conformance::member::{lease, resource};
use leasehold::store::conformance::pool;
use leasehold::store::{Begin, Cursor, Declared, Marked, Migrated, Version};
use leasehold_testkit::Postgres;

use super::postgres_server::open;
use super::{assert_misconfigured, hinted, refusal, url};

/// What the first version applied.
const FIRST: [(&str, &str); 6] = [
    ("tables", include_str!("../../src/store/postgres/migrations/0001_tables.sql")),
    ("eras", include_str!("../../src/store/postgres/migrations/0002_eras.sql")),
    ("sessions", include_str!("../../src/store/postgres/migrations/0003_sessions.sql")),
    ("leases", include_str!("../../src/store/postgres/migrations/0004_leases.sql")),
    ("reads", include_str!("../../src/store/postgres/migrations/0005_reads.sql")),
    ("registry", include_str!("../../src/store/postgres/migrations/0006_registry.sql")),
];

/// Its calls, as a member of that version makes them: it remembers nothing yet.
const DECLARE: &str =
    r#"SELECT said, numbers FROM leasehold.declare('work', 'a', 3, '{"gpu":"yes"}', false, $V$, '{}')"#;
const RESOURCES: &str = "SELECT r.names, r.weights, r.requirements, r.removals, r.versions FROM leasehold.read_resources('work', 0, NULL, '{}') AS r";

/// A database as the first version leaves it: a session that holds something, and a declared resource.
fn first_version(server: &Postgres) {
    server.create("work");
    let sql = |text: &str| server.sql("work", text);
    sql("CREATE SCHEMA leasehold");
    sql(
        "CREATE TABLE leasehold.migrations (version bigint PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, \
         applied_at timestamptz NOT NULL DEFAULT clock_timestamp())",
    );
    for (version, (name, text)) in (1..).zip(FIRST) {
        sql(text);
        sql(&format!(
            "INSERT INTO leasehold.migrations (version, name, checksum) \
             VALUES ({version}, '{name}', encode(sha256(convert_to($text${text}$text$, 'UTF8')), 'hex'))"
        ));
    }
    sql("INSERT INTO leasehold.era (identity, nonce, frozen, token_base, ttl_max_ms, written) \
         VALUES (leasehold.identity(), 7, false, 0, 0, leasehold.here())");
    let profile = r#"{"name":"one","ready":true,"settled":true,"plan_version":1}"#;
    let opened =
        sql(&format!("SELECT said FROM leasehold.open('one-1', 'work', 30000, '{profile}', NULL, '{{}}')"));
    assert_eq!(opened.trim(), "done");
    sql("SELECT leasehold.acquire('one-1', 7, 1, 0, ARRAY['a'], ARRAY[40::bigint], '{}')");
    assert_eq!(sql(&DECLARE.replace("$V$", "0")).trim(), "done|{1}");
}

#[tokio::test]
async fn a_database_of_the_first_version_is_upgraded_and_keeps_what_it_has() {
    let server = Postgres::start_with(&["fsync=off"]);
    first_version(&server);
    assert_misconfigured(&refusal(&server.url("work")).await, "leasehold migrate");
    let migrated = leasehold::store::migrate(&url(&server), Begin::Frozen).await.expect("it can be upgraded");
    let Migrated { before, now } = migrated;
    assert!(before == Some(6) && now > 6, "{before:?} {now}");
    let (store, work) = (open(&url(&server)).await, pool("work"));
    let held = lease(&store, "a").await;
    assert_eq!((held.holder.map(|id| id.to_string()).as_deref(), held.token.0), (Some("one-1"), 41));
    let requires: std::collections::BTreeMap<_, _> = [("gpu".to_owned(), "yes".to_owned())].into();
    let first = Declared { weight: 3, requires, version: Version(1), ..Declared::new(resource("a")) };
    let seen = store.resources(&work, Cursor::START).await.expect("the store answers");
    assert!(!seen.era.frozen && seen.era.nonce.0 == 7, "an upgrade forgets nothing");
    assert_eq!(seen.items, std::slice::from_ref(&first));

    // A member of the first version comes and goes on beside this one.
    assert_eq!(server.sql("work", "SELECT leasehold.schema_version()").trim(), "6", "it refuses another");
    let labels = [("floor".to_owned(), "2".to_owned())].into();
    let described = Declared { labels, document: Some(serde_json::json!({"at": [0.1, 2]})), ..first };
    let set = store.declare(&work, &described).await.expect("the store answers");
    assert_eq!(set, Marked::Set(Version(2)));
    assert_eq!(server.sql("work", RESOURCES).trim(), r#"{a}|{3}|{"{\"gpu\":\"yes\"}"}|{f}|{2}"#);
    assert_eq!(server.sql("work", &DECLARE.replace("$V$", "2")).trim(), "done|{3}");
    let seen = store.resources(&work, Cursor::START).await.expect("the store answers").items;
    assert_eq!(seen, [Declared { version: Version(3), ..described }], "what it does not know of stays");
    let mut hints = store.changes(&pool("other"));
    let elsewhere = DECLARE.replace("'work'", "'other'").replace("$V$", "0");
    assert_eq!(server.sql("work", &elsewhere).trim(), "done|{1}");
    assert!(hinted(&mut hints).await, "it does not know that it should announce what it changes");
}
