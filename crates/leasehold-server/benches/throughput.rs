//! Requests a second at 64 connections, beside what bounds them and beside what others do, all on this machine in one run.
//!
//! `cargo bench -p leasehold-server --bench throughput`; `-- --seconds 10` for longer rounds. The ceiling is an axum handler
//! that parses and echoes the same JSON. The peers are the transaction of document 000 under `pgbench` and `LeaseGrant` with
//! `Txn` on one etcd, all of them waiting for their disks as Leasehold does.

#[path = "throughput/load.rs"]
mod load;
#[path = "throughput/peers.rs"]
mod peers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use leasehold::store::{self, Declared, StoreUrl};
use leasehold_server::Settings;
use serde::{Deserialize, Serialize};

use self::load::{Figure, Request, run};

const CONNECTIONS: usize = 64;

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    holder_id: String,
}

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
    let peers = [peers::pgbench(CONNECTIONS, round), peers::etcd(&runtime, CONNECTIONS, round)];
    for (name, per_second) in peers.into_iter().flatten() {
        println!(
            "{name:<44} {per_second:>10.0}{:>20} leasehold acquires and releases {:.1} times as fast",
            "",
            acquired / per_second
        );
    }
}

/// What a server can do at most that only parses and echoes.
async fn echo(round: Duration) -> Figure {
    let router = Router::new()
        .route("/api/v1/scenes/{scene}/lease", post(async |Json(asked): Json<Asked>| Json(asked)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    let ask = |connection: usize, _: usize| {
        Request::post(&format!("/api/v1/scenes/{connection}/lease"), "tracker-0")
    };
    run("an empty handler that parses and echoes", address, CONNECTIONS, round, ask).await
}

/// What the control plane does on the embedded store.
async fn leases(round: Duration) -> Vec<Figure> {
    let directory = tempfile::tempdir().expect("a directory");
    let url = StoreUrl::Sqlite(directory.path().join("work.db"));
    let store = store::open(&url).await.expect("a store");
    let pool = "scenes".parse().expect("a pool");
    for scene in 0..CONNECTIONS {
        let declared = Declared::new(format!("scene-{scene}").parse().expect("an id"));
        let _ = store.declare(&pool, &declared).await.expect("declared");
    }
    let at: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let running =
        leasehold_server::start(Settings::at(at), Arc::clone(&store)).await.expect("a control plane");
    let lease = |connection: usize| format!("/api/v1/scenes/scene-{connection}/lease");
    let holder = |connection: usize| format!("tracker-{connection}");
    let in_turn = move |connection: usize, turn: usize| match turn % 2 {
        0 => Request::post(&lease(connection), &holder(connection)).expect(201),
        _ => Request::delete(&lease(connection), &holder(connection)).expect(204),
    };
    let both =
        run("leases acquired and released, durable", running.address(), CONNECTIONS, round, in_turn).await;
    let life = move |connection: usize, turn: usize| match turn % 8 {
        0 => Request::post(&lease(connection), &holder(connection)).expect(201),
        7 => Request::delete(&lease(connection), &holder(connection)).expect(204),
        _ => Request::post(&format!("{}/renew", lease(connection)), &holder(connection)).expect(200),
    };
    // Whoever the first round left with a lease gives it back.
    for connection in 0..CONNECTIONS {
        load::once(running.address(), &Request::delete(&lease(connection), &holder(connection))).await;
    }
    let mixed =
        run("the same with six renewals in between", running.address(), CONNECTIONS, round, life).await;
    running.stop().await;
    vec![both, mixed]
}
