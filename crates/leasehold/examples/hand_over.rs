//! How do I stop without a gap?
//!
//! `leave` tells the work to stop, gives its lease back to a named successor, and closes the session. The
//! successor starts at once; nobody waits for a TTL, which is thirty seconds here.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::clock::{self, Moment};
use leasehold::participant::Running;
use leasehold::store::memory::MemoryStore;
use leasehold::{Participant, Pool};

const TTL: Duration = Duration::from_secs(30);

/// When each stretch of work began and ended.
type Journal = Arc<Mutex<Vec<(&'static str, Moment)>>>;

async fn start(
    store: &MemoryStore,
    name: &str,
    journal: &Journal,
) -> Result<Running, Box<dyn std::error::Error>> {
    let journal = Arc::clone(journal);
    let write = move |what| journal.lock().expect("nobody panics here").push((what, clock::now()));
    let member = Participant::join(Arc::new(store.clone()), Pool::new("leader")?)
        .name(name)?
        .ttl(TTL)
        .resources(["seat"])?
        .start(move |lease| {
            let write = write.clone();
            async move {
                write("began");
                lease.lost().await;
                // What must be flushed, closed or saved belongs here: the lease is still ours.
                assert!(lease.term().is_ok());
                write("ended");
            }
        })
        .await?;
    Ok(member)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (store, journal) = (MemoryStore::new(), Journal::default());
    let first = start(&store, "first", &journal).await?;
    first.status().wait_for(|status| status.held.len() == 1).await?;
    let second = start(&store, "second", &journal).await?;
    first.status().wait_for(|status| status.members == 2).await?;

    first.leave().await;
    second.status().wait_for(|status| status.held.len() == 1).await?;
    second.leave().await;

    let journal = journal.lock().expect("nobody panics here").clone();
    let said: Vec<&str> = journal.iter().map(|(what, _)| *what).collect();
    assert_eq!(said, ["began", "ended", "began", "ended"]);
    let gap = journal[2].1.since(journal[1].1);
    println!("the seat was empty for {gap:?}");
    assert!(gap < TTL / 10);
    println!("handed over without waiting for the TTL");
    Ok(())
}
