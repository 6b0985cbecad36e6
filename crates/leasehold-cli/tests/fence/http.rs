//! `leasehold fence http` in front of a service that cannot check tokens.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use leasehold_testkit::{Dir, Process, free_port, wait_for};

use super::plane::{Plane, ask, metric, refused};
use super::support::leasehold;

/// A service that answers everything with what it was sent: head and body.
struct Echo {
    port: u16,
    requests: mpsc::Receiver<String>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let tell = tell.clone();
                std::thread::spawn(move || answer(stream, &tell));
            }
        });
        Self { port, requests }
    }
}

fn answer(mut stream: TcpStream, tell: &mpsc::Sender<String>) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
    let (mut text, mut buffer) = (String::new(), [0; 65536]);
    let whole = |text: &str| {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let done = match length {
            Some(length) => body.len() >= length,
            None if head.contains("transfer-encoding: chunked") => body.ends_with("0\r\n\r\n"),
            None => true,
        };
        done.then_some(())
    };
    while whole(&text).is_none() {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => text.push_str(&String::from_utf8_lossy(&buffer[..count])),
        }
    }
    let _ = tell.send(text.clone());
    if text.starts_with("PUT /base/slow") {
        std::thread::sleep(Duration::from_secs(8));
    }
    let _ = write!(
        stream,
        "HTTP/1.1 201 Created\r\nX-Mine: 1\r\nX-Own: 2\r\nConnection: close, X-Own\r\nContent-Length: 4\r\n\r\ndone"
    );
}

struct Gateway {
    _process: Process,
    _dir: Dir,
    port: u16,
    health: u16,
}

impl Gateway {
    fn start(plane: &Plane, service: u16, more: &[&str]) -> Self {
        let (dir, port, health) = (Dir::new(), free_port(), free_port());
        let mut command = leasehold();
        command.args(["fence", "http", "--store", &plane.url(), "--listen", &format!("127.0.0.1:{port}")]);
        command.args(["--service", &format!("http://127.0.0.1:{service}/base")]);
        command.args(["--health", &format!("127.0.0.1:{health}")]).args(more);
        let process = Process::start(&mut command, &dir.join("log"));
        wait_for("the gateway is ready", || {
            ask(health, "GET", "/readyz", "", "").is_some_and(|(status, _)| status == 200)
        });
        Self { _process: process, _dir: dir, port, health }
    }

    fn put(&self, path: &str, headers: &str, body: &str) -> (u16, String) {
        ask(self.port, "PUT", path, headers, body).expect("an answer")
    }
}

fn under(scene: &str, token: &str) -> String {
    format!("Leasehold-Resource: {scene}\r\nLeasehold-Token: {token}\r\n")
}

// proves R038, R042, C09 for services that are written to by HTTP
#[test]
fn requests_of_the_current_holder_pass_and_all_others_are_refused() {
    let (plane, echo) = (Plane::with(&["s1"]), Echo::start());
    let gateway = Gateway::start(&plane, echo.port, &[]);
    let old = plane.acquire("s1", "one").to_string();
    let (status, body) = gateway.put(
        "/reports/1?x=%2F",
        &format!("{}TE: trailers\r\nX-Kept: 1\r\n", under("s1", &old)),
        "hello",
    );
    assert_eq!((status, body.as_str()), (201, "done"));
    let sent = echo.requests.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(sent.starts_with("PUT /base/reports/1?x=%2F HTTP/1.1\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\nhello"), "{sent}");
    assert!(
        sent.contains("x-kept: 1") && sent.contains("leasehold-token: ") && !sent.contains("te: trailers"),
        "{sent}"
    );
    assert!(!sent.contains("host: 127.0.0.1\r\n"), "{sent}");

    let new = plane.hand_over("s1", "one", "two").to_string();
    assert_eq!(gateway.put("/x", &under("s1", &new), "").0, 201);
    for (headers, status, reason) in [
        (under("s1", &old), 412, "stale"),
        (under("s1", "99"), 412, "future_token"),
        (under("s2", "1"), 412, "future_token"),
        ("Leasehold-Resource: s1\r\n".to_owned(), 428, "unversioned"),
        (under("s1", "x"), 400, "malformed"),
        (under("s1", "-1"), 400, "malformed"),
        (format!("{}Leasehold-Token: {old}\r\n", under("s1", &new)), 400, "malformed"),
        (under("a/b", &new), 400, "no_resource"),
        (String::new(), 400, "no_resource"),
    ] {
        let (answered, body) = gateway.put("/x", &headers, "stale");
        assert_eq!((answered, body.contains(&format!("\"{reason}\""))), (status, true), "{headers}: {body}");
    }
    assert_eq!(refused(gateway.health, "stale"), 1);
    assert_eq!(refused(gateway.health, "malformed"), 3);
    assert_eq!(metric(gateway.health, "leasehold_fence_passed_total{how=\"checked\"}"), 2);
    // Who only looks needs no token, and one who shows a stale one is refused all the same.
    assert_eq!(ask(gateway.port, "GET", "/x", "", "").unwrap().0, 201);
    assert_eq!(ask(gateway.port, "GET", "/x", &under("s1", &old), "").unwrap().0, 412);
    let passed = echo.requests.try_iter().collect::<Vec<_>>();
    assert!(passed.iter().all(|request| !request.contains("stale")), "{passed:?}");
}

#[test]
fn a_gateway_has_limits() {
    let (plane, echo) = (Plane::with(&["s1"]), Echo::start());
    let gateway =
        Gateway::start(&plane, echo.port, &["--max-body", "1000", "--max-time", "1s", "--guard-reads"]);
    let headers = under("s1", &plane.acquire("s1", "one").to_string());
    assert_eq!(gateway.put("/x", &headers, &"x".repeat(1000)).0, 201);
    assert_eq!(gateway.put("/x", &headers, &"x".repeat(1001)).0, 413);
    assert_eq!(gateway.put("/slow", &headers, "").0, 504);
    assert_eq!(ask(gateway.port, "GET", "/x", "", "").unwrap().0, 400, "--guard-reads");
    assert_eq!(gateway.put("/x", &format!("{headers}Upgrade: websocket\r\n"), "").0, 501);
    let nowhere = Gateway::start(&plane, free_port(), &[]);
    assert_eq!(nowhere.put("/x", &headers, "").0, 502);
}

#[test]
fn a_gateway_closes_without_the_control_plane() {
    let (mut plane, echo) = (Plane::with(&["s1"]), Echo::start());
    let gateway = Gateway::start(&plane, echo.port, &["--lifetime", "500ms"]);
    let headers = under("s1", &plane.acquire("s1", "one").to_string());
    assert_eq!(gateway.put("/x", &headers, "").0, 201);
    plane.kill();
    wait_for("it closes", || gateway.put("/x", &headers, "").0 == 503);
    plane.start();
    wait_for("it opens again", || gateway.put("/x", &headers, "").0 == 201);
}
