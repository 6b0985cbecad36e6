//! Elections, on the store in memory: what is special about a store is proved with the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use leasehold::Election;
use leasehold::election::{Candidate, ElectionError, Key, Seat};
use leasehold::ledger::Reason;
use leasehold::store::Store;
use leasehold::store::memory::MemoryStore;
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(60);

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn election(store: &Arc<dyn Store>, name: &str) -> Election {
    Election::new(Arc::clone(store), key("/ccm/scheduler/leader"))
        .name(name)
        .unwrap()
        .ttl(Duration::from_secs(2))
}

/// Candidates are told apart by their handles: a process has one for each.
fn handles(of: &MemoryStore, count: usize) -> Vec<Arc<dyn Store>> {
    (0..count).map(|_| Arc::new(of.clone()) as Arc<dyn Store>).collect()
}

async fn soon<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

async fn led_by(candidate: &Candidate, name: &str) {
    let mut leaders = candidate.observe();
    let is = |seat: &Seat| {
        seat.leader().and_then(|leader| leader.name.clone()).is_some_and(|leader| leader.as_str() == name)
    };
    soon("a leader", async { while !is(&leaders.next().await.unwrap()) {} }).await;
}

// proves R113, R116, R118, R119, R120, R121
#[tokio::test]
async fn one_leads_the_other_waits_and_takes_over_when_it_lets_go() {
    let store = MemoryStore::new();
    let [one, two] = handles(&store, 2).try_into().unwrap();
    let one = election(&one, "one").start().await.unwrap();
    let two = election(&two, "two").start().await.unwrap();
    let leadership = soon("one is elected", one.campaign()).await;
    led_by(&two, "one").await;
    assert_eq!(one.is_leader(), Some(leadership.token()));
    assert!(leadership.lease().member().as_str().starts_with("one-"));
    let mut waiting = Box::pin(two.campaign());
    tokio::select! {
        _ = &mut waiting => panic!("two was elected while one leads"),
        () = tokio::time::sleep(Duration::from_millis(500)) => {}
    }
    let first = leadership.token();
    drop(leadership);
    assert_eq!(one.is_leader(), None);
    let second = soon("two is elected", &mut waiting).await;
    assert!(second.token() > first);
    led_by(&one, "two").await;
    drop((second, waiting));
    two.leave().await;
    one.leave().await;
}

#[tokio::test]
async fn who_does_not_campaign_is_not_elected_and_who_stops_waiting_stops_campaigning() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let candidate = election(&store, "one").start().await.unwrap();
    soon("it has joined", candidate.status().wait_for(|status| status.member.is_some())).await.unwrap();
    let mut leaders = candidate.observe();
    assert_eq!(soon("the seat is seen", leaders.next()).await, Some(Seat::Vacant));
    let mut campaign = Box::pin(candidate.campaign());
    let waits = std::future::poll_fn(|context| Poll::Ready(campaign.as_mut().poll(context).is_pending()));
    assert!(waits.await, "nobody is elected before anything was sent");
    drop(campaign);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!((candidate.is_leader(), candidate.seat()), (None, Seat::Vacant));
    let leadership = soon("it is elected", candidate.campaign()).await;
    assert_eq!(candidate.is_leader(), Some(leadership.token()));
}

// proves U17
#[tokio::test]
async fn a_leader_by_callbacks_is_told_of_its_election_and_of_its_end() {
    let store = MemoryStore::new();
    let [one, two] = handles(&store, 2).try_into().unwrap();
    let (say, mut said) = mpsc::unbounded_channel();
    let start = |election: Election, name: &'static str| {
        let (elected, demoted) = (say.clone(), say.clone());
        election
            .on_elected(move |leadership| {
                let elected = elected.clone();
                async move {
                    elected.send(format!("{name} leads")).unwrap();
                    leadership.lost().await;
                }
            })
            .on_demoted(move |reason| {
                demoted.send(format!("{name} stopped: {}", reason.as_str())).unwrap();
                std::future::ready(())
            })
            .start()
    };
    let one = start(election(&one, "one"), "one").await.unwrap();
    assert_eq!(soon("one leads", said.recv()).await.unwrap(), "one leads");
    let two = start(election(&two, "two"), "two").await.unwrap();
    assert!(soon("one resigns", one.resign()).await);
    assert_eq!(soon("one stops", said.recv()).await.unwrap(), "one stopped: voluntary");
    assert_eq!(
        soon("two leads", said.recv()).await.unwrap(),
        "two leads",
        "one leaves it to others for a while"
    );
    assert!(!one.resign().await, "who does not lead cannot resign");
    two.leave().await;
    assert!(soon("two stops", said.recv()).await.unwrap().starts_with("two stopped"));
    assert_eq!(soon("one leads again", said.recv()).await.unwrap(), "one leads");
    one.leave().await;
}

#[tokio::test]
async fn a_leader_that_panics_or_never_stops_gives_the_seat_back() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let times = Arc::new(AtomicUsize::new(0));
    let (say, mut said) = mpsc::unbounded_channel();
    let candidate = election(&store, "one")
        .on_elected({
            let times = Arc::clone(&times);
            move |leadership| {
                let time = times.fetch_add(1, Ordering::SeqCst);
                async move {
                    assert!(time > 0, "the first leader panics, as this test wants it");
                    std::future::pending::<()>().await;
                    drop(leadership);
                }
            }
        })
        .on_demoted(move |reason| {
            say.send(reason).unwrap();
            std::future::ready(())
        })
        .start()
        .await
        .unwrap();
    assert_eq!(soon("it panics", said.recv()).await, Some(Reason::Voluntary));
    soon("it leads again", async {
        while candidate.is_leader().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    candidate.resign().await;
    assert_eq!(soon("it is dropped after its grace", said.recv()).await, Some(Reason::Voluntary));
    assert_eq!(times.load(Ordering::SeqCst), 2);
}

// proves R123, U17
#[tokio::test]
async fn several_elections_of_one_process_are_independent_and_one_key_is_taken_once() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let of = |text: &str| Election::new(Arc::clone(&store), key(text)).ttl(Duration::from_secs(2));
    let scheduler = of("/ccm/scheduler/leader").start().await.unwrap();
    let controller = of("/ccm/controller/leader").start().await.unwrap();
    let leads =
        soon("it leads both", async { tokio::join!(scheduler.campaign(), controller.campaign()) }).await;
    assert!(leads.0.term().is_ok() && leads.1.term().is_ok());
    let again = of("/ccm/scheduler/leader").start().await.unwrap_err();
    assert!(matches!(again, ElectionError::Twice(_)));
    assert!(again.to_string().contains("is a candidate for /ccm/scheduler/leader already"));
    drop(leads);
    drop(scheduler);
    of("/ccm/scheduler/leader").start().await.expect("the place is free again");
}

#[tokio::test]
async fn a_ttl_that_is_too_short_is_refused_before_anything_is_joined() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let short = Election::new(Arc::clone(&store), key("seat")).ttl(Duration::from_millis(10));
    let refused = short.start().await.unwrap_err();
    assert!(matches!(refused, ElectionError::Join(_)), "{refused}");
    assert_eq!(store.pools().await.unwrap(), []);
}
