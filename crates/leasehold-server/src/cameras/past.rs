//! Leases that are over, as the ledger has them.

use std::sync::Arc;

use leasehold::ledger::Entry;
use leasehold::{MemberId, ResourceId};

use super::lease::{CameraLease, LeaseStatus, may_be_of};
use super::tenant::Tenant;
use crate::access::Identity;
use crate::app::App;
use crate::holders::Desk;
use crate::problem::Answer;

/// How many rows of a camera are read for a lease that is over.
const ROWS: usize = 1000;
const PAGES_MAX: usize = 20;

/// A lease that is over, as the ledger has it.
pub(super) async fn past(app: &App, identity: &Identity, id: &MemberId) -> Answer<Option<CameraLease>> {
    Ok(rows_of(app, identity, id).await?.and_then(|(_, rows)| CameraLease::past(id, &rows)))
}

/// The rows of the camera that has, or had, a lease of this id.
async fn rows_of(
    app: &App,
    identity: &Identity,
    id: &MemberId,
) -> Answer<Option<(Arc<Desk>, Vec<(u64, Entry)>)>> {
    for tenant in Tenant::heard(app, identity) {
        let Some(desk) = app.holders().known(&tenant.cameras) else { continue };
        let cameras: Vec<ResourceId> = {
            let known = desk.lately().await?;
            known.view.leases().keys().filter(|camera| may_be_of(id, camera)).cloned().collect()
        };
        for camera in cameras {
            let (mut rows, mut after) = (Vec::new(), 0);
            for _ in 0..PAGES_MAX {
                let page = app.store().ledger(&tenant.cameras, Some(&camera), after, ROWS).await?;
                after = page.last().map_or(after, |(row, _)| *row);
                let more = page.len() == ROWS;
                rows.extend(page);
                if !more {
                    break;
                }
            }
            if CameraLease::past(id, &rows).is_some() {
                return Ok(Some((desk, rows)));
            }
        }
    }
    Ok(None)
}

/// A lease that its holder releases though it is over. If nobody has written down how it ended, the request was made before, and
/// whoever served it was gone before it could answer.
pub(super) async fn told_late(
    app: &App,
    identity: &Identity,
    id: &MemberId,
    lease: CameraLease,
) -> Answer<CameraLease> {
    let Some((desk, rows)) = rows_of(app, identity, id).await? else { return Ok(lease) };
    let Some(grant) = CameraLease::open_end(id, &rows).filter(|_| lease.status == LeaseStatus::Expired)
    else {
        return Ok(lease);
    };
    desk.release_late(grant);
    desk.recorded().await?;
    Ok(CameraLease { status: LeaseStatus::Released, ..lease })
}
