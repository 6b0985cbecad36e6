//! What is said when something is wrong.
//!
//! A handler answers with a [`Problem`]; how it is written depends on who asked: `application/problem+json` on the native API,
//! the words of document 004 where cameras are, the form of document 000 everywhere else. All carry the request's id.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use leasehold::clock;
use leasehold::store::{StoreError, StoreErrorKind};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::cameras::hide;
use crate::holders::wall_time;

/// Something is wrong with a request, or with what it needs.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    error: &'static str,
    message: Cow<'static, str>,
    current: Option<Value>,
    retry_after: Option<u64>,
}

pub(crate) type Answer<T> = Result<T, Problem>;

/// The body of an answer that says what is wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemBody {
    /// What is wrong, in one word that programs can compare.
    #[schema(example = "already_held")]
    error: String,
    /// What is wrong and what to do, for people.
    message: String,
    /// Which request this answers, as in the header `X-Request-Id`.
    request_id: String,
    /// Who holds the lease at present, where that matters.
    #[schema(nullable)]
    current: Option<Value>,
}

/// The same in the words of document 004, below `/api/v1/tenants`, `leases`, `runners`, `deployments` and `cameras`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CameraProblem {
    /// What is wrong, in one word that programs can compare.
    #[schema(example = "camera_not_found")]
    error_code: String,
    /// What is wrong and what to do, for people.
    message: String,
    /// More about it, such as who holds the lease at present.
    details: serde_json::Map<String, Value>,
    /// When.
    #[schema(example = "2026-01-22T10:15:30.000Z")]
    timestamp: String,
    /// Which request this answers, as in the header `X-Request-Id`.
    request_id: String,
}

/// What may be answered to any request of document 004.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "describes what is answered")]
pub(crate) enum CameraRefusals {
    /// the request cannot be used
    #[response(status = "4XX")]
    Refused(CameraProblem),
    /// the store does not answer
    #[response(status = 503)]
    Away(CameraProblem),
}

/// In whose words a problem is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// Those of document 000.
    Scenes,
    /// Those of document 004.
    Cameras,
    /// `application/problem+json`.
    Native,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        error: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, error, message: hide(message.into()), current: None, retry_after: None }
    }

    /// Nobody was let in to ask for this.
    pub(crate) fn nobody() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "nobody was let in to ask for this")
    }

    /// What was sent cannot be used.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    /// What was sent cannot even be read.
    pub(crate) fn malformed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    /// The same with who holds the lease at present.
    pub(crate) fn current(mut self, current: Value) -> Self {
        self.current = Some(current);
        self
    }

    /// The same with when to ask again, in seconds.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The store may have forgotten something and grants nothing for now.
    pub(crate) fn frozen() -> Self {
        let said = "the store may have forgotten something and grants nothing until its holders had time to say what \
                    they hold; what you hold stays yours for as long as you trust yourself: try again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "frozen", said).retry_after(1)
    }

    pub(crate) fn error(&self) -> &'static str {
        self.error
    }

    /// Whether it says that something is not there.
    pub(crate) fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// The answer, in the form that the caller reads.
    pub(crate) fn write(&self, words: Words, request_id: &str) -> Response {
        let mut body = json!({"error": self.error, "message": self.message, "request_id": request_id});
        if let Some(current) = &self.current {
            body["current"] = current.clone();
        }
        let mut content = "application/json";
        if words == Words::Cameras {
            body["error_code"] = self.error.into();
            body["details"] = self.current.clone().filter(Value::is_object).unwrap_or_else(|| json!({}));
            body["timestamp"] = wall_time(clock::unix_nanos()).into();
        }
        if words == Words::Native {
            content = "application/problem+json";
            body["type"] = "about:blank".into();
            body["title"] = self.status.canonical_reason().unwrap_or("problem").into();
            body["status"] = self.status.as_u16().into();
            body["detail"] = body["message"].take();
            body["message"] = body["detail"].clone();
        }
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content));
        if self.status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer realm=\"leasehold\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, how);
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let word = match error.kind() {
            StoreErrorKind::Misconfigured => "misconfigured",
            _ => "unavailable",
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, word, format!("the answer is unknown: {error}; try again"))
            .retry_after(1)
    }
}

/// Written out by `request::finish`, which knows who asked.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}
