//! A file of an earlier version is upgraded where it stands and keeps what it has, and that version can go on with it.

#[path = "support/sqlite_file.rs"]
mod sqlite_file;

use std::os::unix::fs::MetadataExt;

use leasehold::lease::MemberId;
use leasehold::store::conformance::member::{all_leases, profile, resource};
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{Cursor, Declared, Marked, Version};
use rusqlite::{Connection, named_params};
use sqlite_file::{File, open};

/// What the first version ran to declare a resource.
const DECLARE: &str = "INSERT INTO resources (pool, resource, weight, requires, removed, version, changed) \
     VALUES ('work', :resource, :weight, '{\"gpu\":\"yes\"}', 0, :version, :seq) \
     ON CONFLICT (pool, resource) DO UPDATE \
     SET weight = excluded.weight, requires = excluded.requires, removed = excluded.removed, \
     version = excluded.version, changed = excluded.changed";
/// What it ran to read them.
const RESOURCES: &str =
    "SELECT resource, weight, requires, removed, version FROM resources WHERE pool = 'work' AND changed > -1";

fn declare(connection: &Connection, resource: &str, weight: u32, version: u64, seq: u64) {
    let params = named_params! {":resource": resource, ":weight": weight, ":version": version, ":seq": seq};
    connection.execute(DECLARE, params).expect("the first version's statement is good");
}

/// A file as the first version leaves it: a session that holds something, and a declared resource.
fn first_version(file: &File) -> MemberId {
    let connection = Connection::open(file.path()).expect("a new file");
    connection.pragma_update(None, "journal_mode", "wal").expect("a write-ahead log");
    connection.execute_batch(include_str!("support/sqlite_first.sql")).expect("the first schema is good");
    connection.pragma_update(None, "application_id", 0x6c68_6c64).expect("ours");
    connection.pragma_update(None, "user_version", 1).expect("of the first version");
    let found = std::fs::metadata(file.path()).expect("the file is there");
    let identity = format!("{}:{}", found.dev(), found.ino());
    let era = "INSERT INTO era (one, identity, nonce, frozen, token_base, ttl_max_ms, seq) \
               VALUES (1, ?1, 7, 0, 0, 30000, 5)";
    connection.execute(era, [identity]).expect("an era");
    let id = MemberId::generate();
    let profile = serde_json::to_string(&profile("one")).expect("a profile is JSON");
    let session = "INSERT INTO sessions (id, pool, ttl_ms, beat, ended, profile, changed) \
                   VALUES (?1, 'work', 30000, 3, 0, ?2, 4)";
    connection.execute(session, [id.as_str(), &profile]).expect("a session");
    let lease = "INSERT INTO leases (pool, resource, token, holder, ttl_ms, revoked, changed) \
                 VALUES ('work', 'a', 41, ?1, 30000, 0, 5)";
    connection.execute(lease, [id.as_str()]).expect("a lease");
    declare(&connection, "a", 3, 1, 2);
    id
}

fn described(version: u64) -> Declared {
    Declared {
        labels: [("floor".to_owned(), "2".to_owned())].into(),
        document: Some(serde_json::json!({"at": [0.1, 2]})),
        version: Version(version),
        ..Declared::new(resource("b"))
    }
}

#[tokio::test]
async fn a_file_of_the_first_version_is_upgraded_and_keeps_what_it_has() {
    let (file, work) = (File::new(), pool("work"));
    let holder = first_version(&file);
    let store = open(&file.path()).await;
    let read = store.leases(&work, Cursor::START).await.expect("the store answers");
    assert!(!read.era.frozen, "an upgrade forgets nothing");
    assert_eq!(read.era.nonce.0, 7);
    let held: Vec<_> = read.items.iter().map(|lease| (lease.holder.as_ref(), lease.token.0)).collect();
    assert_eq!(held, [(Some(&holder), 41)]);
    let requires = [("gpu".to_owned(), "yes".to_owned())].into();
    let a = Declared { weight: 3, requires, version: Version(1), ..Declared::new(resource("a")) };
    let seen = store.resources(&work, Cursor::START).await.expect("the store answers").items;
    assert_eq!(seen, std::slice::from_ref(&a));
    let set = store.declare(&work, &described(0)).await.expect("the store answers");
    assert_eq!(set, Marked::Set(Version(1)));
    let again = open(&file.path()).await;
    let seen = again.resources(&work, Cursor::START).await.expect("the store answers").items;
    assert_eq!(seen, [a, described(1)], "whoever opens it next finds nothing left to do");
}

#[tokio::test]
async fn the_first_version_goes_on_beside_a_newer_one() {
    let (file, work) = (File::new(), pool("work"));
    first_version(&file);
    // Its connection was there before the upgrade, and has the old statements prepared.
    let old = Connection::open(file.path()).expect("the file can be opened");
    declare(&old, "b", 1, 1, 6);
    let store = open(&file.path()).await;
    let set = store.declare(&work, &described(1)).await.expect("the store answers");
    assert_eq!(set, Marked::Set(Version(2)));
    let version: i32 = old.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number");
    assert_eq!(version, 1, "it would refuse another");
    let mut statement = old.prepare(RESOURCES).expect("the first version's statement is good");
    let read = statement.query_map([], |row| row.get::<_, String>(0)).expect("it reads");
    assert_eq!(read.collect::<Result<Vec<_>, _>>().expect("it reads"), ["a", "b"]);
    declare(&old, "b", 9, 3, 1000);
    let seen = store.resources(&work, Cursor::START).await.expect("the store answers").items;
    let requires = [("gpu".to_owned(), "yes".to_owned())].into();
    let b = Declared { weight: 9, requires, ..described(3) };
    assert_eq!(seen.last(), Some(&b), "what it does not know of stays");
}

#[tokio::test]
async fn an_older_file_that_is_put_in_the_place_of_an_upgraded_one_is_upgraded_too() {
    let (file, work) = (File::new(), pool("work"));
    first_version(&file);
    file.copy();
    let store = open(&file.path()).await;
    let mut one = Member::join(&store, "one").await;
    let _ = one.take("c").await;
    file.put_copy_back();
    let set = store.declare(&work, &described(0)).await.expect("the store answers");
    assert_eq!(set, Marked::Set(Version(1)));
    let seen = store.resources(&work, Cursor::START).await.expect("the store answers");
    assert!(seen.era.frozen, "it has forgotten something");
    assert_eq!(seen.items.last(), Some(&described(1)));
    assert_eq!(all_leases(&store, &work).await.len(), 1);
    // The same, by somebody who writes into the file.
    file.execute("ALTER TABLE resources DROP COLUMN document", []);
    file.execute("ALTER TABLE resources DROP COLUMN labels", []);
    file.execute("UPDATE era SET seq = 0", []);
    let seen_again = store.resources(&work, Cursor::START).await.expect("the store answers");
    assert_ne!(seen_again.era.nonce, seen.era.nonce, "it has forgotten something again");
    let set = store.declare(&work, &described(1)).await.expect("the store answers");
    assert_eq!(set, Marked::Set(Version(2)));
}
