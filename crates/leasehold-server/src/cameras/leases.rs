//! Leases of cameras by their ids: shown, renewed, released, revoked.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use leasehold::store::{MarkKind, Marked};
use leasehold::{MemberId, ResourceId, clock};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::acquire::{TTL_MS, already_held, is_awaited};
use super::assign::{INCARNATION, duty};
use super::config::changed_meanwhile;
use super::lease::{CameraLease, LeaseStatus, Said, pending};
use super::past::{past, told_late};
use super::runner::{Runner, RunnerStatus};
use super::runners::too_much;
use super::tenant::Tenant;
use crate::access::Identity;
use crate::app::App;
use crate::deploy::Duty;
use crate::holders::{Caller, Claim, Desk, Lost, Renewal, Standing};
use crate::problem::{Answer, CameraProblem, CameraRefusals, Problem};
use crate::request::{Json, Path};
use crate::rest::leases::measured;

/// How often a change is tried again that somebody else was faster with.
const TRIES: usize = 4;

/// Where a lease is found.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what is read from the path")]
pub(crate) struct LeasePath {
    /// The lease.
    #[param(
        min_length = 1,
        max_length = 64,
        pattern = "^[A-Za-z0-9._-]+$",
        example = "018c2f6e-7a10-8f4b-b2c1-5d3a9e0b77aa"
    )]
    lease_id: String,
}

/// Whether a lease stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Validity {
    /// The lease.
    lease_id: String,
    /// Whether its holder may work by it.
    valid: bool,
    /// How it stands.
    status: LeaseStatus,
}

/// A lease as it was found.
pub(super) struct Found {
    pub(super) tenant: Tenant,
    /// The desk of the cameras, or of the reservations.
    pub(super) desk: Arc<Desk>,
    pub(super) camera: ResourceId,
    pub(super) standing: Standing,
    pub(super) status: LeaseStatus,
}

fn lease_id(text: &str) -> Answer<MemberId> {
    if text.len() > 64 {
        return Err(Problem::invalid("lease_id has more than 64 bytes"));
    }
    MemberId::new(text)
        .map_err(|error| Problem::invalid(error.to_string().replacen("member id", "lease_id", 1)))
}

fn no_lease(id: &MemberId) -> Problem {
    let said = format!("there is no lease {id}, or it was over long ago; if you worked by it, stop");
    Problem::new(StatusCode::NOT_FOUND, "lease_not_found", said)
}

/// Says that a lease is over for good.
fn over(lease: &CameraLease) -> Problem {
    let (error, said) = match lease.status {
        LeaseStatus::Released => ("lease_released", "was released"),
        LeaseStatus::Revoked => ("lease_revoked", "was revoked"),
        _ => ("lease_expired", "has expired"),
    };
    let said = format!("the lease of {} {said}; stop working on it", lease.camera_uuid);
    let details = serde_json::json!({"camera_uuid": lease.camera_uuid, "status": lease.status});
    Problem::new(StatusCode::GONE, error, said).current(details)
}

impl Found {
    /// The lease of this id, if it stands and is open to the caller: from what was read lately, unless it must be certain.
    async fn standing(app: &App, identity: &Identity, id: &MemberId, certain: bool) -> Answer<Option<Self>> {
        for tenant in Tenant::heard(app, identity) {
            for (pool, id) in [(&tenant.cameras, Some(id.clone())), (&tenant.pending, pending(id))] {
                let (Some(desk), Some(id)) = (app.holders().known(pool), id) else { continue };
                let held = {
                    let known = if certain { desk.fresh().await? } else { desk.lately().await? };
                    desk.held_by(&known, &id)
                };
                let Some((camera, standing)) = held else { continue };
                let status = match *pool == tenant.pending {
                    true => LeaseStatus::Pending,
                    false if standing.is_revoked() => LeaseStatus::Revoked,
                    false => LeaseStatus::Active,
                };
                let tenant = tenant.clone();
                return Ok(Some(Self { tenant, desk, camera, standing, status }));
            }
        }
        Ok(None)
    }

    /// The same; what is over is an answer, too.
    async fn of(
        app: &App,
        identity: &Identity,
        id: &MemberId,
        certain: bool,
    ) -> Answer<Result<Self, CameraLease>> {
        if let Some(found) = Self::standing(app, identity, id, certain).await? {
            return Ok(Ok(found));
        }
        // Another replica may have granted it, in a pool that is not known here yet.
        app.holders().find().await?;
        if let Some(found) = Self::standing(app, identity, id, true).await? {
            return Ok(Ok(found));
        }
        past(app, identity, id).await?.map(Err).ok_or_else(|| no_lease(id))
    }

