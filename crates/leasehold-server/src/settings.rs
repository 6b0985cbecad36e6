//! How a control plane is set up.

use std::net::SocketAddr;
use std::path::PathBuf;
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
    /// The certificate it shows; without one it serves plain HTTP.
    pub tls: Option<TlsSettings>,
    /// Where events go.
    pub events: EventsSettings,
    /// For how long from the beginning of an absence of the control plane on leases of cameras are kept whose holders are not
    /// heard; zero if runners stop when what they were granted has run out.
    pub outage_grace: Duration,
}

/// The grace of document 004.
const OUTAGE_GRACE: Duration = Duration::from_secs(300);

impl Settings {
    /// The defaults, listening at that address.
    #[must_use]
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            name: leasehold::MemberName::of_host(),
            limits: Limits::default(),
            tls: None,
            events: EventsSettings::default(),
            outage_grace: OUTAGE_GRACE,
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
    /// The most of them with one API key.
    pub streams_per_key: usize,
    /// The most connections that are open at once; further ones are closed.
    pub connections: usize,
    /// How old what is known of the keys may be while the store does not answer. Within it a key that was revoked may
    /// still be taken; beyond it none is.
    pub keys: Duration,
    /// How long somebody who logged in on the page stays so.
    pub session: Duration,
    /// How many requests each API key may send in a second. Where no key is asked for there is no limit.
    pub rate: u32,
    /// How many it may send at once after a while without any.
    pub burst: u32,
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
            streams_per_key: 250,
            connections: 10_000,
            keys: Duration::from_secs(30),
            session: crate::keys::session::LASTS,
            rate: 2000,
            burst: 4000,
        }
    }
}

/// The files of TLS, all in PEM. They are looked at every few seconds, and used anew when they have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate, and those between it and its authority.
    pub cert: PathBuf,
    /// Its private key. A file that everybody on the machine can read is refused.
    pub key: PathBuf,
    /// Certificates of clients, if they are looked at.
    pub clients: Option<ClientCertificates>,
}

/// Which certificates of clients are good. One takes no API key's place: it is asked for as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The authorities that must have signed them.
    pub ca: PathBuf,
    /// Whether a client may come without one.
    pub optional: bool,
}
