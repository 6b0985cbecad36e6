//! A client that writes and reads HTTP by itself.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Waits until something holds.
pub(super) async fn soon(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    within(what, async {
        while !holds().await {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    })
    .await;
}

pub(super) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// Where a server is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address(pub(super) SocketAddr);

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) body: String,
}

impl Address {
    pub(super) async fn get(self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }

    pub(super) async fn head(self, path: &str) -> Answer {
        self.ask("HEAD", path, &[]).await
    }

    pub(super) async fn post(self, path: &str) -> Answer {
        self.ask("POST", path, &[]).await
    }

    pub(super) async fn ask(self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut stream = self.connect().await;
        let request = format!("{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Answer::parse(&rest(&mut stream).await)
    }

    pub(super) async fn connect(self) -> TcpStream {
        within("a connection", TcpStream::connect(self.0)).await.unwrap()
    }
}

/// Everything until the server closes the connection.
pub(super) async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A server that has more to read when it closes ends the connection by a reset.
    let _ = within("an answer", stream.read_to_end(&mut bytes)).await;
    String::from_utf8(bytes).unwrap()
}

impl Answer {
    pub(super) fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    pub(super) fn said(&self) -> (u16, &str) {
        (self.status, &self.body)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
