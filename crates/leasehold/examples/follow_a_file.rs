//! How do resources come and go?
//!
//! A source lists them and is looked at again and again. What appears is taken by somebody; what disappears is
//! stopped and given back. A file that cannot be read, or that makes no sense, changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold::discover::FileSource;
use leasehold::store::memory::MemoryStore;
use leasehold::{Participant, Pool, ResourceId, Token};

fn names(held: &BTreeMap<ResourceId, Token>) -> Vec<&str> {
    held.keys().map(ResourceId::as_str).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("cameras.txt");
    std::fs::write(&file, "# one id a line\ncam-1\ncam-2\n")?;

    let member = Participant::join(Arc::new(MemoryStore::new()), Pool::new("watch")?)
        .source(Arc::new(FileSource(file.clone())))
        .start(|lease| async move {
            println!("{} starts", lease.resource());
            let reason = lease.lost().await;
            println!("{} stops: {reason}", lease.resource());
        })
        .await?;
    member.status().wait_for(|status| names(&status.held) == ["cam-1", "cam-2"]).await?;

    // Renaming a new file into place is how a list changes in one step.
    let next = directory.path().join("cameras.txt.new");
    std::fs::write(&next, "cam-2\ncam-3\n")?;
    std::fs::rename(&next, &file)?;
    member.status().wait_for(|status| names(&status.held) == ["cam-2", "cam-3"]).await?;
    member.leave().await;
    println!("cam-1 went, cam-3 came, cam-2 stayed");
    Ok(())
}
