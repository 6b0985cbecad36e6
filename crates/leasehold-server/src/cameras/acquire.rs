//! Leases of cameras: asked for, and reserved while they change hands.
//!
//! Whoever asks for a free camera that it may have gets it. A reservation is a lease of the same camera in a pool of its own: one
//! at a time, gone when it is not renewed, and worth nothing but that nobody else is granted the camera when its holder lets go.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold::store::MarkKind;
use leasehold::{ResourceId, clock};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::assign::{Assignment, Demand, cameras_of, duty, items};
use super::camera::Kept;
use super::config::{camera_id, find, no_camera};
use super::lease::{Asked, CameraLease, LeaseStatus, new_id, pending};
use super::runner::{Runner, RunnerStatus};
use super::runners::{no_runner, own, runner_name, seconds};
use super::tenant::Tenant;
use crate::access::Identity;
use crate::app::App;
use crate::deploy::Duty;
use crate::holders::{Caller, Claim, Desk, Holder, Known, Standing, wall_time};
use crate::problem::{Answer, CameraProblem, Problem};
use crate::request::Json;
use crate::rest::leases::measured;

/// How long a lease of a camera lasts unless its runner says otherwise.
const TTL: Duration = Duration::from_secs(60);
/// How long a reservation lasts without a renewal.
const RESERVED: Duration = Duration::from_secs(15);
/// Among what else is known of a reservation: how long the lease is to last.
pub(super) const TTL_MS: &str = "ttl_ms";
const SHARD_MAX: usize = 255;
const VERSION_MAX: usize = 64;

/// Who wants a camera.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct AcquireCamera {
    /// Which camera.
    #[schema(example = "cam-001", min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:@+=-]+$")]
    camera_uuid: String,
    /// Which runner.
    #[schema(example = "runner-abc123", min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    runner_id: String,
    /// Which part of it.
    #[serde(default)]
    #[schema(example = "shard-1", max_length = 255)]
    shard_id: String,
    /// Whose camera; found by itself where only one tenant of the key has such a camera.
    tenant_id: Option<String>,
    /// At which site, to be certain.
    site_id: Option<String>,
    /// How long the lease lasts without a renewal, in seconds; 60 unless it is said.
    #[schema(minimum = 1, maximum = 3600)]
    ttl_seconds: Option<u64>,
    /// The configuration that the runner has. It is recorded, and no condition.
    #[serde(default)]
    #[schema(max_length = 64)]
    config_version: String,
    /// The zones that it has.
    #[serde(default)]
    #[schema(max_length = 64)]
    zone_version: String,
    /// Whether the camera is to be reserved if another runner has it that should hand it over. A lease that is `pending` is
    /// no leave to work: renew it until it is `active`.
    #[serde(default)]
    reserve: bool,
}

/// Acquisitions that are under way, so that a runner gets no more than it takes, however many it asks for at once.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    of: HashMap<String, BTreeSet<u64>>,
}

/// One acquisition that is under way.
struct Ticket<'a> {
    claims: &'a Claims,
    incarnation: String,
    number: u64,
}

impl Claims {
    fn ticket(&self, incarnation: &str) -> Ticket<'_> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.last += 1;
        let number = waiting.last;
        waiting.of.entry(incarnation.to_owned()).or_default().insert(number);
        Ticket { claims: self, incarnation: incarnation.to_owned(), number }
    }
}

impl Ticket<'_> {
    /// How many of the same runner were there before this one.
    fn before(&self) -> usize {
        let waiting = self.claims.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.of.get(&self.incarnation).map_or(0, |tickets| tickets.range(..self.number).count())
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut waiting = self.claims.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tickets) = waiting.of.get_mut(&self.incarnation) {
            tickets.remove(&self.number);
            if tickets.is_empty() {
                waiting.of.remove(&self.incarnation);
            }
        }
    }
}

fn conflict<T>(error: &'static str, said: String) -> Answer<T> {
    Err(Problem::new(StatusCode::CONFLICT, error, said))
}

