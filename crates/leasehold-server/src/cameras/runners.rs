//! Runners over HTTP: registered, heard, shown, removed.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold::participant::{TTL_MAX, TTL_MIN};
use leasehold::store::Answer as Answered;
use leasehold::{MemberId, MemberName, clock};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::assign::cameras_of;
use super::camera::check_capabilities;
use super::config::OfTenant;
use super::runner::{ANY_SITE, Record, Runner, RunnerForm, RunnerStatus};
use super::tenant::{Tenant, site, the_one};
use crate::access::Identity;
use crate::app::App;
use crate::holders::{Caller, Desk};
use crate::keys::Role;
use crate::problem::{Answer, CameraProblem, CameraRefusals, Problem};
use crate::request::{Json, Path};
use crate::rest::Query;

/// How long a runner may not be heard of unless it says otherwise: three heartbeats of document 004.
const TTL: Duration = Duration::from_secs(90);
/// How many cameras a runner takes unless it says otherwise.
const CAPACITY: u32 = 16;
const CAPACITY_MAX: u32 = 100_000;
/// The longest host name, and the most that a runner says of itself.
const HOST_MAX: usize = 255;
const METRICS_MAX: usize = 16 * 1024;

/// Where a runner is found.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what is read from the path")]
pub(crate) struct RunnerPath {
    /// The runner.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$", example = "runner-abc123")]
    runner_id: String,
}

/// Who registers.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RegisterBody {
    /// Its name, the same after a restart.
    #[schema(example = "runner-abc123", min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    runner_id: String,
    /// Whose cameras it works for; the key's tenant if it is left out.
    #[schema(example = "tenant-1")]
    tenant_id: Option<String>,
    /// At which site; `*` for all.
    #[schema(example = "site-1")]
    site_id: String,
    /// What is deployed together.
    #[serde(default = "usual_group")]
    #[schema(example = "production")]
    deployment_group: String,
    /// Which version of that.
    #[serde(default)]
    #[schema(example = "v1.2.3")]
    deployment_version: String,
    /// Where it runs.
    #[serde(default)]
    host: String,
    /// Where it answers.
    #[serde(default)]
    port: u16,
    /// How many cameras it takes; 16 unless it says otherwise.
    #[schema(minimum = 0, maximum = 100_000)]
    capacity: Option<u32>,
    /// Where its figures are.
    metrics_port: Option<u16>,
    /// What it can do.
    #[serde(default)]
    capabilities: Vec<String>,
    /// The incarnation that it still is, as its registration before said it. Without it what it held before runs out.
    incarnation: Option<String>,
    /// How long it may not be heard of, in seconds; 90 unless it says otherwise.
    #[schema(minimum = 1, maximum = 3600)]
    ttl_seconds: Option<u64>,
}

fn usual_group() -> String {
    "default".to_owned()
}

/// What a runner says of itself. All of it may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct RunnerHeartbeat {
    /// What it is up to.
    status: Option<RunnerStatus>,
    /// How many cameras it takes.
    #[schema(minimum = 0, maximum = 100_000)]
    capacity: Option<u32>,
    /// Anything it wants to be known. What it counts as its load is among it; what counts are its leases.
    metrics: Option<Map<String, Value>>,
}

/// A runner's name, if it can be one.
pub(super) fn runner_name(text: &str) -> Answer<MemberName> {
    MemberName::new(text)
        .map_err(|error| Problem::invalid(error.to_string().replacen("member name", "runner_id", 1)))
}

/// A number of seconds, if it is one that anything may last.
pub(super) fn seconds(name: &str, given: Option<u64>, usual: Duration) -> Answer<Duration> {
    let ttl = given.map_or(usual, Duration::from_secs);
    if (TTL_MIN..=TTL_MAX).contains(&ttl) {
        return Ok(ttl);
    }
    let (least, most) = (TTL_MIN.as_secs(), TTL_MAX.as_secs());
    Err(Problem::invalid(format!("{name} is {}; give one between {least} and {most}", ttl.as_secs())))
}

