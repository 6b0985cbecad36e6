//! Requests as anybody can send them.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: HashMap<String, String>,
    body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub(crate) async fn get(at: SocketAddr, path: &str) -> Reply {
    send(at, "GET", path, "").await
}

pub(crate) async fn post(at: SocketAddr, path: &str, body: &Value) -> Reply {
    send(at, "POST", path, &body.to_string()).await
}

pub(crate) async fn send(at: SocketAddr, method: &str, path: &str, body: &str) -> Reply {
    let mut stream = TcpStream::connect(at).await.expect("the server listens");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("the server reads");
    // A server that refuses the body may hang up before it has read it.
    let _ = stream.write_all(body.as_bytes()).await;
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text).await;
    let text = String::from_utf8(text).expect("text");
    let (head, body) =
        text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {method} {path}: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Reply { status, headers: headers.collect(), body: body.to_owned() }
}

/// A stream of events, as it arrives.
pub(crate) struct Stream {
    stream: TcpStream,
    read: String,
}

/// Begins one.
pub(crate) async fn stream(at: SocketAddr, path: &str) -> Stream {
    let mut stream = TcpStream::connect(at).await.expect("the server listens");
    // Without chunks, what is read is what was sent.
    let head = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("the server reads");
    let mut stream = Stream { stream, read: String::new() };
    let head = stream.until("\r\n\r\n").await;
    assert!(head.contains(" 200 ") && head.contains("text/event-stream"), "{head}");
    stream
}

impl Stream {
    async fn more(&mut self) -> bool {
        let mut piece = [0; 4096];
        let count = self.stream.read(&mut piece).await.unwrap_or_default();
        self.read.push_str(std::str::from_utf8(&piece[..count]).expect("text"));
        count > 0
    }

    /// What comes up to and with this.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = self.read.find(end) {
                return self.read.drain(..at + end.len()).collect();
            }
            assert!(self.more().await, "the stream has ended: {:?}", self.read);
        }
    }

    /// Reads until there is no more.
    pub(crate) async fn ended(mut self) {
        while self.more().await {}
    }
}
