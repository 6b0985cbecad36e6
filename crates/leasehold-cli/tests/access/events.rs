//! `leasehold serve --events`: what happens leaves a real process, for a receiver on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::server::{ask, serve, status};
use super::support::{Place, leasehold, ran, wait_until};

/// Takes whatever is posted, and says that it did.
struct Receiver {
    address: SocketAddr,
    taken: Arc<Mutex<String>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let taken = Arc::new(Mutex::new(String::new()));
        let taking = Arc::clone(&taken);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let taking = Arc::clone(&taking);
                std::thread::spawn(move || while take(&stream, &taking).is_some() {});
            }
        });
        Self { address, taken }
    }

    fn taken(&self) -> String {
        self.taken.lock().expect("what was taken").clone()
    }
}

/// One request; `None` once there are no more.
fn take(mut stream: &TcpStream, taken: &Mutex<String>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let begin = head.len();
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
        let line = head[begin..].to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let text = format!("{head}{}\n", String::from_utf8_lossy(&body));
    taken.lock().expect("what was taken").push_str(&text);
    stream.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").ok()
}

#[test]
fn what_happens_is_posted_to_a_receiver() {
    let (place, receiver) = (Place::new(), Receiver::start());
    let secret = place.write("signs", "a secret of some length\n");
    let at = receiver.address;
    let (url, allow) = (format!("http://{at}/hook#secret_file={secret}"), format!("http://{at}/"));
    let (server, address) = serve(&place, "server", &["--events", &url, "--webhook-allow", &allow]);
    assert_eq!(status(&ask(&address, "PUT", "/api/v1/scenes/one", None, "{}")), 201);
    let holder = "{\"holder_id\": \"tracker-0\"}";
    assert_eq!(status(&ask(&address, "POST", "/api/v1/scenes/one/lease", None, holder)), 201);
    let is_told = |event: &str| receiver.taken().contains(&format!("\"event\":\"{event}\""));
    wait_until("the grant is told", || is_told("acquired"));
    assert_eq!(status(&ask(&address, "DELETE", "/api/v1/scenes/one/lease", None, holder)), 204);
    wait_until("the release is told", || is_told("released"));
    let taken = receiver.taken();
    assert!(taken.starts_with("POST /hook HTTP/1.1") && taken.contains("\"name\":\"tracker-0\""), "{taken}");
    assert!(!taken.contains("a secret of some length") && !server.log().contains("a secret of"), "{taken}");
    server.leave();
}

#[test]
fn sinks_that_cannot_be_are_refused_at_the_start() {
    let place = Place::new();
    for (url, said) in [
        ("ftp://127.0.0.1/", "ftp"),
        ("amqp://me:hunter2@127.0.0.1/", "password"),
        ("http://127.0.0.1:9/hook", "--webhook-allow"),
    ] {
        let serve = ["serve", "--database", &place.url(), "--listen", "127.0.0.1:0", "--events", url];
        let refused = ran(leasehold().args(serve));
        assert_eq!(refused.code, Some(2), "{url}: {}", refused.err);
        assert!(refused.err.contains(said) && !refused.err.contains("hunter2"), "{url}: {}", refused.err);
    }
}