/// Says that there is no such runner.
pub(super) fn no_runner(name: &MemberName) -> Problem {
    let said = format!("there is no runner {name}; POST /api/v1/runners/register/ makes one");
    Problem::new(StatusCode::NOT_FOUND, "runner_not_found", said)
}

impl RegisterBody {
    fn record(&self, session: &MemberId) -> Answer<Record> {
        let site_id = if self.site_id == ANY_SITE { ANY_SITE.to_owned() } else { site(&self.site_id)? };
        for (name, text) in
            [("deployment_group", &self.deployment_group), ("deployment_version", &self.deployment_version)]
        {
            if !text.is_empty() || name == "deployment_group" {
                let wrong =
                    |error: leasehold::lease::IdError| error.to_string().replacen("member name", name, 1);
                MemberName::new(text).map_err(|error| Problem::invalid(wrong(error)))?;
            }
        }
        if self.host.len() > HOST_MAX || self.host.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Problem::invalid(format!("host has more than {HOST_MAX} bytes, or white space")));
        }
        check_capabilities(&self.capabilities).map_err(Problem::invalid)?;
        let incarnation = match &self.incarnation {
            None => session.to_string(),
            Some(text) => MemberId::new(text)
                .map_err(|error| Problem::invalid(error.to_string().replacen("member id", "incarnation", 1)))?
                .to_string(),
        };
        let now = clock::unix_nanos();
        Ok(Record {
            site_id,
            deployment_group: self.deployment_group.clone(),
            deployment_version: self.deployment_version.clone(),
            host: self.host.clone(),
            port: self.port,
            metrics_port: self.metrics_port,
            capacity: capacity(self.capacity)?.unwrap_or(CAPACITY),
            capabilities: self.capabilities.clone(),
            status: RunnerStatus::Active,
            incarnation,
            registered_nanos: now,
            heard_nanos: now,
            metrics: Map::new(),
        })
    }
}

fn capacity(given: Option<u32>) -> Answer<Option<u32>> {
    if given.is_some_and(|capacity| capacity > CAPACITY_MAX) {
        return Err(Problem::invalid(format!("capacity is at most {CAPACITY_MAX}")));
    }
    Ok(given)
}

/// Refuses who acts for a runner with another key than it registered with.
pub(super) fn own(identity: &Identity, runner: &Runner) -> Answer<()> {
    if runner.key.is_none() || runner.key.as_deref() == identity.key() {
        return Ok(());
    }
    let said = "this runner registered with another API key; only that one may act for it";
    Err(Problem::new(StatusCode::FORBIDDEN, "not_your_runner", said))
}

