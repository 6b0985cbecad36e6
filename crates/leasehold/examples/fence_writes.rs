//! How do I stop a stale writer?
//!
//! A process can be paused between its check and its write, for longer than any lease. So the thing that is
//! written to checks too: every write carries its token, and one that is older than the newest seen is refused.

use std::sync::Arc;

use leasehold::fence::{Admission, Fence, Refusal};
use leasehold::store::memory::MemoryStore;
use leasehold::{Lease, Participant, Pool, Term};
use tokio::sync::watch;

/// Starts a member and waits until it holds the seat. Gives back the term it holds it under.
async fn hold(
    store: &MemoryStore,
    name: &str,
) -> Result<(leasehold::participant::Running, Term), Box<dyn std::error::Error>> {
    let (tell, mut told) = watch::channel(None);
    let member = Participant::join(Arc::new(store.clone()), Pool::new("counters")?)
        .name(name)?
        .resources(["visits"])?
        .start(move |lease: Lease| {
            tell.send_replace(lease.term().ok().cloned());
            async move {
                lease.lost().await;
            }
        })
        .await?;
    let term = told.wait_for(Option::is_some).await?.clone().ok_or("no term")?;
    Ok((member, term))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = MemoryStore::new();
    // Stands in front of the counter, in the service that keeps it.
    let fence = Fence::default();

    let (first, old) = hold(&store, "first").await?;
    assert_eq!(fence.admit(&old.resource, old.token), Admission::Admitted);
    println!("the first holder writes under token {}", old.token);
    first.leave().await;

    let (second, new) = hold(&store, "second").await?;
    assert_eq!(fence.admit(&new.resource, new.token), Admission::Admitted);
    println!("the second holder writes under token {}", new.token);

    // A write of the first holder that was on its way all the while.
    let late = fence.admit(&old.resource, old.token);
    second.leave().await;
    assert_eq!(late, Admission::Refused(Refusal::Stale { newest: new.token }));
    println!("a late write under token {} is refused: token {} has been here", old.token, new.token);
    Ok(())
}
