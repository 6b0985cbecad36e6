//! A control plane as a real process, asked over plain sockets.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::support::{Member, Place, leasehold, wait_for};

/// A server on the place's database, and its address once it has said it.
pub(crate) fn serve(place: &Place, name: &str, options: &[&str]) -> (Member, String) {
    serve_with(place, name, leasehold().arg("serve").args(options))
}

/// The same by a command that has everything but the database; it listens at any port unless it says where.
pub(crate) fn serve_with(place: &Place, name: &str, command: &mut Command) -> (Member, String) {
    if !command.get_args().any(|arg| arg == "--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    let server = place.start(name, command.args(["--database", &place.url()]));
    let address = wait_for("the server says where it is", || {
        let log = server.log();
        let rest = log.split("at http://").nth(1)?;
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'))?;
        Some(rest[..end].to_owned())
    });
    (server, address)
}

/// One request, and the whole answer as text.
pub(crate) fn ask(address: &str, method: &str, path: &str, key: Option<&str>, body: &str) -> String {
    let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    ask_with(address, method, path, &key, body)
}

/// The same with any headers, each with the end of its line.
pub(crate) fn ask_with(address: &str, method: &str, path: &str, headers: &str, body: &str) -> String {
    try_ask_with(address, method, path, headers, body).expect("a server that answers")
}

/// The same of a server that may be gone.
pub(crate) fn try_ask_with(
    address: &str,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status")
}
