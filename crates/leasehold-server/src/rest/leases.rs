//! `/api/v1/{pool}/{resource}/lease`: acquired, renewed, released.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{FromRequestParts, State};
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use leasehold::participant::{TTL_MAX, TTL_MIN};
use leasehold::store::MarkKind;
use leasehold::{MemberId, MemberName, Token, clock};

use super::forms::{AcquireBody, HolderBody, HolderQuery, LeaseForm, ResourcePath, current};
use super::{AtResource, Query};
use crate::app::App;
use crate::holders::{Caller, Claim, Holder, Known, Lost, Renewal, Standing};
use crate::metrics::Found;
use crate::problem::{Answer, Problem, ProblemBody};
use crate::request::{Json, Raw, parse};

/// The longest that anybody may keep an answer about a lease.
const KEPT_MAX: Duration = Duration::from_secs(10);
const RELEASED: HeaderName = HeaderName::from_static("x-lease-released");
const IDEMPOTENCY: HeaderName = HeaderName::from_static("idempotency-key");
const HOLDER_ID: HeaderName = HeaderName::from_static("x-holder-id");
const VERSION: HeaderName = HeaderName::from_static("x-lease-version");
/// The longest idempotency key.
const IDEMPOTENCY_MAX: usize = 128;

/// What the headers of a request say about a lease. To take these out costs less than to copy all of them.
pub(crate) struct Head {
    idempotency: Option<HeaderValue>,
    holder_id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

impl Head {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let header = |name| headers.get(name).cloned();
        let (idempotency, holder_id) = (header(IDEMPOTENCY), header(HOLDER_ID));
        Self { idempotency, holder_id, version: header(VERSION) }
    }
}

impl<S: Sync> FromRequestParts<S> for Head {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}

/// How long a lease of the pool lasts unless its holder says otherwise.
fn ttl_of(pool: &str) -> Duration {
    Duration::from_secs(if pool == "cameras" { 60 } else { 30 })
}

/// Counts and measures an operation.
pub(crate) fn measured<T>(op: &'static str, began: clock::Moment, result: &'static str, answer: T) -> T {
    static DONE: Found<&str, (metrics::Counter, metrics::Histogram)> = Found::new();
    let (count, seconds) = DONE.of(op, result, || {
        (
            metrics::counter!("lease_operations_total", "op" => op, "result" => result),
            metrics::histogram!("lease_operation_duration_seconds", "op" => op),
        )
    });
    count.increment(1);
    seconds.record(clock::now().since(began).as_secs_f64());
    answer
}

