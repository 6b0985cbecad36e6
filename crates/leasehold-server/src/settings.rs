//! How a control plane is set up.

use std::net::SocketAddr;
use std::time::Duration;

use crate::events::settings::EventsSettings;

/// How a control plane is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The name of this replica in the ledger, the same after a restart.
    pub name: leasehold::MemberName,
    /// What nothing may exceed.
    pub limits: Limits,
    /// Where events go.
    pub events: EventsSettings,
}

impl Settings {
    /// The defaults, listening at that address.
    #[must_use]
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            name: leasehold::MemberName::of_host(),
            limits: Limits::default(),
            events: EventsSettings::default(),
        }
    }
}

/// What nothing may exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest body of a request, in bytes.
    pub body: usize,
    /// The largest document of a resource, in bytes of JSON.
    pub document: usize,
    /// The most resources one answer lists.
    pub page: usize,
    /// How long the head of a request may take to arrive.
    pub head: Duration,
    /// How long the body of a request may take to arrive.
    pub upload: Duration,
    /// How long one call of the store may take, so that an answer comes while it is still worth something.
    pub call: Duration,
    /// How long requests that are under way may take to end when the server stops.
    pub drain: Duration,
    /// The most streams of events that are open at once.
    pub streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 1024 * 1024,
            document: 64 * 1024,
            page: 1000,
            head: Duration::from_secs(10),
            upload: Duration::from_secs(10),
            call: Duration::from_millis(2500),
            drain: Duration::from_secs(5),
            streams: 1000,
        }
    }
}
