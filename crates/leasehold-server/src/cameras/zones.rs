//! The zones of a site: marks of kind `zone` on `<site>:<zone>` in the pool of the tenant's cameras.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use leasehold::store::{Cursor, Mark, MarkKind, Marked};
use serde::Deserialize;
use utoipa::IntoParams;

use super::config::{SitePath, changed_meanwhile};
use super::tenant::{Tenant, site};
use super::zone::{Zone, ZoneId};
use super::{etag, version};
use crate::access::Identity;
use crate::app::App;
use crate::holders::Known;
use crate::problem::{Answer, CameraProblem, CameraRefusals, Problem};
use crate::request::{Json, Path};

/// The most zones that a site has.
const ZONES_MAX: usize = 1000;
/// How often a change is tried again that somebody else was faster with.
const TRIES: usize = 4;

/// Where a zone is found.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what is read from the path")]
pub(crate) struct ZonePath {
    /// The zone.
    #[param(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_-]+$", example = "1")]
    zone_id: String,
}

/// A zone as it is sent. Its id may be left out where the path says it.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct ZoneBody(serde_json::Map<String, serde_json::Value>);

impl ZoneBody {
    fn zone(mut self, path: Option<&ZoneId>) -> Answer<Zone> {
        if let Some(id) = path {
            self.0.entry("zone_id").or_insert_with(|| serde_json::json!(id));
        }
        let zone: Zone = serde_json::from_value(serde_json::Value::Object(self.0))
            .map_err(|error| Problem::invalid(format!("the zone cannot be used: {error}")))?;
        let zone = zone.check(None).map_err(Problem::invalid)?;
        if path.is_some_and(|id| *id != zone.zone_id) {
            return Err(Problem::invalid("the zone_id in the body is another than the one in the path"));
        }
        Ok(zone)
    }
}

/// What a zone of a site is kept as.
fn subject(of_site: &str, zone: &ZoneId) -> String {
    format!("{of_site}:{zone}")
}

fn of_mark(mark: &Mark) -> Option<Zone> {
    serde_json::from_str(mark.value.as_deref()?).ok()
}

/// The zones of a site among these marks, in the order of their ids.
fn of_site<'a>(marks: impl Iterator<Item = &'a Mark>, of_site: &str) -> Vec<Zone> {
    let here = |mark: &&Mark| {
        mark.kind == MarkKind::Zone && mark.subject.split_once(':').is_some_and(|(site, _)| site == of_site)
    };
    let mut zones: Vec<Zone> = marks.filter(here).filter_map(of_mark).collect();
    zones.sort_by(|one, two| one.zone_id.cmp(&two.zone_id));
    zones
}

/// The version of the zones of a site.
pub(super) fn version_of(known: &Known, site: &str) -> String {
    version::of(&serde_json::json!(of_site(known.view.marks(), site)))
}

fn version_of_one(zone: &Zone) -> String {
    version::of(&serde_json::json!(zone))
}

/// The zones of a site
///
/// An array. The zones of single cameras are in the cameras.
#[utoipa::path(get, path = "/api/v1/tenants/{tenant_id}/sites/{site_id}/zones", operation_id = "list_zones", tag = "cameras", params(SitePath), responses(
    (status = 200, description = "the zones", body = Vec<Zone>),
    CameraRefusals,
))]
pub(crate) async fn list(
    State(app): State<App>,
    identity: Identity,
    Path((tenant, site_id)): Path<(String, String)>,
) -> Answer<axum::Json<Vec<Zone>>> {
    let (tenant, site_id) = (Tenant::named(&identity, &tenant)?, site(&site_id)?);
    // A site may have zones before its tenant has a camera.
    let marks = app.store().marks(&tenant.cameras, Cursor::START).await?;
    Ok(axum::Json(of_site(marks.items.iter(), &site_id)))
}

