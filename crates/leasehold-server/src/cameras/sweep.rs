//! What is left to do when nobody asks: cameras that are to be deleted go when their holders have stopped.
//!
//! Every replica does it, by compare-and-set on what it read; which one was first makes no difference.

use std::time::Duration;

use leasehold::ResourceId;
use leasehold::store::{Declared, Marked, StoreError};

use super::camera::Kept;
use super::tenant::is_of_cameras;
use crate::app::App;
use crate::holders::{Desk, Standing};

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(500);

/// Looks for as long as it is not dropped.
pub(crate) async fn sweep(app: App) {
    loop {
        tokio::time::sleep(EVERY).await;
        for desk in app.holders().desks().into_iter().filter(|desk| is_of_cameras(desk.pool())) {
            if let Err(error) = pass(&app, &desk).await {
                tracing::debug!(%error, pool = desk.pool().as_str(), "cameras cannot be looked after at the moment");
            }
        }
    }
}

async fn pass(app: &App, desk: &Desk) -> Result<(), StoreError> {
    let (held, free) = due(desk).await?;
    for (camera, standing) in held {
        let _ = desk.revoke(&camera, &standing).await?;
    }
    for declared in free {
        if let Marked::Set(_) = app.store().declare(desk.pool(), &declared).await? {
            tracing::info!(
                pool = desk.pool().as_str(),
                camera_uuid = declared.resource.as_str(),
                "camera deleted"
            );
        }
    }
    Ok(())
}

/// Whose holder is still to be told, and what can go.
async fn due(desk: &Desk) -> Result<(Vec<(ResourceId, Standing)>, Vec<Declared>), StoreError> {
    let known = desk.lately().await?;
    let (mut held, mut free) = (Vec::new(), Vec::new());
    for declared in known.view.declared().values() {
        let is_deleting = Kept::of(declared).is_some_and(Kept::is_deleting);
        // One that was granted in the very moment of its deletion is taken back, too.
        let is_gone = declared.removed && Kept::was(declared);
        if !is_deleting && !is_gone {
            continue;
        }
        match desk.standing(&known, &declared.resource) {
            Some(standing) if !standing.is_revoked() => held.push((declared.resource.clone(), standing)),
            None if is_deleting => free.push(Declared { removed: true, document: None, ..declared.clone() }),
            _ => {}
        }
    }
    Ok((held, free))
}