/// Acquire the lease of a camera
///
/// Granted if nobody has it and the runner may have it. A runner that asks again, with the same shard, for what it has is answered
/// with the same lease, renewed.
#[utoipa::path(post, path = "/api/v1/leases/acquire", operation_id = "acquire_camera", tag = "cameras", request_body = AcquireCamera, responses(
    (status = 200, description = "it was yours already", body = CameraLease),
    (status = 201, description = "it is yours", body = CameraLease),
    (status = 202, description = "it is reserved for you: `pending`", body = CameraLease),
    (status = 404, description = "there is no such camera, or no such runner", body = CameraProblem),
    (status = 409, description = "somebody has it, or this runner may not", body = CameraProblem),
    (status = 429, description = "the runner has as many as it takes", body = CameraProblem),
    (status = "4XX", description = "the request cannot be used", body = CameraProblem),
    (status = 503, description = "the store does not answer, or grants nothing for now", body = CameraProblem),
))]
pub(crate) async fn acquire(
    State(app): State<App>,
    identity: Identity,
    Json(body): Json<AcquireCamera>,
) -> Answer<Response> {
    let began = clock::now();
    let (camera, ttl) = (camera_id(&body.camera_uuid)?, seconds("ttl_seconds", body.ttl_seconds, TTL)?);
    body.check()?;
    let tenant = match body.tenant_id.as_deref().or(identity.tenant()) {
        Some(id) => Tenant::named(&identity, id)?,
        None => find(&app, &identity, &camera, None).await?.0,
    };
    let desk = app.holders().desk_if_known(&tenant.cameras).await?.ok_or_else(|| no_camera(&camera))?;
    let runner = registered(&app, &identity, &tenant, &body.runner_id).await?;
    let ticket = app.claims().ticket(&runner.record.incarnation);
    let asking =
        Asking { app: &app, identity: &identity, tenant: &tenant, desk: &desk, runner: &runner, body: &body };
    let site = asking.may_take(&camera, &ticket).await?;
    let asked = Asked {
        tenant: &tenant.id,
        site: &site,
        shard: &body.shard_id,
        config_version: &body.config_version,
        zone_version: &body.zone_version,
        incarnation: &runner.record.incarnation,
    };
    let holder = Holder {
        id: runner.name.clone(),
        ttl,
        key: identity.key().map(str::to_owned),
        // Whoever did not get the answer asks again.
        idempotency: Some(format!("{}/{}", runner.record.incarnation, body.shard_id)),
        extra: asked.extra(&camera),
    };
    let id = new_id(&camera);
    match desk.claim(&camera, holder.clone(), 1, id.clone()).await? {
        Claim::Granted(standing) => {
            asking.unreserve(&camera).await?;
            // Whoever is answered can rely on others being told.
            desk.recorded().await?;
            let status = if standing.session == id { StatusCode::CREATED } else { StatusCode::OK };
            let form = CameraLease::of(&camera, &standing, LeaseStatus::Active, None, None);
            Ok(measured("acquire", began, "granted", (status, axum::Json(form)).into_response()))
        }
        Claim::Held(standing) if body.reserve => {
            let reserved = asking.reserve(&camera, holder, standing.as_ref()).await;
            measured("acquire", began, if reserved.is_ok() { "reserved" } else { "held" }, reserved)
        }
        Claim::Held(standing) => {
            Err(measured("acquire", began, "held", already_held(&camera, standing.as_ref())))
        }
        Claim::Frozen => Err(measured("acquire", began, "frozen", Problem::frozen())),
    }
}

impl AcquireCamera {
    fn check(&self) -> Answer<()> {
        let fits = |text: &str, most: usize| text.len() <= most && !text.chars().any(char::is_control);
        if !fits(&self.shard_id, SHARD_MAX) {
            return Err(Problem::invalid(format!(
                "shard_id has more than {SHARD_MAX} bytes, or control characters"
            )));
        }
        for (name, version) in
            [("config_version", &self.config_version), ("zone_version", &self.zone_version)]
        {
            if !fits(version, VERSION_MAX) {
                let said = format!("{name} has more than {VERSION_MAX} bytes, or control characters");
                return Err(Problem::invalid(said));
            }
        }
        Ok(())
    }
}

