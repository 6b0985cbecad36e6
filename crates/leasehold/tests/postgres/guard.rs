//! What a leader writes to the database of the leases can depend on its term.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Election;
use leasehold::election::{Candidate, Key};
use leasehold::store::Guard;
use leasehold_testkit::Postgres;

use super::postgres_server::open;
use super::{prepared, url};

async fn candidate(server: &Postgres, name: &str) -> Candidate {
    let key = Key::new("/ccm/scheduler/leader").expect("a good key");
    let election = Election::new(open(&url(server)).await, key).ttl(Duration::from_secs(3));
    election.name(name).expect("a good name").start().await.expect("it can start")
}

/// A statement that writes a row if the guard holds.
fn insert(row: u32, guard: &Guard, also: &str) -> String {
    let Guard::Sql { condition } = guard else { panic!("{guard:?} is for another store") };
    format!("INSERT INTO written SELECT {row} WHERE {condition} {also}")
}

fn written(server: &Postgres) -> Vec<String> {
    server
        .sql("work", "SELECT n FROM written ORDER BY n")
        .lines()
        .map(|line| line.trim().to_owned())
        .collect()
}

// proves C39
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leads_no_more_cannot_write_and_nobody_leads_before_what_was_begun_is_written() {
    let server = Arc::new(prepared(&[]).await);
    server.sql("work", "CREATE TABLE written (n int)");
    let one = candidate(&server, "one").await;
    let first = one.campaign().await;
    let old = first.guard().expect("PostgreSQL has guards");
    server.sql("work", &insert(1, &old, ""));

    let slow = insert(2, &old, "AND pg_sleep(2) IS NOT NULL");
    let writing = tokio::task::spawn_blocking({
        let server = Arc::clone(&server);
        move || server.sql("work", &slow)
    });
    let sleeping = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    while server.sql("work", sleeping).trim().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(first);
    let two = candidate(&server, "two").await;
    let second = two.campaign().await;
    assert_eq!(written(&server), ["1", "2"], "what was begun in time is there before another leads");
    writing.await.expect("the writer writes");

    server.sql("work", &insert(3, &old, ""));
    server.sql("work", &insert(4, &second.guard().expect("PostgreSQL has guards"), ""));
    assert_eq!(written(&server), ["1", "2", "4"], "the old guard holds no more");
}
