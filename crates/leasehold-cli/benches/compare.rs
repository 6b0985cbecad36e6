//! Leasehold beside its peers, on private servers of this machine, in rounds in which everybody has a turn.
//!
//! `bench/run` starts this and writes down what it prints: JSON, a row for each thing that was measured, with one value for
//! each time. `--rounds`, `--seconds`, `--leases`, `--members`, `--resources` and `--turns` say how much. `--part rounds` is what
//! is measured in rounds, `--part once` what takes minutes and is measured once.

#[path = "compare/disk.rs"]
mod disk;
#[path = "../../leasehold-server/benches/throughput/etcd.rs"]
mod etcd;
#[path = "../../leasehold/benches/plan/facts.rs"]
mod facts;
#[path = "compare/keepalive.rs"]
mod keepalive;
#[path = "../../leasehold-server/benches/throughput/load.rs"]
mod load;
#[path = "compare/ours.rs"]
mod ours;
#[path = "../../leasehold-server/benches/throughput/pgbench.rs"]
mod pgbench;
#[path = "compare/plans.rs"]
mod plans;
#[path = "compare/redis.rs"]
mod redis;
#[path = "../../leasehold-server/benches/throughput/rest.rs"]
mod rest;
#[path = "compare/rows.rs"]
mod rows;

use std::time::Duration;

use leasehold_testkit::{Persistence, Redis, RedisSetup};

use self::ours::Bench;
use self::rows::Rows;

/// How many ask the peers at once.
const CONNECTIONS: usize = 50;
/// How many resources there are for the documented transaction to acquire.
const DOCUMENTED: usize = 500_000;

/// How many leases are held at once at most where calls are counted.
const CALLS_LEASES: usize = 50_000;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Size {
    rounds: usize,
    round: Duration,
    leases: usize,
    members: usize,
    resources: usize,
    turns: usize,
}

impl Size {
    fn asked() -> Self {
        let asked = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1);
        let number =
            |name: &str, usual: usize| asked(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
        Self {
            rounds: number("--rounds", 3),
            round: Duration::from_secs(number("--seconds", 5) as u64),
            leases: number("--leases", 1_000_000),
            members: number("--members", 100),
            resources: number("--resources", 100_000),
            turns: number("--turns", 200),
        }
    }
}

// As the binary has it, and the empty handler beside it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let size = Size::asked();
    let part = std::env::args().skip_while(|arg| arg != "--part").nth(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let mut rows = Rows::default();
    match part.as_deref() {
        Some("rounds") => rounds(&runtime, size, &mut rows),
        Some("once") => once(&runtime, size, &mut rows),
        other => panic!("--part {other:?} is neither rounds nor once"),
    }
    println!("{}", rows.json());
    std::process::exit(i32::from(rows.failed > 0));
}

fn rounds(runtime: &tokio::runtime::Runtime, size: Size, rows: &mut Rows) {
    for round in 1..=size.rounds {
        eprintln!("round {round} of {}", size.rounds);
        rows.add("disk", "fdatasync", "a second", disk::syncs(size.round));
        over_http(runtime, size, rows);
        calls(runtime, size, rows);
        moves(size, rows);
    }
}

/// Single acquires of a control plane on the embedded store, beside a handler that does nothing.
fn over_http(runtime: &tokio::runtime::Runtime, size: Size, rows: &mut Rows) {
    let (empty, leases) =
        runtime.block_on(async { (rest::echo(size.round).await, rest::leases(size.round).await) });
    rows.add("http", "empty handler", "a second", empty.per_second);
    rows.add("http", "leasehold, acquire and release", "a second", leases[0].per_second);
    rows.add("http", "leasehold, with six renewals in between", "a second", leases[1].per_second);
}

fn redis_server() -> Redis {
    Redis::start_with(RedisSetup { persistence: Persistence::EverySecond, ..RedisSetup::default() })
}