/// Who holds the resource
///
/// For whoever checks fencing tokens: the newest version that was granted, and to whom. The answer may be kept for a third of the
/// TTL, at most ten seconds; with `If-None-Match` it is sent again only if somebody else has the resource, or nobody. `/api/v1/tokens` tells
/// of every change.
#[utoipa::path(get, path = "/api/v1/{pool}/{resource}/lease", operation_id = "get_lease", tag = "leases", params(
    ResourcePath,
    ("If-None-Match" = Option<String>, Header, description = "what `ETag` said of the answer that is known"),
), responses(
    (status = 200, description = "the lease as it stands", body = LeaseForm, headers(
        ("ETag" = String, description = "names the term, and whether it is held"),
        ("Cache-Control" = String, description = "how long it may be kept, less than the TTL"),
    )),
    (status = 304, description = "the same term as before"),
    (status = 404, description = "there is no such resource", body = ProblemBody),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn get(State(app): State<App>, at: AtResource, headers: HeaderMap) -> Answer<Response> {
    let desk = at.desk(&app).await?;
    let known = desk.fresh().await?;
    if known.declared(&at.resource).is_none() && !known.view.leases().contains_key(&at.resource) {
        return Err(at.within.not_found(&at.resource));
    }
    let name = &at.within.name;
    let form = match desk.standing(&known, &at.resource) {
        Some(standing) => LeaseForm::of(name, &at.resource, &standing),
        None => LeaseForm::free(name, &at.resource, &known),
    };
    let frozen = known.view.era().is_none_or(|era| era.frozen);
    drop(known);
    let tag = tag(&form);
    let known_already = headers.get_all(IF_NONE_MATCH).iter().any(|tags| names(tags, &tag));
    let mut response = if known_already {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        axum::Json(&form).into_response()
    };
    for (name, value) in [(ETAG, tag), (CACHE_CONTROL, lifetime(&form, frozen))] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}

/// Names a term, and whether it is held. When it must be renewed is for people, and makes no difference.
fn tag(form: &LeaseForm) -> String {
    let held = if form.holder_id.is_some() { "held" } else { "free" };
    format!("W/\"{}-{held}\"", form.version)
}

/// Whether a list of tags names this one.
fn names(tags: &HeaderValue, tag: &str) -> bool {
    let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    tags.to_str().is_ok_and(|tags| tags.split(',').any(|one| one.trim() == "*" || weak(one) == weak(tag)))
}

/// How long an answer may be kept: less than the TTL, so that nobody checks tokens by one that is older than a lease.
fn lifetime(form: &LeaseForm, frozen: bool) -> String {
    let ttl = form.ttl_ms.map_or(KEPT_MAX * 3, Duration::from_millis);
    match (ttl / 3).min(KEPT_MAX).as_secs() {
        // What a store says that may have forgotten something is nothing to keep.
        _ if frozen => "no-store".to_owned(),
        0 => "no-cache".to_owned(),
        seconds => format!("private, max-age={seconds}, must-revalidate"),
    }
}

/// Acquire the lease of a resource
///
/// Granted if nobody holds it. Whoever holds it, the same holder too, is answered 409, unless it repeats the request with the
/// same `Idempotency-Key`.
#[utoipa::path(post, path = "/api/v1/{pool}/{resource}/lease", operation_id = "acquire_lease", tag = "leases", request_body = AcquireBody, params(
    ResourcePath,
    ("Idempotency-Key" = Option<String>, Header, description = "names this very request, so that it can be repeated"),
), responses(
    (status = 201, description = "it is yours", body = LeaseForm),
    (status = 409, description = "somebody has it, or nobody may", body = ProblemBody),
    (status = 404, description = "there is no such resource", body = ProblemBody),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer, or grants nothing for now", body = ProblemBody),
))]
pub(crate) async fn acquire(
    State(app): State<App>,
    at: AtResource,
    head: Head,
    Json(body): Json<AcquireBody>,
) -> Answer<Response> {
    let began = clock::now();
    let holder = Holder {
        id: MemberName::new(&body.holder_id)
            .map_err(|error| Problem::invalid(error.to_string().replacen("member name", "holder_id", 1)))?,
        ttl: ttl(&body, &at.within.name)?,
        key: at.within.identity.key().map(str::to_owned),
        idempotency: idempotency(head.idempotency.as_ref())?,
        extra: BTreeMap::new(),
    };
    let desk = at.desk(&app).await?;
    let allowed = |known: &Known| may_take(known, &at, &body);
    let mut weight = allowed(&*desk.lately().await?);
    if weight.is_err() {
        // What was read a moment ago may be out of date.
        weight = allowed(&*desk.fresh().await?);
    }
    match desk.claim(&at.resource, holder, weight?, MemberId::generate_in_order()).await? {
        Claim::Granted(standing) => {
            let form = LeaseForm::of(&at.within.name, &at.resource, &standing);
            Ok(measured("acquire", began, "granted", (StatusCode::CREATED, axum::Json(form)).into_response()))
        }
        Claim::Held(standing) => {
            Err(measured("acquire", began, "held", already_held(&at, standing.as_ref())))
        }
        Claim::Frozen => Err(measured("acquire", began, "frozen", Problem::frozen())),
    }
}