/// Register a runner
///
/// Again after a crash, too: it is then a new incarnation, and what the one before held runs out.
#[utoipa::path(post, path = "/api/v1/runners/register", operation_id = "register_runner", tag = "cameras", request_body = RegisterBody, responses(
    (status = 201, description = "it is known, and can acquire leases", body = RunnerForm),
    (status = 403, description = "the runner of that name has another key", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn register(
    State(app): State<App>,
    identity: Identity,
    Json(body): Json<RegisterBody>,
) -> Answer<Response> {
    let tenant = Tenant::meant(&identity, body.tenant_id.as_deref())?;
    let (name, ttl) = (runner_name(&body.runner_id)?, seconds("ttl_seconds", body.ttl_seconds, TTL)?);
    let session = MemberId::generate_in_order();
    let record = body.record(&session)?;
    let desk = app.desk(&tenant.runners)?;
    let older: Vec<MemberId> = {
        let known = desk.fresh().await?;
        if let Some(before) = Runner::named(&known, &name).filter(|before| !before.ended)
            && identity.needs(Role::Operator).is_err()
        {
            own(&identity, &before)?;
        }
        let of_name = known.view.sessions().values().filter(|one| !one.ended && one.profile.name == name);
        of_name.map(|one| one.id.clone()).filter(|id| *id < session).collect()
    };
    match desk.enlist(&session, ttl, record.profile(&name, identity.key())).await? {
        Answered::Done(()) => {}
        Answered::Frozen(_) => return Err(Problem::frozen()),
        Answered::Gone => {
            let said = "a session that was never used before has ended; try again";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", said));
        }
    }
    // Of two that register at once the later one stays.
    for before in older {
        desk.dismiss(&before).await?;
    }
    // Whoever asks this replica next finds it.
    drop(desk.fresh().await?);
    let key = identity.key().map(str::to_owned);
    let runner = Runner { session, name, record, key, ended: false };
    let form = runner.form(&tenant.id, cameras(&app, &tenant, &runner).await?);
    Ok((StatusCode::CREATED, axum::Json(form)).into_response())
}

/// The cameras that a runner has leases of.
async fn cameras(app: &App, tenant: &Tenant, runner: &Runner) -> Answer<Vec<String>> {
    let Some(desk) = app.holders().known(&tenant.cameras) else { return Ok(Vec::new()) };
    let known = desk.fresh().await?;
    Ok(cameras_of(&known, &runner.record.incarnation).iter().map(ToString::to_string).collect())
}

/// The runner of that name among the caller's tenants.
pub(super) async fn find(
    app: &App,
    identity: &Identity,
    name: &MemberName,
    tenant: Option<&str>,
) -> Answer<(Tenant, Arc<Desk>, Runner)> {
    let mut found = Vec::new();
    for tenant in Tenant::candidates(app, identity, tenant).await? {
        let Some(desk) = app.holders().known(&tenant.runners) else { continue };
        let runner = Runner::named(&*desk.fresh().await?, name);
        found.extend(runner.map(|runner| (tenant, desk, runner)));
    }
    the_one(found, format_args!("a runner {name}"))?.ok_or_else(|| no_runner(name))
}

/// The runners of a tenant
///
/// An array, in the order of names.
#[utoipa::path(get, path = "/api/v1/runners", operation_id = "list_runners", tag = "cameras", params(OfTenant), responses(
    (status = 200, description = "the runners", body = Vec<RunnerForm>),
    CameraRefusals,
))]
pub(crate) async fn list(
    State(app): State<App>,
    identity: Identity,
    Query(of): Query<OfTenant>,
) -> Answer<axum::Json<Vec<RunnerForm>>> {
    let mut forms = Vec::new();
    for tenant in Tenant::candidates(&app, &identity, of.tenant_id.as_deref()).await? {
        let Some(desk) = app.holders().known(&tenant.runners) else { continue };
        let runners = Runner::all(&*desk.fresh().await?);
        for runner in runners.values() {
            forms.push(runner.form(&tenant.id, cameras(&app, &tenant, runner).await?));
        }
    }
    Ok(axum::Json(forms))
}

