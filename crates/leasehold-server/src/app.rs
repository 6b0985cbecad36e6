//! What all requests share.

use std::sync::Arc;

use leasehold::store::Store;

use crate::holders::Holders;
use crate::metrics::Metrics;
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
}

impl App {
    pub(crate) fn new(settings: Settings, store: Arc<dyn Store>, holders: Holders, metrics: Metrics) -> Self {
        Self(Arc::new(Shared { settings, store, holders, metrics }))
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
}
