//! `/api/v1/{pool}` and `/api/v1/{pool}/{resource}`: what there is to hold.

use std::collections::BTreeMap;
use std::ops::Bound;

use axum::extract::State;
use axum::http::header::{ETAG, IF_MATCH, LINK};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use leasehold::store::{Declared, MarkKind, Marked, Version};
use leasehold::{MemberName, Pool, ResourceId};
use serde_json::Value;

use super::forms::{LeaseForm, Listed, Mode, PoolPath, ResourceBody, ResourceForm, ResourcePath};
use super::{AtResource, InPool, Query, pools};
use crate::access::Identity;
use crate::app::App;
use crate::cameras;
use crate::holders::{Desk, Known, RESERVED};
use crate::keys::Role;
use crate::problem::{Answer, Problem, ProblemBody};
use crate::request::Json;

/// The label that every member has: its name.
const NAME: &str = "name";
/// The most labels of one kind that a resource may have, and how long their parts may be.
const LABELS_MAX: usize = 32;
const LABEL_MAX: usize = 128;
/// How often a change is tried again that somebody else was faster with.
const TRIES: usize = 4;

/// The resources of a pool
///
/// With `?leased=false` those that can be acquired.
#[utoipa::path(get, path = "/api/v1/{pool}", operation_id = "list_resources", tag = "resources", params(
    PoolPath,
    Listed,
), responses(
    (status = 200, description = "the resources, in the order of their ids", body = Vec<ResourceForm>, headers(("Link" = String, description = "where more are found"))),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn list(
    State(app): State<App>,
    within: InPool,
    Query(listed): Query<Listed>,
) -> Answer<Response> {
    let most = app.limits().page;
    if listed.limit == Some(0) {
        return Err(Problem::invalid("limit is 0; it is at least 1"));
    }
    let limit = listed.limit.unwrap_or(most).min(most);
    let after = match &listed.after {
        Some(id) => Some(ResourceId::new(id).map_err(|error| Problem::invalid(error.to_string()))?),
        None => None,
    };
    let Some(desk) = app.holders().desk_if_known(&within.pool).await? else {
        return Ok(axum::Json(Vec::<ResourceForm>::new()).into_response());
    };
    let known = desk.fresh().await?;
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let declared = known.view.declared().range((from, Bound::Unbounded));
    let mut forms = declared
        .filter(|(_, declared)| !declared.removed)
        .map(|(_, declared)| form(&desk, &known, &within.name, declared, false))
        .filter(|form| listed.leased.is_none_or(|leased| leased == form.lease.holder_id.is_some()));
    let page: Vec<ResourceForm> = forms.by_ref().take(limit).collect();
    let more = forms.next().is_some();
    drop(forms);
    drop(known);
    let last = page.last().and_then(|form| form.lease.named.id().map(str::to_owned));
    let mut response = axum::Json(page).into_response();
    if let Some(last) = last.filter(|_| more) {
        let leased = listed.leased.map(|leased| format!("&leased={leased}")).unwrap_or_default();
        // Of the characters of an id only '+' means something else in a query.
        let last = last.replace('+', "%2B");
        let link = format!("</api/v1/{}?limit={limit}&after={last}{leased}>; rel=\"next\"", within.name);
        if let Ok(link) = HeaderValue::from_str(&link) {
            response.headers_mut().insert(LINK, link);
        }
    }
    Ok(response)
}

/// A resource as it is answered.
fn form(desk: &Desk, known: &Known, pool: &str, declared: &Declared, whole: bool) -> ResourceForm {
    let resource = &declared.resource;
    let lease = match desk.standing(known, resource) {
        Some(standing) => LeaseForm::of(pool, resource, &standing),
        None => LeaseForm::free(pool, resource, known),
    };
    let mut requires = declared.requires.clone();
    ResourceForm {
        lease,
        labels: declared.labels.clone(),
        member: requires.remove(NAME),
        requires,
        weight: declared.weight,
        paused: known.is_paused(resource),
        resource_version: declared.version.0,
        document: declared.document.clone().filter(|_| whole),
    }
}

/// Create a resource
///
/// An empty body is a resource too, if the path says its id: `PUT /api/v1/{pool}/{resource}`.
#[utoipa::path(post, path = "/api/v1/{pool}", operation_id = "create_resource", tag = "resources", request_body = ResourceBody, params(
    PoolPath,
), responses(
    (status = 201, description = "created", body = ResourceForm),
    (status = 409, description = "there is one of that id", body = ProblemBody),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn create(
    State(app): State<App>,
    within: InPool,
    Json(body): Json<ResourceBody>,
) -> Answer<Response> {
    let id =
        body.id.clone().ok_or_else(|| Problem::invalid("id is missing: the id of the resource to create"))?;
    let resource = ResourceId::new(id).map_err(|error| Problem::invalid(error.to_string()))?;
    let at = AtResource { within, resource };
    change(&app, &at, &body, Change::Create, None).await
}

/// A resource
#[utoipa::path(get, path = "/api/v1/{pool}/{resource}", operation_id = "get_resource", tag = "resources", params(
    ResourcePath,
), responses(
    (status = 200, description = "the resource and its lease", body = ResourceForm, headers(("ETag" = String, description = "the version of the resource"))),
    (status = 404, description = "there is none", body = ProblemBody),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn get(State(app): State<App>, at: AtResource) -> Answer<Response> {
    let desk = at.desk(&app).await?;
    shown(&desk, &at, StatusCode::OK).await
}

/// A resource of a pool as it is answered, if it is there.
pub(crate) async fn shown_in(
    app: &App,
    identity: &Identity,
    pool: &Pool,
    name: &str,
    resource: &ResourceId,
) -> Answer<Option<Response>> {
    let Some(desk) = app.holders().desk_if_known(pool).await? else { return Ok(None) };
    if desk.fresh().await?.declared(resource).is_none() {
        return Ok(None);
    }
    let within = InPool { pool: pool.clone(), name: name.to_owned(), identity: identity.clone() };
    shown(&desk, &AtResource { within, resource: resource.clone() }, StatusCode::OK).await.map(Some)
}

async fn shown(desk: &Desk, at: &AtResource, status: StatusCode) -> Answer<Response> {
    let known = desk.fresh().await?;
    let declared = known.declared(&at.resource).ok_or_else(|| at.within.not_found(&at.resource))?;
    let mut form = form(desk, &known, &at.within.name, declared, true);
    if at.within.identity.needs(Role::Member).is_err() {
        form.document = cameras::masked(declared.clone()).document;
    }
    let tag = format!("\"{}\"", form.resource_version);
    let mut response = (status, axum::Json(form)).into_response();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}

/// Create or replace a resource
///
/// What the body leaves out gets its default. With `If-Match` only that version is replaced.
#[utoipa::path(put, path = "/api/v1/{pool}/{resource}", operation_id = "put_resource", tag = "resources", request_body = ResourceBody, params(
    ResourcePath,
), responses(
    (status = 200, description = "replaced", body = ResourceForm),
    (status = 201, description = "created", body = ResourceForm),
    (status = 412, description = "it has another version", body = ProblemBody),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn put(
    State(app): State<App>,
    at: AtResource,
    headers: HeaderMap,
    Json(body): Json<ResourceBody>,
) -> Answer<Response> {
    let expected = expected(&headers)?;
    change(&app, &at, &body, Change::Replace, expected).await
}

/// Change a resource
///
/// What the body leaves out stays as it is.
#[utoipa::path(patch, path = "/api/v1/{pool}/{resource}", operation_id = "patch_resource", tag = "resources", request_body = ResourceBody, params(
    ResourcePath,
), responses(
    (status = 200, description = "changed", body = ResourceForm),
    (status = 404, description = "there is none", body = ProblemBody),
    (status = 412, description = "it has another version", body = ProblemBody),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn patch(
    State(app): State<App>,
    at: AtResource,
    headers: HeaderMap,
    Json(body): Json<ResourceBody>,
) -> Answer<Response> {
    let expected = expected(&headers)?;
    change(&app, &at, &body, Change::Merge, expected).await
}

/// Remove a resource
///
/// Nobody is granted it any more. Whoever holds it keeps it until it lets go. Its versions go on should it ever come back.
#[utoipa::path(delete, path = "/api/v1/{pool}/{resource}", operation_id = "remove_resource", tag = "resources", params(
    ResourcePath,
), responses(
    (status = 204, description = "removed"),
    (status = 404, description = "there is none", body = ProblemBody),
    (status = 412, description = "it has another version", body = ProblemBody),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn remove(State(app): State<App>, at: AtResource, headers: HeaderMap) -> Answer<StatusCode> {
    let expected = expected(&headers)?;
    let desk = at.desk(&app).await?;
    for _ in 0..TRIES {
        let found = desk.fresh().await?.declared(&at.resource).cloned();
        let found = found.ok_or_else(|| at.within.not_found(&at.resource))?;
        refuse_cameras(&found)?;
        matches(expected, found.version)?;
        let removed = Declared { removed: true, document: None, ..found };
        if let Marked::Set(_) = app.store().declare(desk.pool(), &removed).await? {
            return Ok(StatusCode::NO_CONTENT);
        }
    }
    Err(changed_meanwhile())
}

/// The version that a caller insists on.
fn expected(headers: &HeaderMap) -> Answer<Option<Version>> {
    let Some(tag) = headers.get(IF_MATCH) else { return Ok(None) };
    let number = tag.to_str().ok().map(|tag| tag.trim().trim_matches('"')).and_then(|tag| tag.parse().ok());
    let wrong =
        || Problem::invalid("If-Match must be the version of the resource in quotes, as ETag answered it");
    number.map(|number| Some(Version(number))).ok_or_else(wrong)
}

fn matches(expected: Option<Version>, found: Version) -> Answer<()> {
    if expected.is_none_or(|expected| expected == found) {
        return Ok(());
    }
    let said = format!("the resource has version {} by now; look at it again", found.0);
    Err(Problem::new(StatusCode::PRECONDITION_FAILED, "changed_meanwhile", said))
}

fn changed_meanwhile() -> Problem {
    let said = "others keep changing this resource at the same time; look and try again";
    Problem::new(StatusCode::CONFLICT, "changed_meanwhile", said)
}

/// Refuses to change a camera here, where nothing knows what its configuration must be.
fn refuse_cameras(declared: &Declared) -> Answer<()> {
    if !cameras::is_camera(declared) {
        return Ok(());
    }
    let said = format!(
        "{} is a camera: it is changed at /api/v1/tenants/TENANT/sites/SITE/cameras/{}/",
        declared.resource, declared.resource
    );
    Err(Problem::new(StatusCode::CONFLICT, "is_a_camera", said))
}

/// What a body does to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It must not be there.
    Create,
    /// Whether it is there or not.
    Replace,
    /// It must be there, and keeps what is not mentioned.
    Merge,
}

