//! What every request has: an id, a limit, a line in the log, and an answer in the caller's form.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use leasehold::clock;
use leasehold::lease::Nonce;
use serde::de::DeserializeOwned;

use crate::access::{self, Identity};
use crate::app::App;
use crate::metrics::Found;
use crate::problem::{Problem, Words};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The routes whose problems are written as `application/problem+json`.
const NATIVE: [&str; 2] = ["/api/v1/store", "/api/v1/keys"];
/// Those whose problems are written in the words of document 004.
const CAMERAS: [&str; 5] =
    ["/api/v1/tenants", "/api/v1/leases", "/api/v1/runners", "/api/v1/deployments", "/api/v1/cameras"];

/// In whose words the problems of a path are written.
fn words(path: &str) -> Words {
    let below = |prefix: &&str| {
        path.strip_prefix(*prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if NATIVE.iter().any(|prefix| path.starts_with(prefix)) {
        Words::Native
    } else if CAMERAS.iter().any(below) {
        Words::Cameras
    } else {
        Words::Scenes
    }
}

/// The id of a request: the caller's own if it is sane, ours otherwise.
fn request_id(headers: &HeaderMap) -> String {
    let theirs = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let sane = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    match theirs.filter(sane) {
        Some(id) => id.to_owned(),
        None => format!("{:016x}", next_id()),
    }
}

/// A number that no other request has. It tells them apart and nothing else, so it need not be random.
fn next_id() -> u64 {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(Nonce::generate().0));
    // An odd factor: the numbers of two requests that come one after the other look nothing like each other.
    NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The trace that a request belongs to, if its caller says so (W3C `traceparent`).
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let parts: Vec<&str> = headers.get("traceparent")?.to_str().ok()?.split('-').collect();
    let hex = |text: &&str| text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    parts.get(1).copied().filter(hex)
}

/// Around every request of the control plane: lets pass who may, and finishes what is answered.
///
/// One layer does both: each one more has the request and its answer boxed and moved once more.
pub(crate) async fn answer(State(app): State<App>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map(MatchedPath::as_str);
    let run = async |mut request: Request, identity: Option<Identity>| {
        if let Some(identity) = identity {
            request.extensions_mut().insert(identity);
        }
        next.run(request).await
    };
    answer_at(&app, route, request, run).await
}

/// The same around whatever a request is handled by: that gets it with whoever sent it.
pub(crate) async fn answer_at<B, F: Future<Output = Response>>(
    app: &App,
    route: Option<&str>,
    request: http::Request<B>,
    handle: impl FnOnce(http::Request<B>, Option<Identity>) -> F,
) -> Response {
    let admitted = async |request: http::Request<B>| {
        let (method, headers) = (request.method(), request.headers());
        match access::admit(app, route, method, headers).await {
            Ok(identity) => handle(request, identity).await,
            Err(problem) => problem.into_response(),
        }
    };
    finished(route, request, admitted, count).await
}

/// Around every request that needs no key.
pub(crate) async fn finish(request: Request, next: Next) -> Response {
    // Nobody knows who counts in a process that is no control plane, and since when.
    let count = |route: &str, status| counter(route, status).increment(1);
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map(MatchedPath::as_str);
    finished(route, request, |request| next.run(request), count).await
}

/// Has a request answered: writes problems out, names the request, counts and logs it.
async fn finished<B, F: Future<Output = Response>>(
    route: Option<&str>,
    request: http::Request<B>,
    answer: impl FnOnce(http::Request<B>) -> F,
    count: fn(&str, StatusCode),
) -> Response {
    let began = clock::now();
    let id = request_id(request.headers());
    let trace = trace_id(request.headers()).map(str::to_owned);
    let method = request.method().clone();
    let words = words(request.uri().path());
    let route = route.unwrap_or("none");
    #[cfg(feature = "otlp")]
    let span = crate::otlp::span(&method, route, &id, request.headers());
    let answering = answer(request);
    #[cfg(feature = "otlp")]
    let answering = tracing::Instrument::instrument(answering, span.clone());
    let mut response = answering.await;
    let mut said = None;
    if let Some(problem) = response.extensions_mut().remove::<Arc<Problem>>() {
        said = Some(problem.error());
        let headers = std::mem::take(response.headers_mut());
        response = problem.write(words, &id);
        for (name, value) in headers.iter().filter(|(name, _)| **name != CONTENT_LENGTH) {
            response.headers_mut().entry(name).or_insert(value.clone());
        }
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    let status = response.status();
    #[cfg(feature = "otlp")]
    crate::otlp::answered(&span, status);
    let took = clock::now().since(began);
    count(route, status);
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                target: "leasehold::request", $level, operation = %method, route, status = status.as_u16(),
                error = said.and(status.canonical_reason()), error_type = said, request_id = id, trace_id = trace, micros = took.as_micros() as u64, "answered"
            )
        };
    }
    if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
        line!(tracing::Level::ERROR);
    } else {
        line!(tracing::Level::DEBUG);
    }
    response
}

