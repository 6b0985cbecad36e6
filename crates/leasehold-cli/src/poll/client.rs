//! Speaks HTTP under a lease.
//!
//! Invariant: trust in the lease is looked at where bytes leave for the network, so that a process that was frozen between a
//! decision and its request sends nothing afterwards.

mod guarded;

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::header::{HOST, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use leasehold::Lease;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Position, Url};

use self::guarded::Guarded;
use crate::failure::chain;

/// The headers by which an endpoint knows who asks, and under which token.
const INSTANCE: &str = "x-leasehold-instance";
const RESOURCE: &str = "x-leasehold-resource";
const TOKEN: &str = "x-leasehold-token";

/// How endpoints and webhooks are spoken to.
#[derive(Clone)]
pub(super) struct Manner {
    pub(super) tls: Arc<ClientConfig>,
    pub(super) headers: HeaderMap,
    pub(super) webhook_headers: HeaderMap,
    pub(super) body_max: usize,
    /// How many connections may be kept from one time to the next: each is an open file.
    pub(super) kept: Arc<Semaphore>,
}

/// What is asked.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) url: &'a Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Asks under one lease; its connection is kept from one time to the next, if not too many are.
pub(super) struct Client {
    lease: Lease,
    tls: Arc<ClientConfig>,
    body_max: usize,
    kept: Arc<Semaphore>,
    line: Option<(Line, OwnedSemaphorePermit)>,
}

/// A connection with an origin. Dropping it breaks the connection, whatever is on its way.
struct Line {
    origin: String,
    send: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Client {
    pub(super) fn new(lease: &Lease, manner: &Manner) -> Self {
        let (tls, kept) = (Arc::clone(&manner.tls), Arc::clone(&manner.kept));
        Self { lease: lease.clone(), tls, body_max: manner.body_max, kept, line: None }
    }

    /// Asks. Whoever stops waiting breaks the connection. The error says what happened, without the address.
    pub(super) async fn ask(&mut self, ask: Ask<'_>) -> Result<Answer, String> {
        let kept = match self.line.take().map(|(line, _)| line).filter(|line| line.origin == origin(ask.url))
        {
            // The endpoint may have hung up meanwhile.
            Some(mut line) => line.send.ready().await.is_ok().then_some(line),
            None => None,
        };
        let mut line = match kept {
            Some(line) => line,
            None => self.connect(ask.url).await?,
        };
        let request = self.request(ask)?;
        let answer = line.send.send_request(request).await.map_err(|error| chain(&error))?;
        let (head, body) = answer.into_parts();
        let body = match Limited::new(body, self.body_max).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(format!("the answer has more than {} bytes", self.body_max));
            }
            Err(error) => return Err(chain(&*error)),
        };
        self.line = Arc::clone(&self.kept).try_acquire_owned().ok().map(|kept| (line, kept));
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    fn request(&self, ask: Ask<'_>) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::new(Full::new(ask.body));
        *request.method_mut() = ask.method;
        let path = &ask.url[Position::BeforePath..Position::AfterQuery];
        *request.uri_mut() = path.parse().map_err(|_| "its path cannot be asked for".to_owned())?;
        let lease = &self.lease;
        let text = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
        let headers = request.headers_mut();
        *headers = ask.headers;
        headers.insert(HOST, text(&ask.url[Position::BeforeHost..Position::AfterPort])?);
        let agent = format!("leasehold/{} ({})", env!("CARGO_PKG_VERSION"), lease.member());
        headers.insert(USER_AGENT, text(&agent)?);
        headers.insert(INSTANCE, text(lease.member().as_str())?);
        headers.insert(RESOURCE, text(lease.resource().as_str())?);
        headers.insert(TOKEN, lease.token().0.into());
        Ok(request)
    }

    async fn connect(&self, url: &Url) -> Result<Line, String> {
        let port = url.port_or_known_default().unwrap_or(80);
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => return Err("its address names no host".to_owned()),
        };
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(|error| format!("it cannot be reached: {error}"))?;
        let _ = stream.set_nodelay(true);
        let stream = Guarded::new(stream, self.lease.clone());
        if url.scheme() == "https" {
            let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
            let secure = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
            shake_hands(url, secure.map_err(|error| format!("it cannot be trusted: {error}"))?).await
        } else {
            shake_hands(url, stream).await
        }
    }
}

async fn shake_hands<S>(url: &Url, stream: S) -> Result<Line, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (send, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| chain(&error))?;
    let driver = tokio::spawn(async move {
        // What goes wrong is told to who waits for an answer.
        let _ = connection.await;
    });
    Ok(Line { origin: origin(url), send, driver })
}

/// What a connection is with.
fn origin(url: &Url) -> String {
    url[..Position::BeforePath].to_owned()
}
