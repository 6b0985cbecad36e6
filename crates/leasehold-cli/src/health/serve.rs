//! Connections, and their limits.
//!
//! Invariant: whatever a client sends or leaves out, its connection is over within [`CONNECTION_MAX`] and [`REQUEST_MAX`], and
//! there are never more than [`CONNECTIONS_MAX`] of them. Further ones wait until one has ended.

use std::io;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How many connections are answered at once.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// How long the head of a request may take, and a connection may be idle.
const HEAD_WAIT: Duration = Duration::from_secs(5);
/// How many bytes the head of a request may have; the least that hyper can be told.
const HEAD_MAX: usize = 8192;
/// How many headers a request may have.
const HEADERS_MAX: usize = 64;
/// How long an answer may take.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(15);
/// How long a connection is used for further requests.
const CONNECTION_MAX: Duration = Duration::from_secs(60);
/// How long answers may still take when the server ends.
const STOP_MAX: Duration = Duration::from_secs(3);
/// How long is waited when a connection cannot be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// A server that answers. Dropping it ends it, in order.
#[derive(Debug)]
#[must_use]
pub(crate) struct Serving {
    stop: watch::Sender<()>,
    accepting: JoinHandle<()>,
}

impl Serving {
    /// Ends the server and waits until the last answer is given and nothing of the report is in use.
    pub(crate) async fn finish(self) {
        drop(self.stop);
        let _ = self.accepting.await;
    }
}

pub(super) fn serve(listener: TcpListener, routes: Router) -> Serving {
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "health is told at http://{address}/health");
    }
    let (stop, stopped) = watch::channel(());
    Serving { stop, accepting: tokio::spawn(accept(listener, routes, stopped)) }
}

async fn accept(listener: TcpListener, routes: Router, mut stopped: watch::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = stopped.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(talk(stream, routes.clone(), stopped.clone()));
                }
                Err(error) => pause(&error).await,
            }
        }
    }
    drop(listener);
    let last = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_MAX, last).await.is_err() {
        connections.shutdown().await;
    }
}

/// Too many open files pass, and a connection that ended before it was taken is nothing.
async fn pause(error: &io::Error) {
    tracing::warn!(%error, "a connection to the health server cannot be taken");
    tokio::time::sleep(PAUSE).await;
}

async fn talk(stream: TcpStream, routes: Router, mut stopped: watch::Receiver<()>) {
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_MAX);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.changed() => {}
        () = tokio::time::sleep(CONNECTION_MAX) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(REQUEST_MAX, connection).await;
}