async fn change(
    app: &App,
    at: &AtResource,
    body: &ResourceBody,
    change: Change,
    expected: Option<Version>,
) -> Answer<Response> {
    if body.id.as_ref().is_some_and(|id| id != at.resource.as_str()) {
        return Err(Problem::invalid("the id in the body is another than the one in the path"));
    }
    if [".", ".."].contains(&at.resource.as_str()) {
        return Err(Problem::invalid("\".\" and \"..\" mean the path itself; give the resource another id"));
    }
    check(app, body)?;
    let mode = pools::settings(app, &at.within.pool).await?.mode;
    let desk = at.within.desk(app)?;
    for _ in 0..TRIES {
        // A removed one still has its version: it is what the next one is compared with.
        let before = desk.fresh().await?.view.declared().get(&at.resource).cloned();
        let living = before.as_ref().filter(|before| !before.removed);
        living.map_or(Ok(()), refuse_cameras)?;
        match (change, living) {
            (Change::Create, Some(_)) => {
                let said = format!("there is a resource {} already; PUT replaces it", at.resource);
                return Err(Problem::new(StatusCode::CONFLICT, "resource_exists", said));
            }
            (Change::Merge, None) => return Err(at.within.not_found(&at.resource)),
            _ => {}
        }
        matches(expected, living.map(|living| living.version).unwrap_or_default())?;
        let base = living.filter(|_| change == Change::Merge);
        let mut next = apply(&at.resource, base, body)?;
        next.version = before.as_ref().map(|before| before.version).unwrap_or_default();
        if mode == Mode::Static && !next.requires.contains_key(NAME) {
            return Err(Problem::invalid(
                "this pool is static: say in `member` which member the resource belongs to",
            ));
        }
        if let Marked::Set(_) = app.store().declare(desk.pool(), &next).await? {
            let paused = body.paused.or((change != Change::Merge).then_some(false));
            if let Some(paused) = paused {
                pause(app, &desk, &at.resource, paused).await?;
            }
            let status = if living.is_some() { StatusCode::OK } else { StatusCode::CREATED };
            return shown(&desk, at, status).await;
        }
    }
    Err(changed_meanwhile())
}

