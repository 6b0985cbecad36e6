//! What the tests of events share: leases that change hands, and a judge of what arrived.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::lease::Pool;
use leasehold::ledger::{Entry, Event as Kind};
use leasehold::participant::{Lease, Participant};
use leasehold::store::sqlite::SqliteStore;
use leasehold::store::{Cursor, MarkKind, Marked, SERVER_POOL, Store, Version};
use leasehold_server::events::sink::{Event, Tenants};
use serde_json::Value;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Short, so that those who come get the leases soon.
const TTL: Duration = Duration::from_millis(1500);
pub(crate) const RESOURCES: [&str; 3] = ["lobby", "dock.1", "gate+2"];

pub(crate) fn pool(name: &str) -> Pool {
    Pool::new(name).unwrap()
}

pub(crate) async fn open(directory: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(&directory.join("leasehold.db")).await.unwrap())
}

/// A key of the tenant, by which relays know that there is such a tenant.
pub(crate) async fn add_tenant(store: &dyn Store, tenant: &str) {
    let value = format!(r#"{{"tenant":"{tenant}","role":"operator"}}"#);
    let set =
        store.set_mark(&pool(SERVER_POOL), MarkKind::Key, "k1", Some(&value), Version(0)).await.unwrap();
    assert!(matches!(set, Marked::Set(_)));
}

/// A member comes, takes everything and goes.
pub(crate) async fn hand_over(store: &Arc<dyn Store>, of_pool: &str) {
    let held = Arc::new(Mutex::new(BTreeSet::new()));
    let work = {
        let held = Arc::clone(&held);
        move |lease: Lease| {
            held.lock().unwrap().insert(lease.resource().clone());
            async move {
                lease.lost().await;
            }
        }
    };
    let member = Participant::join(Arc::clone(store), pool(of_pool)).ttl(TTL).resources(RESOURCES).unwrap();
    let member = member.start(work).await.unwrap();
    eventually("a member holds everything", || {
        let count = held.lock().unwrap().len();
        async move { count == RESOURCES.len() }
    })
    .await;
    member.leave().await;
}

/// Every event of a pool, as the ledger has it.
pub(crate) async fn events(store: &dyn Store, of_pool: &str) -> Vec<Event> {
    let mut tenants = Tenants::default();
    tenants.insert("acme");
    let mut events = Vec::new();
    let mut after = 0;
    loop {
        let rows: Vec<(u64, Entry)> = store.ledger(&pool(of_pool), None, after, 1000).await.unwrap();
        let Some((last, _)) = rows.last() else { return events };
        after = *last;
        events
            .extend(rows.iter().filter_map(|(row, entry)| Event::of(&pool(of_pool), *row, entry, &tenants)));
    }
}

/// Whether every event of these pools has arrived.
pub(crate) async fn all_here(store: &dyn Store, pools: &[&str], arrived: &[Value]) -> bool {
    let ids: BTreeSet<&str> = arrived.iter().filter_map(|event| event["id"].as_str()).collect();
    for of_pool in pools {
        if events(store, of_pool).await.iter().any(|event| !ids.contains(event.id.as_str())) {
            return false;
        }
    }
    true
}

/// Whether relays have written down that nothing is on its way any more: one that is stopped before sends it again.
pub(crate) async fn all_settled(store: &dyn Store) -> bool {
    let marks = store.marks(&pool(SERVER_POOL), Cursor::START).await.unwrap().items;
    let mut positions = marks.iter().filter(|mark| mark.kind == MarkKind::Relay);
    positions.all(|mark| !mark.value.as_deref().unwrap_or_default().contains("\"sent\""))
}

/// Judges what arrived: nothing is missing, nothing is there that the ledger has not, and of each resource events came for the
/// first time in their order.
pub(crate) async fn judge(store: &dyn Store, pools: &[&str], arrived: &[Value]) {
    let mut known = BTreeMap::new();
    for of_pool in pools {
        for event in events(store, of_pool).await {
            known.insert(event.id.clone(), serde_json::to_value(&event).unwrap());
        }
    }
    assert!(known.len() > RESOURCES.len(), "something happened at all");
    let mut seen = BTreeSet::new();
    let mut last = BTreeMap::new();
    for event in arrived {
        let id = event["id"].as_str().unwrap();
        assert_eq!(known.get(id), Some(event), "{id} is as the ledger has it");
        if seen.insert(id.to_owned()) {
            let of = (event["tenant"].to_string(), event["pool"].to_string(), event["resource"].to_string());
            let row = event["row"].as_u64().unwrap();
            let before = last.insert(of, row).unwrap_or(0);
            assert!(before < row, "{id} came after row {before} of its resource");
            assert_ne!(event["event"], Kind::Renewed.as_str());
        }
    }
    assert_eq!(seen.len(), known.len(), "every event of the ledger has arrived");
}

/// Waits for a condition.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let pause = Duration::from_millis(50);
    let mut waited = Duration::ZERO;
    while !holds().await {
        assert!(waited < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(pause).await;
        waited += pause;
    }
}

/// Everything that is logged from now on by this thread, in great detail.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn catch() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A certificate for loopback and its key, in PEM.
pub(crate) fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}
