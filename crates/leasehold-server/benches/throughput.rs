//! Requests a second at 64 connections, beside what bounds them and beside what others do, all on this machine in one run.
//!
//! `cargo bench -p leasehold-server --bench throughput`; `-- --seconds 10` for longer rounds. The ceiling is an axum handler
//! that parses and echoes the same JSON. The peers are the transaction of document 000 under `pgbench` and `LeaseGrant` with
//! `Txn` on one etcd, all of them waiting for their disks as Leasehold does.

#[path = "throughput/etcd.rs"]
mod etcd;
#[path = "throughput/load.rs"]
mod load;
#[path = "throughput/pgbench.rs"]
mod pgbench;
#[path = "throughput/rest.rs"]
mod rest;

use std::time::Duration;

use self::rest::{CONNECTIONS, echo, leases};

/// What gives a resource back in document 000.
const RELEASE: &str = "UPDATE scene_leases SET holder_id = NULL, expires_at = NULL \
                       WHERE scene_id = 'scene-' || :id AND holder_id = 'tracker';
";

// As the binary has it, and the empty handler beside it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let seconds =
        std::env::args().skip_while(|arg| arg != "--seconds").nth(1).and_then(|text| text.parse().ok());
    let round = Duration::from_secs(seconds.unwrap_or(5));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let figures = runtime.block_on(async {
        let mut figures = vec![echo(round).await];
        figures.extend(leases(round).await);
        figures
    });
    let ceiling = figures[0].per_second;
    println!("{:<44} {:>10} {:>8} {:>8}   of the ceiling", "", "requests/s", "p50 ms", "p99 ms");
    for figure in &figures {
        println!("{figure}   {:>5.2}", figure.per_second / ceiling);
    }
    let acquired = figures[1].per_second;
    let peers = [
        // One run of the script acquires and releases: two requests.
        ("PostgreSQL, document 000 under pgbench", in_turn(round) * 2.0),
        ("etcd, LeaseGrant and Txn", etcd::grants(&runtime, CONNECTIONS, round)),
    ];
    for (name, per_second) in peers {
        println!(
            "{name:<44} {per_second:>10.0}{:>20} leasehold acquires and releases {:.1} times as fast",
            "",
            acquired / per_second
        );
    }
}

/// How often a second somebody acquires and releases under `pgbench`, each one resource of its own.
fn in_turn(round: Duration) -> f64 {
    let server = pgbench::server();
    server.sql("bench", &pgbench::table(CONNECTIONS));
    let script = format!("\\set id :client_id\n{}{RELEASE}", pgbench::ACQUIRE);
    pgbench::rate(&server, &script, CONNECTIONS, round)
}