/// What becomes of a resource.
fn apply(resource: &ResourceId, base: Option<&Declared>, body: &ResourceBody) -> Answer<Declared> {
    let mut next = base.cloned().unwrap_or_else(|| Declared {
        resource: resource.clone(),
        weight: 1,
        requires: BTreeMap::new(),
        labels: BTreeMap::new(),
        document: None,
        removed: false,
        version: Version(0),
    });
    if let Some(labels) = &body.labels {
        next.labels.clone_from(labels);
    }
    if let Some(requires) = &body.requires {
        let name = next.requires.get(NAME).cloned();
        next.requires.clone_from(requires);
        next.requires.extend(name.map(|name| (NAME.to_owned(), name)));
    }
    if let Some(weight) = body.weight {
        next.weight = weight;
    }
    match &body.member {
        Some(Some(member)) => {
            let member = MemberName::new(member).map_err(|error| Problem::invalid(error.to_string()))?;
            next.requires.insert(NAME.to_owned(), member.to_string());
        }
        Some(None) => {
            next.requires.remove(NAME);
        }
        None => {}
    }
    if let Some(document) = &body.document {
        next.document.clone_from(document);
    }
    Ok(next)
}

/// Whether a body keeps to the limits.
fn check(app: &App, body: &ResourceBody) -> Answer<()> {
    if body.weight == Some(0) {
        return Err(Problem::invalid("weight is 0; it is at least 1"));
    }
    for labels in [&body.labels, &body.requires].into_iter().flatten() {
        if labels.keys().any(|label| label.starts_with(RESERVED)) {
            return Err(Problem::invalid(format!(
                "labels that begin with {RESERVED} are the control plane's own"
            )));
        }
        let long = |text: &String| text.len() > LABEL_MAX || text.chars().any(char::is_control);
        if labels.len() > LABELS_MAX
            || labels.iter().any(|(label, value)| label.is_empty() || long(label) || long(value))
        {
            return Err(Problem::invalid(format!(
                "at most {LABELS_MAX} labels of at most {LABEL_MAX} bytes are allowed, without control characters"
            )));
        }
    }
    let most = app.limits().document;
    let size = |document: &Value| document.to_string().len();
    if body.document.iter().flatten().any(|document| size(document) > most) {
        let said = format!("the document is larger than the {most} bytes that are allowed");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", said));
    }
    Ok(())
}

async fn pause(app: &App, desk: &Desk, resource: &ResourceId, paused: bool) -> Answer<()> {
    for _ in 0..TRIES {
        let before = desk.fresh().await?.view.version_of_mark(MarkKind::Pause, resource.as_str());
        let is_paused = desk.lately().await?.is_paused(resource);
        if is_paused == paused {
            return Ok(());
        }
        let value = paused.then_some("paused over the API");
        let set = app.store().set_mark(desk.pool(), MarkKind::Pause, resource.as_str(), value, before);
        if let Marked::Set(_) = set.await? {
            return Ok(());
        }
    }
    Err(changed_meanwhile())
}