/// Counts an answer of the control plane.
fn count(route: &str, status: StatusCode) {
    static ANSWERED: Found<StatusCode, metrics::Counter> = Found::new();
    ANSWERED.of(route, status, || counter(route, status)).increment(1);
}

fn counter(route: &str, status: StatusCode) -> metrics::Counter {
    let status = status.as_u16().to_string();
    metrics::counter!("leasehold_requests_total", "route" => route.to_owned(), "status" => status)
}

/// What a path names, with a sentence where it cannot be read.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let taken = axum::extract::Path::from_request_parts(parts, app).await;
        let wrong = |error| Problem::malformed(format!("the path cannot be read: {error}"));
        taken.map(|axum::extract::Path(taken)| Self(taken)).map_err(wrong)
    }
}

/// The body of a request as it came, within its limits of size and time.
pub(crate) struct Raw(pub(crate) Bytes);

impl FromRequest<App> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let limits = app.limits();
        read(request, limits.body, limits.upload).await.map(Self)
    }
}

/// The body of a request, which must not be larger nor take longer.
pub(crate) async fn read<B>(request: http::Request<B>, max: usize, within: Duration) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<axum::BoxError>,
{
    let too_large = || {
        let said = format!("the body is larger than the {max} bytes that are allowed");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", said)
    };
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > max) {
        return Err(too_large());
    }
    let reading = Limited::new(request.into_body(), max).collect();
    match tokio::time::timeout(within, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::malformed("the body did not arrive whole")),
        Err(_) => {
            let said = format!("the body did not arrive within {within:?}");
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", said))
        }
    }
}

/// A JSON body, whatever its `Content-Type` says: plain `curl -d` is understood. An empty one is an empty object.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let Raw(bytes) = Raw::from_request(request, app).await?;
        parse(&bytes).map(Self)
    }
}

/// Reads JSON; nothing at all is an empty object.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    // A list would be taken for the fields of an object, in the order in which they happen to be written down.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::invalid("the body is a list; a JSON object is expected here"));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let said = format!("the body is not the JSON that is expected here: {error}");
        if error.is_data() { Problem::invalid(said) } else { Problem::malformed(said) }
    })
}

/// Says that nothing is here.
pub(crate) async fn not_found(State(_): State<App>, request: Request) -> Problem {
    let path: String = request.uri().path().chars().take(200).collect();
    let said = format!("there is nothing at {path:?}; what there is, is listed at /openapi.json and /docs");
    Problem::new(StatusCode::NOT_FOUND, "not_found", said)
}

/// Says that something is here, but not for this method.
pub(crate) async fn wrong_method(request: Request) -> Problem {
    let said = format!("{} is not possible here; the header Allow says what is", request.method());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_at_all_is_an_empty_object_and_anything_else_is_not() {
        let empty = |body: &[u8]| {
            parse::<serde_json::Map<String, serde_json::Value>>(body).is_ok_and(|map| map.is_empty())
        };
        for body in [&b""[..], b"{}", b" { } "] {
            assert!(empty(body), "{body:?}");
        }
        for body in [&b"\n"[..], b"\x0c", b"\0", b"[]", b" [] ", b"null", b"{} {}"] {
            assert!(!empty(body), "{body:?}");
        }
    }
}
