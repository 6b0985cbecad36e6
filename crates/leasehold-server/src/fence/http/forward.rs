//! A request on its way to the service, and the answer on its way back.
//!
//! Invariant: what concerns one connection only is not passed on to another.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, UPGRADE};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use futures_util::StreamExt;
use reqwest::redirect::Policy;
use tokio::time::timeout;
use url::Url;

use super::HttpSettings;
use crate::events::settings::EventsError;
use crate::events::trust;
use crate::problem::Problem;
use crate::serve::StartError;

/// How long it may take to reach the service.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Headers of one connection, besides those that `Connection` names.
const OWN: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The way to the service.
pub(super) struct Forward {
    client: reqwest::Client,
    service: Url,
    body_max: u64,
    whole: Duration,
}

impl Forward {
    pub(super) fn new(settings: &HttpSettings) -> Result<Self, StartError> {
        let service = settings.service.clone();
        let wrong = |why: &str| {
            StartError::Events(EventsError::Address { why: format!("the service behind the fence {why}") })
        };
        if !["http", "https"].contains(&service.scheme()) || service.host_str().is_none_or(str::is_empty) {
            return Err(wrong("has no address of the form http://host:port"));
        }
        if !service.username().is_empty() || service.password().is_some() || service.query().is_some() {
            return Err(wrong("has a user, a password or a query in its address; leave them out"));
        }
        let trust = trust::client(settings.service_ca.as_deref()).map_err(EventsError::from)?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(trust)
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_MAX)
            .read_timeout(settings.limits.silence)
            .build()
            .map_err(|error| wrong(&format!("cannot be asked: {error}")))?;
        Ok(Self { client, service, body_max: settings.limits.body, whole: settings.limits.whole })
    }

    /// Sends a request, and answers as the service does.
    pub(super) async fn send(&self, request: Request) -> Result<Response, Problem> {
        let (mut parts, body) = request.into_parts();
        if parts.method == Method::CONNECT || parts.headers.contains_key(UPGRADE) {
            let said = "no other protocol can be spoken through this fence";
            return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "no_upgrade", said));
        }
        let announced =
            parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: u64| length > self.body_max) {
            return Err(self.too_large());
        }
        strip(&mut parts.headers);
        parts.headers.remove(HOST);
        parts.headers.remove(EXPECT);
        let exceeded = Arc::new(AtomicBool::new(false));
        let mut request = self.client.request(parts.method, self.target(&parts.uri)).headers(parts.headers);
        if announced.is_some_and(|length| length > 0) || (announced.is_none() && !is_empty(&body)) {
            request = request.body(self.limited(body, Arc::clone(&exceeded)));
        }
        let answer = match timeout(self.whole, request.send()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) if exceeded.load(Ordering::Relaxed) => return Err(self.too_large()),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the service behind the fence does not answer");
                let said = "the service behind the fence does not answer; whether it did anything is unknown";
                return Err(Problem::new(StatusCode::BAD_GATEWAY, "no_service", said));
            }
            Err(_) => {
                let said = format!(
                    "the service behind the fence gave no answer within {:?}; whether it did anything is unknown",
                    self.whole
                );
                return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "late_service", said));
            }
        };
        let mut response = Response::new(Body::empty());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        strip(response.headers_mut());
        *response.body_mut() = Body::from_stream(answer.bytes_stream());
        Ok(response)
    }

    /// The same path at the service. It is appended as it came, so that nothing is read into it.
    fn target(&self, uri: &axum::http::Uri) -> Url {
        let mut target = self.service.clone();
        let path = format!("{}{}", self.service.path().trim_end_matches('/'), uri.path());
        target.set_path(&path);
        target.set_query(uri.query());
        target
    }

    /// A body that ends with an error where it becomes too large.
    fn limited(&self, body: Body, exceeded: Arc<AtomicBool>) -> reqwest::Body {
        let mut left = self.body_max;
        reqwest::Body::wrap_stream(body.into_data_stream().map(move |piece| {
            let piece = piece.map_err(io::Error::other)?;
            match left.checked_sub(u64::try_from(piece.len()).unwrap_or(u64::MAX)) {
                Some(rest) => left = rest,
                None => {
                    exceeded.store(true, Ordering::Relaxed);
                    return Err(io::Error::other("the body is too large"));
                }
            }
            Ok(piece)
        }))
    }

    fn too_large(&self) -> Problem {
        let said = format!("the body is larger than the {} bytes that are allowed", self.body_max);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", said)
    }
}

fn is_empty(body: &Body) -> bool {
    axum::body::HttpBody::size_hint(body).upper() == Some(0)
}

/// Takes away what concerns one connection only.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in OWN {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_one_connection_stays_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("x-yours", "2"),
            ("leasehold-token", "7"),
        ] {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["leasehold-token", "x-yours"]);
    }
}
