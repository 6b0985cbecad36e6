//! The control plane on the embedded store, beside an empty handler.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use leasehold::store::{self, Declared, StoreUrl};
use leasehold_server::Settings;
use serde::{Deserialize, Serialize};

use super::load::{self, Figure, Request, run};

/// How many ask at once.
pub(crate) const CONNECTIONS: usize = 64;

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    holder_id: String,
}

/// What a server can do at most that only parses and echoes.
pub(crate) async fn echo(round: Duration) -> Figure {
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
pub(crate) async fn leases(round: Duration) -> Vec<Figure> {
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