/// Calls on each store: the peer's way first, then ours, on the same server where both can be.
fn calls(runtime: &tokio::runtime::Runtime, size: Size, rows: &mut Rows) {
    let seconds = format!("{}s", size.round.as_secs());
    let leases = size.leases.min(CALLS_LEASES).to_string();
    let only = [
        "--only",
        "acquire,batch,contended,release",
        "--round",
        &seconds,
        "--leases",
        &leases,
        "--callers",
        "50",
    ];
    let file = tempfile::tempdir().expect("a directory");
    Bench::on_file(file.path()).run(&only, "sqlite", rows);

    let server = pgbench::server();
    server.sql("bench", &pgbench::table(DOCUMENTED));
    let script = format!("\\set id random(0, {})\n{}", DOCUMENTED - 1, pgbench::ACQUIRE);
    let rate = pgbench::rate(&server, &script, CONNECTIONS, size.round);
    rows.add("postgres", "documented transaction", "a second", rate);
    Bench::on(server.url("bench")).run(&only, "postgres", rows);
    drop(server);

    let server = redis_server();
    rows.add("redis", "SET NX PX", "a second", redis::set_nx_px(&server, CONNECTIONS, size.round));
    rows.add("redis", "renew script", "a second", redis::renew(&server, CONNECTIONS, size.round));
    Bench::on(server.url()).run(&only, "redis", rows);
    drop(server);

    rows.add("etcd", "grant and transaction", "a second", etcd::grants(runtime, CONNECTIONS, size.round));
    let server = etcd::server();
    rows.add("etcd", "keep-alive", "a second", keepalive::rate(runtime, &server, CONNECTIONS, size.round));
    Bench::on(server.url("leasehold")).run(&only, "etcd", rows);
}

/// How long work is without an owner, on each store.
fn moves(size: Size, rows: &mut Rows) {
    // A failover takes a TTL, a handoff milliseconds.
    let (handoffs, failovers) = (size.turns.to_string(), size.turns.div_ceil(5).to_string());
    each_store(|store, bench| {
        bench.run(&["--only", "handoff", "--turns", &handoffs], store, rows);
        bench.run(&["--only", "failover", "--turns", &failovers, "--ttl", "3s"], store, rows);
    });
}

/// What takes minutes, and is measured once.
fn once(runtime: &tokio::runtime::Runtime, size: Size, rows: &mut Rows) {
    plans::measure(size.leases, rows);
    let (members, resources, leases) =
        (size.members.to_string(), size.resources.to_string(), size.leases.to_string());
    let keep = ["--only", "keep", "--leases", &leases, "--members", &members, "--ttl", "30s"];
    each_store(|store, bench| bench.run(&keep, store, rows));
    let heartbeat = ["--only", "heartbeat", "--leases", &leases, "--round", "2s"];
    each_store(|store, bench| bench.run(&heartbeat, store, rows));
    let many =
        ["--only", "fan-out,cold-start", "--members", &members, "--resources", &resources, "--turns", "20"];
    each_store(|store, bench| bench.run(&many, store, rows));
    rows.add("redis", "redlock on 3 servers", "a second", redis::redlock(runtime, CONNECTIONS, size.round));
    let server = etcd::server();
    rows.add("etcd", "etcdctl lock", "ms", keepalive::etcdctl_lock_ms(&server));
}

fn each_store(mut measure: impl FnMut(&'static str, Bench)) {
    let file = tempfile::tempdir().expect("a directory");
    measure("sqlite", Bench::on_file(file.path()));
    let server = pgbench::server();
    measure("postgres", Bench::on(server.url("bench")).beside(server.process().id()));
    drop(server);
    let server = redis_server();
    measure("redis", Bench::on(server.url()).beside(server.process().id()));
    drop(server);
    let server = etcd::server();
    measure("etcd", Bench::on(server.url("leasehold")).beside(server.process().id()));
}
