//! What is left to do when nobody asks: cameras that are to be deleted go when their holders have stopped, and deployments are
//! done, or go back.
//!
//! Every replica does it, by compare-and-set on what it read; which one was first makes no difference.

use std::time::Duration;

use leasehold::ResourceId;
use leasehold::store::{Declared, MarkKind, Marked, StoreError, Version};

use super::assign::cameras_of;
use super::camera::Kept;
use super::figures::Figures;
use super::runner::Runner;
use super::tenant::{is_of_cameras, runners_of};
use crate::app::App;
use crate::deploy::{Deployment, Phase};
use crate::holders::{Desk, Standing};

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(500);

/// Looks for as long as it is not dropped.
pub(crate) async fn sweep(app: App) {
    let mut figures = Figures::default();
    loop {
        tokio::time::sleep(EVERY).await;
        for desk in app.holders().desks().into_iter().filter(|desk| is_of_cameras(desk.pool())) {
            let looked = async {
                pass(&app, &desk).await?;
                deployments(&app, &desk).await?;
                figures.measure(&app, &desk).await
            };
            if let Err(error) = looked.await {
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

/// Deployments that are done, or have failed.
async fn deployments(app: &App, desk: &Desk) -> Result<(), StoreError> {
    let under_way: Vec<(String, Deployment, Version)> = {
        let known = desk.lately().await?;
        let marks = known.view.marks().filter(|mark| mark.kind == MarkKind::Deployment);
        let read = marks.filter_map(|mark| Some((mark.subject.clone(), Deployment::of(mark)?, mark.version)));
        read.filter(|(_, deployment, _)| deployment.phase == Phase::Promoting).collect()
    };
    let runners = runners_of(desk.pool()).and_then(|pool| app.holders().known(&pool));
    let (Some(runners), false) = (runners, under_way.is_empty()) else { return Ok(()) };
    let living = Runner::all(&*runners.fresh().await?);
    let known = desk.fresh().await?;
    let steps: Vec<(String, Deployment, Version)> = under_way
        .into_iter()
        .filter_map(|(group, deployment, version)| {
            let of_group = living.values().filter(|one| !one.ended && one.record.deployment_group == group);
            let living: Vec<_> = of_group
                .map(|one| {
                    let held = cameras_of(&known, &one.record.incarnation).len();
                    (one.name.clone(), one.record.deployment_version.clone(), held)
                })
                .collect();
            Some((group, deployment.next(&living)?, version))
        })
        .collect();
    drop(known);
    for (group, next, version) in steps {
        let value = serde_json::to_string(&next).unwrap_or_default();
        let set = app.store().set_mark(desk.pool(), MarkKind::Deployment, &group, Some(&value), version);
        if let Marked::Set(_) = set.await? {
            let reason = next.reason.as_deref();
            tracing::info!(pool = desk.pool().as_str(), group, version = next.version, phase = ?next.phase, reason, "deployment");
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
