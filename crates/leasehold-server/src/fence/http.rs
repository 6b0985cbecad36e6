//! A fence in front of an HTTP service: a small gateway that lets through what the current holder sends.
//!
//! A request says by the headers `Leasehold-Resource` and `Leasehold-Token` under which term it is made. What only looks (`GET`, `HEAD`,
//! `OPTIONS`) needs none, unless it is asked for. Bodies are streamed in both directions and never kept.
//!
//! What is judged is the moment at which a request begins. Its [`whole`](HttpLimits::whole) time is limited, so that none goes on for long
//! after its term.

mod forward;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum_server::Handle;
use hyper_util::rt::TokioTimer;
use leasehold::ResourceId;
use leasehold::fence::{Admission, Gate, Offered, Refusal};
use tokio::task::JoinHandle;
use url::Url;

use self::forward::Forward;
use super::tally::{Flaw, Tally};
use crate::access::is_loopback;
use crate::door::Door;
use crate::problem::Problem;
use crate::request;
use crate::serve::StartError;
use crate::settings::{Limits, TlsSettings};
use crate::tls::Tls;

const RESOURCE: HeaderName = HeaderName::from_static("leasehold-resource");
const TOKEN: HeaderName = HeaderName::from_static("leasehold-token");

/// How a gateway is set up.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The certificate it shows; without one it speaks plain HTTP, and only to this machine.
    pub tls: Option<TlsSettings>,
    /// The service behind it: `http(s)://host:port`, and a path that is put before those of requests.
    pub service: Url,
    /// A file with certificates to trust besides the system's.
    pub service_ca: Option<std::path::PathBuf>,
    /// Whether requests that only look need a token too.
    pub guard_reads: bool,
    /// What nothing may exceed.
    pub limits: HttpLimits,
}

/// What nothing may exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// The largest body of a request, in bytes.
    pub body: u64,
    /// How long a request may take, from its head to the head of its answer.
    pub whole: Duration,
    /// How long the service may be silent within an answer.
    pub silence: Duration,
    /// The most connections at once.
    pub connections: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body: 64 << 20,
            whole: Duration::from_secs(15),
            silence: Duration::from_secs(30),
            connections: 1000,
        }
    }
}

/// A gateway at work. Dropping it ends it without waiting for anybody.
#[derive(Debug)]
pub struct HttpFence {
    address: SocketAddr,
    handle: Handle<SocketAddr>,
    serving: JoinHandle<io::Result<()>>,
    tally: Arc<Tally>,
}

struct Shared {
    gate: Arc<Gate>,
    tally: Arc<Tally>,
    forward: Forward,
    guard_reads: bool,
}

impl HttpFence {
    /// Starts a gateway that judges by the gate.
    ///
    /// # Errors
    /// The address, the certificate or the service's address cannot be used.
    pub fn start(settings: HttpSettings, gate: Arc<Gate>) -> Result<Self, StartError> {
        let address = settings.listen;
        let unusable = |source| StartError::Address { address, source };
        let tls = settings.tls.clone().map(Tls::start).transpose()?;
        if !is_loopback(address.ip()) && tls.is_none() {
            return Err(StartError::Exposed { address, keys: false, tls: true });
        }
        let forward = Forward::new(&settings)?;
        let listener = TcpListener::bind(address).map_err(unusable)?;
        listener.set_nonblocking(true).map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        let (handle, tally) = (Handle::new(), Arc::new(Tally::default()));
        let limits = Limits { connections: settings.limits.connections, ..Limits::default() };
        let door = Door::new(Arc::new(move || limits), tls.as_ref().map(Tls::config));
        let mut server =
            axum_server::from_tcp(listener).map_err(unusable)?.acceptor(door).handle(handle.clone());
        let http = server.http_builder();
        http.http1().timer(TokioTimer::new()).header_read_timeout(limits.head);
        http.http2().timer(TokioTimer::new()).max_concurrent_streams(256);
        let shared = Shared { gate, tally: Arc::clone(&tally), forward, guard_reads: settings.guard_reads };
        let routes = axum::Router::new()
            .fallback(pass)
            .layer(middleware::from_fn(request::finish))
            .with_state(Arc::new(shared));
        let serving = tokio::spawn(server.serve(routes.into_make_service()));
        tally.connect();
        Ok(Self { address, handle, serving, tally })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it stands.
    #[must_use]
    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    /// Takes no more requests, and finishes those that are under way.
    pub async fn stop(mut self) {
        self.handle.graceful_shutdown(Some(Limits::default().drain));
        let _ = (&mut self.serving).await;
    }
}

impl Drop for HttpFence {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let headers = request.headers();
    let only_looks = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    let says_nothing = !headers.contains_key(RESOURCE) && !headers.contains_key(TOKEN);
    if !(only_looks && says_nothing && !shared.guard_reads)
        && let Err(refused) = judge(&shared, headers).await
    {
        return refused;
    }
    match shared.forward.send(request).await {
        Ok(answer) => {
            shared.tally.deliver();
            answer
        }
        Err(problem) => problem.into_response(),
    }
}

/// Judges a request by its headers.
async fn judge(shared: &Shared, headers: &HeaderMap) -> Result<(), Response> {
    let resource = one(headers, &RESOURCE).and_then(|id| ResourceId::new(id.to_str().ok()?).ok());
    let Some(resource) = resource else {
        shared.tally.refuse(Flaw::NoResource);
        let said = "the header Leasehold-Resource has to name the resource that is written to, once";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "no_resource", said).into_response());
    };
    let offered = match (headers.contains_key(TOKEN), one(headers, &TOKEN)) {
        (false, _) => Offered::Missing,
        (true, token) => token
            .and_then(|token| token.to_str().ok()?.parse().ok())
            .map_or(Offered::Malformed, Offered::Token),
    };
    match shared.gate.admit(&resource, offered).await {
        Admission::Admitted => Ok(()),
        Admission::Refused(refusal) => Err(refused(&resource, refusal)),
    }
}

/// A header that is there once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn refused(resource: &ResourceId, refusal: Refusal) -> Response {
    let (status, advice) = match refusal {
        Refusal::Stale { .. } => (StatusCode::PRECONDITION_FAILED, "stop working on it"),
        Refusal::Future { .. } => (StatusCode::PRECONDITION_FAILED, "send the token of the lease"),
        Refusal::Unversioned => (StatusCode::PRECONDITION_REQUIRED, "send the lease's as Leasehold-Token"),
        Refusal::Malformed => (StatusCode::BAD_REQUEST, "Leasehold-Token is a whole number"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "try again in a moment"),
    };
    tracing::debug!(%resource, "a request is refused: {refusal}");
    let said = format!("what is written to {resource} is refused: {refusal}; {advice}");
    let problem = Problem::new(status, refusal.reason(), said);
    match status {
        StatusCode::SERVICE_UNAVAILABLE => problem.retry_after(1).into_response(),
        _ => problem.into_response(),
    }
}