    fn caller<'a>(&'a self, identity: &'a Identity) -> Caller<'a> {
        let Standing { holder_id, session, token, .. } = &self.standing;
        Caller { holder_id, session: Some(session), token: Some(*token), key: identity.key() }
    }

    /// Refuses whoever has another key than the lease was acquired with.
    fn own(&self, identity: &Identity) -> Answer<()> {
        let key = self.standing.holder.as_ref().and_then(|holder| holder.key.as_deref());
        if key.is_none() || key == identity.key() { Ok(()) } else { Err(foreign()) }
    }

    pub(super) async fn form(&self, app: &App) -> Answer<CameraLease> {
        let Self { tenant, desk, camera, standing, status } = self;
        let said = Said::of(&*desk.lately().await?, camera, standing.session.as_str());
        let renewed = desk.renewed_nanos(&standing.session);
        let mut form = CameraLease::of(camera, standing, *status, said, renewed);
        form.release_requested = *status == LeaseStatus::Active && is_awaited(app, tenant, camera).await?;
        Ok(form)
    }
}

fn foreign() -> Problem {
    let said = "this lease was acquired with another API key; only that one may touch it";
    Problem::new(StatusCode::FORBIDDEN, "not_your_lease", said)
}

/// A lease
#[utoipa::path(get, path = "/api/v1/leases/{lease_id}", operation_id = "get_camera_lease", tag = "cameras", params(LeasePath), responses(
    (status = 200, description = "the lease, also one that is over", body = CameraLease),
    (status = 404, description = "there is none, or it was over long ago", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn get(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<String>,
) -> Answer<axum::Json<CameraLease>> {
    match Found::of(&app, &identity, &lease_id(&id)?, true).await? {
        Ok(found) => found.form(&app).await.map(axum::Json),
        Err(lease) => Ok(axum::Json(lease)),
    }
}

/// Whether a lease stands
#[utoipa::path(get, path = "/api/v1/leases/{lease_id}/validate", operation_id = "validate_camera_lease", tag = "cameras", params(LeasePath), responses(
    (status = 200, description = "whether it does", body = Validity),
    (status = 404, description = "there is none, or it was over long ago", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn validate(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<String>,
) -> Answer<axum::Json<Validity>> {
    let status = match Found::of(&app, &identity, &lease_id(&id)?, true).await? {
        Ok(found) => found.status,
        Err(lease) => lease.status,
    };
    Ok(axum::Json(Validity { lease_id: id, valid: status == LeaseStatus::Active, status }))
}

/// Renew a lease
///
/// 404 and 410 are final: the lease is lost, stop working on the camera. A lease that is `pending` becomes `active` by this
/// when whoever had the camera has let go.
#[utoipa::path(put, path = "/api/v1/leases/{lease_id}/renew", operation_id = "renew_camera_lease", tag = "cameras", params(LeasePath), responses(
    (status = 200, description = "it has more time", body = CameraLease),
    (status = 403, description = "it was acquired with another key", body = CameraProblem),
    (status = 404, description = "there is none, or it was over long ago", body = CameraProblem),
    (status = 410, description = "it is over", body = CameraProblem),
    (status = "4XX", description = "the request cannot be used", body = CameraProblem),
    (status = 503, description = "unknown: the store does not answer", body = CameraProblem),
))]
pub(crate) async fn renew(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<String>,
) -> Answer<axum::Json<CameraLease>> {
    let began = clock::now();
    let renewed = renewed(&app, &identity, &lease_id(&id)?).await;
    let result = match &renewed {
        Ok(_) => "extended",
        Err(problem) => problem.error(),
    };
    measured("renew", began, result, renewed.map(axum::Json))
}