/// The runner, if it is registered and the caller's.
async fn registered(app: &App, identity: &Identity, tenant: &Tenant, name: &str) -> Answer<Runner> {
    let name = runner_name(name)?;
    let desk = app.holders().desk_if_known(&tenant.runners).await?.ok_or_else(|| no_runner(&name))?;
    let mut runner = Runner::named(&*desk.lately().await?, &name);
    if runner.as_ref().is_none_or(|runner| runner.ended) {
        runner = Runner::named(&*desk.fresh().await?, &name);
    }
    let runner = runner.filter(|runner| !runner.ended).ok_or_else(|| no_runner(&name))?;
    own(identity, &runner)?;
    Ok(runner)
}

pub(super) fn already_held(camera: &ResourceId, standing: Option<&Standing>) -> Problem {
    let by = standing.map_or_else(|| "somebody".to_owned(), |standing| standing.holder_id.clone());
    let left = standing.map_or(0, |standing| standing.expires_nanos.saturating_sub(clock::unix_nanos()));
    let problem = Problem::new(StatusCode::CONFLICT, "already_held", format!("{camera} is held by {by}"));
    let problem = match standing {
        Some(standing) => problem.current(json!({
            "runner_id": standing.holder_id,
            "fencing_token": standing.token.0,
            "expires_at": wall_time(standing.expires_nanos),
        })),
        None => problem,
    };
    problem.retry_after((left / 1_000_000_000).clamp(1, 3600))
}

/// One acquisition.
struct Asking<'a> {
    app: &'a App,
    identity: &'a Identity,
    tenant: &'a Tenant,
    desk: &'a Desk,
    runner: &'a Runner,
    body: &'a AcquireCamera,
}

