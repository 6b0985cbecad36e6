//! What all requests share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::http::StatusCode;
use leasehold::Pool;
use leasehold::store::Store;
use tokio::sync::watch;

use crate::access::{Access, Identity};
use crate::board::Boards;
use crate::cameras::acquire::Claims;
use crate::cameras::offers::Offers;
use crate::holders::{Desk, Holders};
use crate::limits::{Rates, StreamPermit, Streams};
use crate::metrics::Metrics;
use crate::native::Sessions;
use crate::problem::{Answer, Problem};
use crate::settings::Limits;

/// What all requests share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: RwLock<Limits>,
    store: Arc<dyn Store>,
    holders: Holders,
    metrics: Metrics,
    access: Access,
    rates: Rates,
    streams: Streams,
    sessions: Sessions,
    boards: Boards,
    claims: Claims,
    offers: Mutex<HashMap<Pool, Offers>>,
    stopping: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(
        limits: Limits,
        store: Arc<dyn Store>,
        holders: Holders,
        metrics: Metrics,
        access: Access,
    ) -> Self {
        Self(Arc::new(Shared {
            rates: Rates::new(&limits),
            limits: RwLock::new(limits),
            store,
            holders,
            metrics,
            access,
            streams: Streams::default(),
            sessions: Sessions::default(),
            boards: Boards::default(),
            claims: Claims::default(),
            offers: Mutex::default(),
            stopping: watch::Sender::new(false),
        }))
    }

    /// What nothing may exceed.
    pub(crate) fn limits(&self) -> Limits {
        *self.0.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other limits from now on.
    pub(crate) fn set_limits(&self, limits: Limits) {
        *self.0.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
        self.0.rates.set(&limits);
    }

    /// What is agreed upon.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// The leases of those who have no member.
    pub(crate) fn holders(&self) -> &Holders {
        &self.0.holders
    }

    /// The desk of a pool, made if there is none.
    pub(crate) fn desk(&self, pool: &Pool) -> Answer<Arc<Desk>> {
        self.holders().desk(pool).ok_or_else(|| {
            let said = "there are too many pools; remove some, or ask the operator of this control plane";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_pools", said)
        })
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Who may come in.
    pub(crate) fn access(&self) -> &Access {
        &self.0.access
    }

    /// How often each key may ask.
    pub(crate) fn rates(&self) -> &Rates {
        &self.0.rates
    }

    /// The streams that are open.
    pub(crate) fn streams(&self) -> &Streams {
        &self.0.streams
    }

    /// The right to keep a stream open, for as long as what is answered lives.
    pub(crate) fn stream_permit(&self, identity: &Identity) -> Answer<StreamPermit> {
        StreamPermit::take(self, identity)
    }

    /// Which pools members' sessions are in.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// The pools that somebody watches.
    pub(crate) fn boards(&self) -> &Boards {
        &self.0.boards
    }

    /// Acquisitions of cameras that are under way.
    pub(crate) fn claims(&self) -> &Claims {
        &self.0.claims
    }

    /// What runners are offered of the cameras in a pool.
    pub(crate) fn offers<T>(&self, pool: &Pool, with: impl FnOnce(&mut Offers) -> T) -> T {
        let mut offers = self.0.offers.lock().unwrap_or_else(PoisonError::into_inner);
        with(offers.entry(pool.clone()).or_default())
    }

    /// Ends every stream.
    pub(crate) fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// When streams must end.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.0.stopping.subscribe();
        async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }
}
