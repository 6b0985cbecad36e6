//! Which path says what, and who may ask.
//!
//! Invariant: the key is asked for before a path is looked at, so that who has none learns not even which there are.

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;

use super::answer::Standing;
use super::key::ApiKey;
use super::serve::REQUEST_MAX;
use super::{Report, page};

/// What says yes or no and nothing else, to anybody.
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/leader"];
/// How many bytes a request may carry. None is read.
const BODY_MAX: u64 = 1024;

type Asked = State<Arc<dyn Report>>;

/// What a candidate answers.
pub(super) fn all(report: Arc<dyn Report>) -> Router {
    Router::new()
        .route("/health", get(async |State(report): Asked| Json(Standing::of(&*report).health())))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/info", get(async |State(report): Asked| Json(Standing::of(&*report).info())))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/leader", get(leader))
        .route(
            "/admin/leader-status",
            get(async |State(report): Asked| Json(Standing::of(&*report).leader_status())),
        )
        .route("/admin/stats", get(async |State(report): Asked| Json(Standing::of(&*report).stats())))
        .route("/admin/resign-leadership", post(resign))
        .route("/admin/trigger-reconcile", post(reconcile))
        .with_state(report)
}

/// Routes behind the gate.
pub(super) fn gated(routes: Router, key: Option<ApiKey>) -> Router {
    routes.fallback(unknown).method_not_allowed_fallback(wrong_method).layer(from_fn_with_state(key, gate))
}

/// Yes, or not now.
fn yes(yes: bool) -> StatusCode {
    if yes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn ready(State(report): Asked) -> impl IntoResponse {
    let standing = Standing::of(&*report);
    (yes(standing.is_ready()), Json(standing.ready()))
}

async fn readyz(State(report): Asked) -> impl IntoResponse {
    let ready = Standing::of(&*report).is_ready();
    (yes(ready), if ready { "ok\n" } else { "not ready\n" })
}

async fn leader(State(report): Asked) -> impl IntoResponse {
    let leads = report.is_leader().is_some();
    (yes(leads), if leads { "leader\n" } else { "standby\n" })
}

async fn metrics(State(report): Asked) -> impl IntoResponse {
    ([(CONTENT_TYPE, page::CONTENT_TYPE)], page::metrics(&*report))
}

async fn resign(State(report): Asked) -> Response {
    tracing::info!("asked over HTTP to resign");
    if report.resign().await {
        Json(json!({ "resigned": true })).into_response()
    } else {
        (StatusCode::CONFLICT, Json(Standing::of(&*report).does_not_lead())).into_response()
    }
}

async fn reconcile(State(report): Asked) -> Response {
    tracing::info!("asked over HTTP to look at everything again");
    if report.reconcile() {
        (StatusCode::ACCEPTED, Json(json!({ "triggered": true }))).into_response()
    } else {
        (StatusCode::CONFLICT, Json(Standing::of(&*report).does_not_lead())).into_response()
    }
}

async fn unknown(uri: Uri) -> Refusal {
    Refusal(StatusCode::NOT_FOUND, format!("there is no {}", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let path = uri.path();
    Refusal(StatusCode::METHOD_NOT_ALLOWED, format!("{path} does not take {method}; see the header Allow"))
}

/// Lets pass what may be asked, and waits for its answer for as long as one may take.
async fn gate(State(key): State<Option<ApiKey>>, request: Request, next: Next) -> Response {
    let mut answer = match refusal(key.as_ref(), &request) {
        Some(refusal) => refusal.into_response(),
        None => tokio::time::timeout(REQUEST_MAX, next.run(request)).await.unwrap_or_else(|_| {
            let said = format!(
                "there was no answer within {REQUEST_MAX:?}; what was asked for may still happen: see \
                 /admin/leader-status"
            );
            Refusal(StatusCode::GATEWAY_TIMEOUT, said).into_response()
        }),
    };
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn refusal(key: Option<&ApiKey>, request: &Request) -> Option<Refusal> {
    let open = OPEN.contains(&request.uri().path());
    if key.is_some_and(|key| !open && !has(key, request.headers())) {
        let said = "this needs the key: send it as Authorization: Bearer KEY or X-API-Key: KEY";
        return Some(Refusal(StatusCode::UNAUTHORIZED, said.to_owned()));
    }
    // A page of a browser on this machine could otherwise use an address that needs no key.
    if request.method() == Method::POST && request.headers().contains_key(ORIGIN) {
        return Some(Refusal(StatusCode::FORBIDDEN, "pages of a browser may not ask for this".to_owned()));
    }
    if request.body().size_hint().upper().is_none_or(|bytes| bytes > BODY_MAX) {
        let said = format!("no more than {BODY_MAX} bytes may be sent with a request, and none are needed");
        return Some(Refusal(StatusCode::PAYLOAD_TOO_LARGE, said));
    }
    None
}

fn has(key: &ApiKey, headers: &HeaderMap) -> bool {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| {
        let (scheme, offered) = value.as_bytes().split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(offered)
    });
    let plain = headers.get("x-api-key").map(HeaderValue::as_bytes);
    [bearer, plain].into_iter().flatten().any(|offered| key.is(offered))
}

/// Why something was not answered.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(status, error) = self;
        let mut answer = (status, Json(json!({ "error": error }))).into_response();
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }
}
