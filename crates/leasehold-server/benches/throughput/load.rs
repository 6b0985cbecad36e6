//! Connections that ask one request after the other.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use leasehold::clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request as it goes over the line, and the answer that it must get.
pub(crate) struct Request {
    bytes: Vec<u8>,
    status: Option<u16>,
}

impl Request {
    pub(crate) fn post(path: &str, holder: &str) -> Self {
        Self::new("POST", path, holder)
    }

    pub(crate) fn delete(path: &str, holder: &str) -> Self {
        Self::new("DELETE", path, holder)
    }

    fn new(method: &str, path: &str, holder: &str) -> Self {
        let body = format!("{{\"holder_id\": \"{holder}\"}}");
        let bytes = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Self { bytes: bytes.into_bytes(), status: None }
    }

    /// Any other answer ends the benchmark.
    pub(crate) fn expect(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Figure {
    name: &'static str,
    pub(crate) per_second: f64,
    p50: Duration,
    p99: Duration,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        let Self { name, per_second, p50, p99 } = self;
        write!(f, "{name:<44} {per_second:>10.0} {:>8.2} {:>8.2}", millis(*p50), millis(*p99))
    }
}

/// Asks over that many connections at once for as long as the round lasts.
pub(crate) async fn run<F>(
    name: &'static str,
    at: SocketAddr,
    connections: usize,
    round: Duration,
    ask: F,
) -> Figure
where
    F: Fn(usize, usize) -> Request + Copy + Send + 'static,
{
    let began = clock::now();
    let asking = (0..connections).map(|connection| {
        tokio::spawn(async move {
            let (mut line, mut took, mut turn) = (Line::to(at).await, Vec::new(), 0);
            while clock::now().since(began) < round {
                let request = ask(connection, turn);
                let sent = clock::now();
                let status = line.ask(&request.bytes).await;
                took.push(clock::now().since(sent));
                assert!(request.status.is_none_or(|wanted| wanted == status), "{name}: answered {status}");
                turn += 1;
            }
            took
        })
    });
    let mut all = Vec::new();
    for asked in asking.collect::<Vec<_>>() {
        all.extend(asked.await.expect("a connection"));
    }
    let per_second = all.len() as f64 / clock::now().since(began).as_secs_f64();
    all.sort_unstable();
    let at = |part: usize| all[(all.len() - 1) * part / 100];
    Figure { name, per_second, p50: at(50), p99: at(99) }
}

/// Asks once, whatever the answer.
pub(crate) async fn once(at: SocketAddr, request: &Request) {
    Line::to(at).await.ask(&request.bytes).await;
}

/// A connection that is kept.
struct Line {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Line {
    async fn to(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self { stream, read: Vec::with_capacity(4096) }
    }

    /// Sends a request and reads its answer whole.
    async fn ask(&mut self, bytes: &[u8]) -> u16 {
        self.stream.write_all(bytes).await.expect("sent");
        self.read.clear();
        loop {
            let count = self.stream.read_buf(&mut self.read).await.expect("an answer");
            assert!(count > 0, "the server hung up");
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = std::str::from_utf8(&self.read[..end]).expect("text").to_ascii_lowercase();
                let length = head.split_once("content-length: ").map_or(0, |(_, rest)| {
                    rest.split("\r\n").next().and_then(|number| number.parse().ok()).unwrap_or(0)
                });
                if self.read.len() >= end + 4 + length {
                    return head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
                }
            }
        }
    }
}
