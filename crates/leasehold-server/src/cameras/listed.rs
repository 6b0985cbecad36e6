//! Leases of cameras that stand, as lists: those of a runner, and those of a camera.

use std::sync::Arc;

use axum::extract::State;
use leasehold::ResourceId;

use super::config::{CameraPath, OfTenant, camera_id, find};
use super::lease::{CameraLease, LeaseStatus};
use super::leases::Found;
use super::runners::{RunnerPath, runner_name};
use super::tenant::Tenant;
use crate::access::Identity;
use crate::app::App;
use crate::holders::Standing;
use crate::problem::{Answer, CameraProblem, CameraRefusals};
use crate::request::Path;
use crate::rest::Query;

/// The leases of a runner
///
/// An array: those that are active, revoked and not over yet, and pending.
#[utoipa::path(get, path = "/api/v1/leases/runner/{runner_id}", operation_id = "list_runner_leases", tag = "cameras", params(RunnerPath, OfTenant), responses(
    (status = 200, description = "its leases", body = Vec<CameraLease>),
    CameraRefusals,
))]
pub(crate) async fn of_runner(
    State(app): State<App>,
    identity: Identity,
    Path(name): Path<String>,
    Query(of): Query<OfTenant>,
) -> Answer<axum::Json<Vec<CameraLease>>> {
    let name = runner_name(&name)?;
    let mut forms = Vec::new();
    for tenant in Tenant::candidates(&app, &identity, of.tenant_id.as_deref()).await? {
        forms.extend(standing_in(&app, &tenant, |_, standing| standing.holder_id == name.as_str()).await?);
    }
    Ok(axum::Json(forms))
}

/// The leases of a camera
///
/// An array: the one that is active, if there is one, and the one that is pending.
#[utoipa::path(get, path = "/api/v1/leases/camera/{camera_uuid}", operation_id = "list_camera_leases", tag = "cameras", params(CameraPath, OfTenant), responses(
    (status = 200, description = "its leases", body = Vec<CameraLease>),
    (status = 404, description = "there is no such camera", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn of_camera(
    State(app): State<App>,
    identity: Identity,
    Path(camera): Path<String>,
    Query(of): Query<OfTenant>,
) -> Answer<axum::Json<Vec<CameraLease>>> {
    let camera = camera_id(&camera)?;
    let (tenant, _) = find(&app, &identity, &camera, of.tenant_id.as_deref()).await?;
    Ok(axum::Json(standing_in(&app, &tenant, |of, _| *of == camera).await?))
}

/// The leases of a tenant that stand and are wanted.
async fn standing_in(
    app: &App,
    tenant: &Tenant,
    wanted: impl Fn(&ResourceId, &Standing) -> bool,
) -> Answer<Vec<CameraLease>> {
    let mut forms = Vec::new();
    for pool in [&tenant.cameras, &tenant.pending] {
        let Some(desk) = app.holders().known(pool) else { continue };
        let found: Vec<Found> = {
            let known = desk.fresh().await?;
            let held = known.view.leases().keys().filter_map(|id| Some((id, desk.standing(&known, id)?)));
            let wanted = held.filter(|(id, standing)| standing.holder.is_some() && wanted(id, standing));
            let status = |standing: &Standing| match *pool == tenant.pending {
                true => LeaseStatus::Pending,
                false if standing.is_revoked() => LeaseStatus::Revoked,
                false => LeaseStatus::Active,
            };
            wanted
                .map(|(camera, standing)| Found {
                    tenant: tenant.clone(),
                    desk: Arc::clone(&desk),
                    camera: camera.clone(),
                    status: status(&standing),
                    standing,
                })
                .collect()
        };
        for one in found {
            forms.push(one.form(app).await?);
        }
    }
    Ok(forms)
}
