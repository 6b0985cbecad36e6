//! One call: sent, waited for, tried again within its deadline.

use std::time::Duration;

use leasehold::clock::{self, Moment};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

/// How long one attempt may take at least; where there is much time, half of it: who is slow is not helped by being asked again.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How long is waited after the first attempt that failed; then twice as long each time, and at most this.
const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// A call did not bring what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The control plane answered, and refuses. To ask again would change nothing.
    #[error("the control plane refuses ({status}, {code}): {message}")]
    Refused {
        /// The status.
        status: u16,
        /// What is wrong, in one word.
        code: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// Nobody knows: no answer came in time, or the control plane could not say.
    #[error("no answer from the control plane: {0}")]
    Unknown(String),
    /// What was given cannot be used.
    #[error("{0}")]
    Invalid(String),
}

impl ClientError {
    /// The status of a refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Problem {
    error_code: String,
    message: String,
}

/// An answer, and the moment before the request that it answers was sent.
pub(crate) struct Answered<T> {
    pub(crate) value: T,
    pub(crate) sent: Moment,
}

/// Where calls go, and with which key.
#[derive(Clone)]
pub(crate) struct Line {
    http: reqwest::Client,
    base: Url,
    key: Option<String>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Line {
    pub(crate) fn to(base: &str, key: Option<&str>) -> Result<Self, ClientError> {
        let mut base = Url::parse(base)
            .map_err(|error| ClientError::Invalid(format!("{base:?} is no address: {error}")))?;
        if !["http", "https"].contains(&base.scheme()) || base.cannot_be_a_base() {
            return Err(ClientError::Invalid(
                "the address of a control plane begins with http:// or https://".to_owned(),
            ));
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(ATTEMPT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| ClientError::Invalid(error.to_string()))?;
        Ok(Self { http, base, key: key.map(str::to_owned) })
    }

    /// The address of a path; its parts are escaped.
    pub(crate) fn at(&self, parts: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "v1"]).extend(parts).push("");
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        let request = self.http.request(method, url);
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Asks until there is an answer or the time is up. Only what can be repeated may be asked this way.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        within: Duration,
    ) -> Result<Answered<T>, ClientError> {
        let deadline = clock::now().after(within);
        let mut pause = BACK_OFF;
        let longest = ATTEMPT.max(within / 2);
        loop {
            let sent = clock::now();
            let left = deadline.since(sent);
            let attempt = self.attempt(method.clone(), url.clone(), body);
            let outcome = match tokio::time::timeout(longest.min(left), attempt).await {
                Ok(outcome) => outcome,
                Err(_) => Err(ClientError::Unknown("it did not answer in time".to_owned())),
            };
            match outcome {
                Ok(value) => return Ok(Answered { value, sent }),
                Err(ClientError::Unknown(why)) if deadline.since(clock::now()) > pause => {
                    tracing::debug!(why, "the control plane is asked again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BACK_OFF_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn attempt<T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<T, ClientError> {
        // What went wrong, without an address: it may hold something that is no log's business.
        let unknown = |error: reqwest::Error| ClientError::Unknown(error.without_url().to_string());
        let mut request = self.request(method, url);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.map_err(unknown)?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(unknown)?;
        if status.is_success() {
            let text: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
            return serde_json::from_slice(text)
                .map_err(|error| ClientError::Unknown(format!("its answer cannot be read: {error}")));
        }
        let Problem { error_code, message } = serde_json::from_slice(&bytes).unwrap_or_default();
        // Too many requests is an answer, but not one that holds for long.
        let for_now = status.is_server_error()
            || status == StatusCode::REQUEST_TIMEOUT
            || (status == StatusCode::TOO_MANY_REQUESTS && error_code != "runner_full");
        if for_now {
            return Err(ClientError::Unknown(format!("{status}: {message}")));
        }
        Err(ClientError::Refused { status: status.as_u16(), code: error_code, message })
    }
}
