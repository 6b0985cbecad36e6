//! `ETag`, `If-Match` and `If-None-Match`, with versions as tags.

use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::problem::{Answer, Problem};

/// Whether one of the tags that a caller sent names this version.
fn names(headers: &HeaderMap, header: HeaderName, version: &str) -> Option<bool> {
    let mut sent = headers.get_all(header).iter().peekable();
    sent.peek()?;
    let is = |tag: &str| {
        let tag = tag.trim();
        tag == "*" || tag.trim_start_matches("W/").trim_matches('"') == version
    };
    Some(sent.any(|tags| tags.to_str().is_ok_and(|tags| tags.split(',').any(is))))
}

/// Refuses a change to something that is not what its caller last saw. What is not there has no version at all.
pub(super) fn require(headers: &HeaderMap, version: Option<&str>) -> Answer<()> {
    let matches = match version {
        Some(version) => names(headers, IF_MATCH, version),
        None => headers.get(IF_MATCH).map(|_| false),
    };
    if matches != Some(false) {
        return Ok(());
    }
    let now =
        version.map_or_else(|| "it is not there".to_owned(), |version| format!("it is {version} by now"));
    let said =
        format!("If-Match names another version: {now}; look at it again and repeat the change on that");
    Err(Problem::new(StatusCode::PRECONDITION_FAILED, "version_conflict", said))
}

/// An answer with its version, or 304 for whoever has it already.
pub(super) fn tagged(headers: &HeaderMap, version: &str, body: impl IntoResponse) -> Response {
    let known = names(headers, IF_NONE_MATCH, version).unwrap_or(false);
    let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { body.into_response() };
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}
