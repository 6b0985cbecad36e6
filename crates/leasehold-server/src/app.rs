//! What all requests share.

use std::sync::Arc;

use leasehold::store::Store;
use tokio::sync::watch;

use crate::holders::Holders;
use crate::metrics::Metrics;
use crate::native::Sessions;
use crate::settings::{Limits, Settings};

/// What all requests share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Settings,
    store: Arc<dyn Store>,
    holders: Holders,
    metrics: Metrics,
    sessions: Sessions,
    stopping: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(settings: Settings, store: Arc<dyn Store>, holders: Holders, metrics: Metrics) -> Self {
        let (sessions, stopping) = (Sessions::default(), watch::Sender::new(false));
        Self(Arc::new(Shared { settings, store, holders, metrics, sessions, stopping }))
    }

    /// What nothing may exceed.
    pub(crate) fn limits(&self) -> Limits {
        self.0.settings.limits
    }

    /// What is agreed upon.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// The leases of those who have no member.
    pub(crate) fn holders(&self) -> &Holders {
        &self.0.holders
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Which pools members' sessions are in.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
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