fn ttl(body: &AcquireBody, pool: &str) -> Answer<Duration> {
    let Some(millis) = body.ttl_ms else { return Ok(ttl_of(pool)) };
    let ttl = Duration::from_millis(millis);
    if (TTL_MIN..=TTL_MAX).contains(&ttl) {
        return Ok(ttl);
    }
    let (least, most) = (TTL_MIN.as_millis(), TTL_MAX.as_millis());
    Err(Problem::invalid(format!("ttl_ms is {millis}; give one between {least} and {most}")))
}

fn idempotency(key: Option<&HeaderValue>) -> Answer<Option<String>> {
    let Some(key) = key else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| (1..=IDEMPOTENCY_MAX).contains(&key.len()));
    let wrong =
        || Problem::invalid(format!("Idempotency-Key must be 1 to {IDEMPOTENCY_MAX} plain characters"));
    key.map(|key| Some(key.to_owned())).ok_or_else(wrong)
}

/// The weight of the resource, if this holder may have it at all.
fn may_take(known: &Known, at: &AtResource, body: &AcquireBody) -> Answer<u32> {
    let Some(declared) = known.declared(&at.resource) else { return Err(at.within.not_found(&at.resource)) };
    let refuse = |error: &'static str, said: String| Err(Problem::new(StatusCode::CONFLICT, error, said));
    if known.is_paused(&at.resource) {
        return refuse("paused", format!("{} is paused: nobody is to hold it", at.resource));
    }
    for (label, value) in &declared.requires {
        let has = if label == "name" { Some(&body.holder_id) } else { body.labels.get(label) };
        if has != Some(value) {
            return refuse(
                "not_eligible",
                format!("{} is only for holders with {label}={value}", at.resource),
            );
        }
    }
    for (kind, word) in [(MarkKind::Drain, "drained"), (MarkKind::Cordon, "cordoned")] {
        if known.view.mark(kind, &body.holder_id).is_some() {
            return refuse(word, format!("{} is {word}: it gets nothing new", body.holder_id));
        }
    }
    Ok(declared.weight)
}

fn already_held(at: &AtResource, standing: Option<&Standing>) -> Problem {
    let by = standing.map_or_else(|| "somebody".to_owned(), |standing| standing.holder_id.clone());
    let left = standing.map_or(0, |standing| standing.expires_nanos.saturating_sub(clock::unix_nanos()));
    let said = format!("{} is held by {by}", at.resource);
    Problem::new(StatusCode::CONFLICT, "already_held", said)
        .current(current(standing))
        .retry_after((left / 1_000_000_000).clamp(1, 3600))
}

/// Who says so, from the body, the query or the headers.
struct Said {
    holder_id: String,
    version: Option<u64>,
}

impl Said {
    fn of(raw: &[u8], query: HolderQuery, head: &Head) -> Answer<Self> {
        let body: HolderBody = parse(raw)?;
        let text = |value: &Option<HeaderValue>| {
            value.as_ref().and_then(|value| value.to_str().ok().map(str::to_owned))
        };
        let version = match text(&head.version) {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                Problem::invalid(
                    "X-Lease-Version is not a version; it is a whole number, as acquiring answered it",
                )
            })?),
        };
        let holder_id = body.holder_id.or(query.holder_id).or_else(|| text(&head.holder_id));
        let holder_id = holder_id.ok_or_else(|| {
            Problem::invalid(
                "holder_id is missing; send it in the body, in the query or as the header X-Holder-Id",
            )
        })?;
        Ok(Self { holder_id, version: body.version.or(query.version).or(version) })
    }

    fn caller<'a>(&'a self, at: &'a AtResource) -> Caller<'a> {
        let token = self.version.map(Token);
        Caller { holder_id: &self.holder_id, session: None, token, key: at.within.identity.key() }
    }
}