/// Create a zone of a site
#[utoipa::path(post, path = "/api/v1/tenants/{tenant_id}/sites/{site_id}/zones", operation_id = "create_zone", tag = "cameras", request_body = Zone, params(SitePath), responses(
    (status = 201, description = "created", body = Zone),
    (status = 409, description = "there is one of that id", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn create(
    State(app): State<App>,
    identity: Identity,
    Path((tenant, site_id)): Path<(String, String)>,
    headers: HeaderMap,
    Json(body): Json<ZoneBody>,
) -> Answer<Response> {
    let zone = body.zone(None)?;
    write(&app, &identity, (&tenant, &site_id), &headers, &zone, true).await
}

/// Change a zone of a site, or create it
#[utoipa::path(put, path = "/api/v1/tenants/{tenant_id}/sites/{site_id}/zones/{zone_id}", operation_id = "put_zone", tag = "cameras", request_body = Zone, params(
    SitePath,
    ZonePath,
    ("If-Match" = Option<String>, Header, description = "the version that is to be changed, as ETag said it"),
), responses(
    (status = 200, description = "changed", body = Zone, headers(("ETag" = String, description = "its version"))),
    (status = 201, description = "created", body = Zone),
    (status = 412, description = "it has another version", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn put(
    State(app): State<App>,
    identity: Identity,
    Path((tenant, site_id, zone_id)): Path<(String, String, String)>,
    headers: HeaderMap,
    Json(body): Json<ZoneBody>,
) -> Answer<Response> {
    let zone = body.zone(Some(&ZoneId::of_path(&zone_id).map_err(Problem::invalid)?))?;
    write(&app, &identity, (&tenant, &site_id), &headers, &zone, false).await
}

async fn write(
    app: &App,
    identity: &Identity,
    (tenant, site_id): (&str, &str),
    headers: &HeaderMap,
    zone: &Zone,
    only_new: bool,
) -> Answer<Response> {
    let (tenant, site_id) = (Tenant::named(identity, tenant)?, site(site_id)?);
    let (desk, subject) = (tenant.desk(app)?, subject(&site_id, &zone.zone_id));
    let value = serde_json::to_string(zone).unwrap_or_default();
    for _ in 0..TRIES {
        let (there, expected, count) = {
            let known = desk.fresh().await?;
            let there = known.view.mark(MarkKind::Zone, &subject).and_then(of_mark);
            let count = of_site(known.view.marks(), &site_id).len();
            (there, known.view.version_of_mark(MarkKind::Zone, &subject), count)
        };
        if only_new && there.is_some() {
            let said = format!("there is a zone {} in this site already; PUT changes it", zone.zone_id);
            return Err(Problem::new(StatusCode::CONFLICT, "zone_exists", said));
        }
        etag::require(headers, there.as_ref().map(version_of_one).as_deref())?;
        if there.is_none() && count >= ZONES_MAX {
            return Err(Problem::invalid(format!("a site has at most {ZONES_MAX} zones")));
        }
        let set = app.store().set_mark(desk.pool(), MarkKind::Zone, &subject, Some(&value), expected);
        if let Marked::Set(_) = set.await? {
            let status = if there.is_some() { StatusCode::OK } else { StatusCode::CREATED };
            return Ok(etag::tagged(
                &HeaderMap::new(),
                &version_of_one(zone),
                (status, axum::Json(zone.clone())),
            ));
        }
    }
    Err(changed_meanwhile())
}

/// Delete a zone of a site
#[utoipa::path(delete, path = "/api/v1/tenants/{tenant_id}/sites/{site_id}/zones/{zone_id}", operation_id = "delete_zone", tag = "cameras", params(
    SitePath,
    ZonePath,
    ("If-Match" = Option<String>, Header, description = "the version that is to be deleted, as ETag said it"),
), responses(
    (status = 204, description = "gone"),
    (status = 404, description = "there is none", body = CameraProblem),
    (status = 412, description = "it has another version", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn remove(
    State(app): State<App>,
    identity: Identity,
    Path((tenant, site_id, zone_id)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let (tenant, site_id) = (Tenant::named(&identity, &tenant)?, site(&site_id)?);
    let zone_id = ZoneId::of_path(&zone_id).map_err(Problem::invalid)?;
    let subject = subject(&site_id, &zone_id);
    for _ in 0..TRIES {
        let marks = app.store().marks(&tenant.cameras, Cursor::START).await?.items;
        let mark = marks.into_iter().find(|mark| mark.kind == MarkKind::Zone && mark.subject == subject);
        let Some((there, expected)) = mark.and_then(|mark| Some((of_mark(&mark)?, mark.version))) else {
            let said = format!("there is no zone {zone_id} in this site");
            return Err(Problem::new(StatusCode::NOT_FOUND, "zone_not_found", said));
        };
        etag::require(&headers, Some(&version_of_one(&there)))?;
        let set = app.store().set_mark(&tenant.cameras, MarkKind::Zone, &subject, None, expected);
        if let Marked::Set(_) = set.await? {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    Err(changed_meanwhile())
}
