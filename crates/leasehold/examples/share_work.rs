//! How do replicas share work?
//!
//! Every replica joins the same pool with the same list. Nobody is in charge: each reads the store, computes the
//! same plan and takes its own part. Here the replicas are three members of one process, each with its own handle
//! on one SQLite file, as three processes would have.

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::sqlite::SqliteStore;
use leasehold::{Lease, Participant, Pool};

async fn work(lease: Lease) {
    while let Ok(term) = lease.term() {
        println!("{} works on {} under token {}", lease.member(), term.resource, term.token);
        tokio::select! {
            _ = lease.lost() => break,
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("work.db");
    let mut replicas = Vec::new();
    for name in ["anna", "bert", "cleo"] {
        let replica = Participant::join(Arc::new(SqliteStore::open(&file).await?), Pool::new("jobs")?)
            .name(name)?
            .ttl(Duration::from_millis(1500))
            .resources(["a", "b", "c", "d", "e", "f", "g", "h", "i"])?
            .start(work)
            .await?;
        replicas.push(replica);
    }
    for replica in &replicas {
        replica.status().wait_for(|status| status.held.len() == 3).await?;
    }
    for replica in replicas {
        replica.leave().await;
    }
    println!("each of 3 replicas owned 3 of 9 pieces");
    Ok(())
}
