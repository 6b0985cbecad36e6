//! The server's life: from an address to the last answer.
//!
//! Invariant: what was answered is in the store. When it stops, requests that are under way are finished, streams are ended,
//! the last rows of the ledger are written, and another replica goes on
//! relaying events.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::ServiceExt;
use axum::extract::Request;
use axum_server::Handle;
use hyper_util::rt::TokioTimer;
use leasehold::store::{Store, StoreError};
use tokio::task::JoinHandle;
use tower_http::normalize_path::NormalizePath;

use crate::app::App;
use crate::events::Relays;
use crate::events::settings::EventsError;
use crate::holders::Holders;
use crate::metrics::Metrics;
use crate::routes;
use crate::settings::Settings;

/// A control plane cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be used.
    #[error("cannot listen at {address}: {source}; is something else running there?")]
    Address {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The store cannot be used.
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// Events cannot be relayed as it is configured.
    #[error(transparent)]
    Events(#[from] EventsError),
}

/// A control plane at work. Dropping it ends it without waiting for anybody.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    handle: Handle<SocketAddr>,
    serving: JoinHandle<io::Result<()>>,
    app: App,
    relays: Option<Relays>,
    drain: Duration,
}

/// Starts a control plane on a store.
///
/// # Errors
/// The address, the store or what is configured for events cannot be used.
pub async fn start(settings: Settings, store: Arc<dyn Store>) -> Result<Running, StartError> {
    let address = settings.listen;
    let unusable = |source| StartError::Address { address, source };
    let listener = TcpListener::bind(address).map_err(unusable)?;
    listener.set_nonblocking(true).map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    let (limits, metrics) = (settings.limits, Metrics::start());
    let holders = Holders::start(Arc::clone(&store), settings.name.clone(), limits).await?;
    let relays = Some(Relays::start(Arc::clone(&store), &settings.events).await?);
    let app = App::new(settings, store, holders, metrics);
    let handle = Handle::new();
    let mut server = axum_server::from_tcp(listener).map_err(unusable)?.handle(handle.clone());
    let http = server.http_builder();
    http.http1().timer(TokioTimer::new()).header_read_timeout(limits.head);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .keep_alive_interval(Duration::from_secs(20));
    // Both `/scenes` and `/scenes/` are understood.
    let service = NormalizePath::trim_trailing_slash(routes::router(app.clone()));
    let service = ServiceExt::<Request>::into_make_service_with_connect_info::<SocketAddr>(service);
    let serving = tokio::spawn(server.serve(service));
    Ok(Running { address, handle, serving, app, relays, drain: limits.drain })
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it: takes no more requests, finishes those that are under way, writes the last rows of the ledger.
    pub async fn stop(mut self) {
        self.app.stop();
        self.handle.graceful_shutdown(Some(self.drain));
        let _ = (&mut self.serving).await;
        self.app.holders().stop().await;
        if let Some(relays) = self.relays.take() {
            relays.stop().await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.app.stop();
        self.handle.shutdown();
        self.app.holders().abandon();
    }
}
