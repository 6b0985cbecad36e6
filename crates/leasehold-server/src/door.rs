//! The door that every connection comes through: plain or by TLS, and no more than are allowed at once.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum_server::accept::Accept;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::settings::Limits;

/// What nothing may exceed, at the moment it is asked.
type Allowed = Arc<dyn Fn() -> Limits + Send + Sync>;

/// The door.
#[derive(Clone)]
pub(crate) struct Door {
    limits: Allowed,
    tls: Option<RustlsAcceptor>,
    open: Arc<AtomicUsize>,
}

impl Door {
    pub(crate) fn new(limits: Allowed, tls: Option<RustlsConfig>) -> Self {
        Self { limits, tls: tls.map(RustlsAcceptor::new), open: Arc::default() }
    }

    fn let_in(&self) -> io::Result<Place> {
        let place = Place(Arc::clone(&self.open));
        if place.0.fetch_add(1, Ordering::SeqCst) < (self.limits)().connections {
            return Ok(place);
        }
        metrics::counter!("leasehold_connections_refused_total").increment(1);
        Err(io::Error::other("too many connections are open"))
    }
}

/// One of the places for connections; free again when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What bytes go through, with or without TLS.
trait Line: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Line for T {}

/// How HTTP/2 begins. Until it is known whether a client speaks it, nothing else watches over its time.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A client that has not said yet which HTTP it speaks.
struct Greeting {
    /// How much of the preface it has sent.
    heard: usize,
    /// When it must have said so.
    until: Pin<Box<Sleep>>,
}

impl Greeting {
    /// Whether it is known by now.
    fn hear(&mut self, bytes: &[u8]) -> bool {
        let rest = &PREFACE[self.heard..];
        self.heard += bytes.len().min(rest.len());
        self.heard == PREFACE.len() || !rest.starts_with(bytes)
    }
}

/// A connection that was let in.
pub(crate) struct Connection {
    line: Box<dyn Line>,
    greeting: Option<Greeting>,
    _place: Place,
}

impl<S: Send + 'static> Accept<TcpStream, S> for Door {
    type Stream = Connection;
    type Service = S;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Connection, S)>> + Send>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let (place, tls) = (self.let_in(), self.tls.clone());
        let patience = (self.limits)().head;
        Box::pin(async move {
            let place = place?;
            stream.set_nodelay(true)?;
            let (line, service): (Box<dyn Line>, S) = match tls {
                None => (Box::new(stream), service),
                Some(tls) => {
                    let (stream, service) = tls.accept(stream, service).await?;
                    (Box::new(stream), service)
                }
            };
            let greeting = Some(Greeting { heard: 0, until: Box::pin(sleep(patience)) });
            Ok((Connection { line, greeting, _place: place }, service))
        })
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.line).poll_read(context, into);
        let Some(greeting) = &mut self.greeting else { return read };
        if read.is_pending() && greeting.until.as_mut().poll(context).is_ready() {
            metrics::counter!("leasehold_connections_silent_total").increment(1);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was said")));
        }
        if read.is_ready() && greeting.hear(&into.filled()[before..]) {
            self.greeting = None;
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.line.is_write_vectored()
    }
}
