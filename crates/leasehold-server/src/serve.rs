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
use tokio::task::{AbortHandle, JoinHandle};
use tower_http::normalize_path::NormalizePath;

use crate::access::{Access, is_loopback};
use crate::app::App;
use crate::cameras::sweep::sweep;
use crate::door::Door;
use crate::events::Relays;
use crate::events::settings::EventsError;
use crate::holders::Holders;
use crate::metrics::Metrics;
use crate::routes;
use crate::settings::{Limits, Settings};
use crate::shortcut::Served;
use crate::tls::{Tls, TlsError};

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
    /// The files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Others than this machine can reach the address, and anybody could come or listen.
    #[error("others can reach {address}, so it is not served without {}", missing(*.keys, *.tls))]
    Exposed {
        /// Which.
        address: SocketAddr,
        /// Whether there is no key.
        keys: bool,
        /// Whether there is no certificate.
        tls: bool,
    },
}

fn missing(keys: bool, tls: bool) -> &'static str {
    match (keys, tls) {
        (true, true) => "keys and TLS",
        (true, false) => "keys",
        _ => "TLS",
    }
}

/// A control plane at work. Dropping it ends it without waiting for anybody.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    handle: Handle<SocketAddr>,
    serving: JoinHandle<io::Result<()>>,
    tls: Option<(Tls, AbortHandle)>,
    app: App,
    relays: Option<Relays>,
    sweeping: AbortHandle,
}

/// Starts a control plane on a store.
///
/// # Errors
/// The address, the store, the certificate or what is configured for events cannot be used, or others could reach it and
/// there are no keys.
pub async fn start(settings: Settings, store: Arc<dyn Store>) -> Result<Running, StartError> {
    let address = settings.listen;
    let limits = settings.limits;
    let unusable = |source| StartError::Address { address, source };
    let tls = settings.tls.map(Tls::start).transpose()?;
    let access = Access::start(Arc::clone(&store), address.ip(), &limits, tls.is_some()).await?;
    let (keys, plain) = (!access.any_key(), tls.is_none());
    if !is_loopback(address.ip()) && (keys || plain) {
        return Err(StartError::Exposed { address, keys, tls: plain });
    }
    let listener = TcpListener::bind(address).map_err(unusable)?;
    listener.set_nonblocking(true).map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    let metrics = Metrics::start();
    let holders = Holders::start(Arc::clone(&store), settings.name, limits, settings.outage_grace).await?;
    let relays = Some(Relays::start(Arc::clone(&store), &settings.events).await?);
    let app = App::new(limits, store, holders, metrics, access);
    if app.access().is_open() {
        tracing::warn!(
            "there are no keys: any program on this machine may do anything, without limits; `leasehold keys create` makes \
             the first one, and from then on one is asked for"
        );
    }
    let handle = Handle::new();
    let allowed = app.clone();
    let door = Door::new(Arc::new(move || allowed.limits()), tls.as_ref().map(Tls::config));
    let mut server = axum_server::from_tcp(listener).map_err(unusable)?.acceptor(door).handle(handle.clone());
    let http = server.http_builder();
    http.http1().timer(TokioTimer::new()).header_read_timeout(limits.head);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .keep_alive_interval(Duration::from_secs(20));
    // Both `/scenes` and `/scenes/` are understood.
    let router = NormalizePath::trim_trailing_slash(routes::router(app.clone()));
    let served = ServiceExt::<Request>::into_make_service(Served::new(app.clone(), router));
    tokio::spawn(crate::levels::measure(app.clone()));
    let serving = tokio::spawn(server.serve(served));
    let tls = tls.map(|tls| (tls.clone(), tokio::spawn(tls.watch()).abort_handle()));
    let sweeping = tokio::spawn(sweep(app.clone())).abort_handle();
    Ok(Running { address, handle, serving, tls, app, relays, sweeping })
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether no key is asked for at present.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.app.access().is_open()
    }

    /// Other limits from now on. Those of time, and of calls of the store, stay as they were at the start.
    pub fn set_limits(&self, limits: Limits) {
        let now = self.app.limits();
        let Limits { head, upload, call, drain, keys, .. } = now;
        self.app.set_limits(Limits { head, upload, call, drain, keys, ..limits });
    }

    /// Reads the certificate and the keys again. A certificate that cannot be used changes nothing.
    pub async fn reload(&self) {
        if let Some((tls, _)) = &self.tls {
            tls.reload();
        }
        self.app.access().look().await;
    }

    /// Stops it: takes no more requests, finishes those that are under way, writes the last rows of the ledger.
    pub async fn stop(mut self) {
        self.app.stop();
        self.handle.graceful_shutdown(Some(self.app.limits().drain));
        let _ = (&mut self.serving).await;
        self.sweeping.abort();
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
        self.sweeping.abort();
        if let Some((_, watching)) = &self.tls {
            watching.abort();
        }
    }
}