impl Asking<'_> {
    /// The camera's site, if the runner may have it at all.
    async fn may_take(&self, camera: &ResourceId, ticket: &Ticket<'_>) -> Answer<String> {
        // What others changed a moment ago, and what was granted a moment ago, counts.
        let known = self.desk.fresh().await?;
        let kept = known.declared(camera).and_then(Kept::of).ok_or_else(|| no_camera(camera))?;
        if self.body.site_id.as_deref().is_some_and(|site| site != kept.site()) {
            return Err(no_camera(camera));
        }
        if kept.is_deleting() {
            return conflict("camera_deleting", format!("{camera} is being deleted"));
        }
        if known.is_paused(camera) {
            return conflict("paused", format!("{camera} is paused: nobody is to hold it"));
        }
        let (runner, name) = (self.runner, &self.runner.name);
        if runner.status() != RunnerStatus::Active {
            let said = format!("{name} is {} and takes nothing new", runner.status().as_str());
            return conflict("runner_not_active", said);
        }
        for (kind, word) in [(MarkKind::Drain, "drained"), (MarkKind::Cordon, "cordoned")] {
            if known.view.mark(kind, name.as_str()).is_some() {
                return conflict(word, format!("{name} is {word}: it gets nothing new"));
            }
        }
        if duty(&known, runner) != Duty::Usual {
            let version = &runner.record.deployment_version;
            return conflict(
                "deployment",
                format!("{name} is of version {version}, which gets nothing at present"),
            );
        }
        if let Err(why) = Demand::of(kept).fits(runner) {
            return conflict("not_eligible", format!("{camera} is not for {name}: {why}"));
        }
        let held = cameras_of(&known, &runner.record.incarnation);
        let load = held.iter().filter(|held| *held != camera).count() + ticket.before();
        let capacity = runner.record.capacity;
        if load >= capacity as usize {
            let said = format!(
                "{name} takes {capacity} cameras and has as many; release one, or raise its capacity"
            );
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "runner_full", said).retry_after(1));
        }
        let site = kept.site().to_owned();
        drop(known);
        self.not_reserved_for_another(camera).await?;
        Ok(site)
    }

    async fn not_reserved_for_another(&self, camera: &ResourceId) -> Answer<()> {
        let Some(waiting) = self.app.holders().known(&self.tenant.pending) else { return Ok(()) };
        let known = waiting.lately().await?;
        let other = waiting.standing(&known, camera).filter(|one| one.holder_id != self.runner.name.as_str());
        match other {
            Some(standing) => {
                let said = format!("{camera} changes hands and is reserved for {}", standing.holder_id);
                Err(Problem::new(StatusCode::CONFLICT, "reserved", said).retry_after(1))
            }
            None => Ok(()),
        }
    }

    /// Gives up what is reserved for the runner: it has the camera.
    async fn unreserve(&self, camera: &ResourceId) -> Answer<()> {
        let Some(waiting) = self.app.holders().known(&self.tenant.pending) else { return Ok(()) };
        if waiting.standing(&*waiting.lately().await?, camera).is_none() {
            return Ok(());
        }
        let (holder_id, key) = (self.runner.name.as_str(), self.identity.key());
        let _ = waiting.release(camera, &Caller { holder_id, session: None, token: None, key }).await?;
        Ok(())
    }

    /// Reserves a camera that another runner should hand over to this one.
    async fn reserve(
        &self,
        camera: &ResourceId,
        mut holder: Holder,
        standing: Option<&Standing>,
    ) -> Answer<Response> {
        let (assignment, _) = assignment(self.app, self.tenant).await?;
        let planned = assignment.moves(&self.runner.session).any(|planned| planned == camera);
        let waiting = self.app.desk(&self.tenant.pending)?;
        let again = waiting.standing(&*waiting.fresh().await?, camera);
        let is_again = again.is_some_and(|again| again.holder_id == self.runner.name.as_str());
        if !planned && !is_again {
            return Err(already_held(camera, standing));
        }
        holder.extra.insert(TTL_MS.to_owned(), holder.ttl.as_millis().to_string());
        holder.ttl = RESERVED;
        let id = pending(&new_id(camera)).ok_or_else(|| already_held(camera, standing))?;
        match waiting.claim(camera, holder, 1, id).await? {
            Claim::Granted(reserved) => {
                let form = CameraLease::of(camera, &reserved, LeaseStatus::Pending, None, None);
                Ok((StatusCode::ACCEPTED, axum::Json(form)).into_response())
            }
            Claim::Held(_) => Err(already_held(camera, standing)),
            Claim::Frozen => Err(Problem::frozen()),
        }
    }
}

/// What the plan makes of a tenant's cameras and runners, and what was read of the cameras for it.
pub(super) async fn assignment(app: &App, tenant: &Tenant) -> Answer<(Assignment, Arc<Desk>)> {
    let (desk, waiting) = (tenant.desk(app)?, app.desk(&tenant.pending)?);
    let runners = Runner::all(&*app.desk(&tenant.runners)?.fresh().await?);
    let living: Vec<&Runner> = runners.values().filter(|runner| !runner.ended).collect();
    let assignment = {
        let pending = waiting.fresh().await?;
        let cameras = desk.fresh().await?;
        app.offers(&tenant.cameras, |offers| {
            let now = clock::now();
            offers.lapse(now, |camera| cameras.view.holder(camera).is_none());
            let (items, in_flight) = items(&cameras, &pending, &runners, offers);
            let assignment = Assignment::of(&living, items, in_flight, |runner| duty(&cameras, runner));
            let placements = assignment.plan.placements().iter();
            offers.note(now, placements.map(|placement| (&placement.resource, &placement.to)));
            assignment
        })
    };
    Ok((assignment, desk))
}

/// Whether a camera is reserved for somebody.
pub(super) async fn is_awaited(app: &App, tenant: &Tenant, camera: &ResourceId) -> Answer<bool> {
    let Some(waiting) = app.holders().known(&tenant.pending) else { return Ok(false) };
    let known: &Known = &*waiting.lately().await?;
    Ok(waiting.standing(known, camera).is_some())
}