/// A runner
#[utoipa::path(get, path = "/api/v1/runners/{runner_id}", operation_id = "get_runner", tag = "cameras", params(RunnerPath, OfTenant), responses(
    (status = 200, description = "the runner", body = RunnerForm),
    (status = 404, description = "there is none", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn get(
    State(app): State<App>,
    identity: Identity,
    Path(name): Path<String>,
    Query(of): Query<OfTenant>,
) -> Answer<axum::Json<RunnerForm>> {
    let name = runner_name(&name)?;
    let (tenant, _, runner) = find(&app, &identity, &name, of.tenant_id.as_deref()).await?;
    Ok(axum::Json(runner.form(&tenant.id, cameras(&app, &tenant, &runner).await?)))
}

/// Say that a runner is alive, and how it is
///
/// 404 means that it was not heard of for too long, or never: it is to register again.
#[utoipa::path(put, path = "/api/v1/runners/{runner_id}/heartbeat", operation_id = "runner_heartbeat", tag = "cameras", request_body = RunnerHeartbeat, params(RunnerPath, OfTenant), responses(
    (status = 200, description = "heard", body = RunnerForm),
    (status = 404, description = "there is none; register again", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn heartbeat(
    State(app): State<App>,
    identity: Identity,
    Path(name): Path<String>,
    Query(of): Query<OfTenant>,
    Json(body): Json<RunnerHeartbeat>,
) -> Answer<axum::Json<RunnerForm>> {
    let name = runner_name(&name)?;
    if body.metrics.as_ref().is_some_and(too_much) {
        return Err(Problem::invalid(format!("metrics has more than {METRICS_MAX} bytes")));
    }
    let capacity = capacity(body.capacity)?;
    let (tenant, desk, mut runner) = find(&app, &identity, &name, of.tenant_id.as_deref()).await?;
    if runner.ended {
        return Err(no_runner(&name));
    }
    own(&identity, &runner)?;
    runner.record.heard_nanos = clock::unix_nanos();
    runner.record.status = body.status.unwrap_or(runner.record.status);
    runner.record.capacity = capacity.unwrap_or(runner.record.capacity);
    runner.record.metrics = body.metrics.unwrap_or(runner.record.metrics);
    let profile = runner.record.profile(&name, runner.key.as_deref());
    match desk.attend(&runner.session, &profile).await? {
        Answered::Done(()) => drop(desk.fresh().await?),
        Answered::Gone => return Err(no_runner(&name)),
        Answered::Frozen(_) => return Err(Problem::frozen()),
    }
    Ok(axum::Json(runner.form(&tenant.id, cameras(&app, &tenant, &runner).await?)))
}

/// Whether somebody says more than is kept.
pub(super) fn too_much(said: &Map<String, Value>) -> bool {
    serde_json::to_string(said).map_or(usize::MAX, |text| text.len()) > METRICS_MAX
}

/// Remove a runner
///
/// At its own word, or where there are no keys, its leases are released. If somebody else removes it, they are revoked: it is
/// told to stop, and each camera is free when it has released it or when its lease has run out.
#[utoipa::path(delete, path = "/api/v1/runners/{runner_id}", operation_id = "remove_runner", tag = "cameras", params(RunnerPath, OfTenant), responses(
    (status = 204, description = "gone, and its leases are released or revoked"),
    (status = 404, description = "there is none", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn remove(
    State(app): State<App>,
    identity: Identity,
    Path(name): Path<String>,
    Query(of): Query<OfTenant>,
) -> Answer<StatusCode> {
    let name = runner_name(&name)?;
    let (tenant, desk, runner) = find(&app, &identity, &name, of.tenant_id.as_deref()).await?;
    if runner.ended {
        return Err(no_runner(&name));
    }
    let is_own = own(&identity, &runner);
    if is_own.is_err() && identity.needs(Role::Operator).is_err() {
        return is_own.map(|()| StatusCode::NO_CONTENT);
    }
    desk.dismiss(&runner.session).await?;
    for pool in [&tenant.pending, &tenant.cameras] {
        let Some(desk) = app.holders().known(pool) else { continue };
        let held: Vec<_> = {
            let known = desk.fresh().await?;
            let all = cameras_of(&known, &runner.record.incarnation);
            all.into_iter().filter_map(|id| Some((desk.standing(&known, &id)?, id))).collect()
        };
        for (standing, camera) in held {
            if is_own.is_ok() {
                let caller = Caller {
                    holder_id: &standing.holder_id,
                    session: Some(&standing.session),
                    token: Some(standing.token),
                    key: identity.key(),
                };
                let _ = desk.release(&camera, &caller).await?;
            } else {
                let _ = desk.revoke(&camera, &standing).await?;
            }
        }
    }
    Ok(StatusCode::NO_CONTENT)
}