async fn renewed(app: &App, identity: &Identity, id: &MemberId) -> Answer<CameraLease> {
    let mut found = match Found::of(app, identity, id, false).await? {
        Ok(found) => found,
        Err(lease) => return Err(over(&lease)),
    };
    if is_superseded(app, &found).await? {
        let said = format!(
            "{} has registered again since; stop working on {}",
            found.standing.holder_id, found.camera
        );
        return Err(Problem::new(StatusCode::GONE, "superseded", said));
    }
    if found.desk.lately().await?.is_paused(&found.camera) {
        let said = format!("{} is paused: nobody is to hold it; stop working on it", found.camera);
        return Err(Problem::new(StatusCode::GONE, "paused", said));
    }
    if found.status == LeaseStatus::Pending && !may_wait(app, &found).await? {
        // Its holder is not to have the camera any more: nobody is asked to hand over, and the plan is free to decide anew.
        found.own(identity)?;
        let _ = found.desk.release(&found.camera, &found.caller(identity)).await?;
        return Err(over(&CameraLease { status: LeaseStatus::Released, ..found.form(app).await? }));
    }
    match found.desk.renew(&found.camera, &found.caller(identity)).await? {
        Renewal::Extended(standing) => {
            found.standing = standing;
            if found.status == LeaseStatus::Pending
                && let Some(active) = activated(app, identity, id, &found).await?
            {
                found = active;
            }
            found.form(app).await
        }
        Renewal::Lost(Lost::Foreign) => Err(foreign()),
        Renewal::Lost(lost) => {
            let past = past(app, identity, id).await?;
            let mut lease = past.unwrap_or_else(|| {
                CameraLease::of(&found.camera, &found.standing, LeaseStatus::Expired, None, None)
            });
            if matches!(lost, Lost::Revoked) {
                lease.status = LeaseStatus::Revoked;
            }
            Err(over(&lease))
        }
        Renewal::Frozen => Err(Problem::frozen()),
    }
}

/// Whether a later incarnation of the runner has registered.
async fn is_superseded(app: &App, found: &Found) -> Answer<bool> {
    let Some(desk) = app.holders().known(&found.tenant.runners) else { return Ok(false) };
    let Some(holder) = &found.standing.holder else { return Ok(false) };
    let now = Runner::named(&*desk.lately().await?, &holder.id).filter(|runner| !runner.ended);
    Ok(now.is_some_and(|now| holder.extra.get(INCARNATION).is_some_and(|of| *of != now.record.incarnation)))
}

/// Whether the runner that waits for a camera is still one that takes cameras.
async fn may_wait(app: &App, reserved: &Found) -> Answer<bool> {
    let Some(runners) = app.holders().known(&reserved.tenant.runners) else { return Ok(false) };
    let Some(holder) = &reserved.standing.holder else { return Ok(false) };
    let runner = Runner::named(&*runners.lately().await?, &holder.id);
    let Some(runner) = runner.filter(|runner| runner.status() == RunnerStatus::Active) else {
        return Ok(false);
    };
    let cameras = reserved.tenant.desk(app)?;
    let known = cameras.fresh().await?;
    Ok(duty(&known, &runner) == Duty::Usual)
}

/// Makes a lease of a reservation, if nobody has the camera any more.
async fn activated(app: &App, identity: &Identity, id: &MemberId, reserved: &Found) -> Answer<Option<Found>> {
    let desk = reserved.tenant.desk(app)?;
    let Some(mut holder) = reserved.standing.holder.clone() else { return Ok(None) };
    let ttl = holder.extra.remove(TTL_MS).and_then(|millis| millis.parse().ok()).map(Duration::from_millis);
    holder.ttl = ttl.unwrap_or(holder.ttl);
    match desk.claim(&reserved.camera, holder, 1, id.clone()).await? {
        Claim::Granted(standing) => {
            desk.recorded().await?;
            let _ = reserved.desk.release(&reserved.camera, &reserved.caller(identity)).await?;
            let (tenant, camera) = (reserved.tenant.clone(), reserved.camera.clone());
            Ok(Some(Found { tenant, desk, camera, standing, status: LeaseStatus::Active }))
        }
        Claim::Held(_) | Claim::Frozen => Ok(None),
    }
}

/// Release a lease
///
/// One that is over already is answered the same way, as it stands.
#[utoipa::path(delete, path = "/api/v1/leases/{lease_id}/release", operation_id = "release_camera_lease", tag = "cameras", params(LeasePath), responses(
    (status = 200, description = "it is not yours any more", body = CameraLease),
    (status = 403, description = "it was acquired with another key", body = CameraProblem),
    (status = 404, description = "there is none, or it was over long ago", body = CameraProblem),
    (status = "4XX", description = "the request cannot be used", body = CameraProblem),
    (status = 503, description = "unknown: the store does not answer", body = CameraProblem),
))]
pub(crate) async fn release(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<String>,
) -> Answer<axum::Json<CameraLease>> {
    let (began, id) = (clock::now(), lease_id(&id)?);
    let found = match Found::of(&app, &identity, &id, false).await? {
        Ok(found) => found,
        Err(lease) => {
            let lease = told_late(&app, &identity, &id, lease).await?;
            return Ok(measured("release", began, "not_held", axum::Json(lease)));
        }
    };
    let mut form = found.form(&app).await?;
    match found.desk.release(&found.camera, &found.caller(&identity)).await? {
        Ok(_) => {
            form.status =
                if found.status == LeaseStatus::Revoked { found.status } else { LeaseStatus::Released };
            form.release_requested = false;
            found.desk.recorded().await?;
            Ok(measured("release", began, "released", axum::Json(form)))
        }
        Err(Lost::Foreign) => Err(measured("release", began, "foreign", foreign())),
        Err(_) => {
            form.status =
                past(&app, &identity, &id).await?.map_or(LeaseStatus::Expired, |lease| lease.status);
            Ok(measured("release", began, "not_held", axum::Json(form)))
        }
    }
}

