//! The relay itself, with sinks that do what the test wants.

mod told;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::clock::Moment;
use leasehold::lease::{MemberId, MemberName, ResourceId, Token};
use leasehold::ledger::{Entry, Event as Kind};
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Declared, Registry, Store};
use leasehold_server::events::Relays;
use leasehold_server::events::relay::Relay;
use leasehold_server::events::sink::{Event, EventSink, SinkError};
use serde_json::Value;
use told::{Log, all_here, eventually, hand_over, judge, open, pool};

/// Keeps what it is sent. It may be away, or take only a part and then fail.
#[derive(Debug, Default)]
struct Kept {
    arrived: Mutex<Vec<Value>>,
    calls: AtomicUsize,
    away: AtomicBool,
    fails_in_between: bool,
}

#[async_trait]
impl EventSink for Kept {
    async fn publish(&self, events: &[Event]) -> Result<(), SinkError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(SinkError::new("away"));
        }
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let fails = self.fails_in_between && call % 3 != 2;
        let taken = if fails { events.len() / 2 } else { events.len() };
        let values = events[..taken].iter().map(|event| serde_json::to_value(event).unwrap());
        self.arrived.lock().unwrap().extend(values);
        if fails { Err(SinkError::new("failed in between")) } else { Ok(()) }
    }
}

impl Kept {
    fn arrived(&self) -> Vec<Value> {
        self.arrived.lock().unwrap().clone()
    }
}

async fn relays(store: Arc<dyn Store>, sink: &Arc<Kept>) -> Relays {
    let sink: Arc<dyn EventSink> = Arc::clone(sink) as _;
    Relays::of(store, BTreeMap::from([("kept".to_owned(), sink)]), Duration::from_millis(1500)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_share_a_store_share_the_sending() {
    let directory = tempfile::tempdir().unwrap();
    let sink = Arc::new(Kept::default());
    let store = open(directory.path()).await;
    let one = relays(open(directory.path()).await, &sink).await;
    let two = relays(open(directory.path()).await, &sink).await;
    let here = || async { all_here(&*store, &["scenes"], &sink.arrived()).await };
    hand_over(&store, "scenes").await;
    eventually("events arrive", here).await;
    // Whoever it was: the other goes on.
    one.stop().await;
    hand_over(&store, "scenes").await;
    eventually("events arrive by the other", here).await;
    let one = relays(open(directory.path()).await, &sink).await;
    two.stop().await;
    hand_over(&store, "scenes").await;
    eventually("events arrive by the first again", here).await;
    one.stop().await;
    judge(&*store, &["scenes"], &sink.arrived()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_relays_at_once_lose_nothing_and_keep_the_order() {
    let directory = tempfile::tempdir().unwrap();
    let sink = Arc::new(Kept { fails_in_between: true, ..Kept::default() });
    let store = open(directory.path()).await;
    let mut running = Vec::new();
    for _ in 0..2 {
        let mut relay = Relay::new(open(directory.path()).await, "kept", Arc::clone(&sink) as _);
        running.push(tokio::spawn(async move { relay.run().await }));
    }
    for _ in 0..3 {
        hand_over(&store, "scenes").await;
    }
    eventually("events arrive", || async { all_here(&*store, &["scenes"], &sink.arrived()).await }).await;
    running.iter().for_each(tokio::task::JoinHandle::abort);
    judge(&*store, &["scenes"], &sink.arrived()).await;
}

fn row(number: u64, event: Kind) -> Entry {
    Entry {
        wall_nanos: number,
        at: Moment(number),
        boot: String::new(),
        number: None,
        member: MemberId::new("m-1").unwrap(),
        name: MemberName::new("m").unwrap(),
        event,
        resource: Some(ResourceId::new("lobby").unwrap()),
        token: Some(Token(number)),
        trusted_until: None,
        ttl_ms: None,
        reason: None,
        error: None,
        other: None,
        detail: None,
    }
}

/// A pool that the store knows of.
async fn declare(store: &MemoryStore, of_pool: &str) {
    let resource: ResourceId = "lobby".parse().unwrap();
    let declared: Declared =
        serde_json::from_value(serde_json::json!({"resource": resource, "weight": 1})).unwrap();
    let _ = store.declare(&pool(of_pool), &declared).await.unwrap();
}

#[tokio::test]
async fn rows_that_were_dropped_undelivered_are_reported() {
    let (log, _guard) = Log::catch();
    let store = Arc::new(MemoryStore::new());
    let scenes = pool("scenes");
    declare(&store, "scenes").await;
    let sink = Arc::new(Kept::default());
    let mut relay = Relay::new(Arc::clone(&store) as _, "kept", Arc::clone(&sink) as _);
    let running = tokio::spawn(async move { relay.run().await });
    store
        .append(&scenes, &[row(1, Kind::Acquired), row(2, Kind::Renewed), row(3, Kind::Released)])
        .await
        .unwrap();
    eventually("events arrive", || async { sink.arrived().len() == 2 }).await;
    sink.away.store(true, Ordering::SeqCst);
    store.append(&scenes, &[row(4, Kind::Acquired)]).await.unwrap();
    eventually("the relay has met it", || async { log.text().contains("events wait") }).await;
    assert!(!log.text().contains("rows were dropped"), "{}", log.text());
    // More than the ledger keeps.
    let many: Vec<Entry> = (5..100_010).map(|number| row(number, Kind::Accepted)).collect();
    store.append(&scenes, &many).await.unwrap();
    sink.away.store(false, Ordering::SeqCst);
    eventually("it goes on behind them", || async { sink.arrived().len() > 2 }).await;
    running.abort();
    let arrived = sink.arrived();
    assert_eq!(arrived[2]["row"], 10, "the oldest that is left");
    let said = log.text();
    let line = said.lines().find(|line| line.contains("rows were dropped")).expect("it says so");
    assert!(
        line.contains("after_row=3") && line.contains("next_row=10") && line.contains("at_most=6"),
        "{line}"
    );
    assert_eq!(said.matches("rows were dropped").count(), 1, "once");
}

#[tokio::test]
async fn rows_that_were_delivered_may_be_dropped() {
    let (log, _guard) = Log::catch();
    let store = Arc::new(MemoryStore::new());
    declare(&store, "scenes").await;
    let sink = Arc::new(Kept::default());
    let mut relay = Relay::new(Arc::clone(&store) as _, "kept", Arc::clone(&sink) as _);
    let running = tokio::spawn(async move { relay.run().await });
    store.append(&pool("scenes"), &[row(1, Kind::Acquired)]).await.unwrap();
    eventually("events arrive", || async { sink.arrived().len() == 1 }).await;
    // Every pool is read in every pass: when the second of these arrives, a whole pass has found nothing new.
    declare(&store, "another").await;
    for count in 2..4 {
        store.append(&pool("another"), &[row(1, Kind::Acquired)]).await.unwrap();
        eventually("events of another pool arrive", || async { sink.arrived().len() == count }).await;
    }
    let many: Vec<Entry> = (5..100_010).map(|number| row(number, Kind::Accepted)).collect();
    store.append(&pool("elsewhere"), &many).await.unwrap();
    store.append(&pool("scenes"), &[row(2, Kind::Released)]).await.unwrap();
    let of_scenes = || sink.arrived().iter().filter(|event| event["pool"] == "scenes").count();
    eventually("events arrive", || async { of_scenes() == 2 }).await;
    running.abort();
    assert!(!log.text().contains("rows were dropped"), "{}", log.text());
}
