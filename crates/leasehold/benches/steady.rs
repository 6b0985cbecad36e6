//! What it costs to keep many leases alive: processor time of the member and of the server, in steady state.
//!
//! `cargo bench -p leasehold --bench steady [-- COUNT]`. The ceiling is one core.

use std::sync::Arc;
use std::time::Duration;

use leasehold::participant::Running;
use leasehold::store::{Begin, Store, StoreUrl, migrate, open};
use leasehold::{Participant, Pool, clock};
use leasehold_testkit::{Etcd, Persistence, Postgres, Redis, RedisSetup};

const TTL: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_secs(30);
const COUNT: usize = 60_000;

async fn member(store: Arc<dyn Store>, count: usize) -> Running {
    Participant::join(store, Pool::new("many").expect("an id"))
        .ttl(TTL)
        .resources((0..count).map(|number| format!("r{number}")))
        .expect("ids")
        .start(|lease| async move {
            lease.lost().await;
        })
        .await
        .expect("a member")
}

/// Processor time that a process and its descendants have used.
fn used_by(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    // In user and in kernel mode, in hundredths of a second.
    let ticks: u64 =
        fields.get(11..13).unwrap_or_default().iter().filter_map(|f| f.parse::<u64>().ok()).sum();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let of_children: Duration = children.split_whitespace().filter_map(|c| c.parse().ok()).map(used_by).sum();
    Duration::from_millis(ticks * 10) + of_children
}

/// Measures one store; `server` is its process, if it has one.
async fn measure(name: &str, url: &str, server: Option<u32>, count: usize) {
    let url: StoreUrl = url.parse().expect("a store's URL");
    migrate(&url, Begin::Live).await.expect("a store");
    let store = open(&url).await.expect("a store");
    let begun = clock::now();
    let member = member(store, count).await;
    let mut status = member.status();
    status.wait_for(|status| status.held.len() == count).await.expect("a member");
    let taken = clock::now().since(begun);
    // What taking them has left to do is done by then.
    tokio::time::sleep(TTL).await;
    let me = std::process::id();
    // The servers are our own children, and are counted on their own side.
    let used = || (used_by(me).saturating_sub(server.map_or(Duration::ZERO, used_by)), server.map(used_by));
    let (mine, its) = used();
    tokio::time::sleep(MEASURED).await;
    let (mine_after, its_after) = used();
    assert_eq!(member.status().borrow().held.len(), count, "none was lost");
    let percent = |used: Duration| 100.0 * used.as_secs_f64() / MEASURED.as_secs_f64();
    let of_member = percent(mine_after.saturating_sub(mine));
    let of_server = percent(its_after.unwrap_or_default().saturating_sub(its.unwrap_or_default()));
    println!(
        "{name:<10} {count} leases taken in {taken:.1?}; kept alive with a TTL of {TTL:?}: member {of_member:.1} %, server {of_server:.1} %, together {:.1} % of one core",
        of_member + of_server
    );
    member.leave().await;
}

#[tokio::main]
async fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(COUNT);
    let directory = tempfile::tempdir().expect("a directory");
    let file = format!("sqlite:{}", directory.path().join("work.db").display());
    measure("sqlite", &file, None, count).await;
    let server =
        Redis::start_with(RedisSetup { persistence: Persistence::EverySecond, ..RedisSetup::default() });
    measure("redis", &server.url(), Some(server.process().id()), count).await;
    drop(server);
    let server = Postgres::start_with(&[]);
    server.create("work");
    measure("postgres", &server.url("work"), Some(server.process().id()), count).await;
    drop(server);
    let server = Etcd::start();
    measure("etcd", &server.url("leasehold"), Some(server.process().id()), count).await;
}