/// Say how the work under a lease goes
///
/// It is recorded and does not extend the lease: only renewing does. The body is any object, or one in `processing_stats`.
#[utoipa::path(post, path = "/api/v1/leases/{lease_id}/heartbeat", operation_id = "camera_lease_heartbeat", tag = "cameras", request_body = Object, params(LeasePath), responses(
    (status = 200, description = "recorded", body = CameraLease),
    (status = 403, description = "it was acquired with another key", body = CameraProblem),
    (status = 404, description = "there is none, or it was over long ago", body = CameraProblem),
    (status = 410, description = "it is over", body = CameraProblem),
    (status = "4XX", description = "the request cannot be used", body = CameraProblem),
    (status = 503, description = "unknown: the store does not answer", body = CameraProblem),
))]
pub(crate) async fn heartbeat(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<String>,
    Json(mut body): Json<Map<String, Value>>,
) -> Answer<axum::Json<CameraLease>> {
    let (began, id) = (clock::now(), lease_id(&id)?);
    let stats = match ["processing_stats", "stats"].iter().find_map(|name| body.remove(*name)) {
        None => body,
        Some(Value::Object(stats)) => stats,
        Some(_) => return Err(Problem::invalid("processing_stats is no object")),
    };
    if too_much(&stats) {
        return Err(Problem::invalid("processing_stats has more than 16384 bytes"));
    }
    let found = match Found::of(&app, &identity, &id, true).await? {
        Ok(found) if found.status == LeaseStatus::Active => found,
        Ok(found) if found.status == LeaseStatus::Pending => {
            return Err(already_held(&found.camera, None));
        }
        Ok(found) => return Err(over(&found.form(&app).await?)),
        Err(lease) => return Err(over(&lease)),
    };
    found.own(&identity)?;
    let said = Said { lease_id: id.to_string(), at_nanos: clock::unix_nanos(), stats };
    let value = serde_json::to_string(&said).unwrap_or_default();
    let subject = found.camera.as_str();
    let mut expected = found.desk.lately().await?.view.version_of_mark(MarkKind::Heartbeat, subject);
    for _ in 0..TRIES {
        let set =
            app.store().set_mark(found.desk.pool(), MarkKind::Heartbeat, subject, Some(&value), expected);
        match set.await? {
            Marked::Set(_) => {
                let renewed = found.desk.renewed_nanos(&found.standing.session);
                let form = CameraLease::of(&found.camera, &found.standing, found.status, Some(said), renewed);
                return Ok(measured("heartbeat", began, "recorded", axum::Json(form)));
            }
            Marked::Conflict(now) => expected = now,
        }
    }
    Err(changed_meanwhile())
}

/// Revoke a lease
///
/// Its holder is told with its next renewal, and by an event. The camera is free when it has released the lease, or when that has
/// run out.
#[utoipa::path(post, path = "/api/v1/leases/{lease_id}/revoke", operation_id = "revoke_camera_lease", tag = "cameras", params(LeasePath), responses(
    (status = 200, description = "it is not renewed any more", body = CameraLease),
    (status = 404, description = "there is none, or it was over long ago", body = CameraProblem),
    (status = 410, description = "it is over", body = CameraProblem),
    (status = "4XX", description = "the request cannot be used", body = CameraProblem),
    (status = 503, description = "unknown: the store does not answer", body = CameraProblem),
))]
pub(crate) async fn revoke(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<String>,
) -> Answer<axum::Json<CameraLease>> {
    let (began, id) = (clock::now(), lease_id(&id)?);
    let mut found = match Found::of(&app, &identity, &id, true).await? {
        Ok(found) => found,
        Err(lease) => return Err(over(&lease)),
    };
    if let leasehold::store::Revoked::Frozen(_) = found.desk.revoke(&found.camera, &found.standing).await? {
        return Err(measured("revoke", began, "frozen", Problem::frozen()));
    }
    found.status = LeaseStatus::Revoked;
    found.desk.recorded().await?;
    Ok(measured("revoke", began, "revoked", axum::Json(found.form(&app).await?)))
}
