//! Endpoints that record who asked them when. Whatever instances say of themselves, this is what happened.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold::clock::{self, Moment};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// One request as the endpoint saw it.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) endpoint: String,
    /// What the test calls the instance, and what it calls itself.
    pub(crate) name: String,
    pub(crate) instance: String,
    pub(crate) token: u64,
    pub(crate) conditional: bool,
    pub(crate) body: String,
    pub(crate) from: Moment,
    /// When the answer was given, or the connection broken.
    pub(crate) to: Option<Moment>,
    pub(crate) answered: bool,
}

#[derive(Debug, Default)]
struct Seen {
    asks: Vec<Ask>,
    /// How long each answer takes.
    delay: Duration,
    /// Whether connections end with each answer.
    hangs_up: bool,
}

/// All endpoints, on one port of loopback; the last part of the path is an endpoint's id.
pub(crate) struct Witness {
    port: u16,
    seen: Arc<Mutex<Seen>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, stopped) = oneshot::channel::<()>();
        let all = Arc::clone(&seen);
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, all) => {}
                    _ = stopped => {}
                }
            });
        };
        Self { port, seen, stop: Some(stop), thread: Some(std::thread::spawn(serve)) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// From now on each answer takes so long.
    pub(crate) fn delay(&self, delay: Duration) {
        self.seen.lock().unwrap().delay = delay;
    }

    /// From now on connections end with each answer.
    pub(crate) fn hang_up(&self) {
        self.seen.lock().unwrap().hangs_up = true;
    }

    pub(crate) fn asks(&self) -> Vec<Ask> {
        self.seen.lock().unwrap().asks.clone()
    }

    /// What was asked since then.
    pub(crate) fn since(&self, from: Moment) -> Vec<Ask> {
        self.asks().into_iter().filter(|ask| ask.from >= from).collect()
    }

    /// The newest request of each endpoint.
    pub(crate) fn newest(&self) -> BTreeMap<String, Ask> {
        self.asks().into_iter().map(|ask| (ask.endpoint.clone(), ask)).collect()
    }

    /// No endpoint was ever asked by two at once, nor by one after another had begun under a newer token.
    pub(crate) fn verify(&self) {
        let asks = self.asks();
        assert!(!asks.is_empty(), "nobody asked");
        let mut newest: BTreeMap<&str, &Ask> = BTreeMap::new();
        for ask in &asks {
            if let Some(last) = newest.get(ask.endpoint.as_str()).copied() {
                assert!(last.token <= ask.token, "asked by an older one: {last:?}, then {ask:?}");
                let same = last.instance == ask.instance;
                assert!(same || last.token < ask.token, "one token for two: {last:?}, then {ask:?}");
                let over = last.to.is_some_and(|to| to <= ask.from);
                assert!(same || over, "asked by two at once: {last:?} and {ask:?}");
            }
            newest.insert(&ask.endpoint, ask);
        }
    }

    /// The longest that any of these endpoints was not asked between two moments.
    pub(crate) fn longest_rest(&self, from: Moment, to: Moment) -> Duration {
        let mut times: BTreeMap<String, Vec<Moment>> = BTreeMap::new();
        for ask in self.asks().into_iter().filter(|ask| (from..=to).contains(&ask.from)) {
            times.entry(ask.endpoint).or_insert_with(|| vec![from]).push(ask.from);
        }
        let rests = times.into_values().flat_map(|mut times| {
            times.push(to);
            let rests: Vec<Duration> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
            rests
        });
        rests.max().unwrap_or(to.since(from))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, seen: Arc<Mutex<Seen>>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&seen)));
        }
    }
}

/// Answers requests until the connection ends.
async fn answer(mut stream: TcpStream, seen: Arc<Mutex<Seen>>) {
    let mut bytes = Vec::new();
    while let Some((head, body)) = request(&mut stream, &mut bytes).await {
        let left = has_left(&stream);
        let (number, delay) = {
            let mut seen = seen.lock().unwrap();
            let (ask, delay) = (taken(&head, body), seen.delay);
            let to = left.then_some(ask.from);
            seen.asks.push(Ask { to, ..ask });
            (seen.asks.len() - 1, delay)
        };
        if left {
            return;
        }
        let conditional = seen.lock().unwrap().asks[number].conditional;
        let mut more = [0; 1];
        let answered = tokio::select! {
            () = tokio::time::sleep(delay) => {
                let answer = if conditional {
                    "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"
                } else {
                    "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}"
                };
                stream.write_all(answer.as_bytes()).await.is_ok()
            }
            // Nobody sends two requests at once here, so this is the end.
            _ = stream.read(&mut more), if !delay.is_zero() => false,
        };
        {
            let mut seen = seen.lock().unwrap();
            (seen.asks[number].to, seen.asks[number].answered) = (Some(clock::now()), answered);
        }
        if !answered || seen.lock().unwrap().hangs_up {
            return;
        }
    }
}

/// Whether the asker had gone before its request was read: on a busy machine it lies in the socket for a while.
fn has_left(stream: &TcpStream) -> bool {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    !matches!(recv(stream.as_raw_fd(), &mut [0; 1], flags), Ok(1..) | Err(Errno::EAGAIN))
}

/// The head and the body of the next request.
async fn request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(String, String)> {
    let mut part = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length: usize = header(&head, "content-length").parse().unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                let body = String::from_utf8_lossy(&bytes[end + 4..end + 4 + length]).into_owned();
                bytes.drain(..end + 4 + length);
                return Some((head, body));
            }
        }
        match stream.read(&mut part).await {
            Ok(count @ 1..) => bytes.extend_from_slice(&part[..count]),
            _ => return None,
        }
    }
}

fn taken(head: &str, body: String) -> Ask {
    let path = head.split(' ').nth(1).unwrap_or_default();
    Ask {
        endpoint: path.rsplit('/').next().unwrap_or_default().to_owned(),
        name: header(head, "x-name"),
        instance: header(head, "x-leasehold-instance"),
        token: header(head, "x-leasehold-token").parse().unwrap_or(0),
        conditional: !header(head, "if-none-match").is_empty(),
        body,
        from: clock::now(),
        to: None,
        answered: false,
    }
}

fn header(head: &str, name: &str) -> String {
    let value = |line: &str| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    };
    head.lines().find_map(value).unwrap_or_default()
}
