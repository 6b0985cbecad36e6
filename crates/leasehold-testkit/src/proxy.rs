//! A network that can be cut, slowed and made to lose, between a client and a server on this machine.
//!
//! Bytes are carried by a thread of the proxy's own. What is lost on a real network is sent again by TCP, so loss shows as
//! delay; that is what [`Faults::lose`] does. What is swallowed ([`Faults::swallow_up`], [`Faults::swallow_down`]) never
//! arrives while the connection stays open: a request that is applied and whose answer is lost, or the reverse.

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;

/// How long TCP waits at first before it sends again what was lost.
const SENT_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// How many pieces can be on their way.
const PIECES_MAX: usize = 1024;

/// What is wrong with the network.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// How long everything takes, each way.
    pub delay: Duration,
    /// How much of what is sent is lost at first and sent again, from 0 to 1.
    pub lose: f64,
    /// Nothing reaches the server any more, though connections stay.
    pub swallow_up: bool,
    /// Nothing reaches the client any more, though connections stay.
    pub swallow_down: bool,
    /// Connections are broken, and new ones refused.
    pub refuse: bool,
}

impl Faults {
    /// Nothing passes in either direction, and nobody is told.
    #[must_use]
    pub fn cut() -> Self {
        Self { swallow_up: true, swallow_down: true, ..Self::default() }
    }
}

/// A port on loopback that passes on to a server.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    target: watch::Sender<u16>,
    faults: watch::Sender<Faults>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Passes on to `port` on loopback.
    ///
    /// # Panics
    /// There is no thread or no port for it.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("our own socket");
        let own = listener.local_addr().expect("its address").port();
        let (set, faults) = watch::channel(Faults::default());
        let (lead, target) = watch::channel(port);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime for the proxy").block_on(async {
                tokio::select! {
                    () = accept(listener, target, faults) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("proxy".to_owned()).spawn(serve).expect("a thread");
        Self { port: own, target: lead, faults: set, stop: Some(stop), thread: Some(thread) }
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on the network is like this.
    pub fn set(&self, faults: Faults) {
        self.faults.send_replace(faults);
    }

    /// From now on it passes on to another server, as an address that is moved in a failover does. Connections to the one
    /// before are broken.
    pub fn lead_to(&self, port: u16) {
        self.target.send_replace(port);
    }

    /// From now on the network is well. Connections from which something was swallowed are broken: bytes are missing.
    pub fn heal(&self) {
        self.set(Faults::default());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(
    listener: std::net::TcpListener,
    target: watch::Receiver<u16>,
    faults: watch::Receiver<Faults>,
) {
    let listener = TcpListener::from_std(listener).expect("our own socket");
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        tokio::spawn(carry(client, target.clone(), faults.clone()));
    }
}

async fn carry(client: TcpStream, mut target: watch::Receiver<u16>, faults: watch::Receiver<Faults>) {
    if faults.borrow().refuse {
        return;
    }
    let port = *target.borrow_and_update();
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Both halves end with the first.
    tokio::select! {
        () = pump(from_client, to_server, faults.clone(), |faults| faults.swallow_up) => {}
        () = pump(from_server, to_client, faults.clone(), |faults| faults.swallow_down) => {}
        () = broken(faults) => {}
        _ = target.changed() => {}
    }
}

async fn broken(mut faults: watch::Receiver<Faults>) {
    // The proxy has gone if the sender has.
    let _ = faults.wait_for(|faults| faults.refuse).await;
}

/// A piece on its way, and when it arrives.
type OnItsWay = (Pin<Box<Sleep>>, Vec<u8>);

async fn pump(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    faults: watch::Receiver<Faults>,
    swallows: impl Fn(&Faults) -> bool,
) {
    let (send, receive) = mpsc::channel(PIECES_MAX);
    let mut arriving = std::pin::pin!(arrive(receive, to));
    tokio::select! {
        () = depart(from, send, faults, swallows) => arriving.await,
        () = &mut arriving => {}
    }
}

/// Takes in what is sent. Pieces follow each other on the line; none waits until another has arrived.
async fn depart(
    mut from: OwnedReadHalf,
    line: mpsc::Sender<OnItsWay>,
    mut faults: watch::Receiver<Faults>,
    swallows: impl Fn(&Faults) -> bool,
) {
    let mut bytes = vec![0; 64 * 1024];
    let mut lacking = false;
    let mut dice = Dice(u64::from(std::process::id()) ^ 0x9e37_79b9_7f4a_7c15);
    loop {
        let read = tokio::select! {
            read = from.read(&mut bytes) => read,
            // A stream that lacks bytes is of no use once the network is well.
            _ = faults.wait_for(|faults| !swallows(faults)), if lacking => return,
        };
        let Ok(count @ 1..) = read else { return };
        let now = *faults.borrow();
        if swallows(&now) {
            lacking = true;
            continue;
        }
        let (mut takes, mut again) = (now.delay, SENT_AGAIN_AFTER);
        while dice.roll() < now.lose {
            takes += again;
            again *= 2;
        }
        let piece = (Box::pin(tokio::time::sleep(takes)), bytes[..count].to_vec());
        if line.send(piece).await.is_err() {
            return;
        }
    }
}

async fn arrive(mut line: mpsc::Receiver<OnItsWay>, mut to: OwnedWriteHalf) {
    while let Some((due, bytes)) = line.recv().await {
        due.await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Good enough to lose packets with.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}
