//! A fence, its authority and a store that forgets.

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Clock, SystemClock};
use leasehold::fence::{Admission, Authority, Gate, Offered, PoolAuthority, Refusal};
use leasehold::store::memory::MemoryStore;
use leasehold::{Lease, Participant, Pool, ResourceId, Token};
use tokio::sync::mpsc;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn scene() -> ResourceId {
    ResourceId::new("scene-01").unwrap()
}

fn gate(store: &MemoryStore) -> Gate {
    let authority = PoolAuthority::new(Arc::new(store.clone()), Pool::new("scenes").unwrap());
    Gate::new(Arc::new(authority), Duration::from_secs(10))
}

/// A member that takes the scene and tells every term that it gets.
async fn member(store: &MemoryStore) -> (leasehold::participant::Running, mpsc::Receiver<Token>) {
    let (tell, told) = mpsc::channel(8);
    let running = Participant::join(Arc::new(store.clone()), Pool::new("scenes").unwrap())
        .ttl(Duration::from_secs(2))
        .resources(["scene-01"])
        .unwrap()
        .start(move |lease: Lease| {
            let tell = tell.clone();
            async move {
                if let Ok(term) = lease.term() {
                    let _ = tell.send(term.token).await;
                }
                lease.lost().await;
            }
        })
        .await
        .unwrap();
    (running, told)
}

async fn granted(told: &mut mpsc::Receiver<Token>) -> Token {
    tokio::time::timeout(PATIENCE, told.recv()).await.expect("a term in time").expect("a member")
}

// proves R042, R043
#[tokio::test]
async fn a_gate_learns_of_every_change_of_hands_without_being_asked() {
    let store = MemoryStore::new();
    let gate = Arc::new(gate(&store));
    let following = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.follow().await }
    });
    let (first, mut told) = member(&store).await;
    let old = granted(&mut told).await;
    first.leave().await;
    let (second, mut told) = member(&store).await;
    let new = granted(&mut told).await;
    let give_up_at = clock::now().after(PATIENCE);
    // Nobody has sent anything under the new token.
    while gate.admit(&scene(), Offered::Token(old)).await.is_admitted() {
        assert!(clock::now() < give_up_at, "the gate never heard of {new}");
        SystemClock.sleep(Duration::from_millis(5)).await;
    }
    assert!(gate.admit(&scene(), Offered::Token(new)).await.is_admitted());
    assert_eq!(gate.unanswered(), 0);
    following.abort();
    second.leave().await;
}

// proves C09: a fence that has seen a higher token than the store tells the store, and work goes on above it
#[tokio::test]
async fn a_store_that_was_set_back_is_told_the_floor_and_its_members_take_their_work_anew() {
    let store = MemoryStore::new();
    let authority = PoolAuthority::new(Arc::new(store.clone()), Pool::new("scenes").unwrap());
    let (running, mut told) = member(&store).await;
    let token = granted(&mut told).await;
    let gate = gate(&store);
    assert!(gate.admit(&scene(), Offered::Token(token)).await.is_admitted());
    let ahead = Token(token.0 + 40);
    let future = gate.admit(&scene(), Offered::Token(ahead)).await;
    assert_eq!(future, Admission::Refused(Refusal::Future { newest: token }), "no message moves the fence");
    // What another fence saw before this store was set back.
    authority.raise(&scene(), ahead).await.unwrap();
    let anew = granted(&mut told).await;
    assert_eq!(anew, Token(ahead.0 + 1), "the member let go, and the next term is above");
    assert!(gate.admit(&scene(), Offered::Token(anew)).await.is_admitted());
    assert!(!gate.admit(&scene(), Offered::Token(token)).await.is_admitted());
    running.leave().await;
}

// proves C09: the floor, found by the gate itself
#[tokio::test]
async fn a_gate_tells_a_store_what_it_has_forgotten() {
    let store = MemoryStore::new();
    let term = async || {
        let (running, mut told) = member(&store).await;
        let token = granted(&mut told).await;
        running.leave().await;
        token
    };
    let first = term().await;
    let before = store.snapshot();
    let second = term().await;
    let gate = gate(&store);
    assert!(gate.admit(&scene(), Offered::Token(second)).await.is_admitted());
    // A crash that nobody can notice.
    store.lose_unanswered(&before);
    gate.refresh().await.unwrap();
    assert!(gate.admit(&scene(), Offered::Token(second)).await.is_admitted(), "what it knows, it knows");
    let stale = gate.admit(&scene(), Offered::Token(first)).await;
    assert_eq!(stale, Admission::Refused(Refusal::Stale { newest: second }));
    let next = term().await;
    assert_eq!(next, Token(second.0 + 1), "no token is given out twice");
    assert!(gate.admit(&scene(), Offered::Token(next)).await.is_admitted());
}
