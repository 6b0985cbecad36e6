//! A place for a store on a private etcd.
//!
//! A server takes a second to start, so places share servers, each under a prefix of its own. Killing or restoring a
//! server concerns everybody on it: a place that may do so has one to itself.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use leasehold::store::{Begin, Store, StoreUrl};
use leasehold_testkit::Etcd;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// A server that nobody else uses as long as this is held.
pub(crate) struct Place {
    server: OwnedMutexGuard<Etcd>,
    prefix: String,
    pub(crate) url: String,
}

/// As many servers as tests that run at the same time.
const SERVERS: usize = 4;

impl Place {
    /// A new place whose store begins live.
    pub(crate) async fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);

        let server = free_server().await;
        let prefix = format!("place-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let url = server.url(&prefix);
        let parsed: StoreUrl = url.parse().expect("a good URL");
        let migrated = leasehold::store::migrate(&parsed, Begin::Live).await;
        migrated.expect("a store can be created");
        Self { server, prefix, url }
    }

    /// The server, which nobody else uses.
    pub(crate) fn alone(&mut self) -> &mut Etcd {
        &mut self.server
    }

    /// Deletes a key of the store's.
    pub(crate) fn delete(&self, key: &str) {
        let key = format!("{}/{key}", self.prefix);
        assert_eq!(self.server.ctl(&["del", &key]).trim(), "1", "{key} was there");
    }
}

/// The servers of this process. They go with the last test thread that used one: what is static is never dropped.
#[derive(Default)]
struct Servers([OnceLock<Arc<Mutex<Etcd>>>; SERVERS]);

fn servers() -> Arc<Servers> {
    static SHARED: std::sync::Mutex<Weak<Servers>> = std::sync::Mutex::new(Weak::new());
    thread_local! {
        static KEPT: RefCell<Option<Arc<Servers>>> = const { RefCell::new(None) };
    }

    let mut shared = SHARED.lock().expect("nobody panics with it");
    let servers = shared.upgrade().unwrap_or_default();
    *shared = Arc::downgrade(&servers);
    KEPT.set(Some(Arc::clone(&servers)));
    servers
}

/// Takes a server that is not in use, and starts it if it never was.
async fn free_server() -> OwnedMutexGuard<Etcd> {
    let servers = servers();
    loop {
        for server in &servers.0 {
            let server = server.get_or_init(|| Arc::new(Mutex::new(Etcd::start())));
            if let Ok(taken) = Arc::clone(server).try_lock_owned() {
                return taken;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Opens a store that must not be refused.
pub(crate) async fn open(url: &str) -> Arc<dyn Store> {
    let url: StoreUrl = url.parse().expect("a good URL");
    leasehold::store::open(&url).await.expect("the store can be opened")
}
