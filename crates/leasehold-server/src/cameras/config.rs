//! Cameras over HTTP: listed, created, changed, removed, and the version of a whole site.

use std::ops::Bound;

use axum::extract::State;
use axum::http::header::LINK;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use leasehold::ResourceId;
use leasehold::store::{Declared, Marked};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::camera::{CameraBody, CameraForm, Kept};
use super::tenant::{CAMERAS, Tenant, site, the_one};
use super::{etag, version, zones};
use crate::access::Identity;
use crate::app::App;
use crate::holders::{Desk, Known};
use crate::keys::Role;
use crate::problem::{Answer, CameraProblem, CameraRefusals, Problem};
use crate::request::{Json, Path};
use crate::rest::forms::ResourceForm;
use crate::rest::{Query, resources};

/// How often a change is tried again that somebody else was faster with.
const TRIES: usize = 4;

/// Where a site is found.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what is read from the path")]
pub(crate) struct SitePath {
    /// The tenant.
    #[param(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9-][A-Za-z0-9_-]*$", example = "tenant-1")]
    tenant_id: String,
    /// The site.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$", example = "site-1")]
    site_id: String,
}

/// Where a camera is found.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what is read from the path")]
pub(crate) struct CameraPath {
    /// The camera.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:@+=-]+$", example = "cam-001")]
    camera_uuid: String,
}

/// Which cameras to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// How many at most; more are found by the header `Link`.
    #[param(minimum = 1)]
    pub(super) limit: Option<usize>,
    /// Only those with greater ids.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:@+=-]+$")]
    pub(super) after: Option<String>,
}

impl Page {
    /// The first of these that the page has, as an array, with where more are found.
    pub(super) fn of<'a>(
        &self,
        app: &App,
        path: &str,
        known: &'a Known,
        wanted: impl Fn(Kept<'a>) -> Option<CameraForm>,
    ) -> Answer<Response> {
        if self.limit == Some(0) {
            return Err(Problem::invalid("limit is 0; it is at least 1"));
        }
        let most = app.limits().page;
        let limit = self.limit.unwrap_or(most).min(most);
        let after = self.after.as_deref().map(camera_id).transpose()?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = known.view.declared().range((from, Bound::Unbounded));
        let mut found = all.filter_map(|(_, declared)| wanted(Kept::of(declared)?));
        let page: Vec<CameraForm> = found.by_ref().take(limit).map(CameraForm::masked).collect();
        let more = found.next().is_some();
        let last = page.last().map(|form| form.camera_uuid.replace('+', "%2B"));
        let mut response = axum::Json(page).into_response();
        if let Some(last) = last.filter(|_| more) {
            let join = if path.contains('?') { '&' } else { '?' };
            let link = format!("<{path}{join}limit={limit}&after={last}>; rel=\"next\"");
            if let Ok(link) = HeaderValue::from_str(&link) {
                response.headers_mut().insert(LINK, link);
            }
        }
        Ok(response)
    }
}

/// Which of the caller's tenants.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfTenant {
    /// The tenant, where the key is for more than one and the camera is in several.
    #[param(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9-][A-Za-z0-9_-]*$")]
    pub(super) tenant_id: Option<String>,
}

/// Which configuration a site has.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SiteVersion {
    /// The tenant.
    tenant_id: String,
    /// The site.
    site_id: String,
    /// SHA-256 of all its cameras' versions and its zones'.
    config_version: String,
    /// SHA-256 of all zones alone.
    zone_version: String,
}

/// A camera's id, if it can be one.
pub(super) fn camera_id(text: &str) -> Answer<ResourceId> {
    if [".", "..", "available"].contains(&text) {
        return Err(Problem::invalid(format!(
            "{text:?} cannot be the id of a camera; it means something else in a path"
        )));
    }
    ResourceId::new(text)
        .map_err(|error| Problem::invalid(error.to_string().replacen("resource id", "camera_uuid", 1)))
}

/// Says that there is no such camera.
pub(super) fn no_camera(id: &ResourceId) -> Problem {
    let said =
        format!("there is no camera {id:?}; POST /api/v1/tenants/TENANT/sites/SITE/cameras/ makes one");
    Problem::new(StatusCode::NOT_FOUND, "camera_not_found", said)
}

/// Somebody else keeps changing the same thing.
pub(super) fn changed_meanwhile() -> Problem {
    let said = "others keep changing this at the same time; look and try again";
    Problem::new(StatusCode::CONFLICT, "changed_meanwhile", said)
}

/// Whether the caller may know credentials.
fn sees_credentials(identity: &Identity) -> bool {
    identity.needs(Role::Member).is_ok()
}