fn lost(at: &AtResource, lost: &Lost) -> Problem {
    let (standing, said) = match lost {
        Lost::Foreign => {
            let said = "this lease was acquired with another API key; only that one may touch it";
            return Problem::new(StatusCode::FORBIDDEN, "not_your_lease", said);
        }
        Lost::NotHeld(Some(standing)) => {
            (Some(standing.as_ref()), format!("{} is held by {}", at.resource, standing.holder_id))
        }
        Lost::NotHeld(None) => (None, format!("nobody holds {}", at.resource)),
        Lost::Revoked => (None, format!("the lease of {} was revoked", at.resource)),
    };
    let said = format!("{said}; stop working on it");
    Problem::new(StatusCode::NOT_FOUND, "lease_lost", said).current(current(standing))
}

/// Renew a lease
///
/// Any answer of 404 is final: the lease is lost, stop working on the resource.
#[utoipa::path(post, path = "/api/v1/{pool}/{resource}/lease/renew", operation_id = "renew_lease", tag = "leases", request_body = HolderBody, params(
    ResourcePath,
    HolderQuery,
), responses(
    (status = 200, description = "it has more time", body = LeaseForm),
    (status = 404, description = "the lease is lost, or there is no such resource", body = ProblemBody),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "unknown: the store does not answer", body = ProblemBody),
))]
pub(crate) async fn renew(
    State(app): State<App>,
    at: AtResource,
    Query(query): Query<HolderQuery>,
    head: Head,
    Raw(raw): Raw,
) -> Answer<axum::Json<LeaseForm>> {
    let began = clock::now();
    let said = Said::of(&raw, query, &head)?;
    let desk = at.desk(&app).await?;
    if desk.lately().await?.is_paused(&at.resource) {
        let said = format!("{} is paused: nobody is to hold it; stop working on it", at.resource);
        return Err(Problem::new(StatusCode::NOT_FOUND, "lease_lost", said));
    }
    match desk.renew(&at.resource, &said.caller(&at)).await? {
        Renewal::Extended(standing) => {
            let form = LeaseForm::of(&at.within.name, &at.resource, &standing);
            Ok(measured("renew", began, "extended", axum::Json(form)))
        }
        Renewal::Lost(why) => {
            let known = desk.lately().await?;
            let exists =
                known.declared(&at.resource).is_some() || known.view.leases().contains_key(&at.resource);
            let problem = if exists { lost(&at, &why) } else { at.within.not_found(&at.resource) };
            Err(measured("renew", began, "lost", problem))
        }
        Renewal::Frozen => Err(measured("renew", began, "frozen", Problem::frozen())),
    }
}

/// Release a lease
///
/// Always 204; the header `X-Lease-Released` says whether there was anything to release. Who and which version is taken from
/// the body, the query, or the headers `X-Holder-Id` and `X-Lease-Version`.
#[utoipa::path(delete, path = "/api/v1/{pool}/{resource}/lease", operation_id = "release_lease", tag = "leases", request_body = HolderBody, params(
    ResourcePath,
    HolderQuery,
), responses(
    (status = 204, description = "it is not yours any more", headers(("X-Lease-Released" = bool, description = "whether it was"))),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "unknown: the store does not answer", body = ProblemBody),
))]
pub(crate) async fn release(
    State(app): State<App>,
    at: AtResource,
    Query(query): Query<HolderQuery>,
    head: Head,
    Raw(raw): Raw,
) -> Answer<Response> {
    let began = clock::now();
    let said = Said::of(&raw, query, &head)?;
    let released = match app.holders().desk_if_known(&at.within.pool).await? {
        None => false,
        Some(desk) => match desk.release(&at.resource, &said.caller(&at)).await? {
            Ok(_) => true,
            Err(why @ Lost::Foreign) => return Err(lost(&at, &why)),
            Err(_) => false,
        },
    };
    let mut response = StatusCode::NO_CONTENT.into_response();
    response
        .headers_mut()
        .insert(RELEASED, HeaderValue::from_static(if released { "true" } else { "false" }));
    Ok(measured("release", began, if released { "released" } else { "not_held" }, response))
}