/// The cameras of a site
///
/// An array, in the order of ids. Credentials in addresses are masked.
#[utoipa::path(get, path = "/api/v1/tenants/{tenant_id}/sites/{site_id}/cameras", operation_id = "list_cameras", tag = "cameras", params(SitePath, Page), responses(
    (status = 200, description = "the cameras", body = Vec<CameraForm>, headers(("Link" = String, description = "where more are found"))),
    CameraRefusals,
))]
pub(crate) async fn list(
    State(app): State<App>,
    identity: Identity,
    Path((tenant, of_site)): Path<(String, String)>,
    Query(page): Query<Page>,
) -> Answer<Response> {
    let (tenant, of_site) = (Tenant::named(&identity, &tenant)?, site(&of_site)?);
    let Some(desk) = app.holders().desk_if_known(&tenant.cameras).await? else {
        return Ok(axum::Json(Vec::<CameraForm>::new()).into_response());
    };
    let known = desk.fresh().await?;
    let path = format!("/api/v1/tenants/{}/sites/{of_site}/cameras/", tenant.id);
    page.of(&app, &path, &known, |kept| (kept.site() == of_site).then(|| kept.form(&tenant.id)).flatten())
}

/// Create a camera
#[utoipa::path(post, path = "/api/v1/tenants/{tenant_id}/sites/{site_id}/cameras", operation_id = "create_camera", tag = "cameras", request_body = CameraBody, params(SitePath), responses(
    (status = 201, description = "created", body = CameraForm, headers(("ETag" = String, description = "its config_version"))),
    (status = 409, description = "there is one of that id in this tenant", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn create(
    State(app): State<App>,
    identity: Identity,
    Path((tenant, of_site)): Path<(String, String)>,
    headers: HeaderMap,
    Json(body): Json<CameraBody>,
) -> Answer<Response> {
    let Some(id) = body.camera_uuid.clone() else {
        return Err(Problem::invalid("camera_uuid is missing: the id of the camera to create"));
    };
    write(&app, &identity, (&tenant, &of_site, &id), &headers, body, true).await
}

/// A camera of a site
#[utoipa::path(get, path = "/api/v1/tenants/{tenant_id}/sites/{site_id}/cameras/{camera_uuid}", operation_id = "get_camera_of_site", tag = "cameras", params(SitePath, CameraPath), responses(
    (status = 200, description = "the camera", body = CameraForm, headers(("ETag" = String, description = "its config_version"))),
    (status = 304, description = "it is the one that `If-None-Match` names"),
    (status = 404, description = "there is none", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn get_of_site(
    State(app): State<App>,
    identity: Identity,
    Path((tenant, of_site, id)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let (tenant, id) = (Tenant::named(&identity, &tenant)?, camera_id(&id)?);
    let desk = app.holders().desk_if_known(&tenant.cameras).await?.ok_or_else(|| no_camera(&id))?;
    let known = desk.fresh().await?;
    let kept = known.declared(&id).and_then(Kept::of).filter(|kept| kept.site() == of_site);
    shown(&identity, &tenant, kept, &headers).ok_or_else(|| no_camera(&id))
}

fn shown(
    identity: &Identity,
    tenant: &Tenant,
    kept: Option<Kept<'_>>,
    headers: &HeaderMap,
) -> Option<Response> {
    let form = kept?.form(&tenant.id)?;
    let form = if sees_credentials(identity) { form } else { form.masked() };
    let version = form.config_version.clone();
    Some(etag::tagged(headers, &version, axum::Json(form)))
}

/// A camera, or another resource of the pool `cameras`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what is answered")]
pub(crate) enum CameraOrResource {
    Camera(Box<CameraForm>),
    Resource(Box<ResourceForm>),
}

/// A camera
///
/// Wherever it is among the tenants of the key.
#[utoipa::path(get, path = "/api/v1/cameras/{camera_uuid}", operation_id = "get_camera", tag = "cameras", params(CameraPath, OfTenant), responses(
    (status = 200, description = "the camera", body = CameraOrResource, headers(("ETag" = String, description = "its config_version"))),
    (status = 304, description = "it is the one that `If-None-Match` names"),
    (status = 404, description = "there is none", body = CameraProblem),
    (status = 409, description = "several tenants of the key have one; say which in `tenant_id`", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn get(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<String>,
    Query(of): Query<OfTenant>,
    headers: HeaderMap,
) -> Answer<Response> {
    let camera = camera_id(&id)?;
    match find(&app, &identity, &camera, of.tenant_id.as_deref()).await {
        Ok((tenant, desk)) => {
            let known = desk.lately().await?;
            let kept = known.declared(&camera).and_then(Kept::of);
            shown(&identity, &tenant, kept, &headers).ok_or_else(|| no_camera(&camera))
        }
        // A resource of that pool which is no camera.
        Err(problem) if problem.is_missing() => {
            let pool = identity.pool(CAMERAS)?;
            resources::shown_in(&app, &identity, &pool, CAMERAS, &camera).await?.ok_or(problem)
        }
        Err(problem) => Err(problem),
    }
}

/// The tenant that has the camera.
pub(super) async fn find(
    app: &App,
    identity: &Identity,
    camera: &ResourceId,
    tenant: Option<&str>,
) -> Answer<(Tenant, std::sync::Arc<Desk>)> {
    let mut found = Vec::new();
    for tenant in Tenant::candidates(app, identity, tenant).await? {
        let Some(desk) = app.holders().known(&tenant.cameras) else { continue };
        if desk.fresh().await?.declared(camera).and_then(Kept::of).is_some() {
            found.push((tenant, desk));
        }
    }
    the_one(found, format_args!("a camera {camera}"))?.ok_or_else(|| no_camera(camera))
}

/// Change a camera, or create it
///
/// Replaces its whole configuration. With another site in the path the camera moves there, unless it is leased.
#[utoipa::path(put, path = "/api/v1/tenants/{tenant_id}/sites/{site_id}/cameras/{camera_uuid}", operation_id = "put_camera", tag = "cameras", request_body = CameraBody, params(
    SitePath,
    CameraPath,
    ("If-Match" = Option<String>, Header, description = "the version that is to be changed, as ETag said it"),
), responses(
    (status = 200, description = "changed", body = CameraForm, headers(("ETag" = String, description = "its config_version"))),
    (status = 201, description = "created", body = CameraForm),
    (status = 409, description = "it is leased and would move, or is being deleted", body = CameraProblem),
    (status = 412, description = "it has another version", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn put(
    State(app): State<App>,
    identity: Identity,
    Path((tenant, of_site, id)): Path<(String, String, String)>,
    headers: HeaderMap,
    Json(body): Json<CameraBody>,
) -> Answer<Response> {
    write(&app, &identity, (&tenant, &of_site, &id), &headers, body, false).await
}

async fn write(
    app: &App,
    identity: &Identity,
    (tenant, of_site, id): (&str, &str, &str),
    headers: &HeaderMap,
    body: CameraBody,
    only_new: bool,
) -> Answer<Response> {
    let (tenant, of_site, id) = (Tenant::named(identity, tenant)?, site(of_site)?, camera_id(id)?);
    for (name, said, there) in [
        ("camera_uuid", &body.camera_uuid, id.as_str()),
        ("tenant_id", &body.tenant_id, tenant.id.as_str()),
        ("site_id", &body.site_id, of_site.as_str()),
    ] {
        if said.as_ref().is_some_and(|said| said != there) {
            return Err(Problem::invalid(format!(
                "the {name} in the body is another than the one in the path"
            )));
        }
    }
    let camera = body.camera().map_err(Problem::invalid)?;
    let desk = tenant.desk(app)?;
    for _ in 0..TRIES {
        let (next, status) = {
            let known = desk.fresh().await?;
            let before = known.view.declared().get(&id);
            let there = before.and_then(Kept::of);
            if before.is_some_and(|before| !before.removed) && (only_new || there.is_none()) {
                let said = format!("there is a camera {id} in this tenant already; PUT changes it");
                return Err(Problem::new(StatusCode::CONFLICT, "camera_exists", said));
            }
            etag::require(headers, there.map(Kept::config_version))?;
            if let Some(there) = there {
                may_change(&desk, &known, there, &of_site)?;
            }
            let status = if there.is_some() { StatusCode::OK } else { StatusCode::CREATED };
            (camera.declare(&id, &of_site, before), status)
        };
        within(app, &next)?;
        if let Marked::Set(_) = app.store().declare(desk.pool(), &next).await? {
            let form = Kept::of(&next).and_then(|kept| kept.form(&tenant.id));
            let form = form.ok_or_else(changed_meanwhile)?;
            let version = form.config_version.clone();
            return Ok(etag::tagged(&HeaderMap::new(), &version, (status, axum::Json(form))));
        }
    }
    Err(changed_meanwhile())
}

/// Whether a camera may be changed so that it is at this site.
fn may_change(desk: &Desk, known: &Known, there: Kept<'_>, of_site: &str) -> Answer<()> {
    let refuse = |error, said| Err(Problem::new(StatusCode::CONFLICT, error, said));
    let id = there.id();
    if there.is_deleting() {
        return refuse(
            "camera_deleting",
            format!("{id} is being deleted; it can be made anew when it is gone"),
        );
    }
    match desk.standing(known, id).filter(|_| there.site() != of_site) {
        Some(standing) => refuse(
            "camera_leased",
            format!(
                "{id} is leased by {} and cannot move to another site; have its lease revoked or released first",
                standing.holder_id
            ),
        ),
        None => Ok(()),
    }
}

fn within(app: &App, declared: &Declared) -> Answer<()> {
    let most = app.limits().document;
    if declared.document.as_ref().is_none_or(|document| document.to_string().len() <= most) {
        return Ok(());
    }
    let said = format!("the configuration is larger than the {most} bytes that are allowed");
    Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", said))
}

/// A camera that goes when its holder has stopped.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Deleting {
    /// The camera.
    camera_uuid: String,
    /// Always `deleting`.
    #[schema(example = "deleting")]
    status: &'static str,
    /// The lease that was revoked, and must end first.
    lease_id: String,
}

/// Delete a camera
///
/// One that is leased goes when its holder has stopped: its lease is revoked at once, it is granted to nobody any more, and it
/// is gone when the lease has been released or has run out.
#[utoipa::path(delete, path = "/api/v1/tenants/{tenant_id}/sites/{site_id}/cameras/{camera_uuid}", operation_id = "delete_camera", tag = "cameras", params(
    SitePath,
    CameraPath,
    ("If-Match" = Option<String>, Header, description = "the version that is to be deleted, as ETag said it"),
), responses(
    (status = 202, description = "its holder is told to stop; then it is gone", body = Deleting),
    (status = 204, description = "gone"),
    (status = 404, description = "there is none", body = CameraProblem),
    (status = 412, description = "it has another version", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn remove(
    State(app): State<App>,
    identity: Identity,
    Path((tenant, of_site, id)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let (tenant, id) = (Tenant::named(&identity, &tenant)?, camera_id(&id)?);
    let desk = app.holders().desk_if_known(&tenant.cameras).await?.ok_or_else(|| no_camera(&id))?;
    for _ in 0..TRIES {
        let (next, held) = {
            let known = desk.fresh().await?;
            let there = known.declared(&id).and_then(Kept::of).filter(|kept| kept.site() == of_site);
            let there = there.ok_or_else(|| no_camera(&id))?;
            etag::require(&headers, Some(there.config_version()))?;
            match desk.standing(&known, &id) {
                Some(standing) => (there.deleting(), Some(standing)),
                None => (Declared { removed: true, document: None, ..there.declared().clone() }, None),
            }
        };
        if let Marked::Conflict(_) = app.store().declare(desk.pool(), &next).await? {
            continue;
        }
        let Some(standing) = held else { return Ok(StatusCode::NO_CONTENT.into_response()) };
        // A store that is frozen is told when it is in use again.
        let _ = desk.revoke(&id, &standing).await?;
        let lease_id = standing.session.to_string();
        let form = Deleting { camera_uuid: id.to_string(), status: "deleting", lease_id };
        return Ok((StatusCode::ACCEPTED, axum::Json(form)).into_response());
    }
    Err(changed_meanwhile())
}

/// Which configuration a site has
///
/// For whoever asks again and again: with `If-None-Match` it is sent only if something changed.
#[utoipa::path(get, path = "/api/v1/tenants/{tenant_id}/sites/{site_id}/config/version", operation_id = "get_site_version", tag = "cameras", params(
    SitePath,
    ("If-None-Match" = Option<String>, Header, description = "the version that is known, as ETag said it"),
), responses(
    (status = 200, description = "the version", body = SiteVersion, headers(("ETag" = String, description = "its config_version"))),
    (status = 304, description = "it is the one that `If-None-Match` names"),
    CameraRefusals,
))]
pub(crate) async fn site_version(
    State(app): State<App>,
    identity: Identity,
    Path((tenant, of_site)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let (tenant, of_site) = (Tenant::named(&identity, &tenant)?, site(&of_site)?);
    let (mut configs, mut all_zones) = (Vec::new(), Vec::new());
    if let Some(desk) = app.holders().desk_if_known(&tenant.cameras).await? {
        let known = desk.fresh().await?;
        for kept in known.view.declared().values().filter_map(Kept::of).filter(|kept| kept.site() == of_site)
        {
            configs.push((kept.id().to_string(), kept.config_version().to_owned()));
            all_zones.push((kept.id().to_string(), kept.zone_version().to_owned()));
        }
        // No camera has a space in its id.
        let of_the_site = zones::version_of(&known, &of_site);
        configs.push(("the site".to_owned(), of_the_site.clone()));
        all_zones.push(("the site".to_owned(), of_the_site));
    }
    let hash = |parts: &[(String, String)]| {
        version::of_all(parts.iter().map(|(name, version)| (name.as_str(), version.as_str())))
    };
    let (config_version, zone_version) = (hash(&configs), hash(&all_zones));
    let tag = config_version.clone();
    let form = SiteVersion { tenant_id: tenant.id, site_id: of_site, config_version, zone_version };
    Ok(etag::tagged(&headers, &tag, axum::Json(form)))
}
