//! The line to a server: one call there, one answer back, each within its time.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;

use super::address::Address;
use super::key::ApiKey;
use super::wire::{About, Call, Refusal, VERSION};
use super::{failure, wire};
use crate::lease::Pool;
use crate::store::{ServerUrl, StoreError};

/// The longest that a call takes that says and hears little.
const CALL_MAX: Duration = Duration::from_secs(3);
/// The longest that a call takes that may carry a whole pool.
const WHOLE_MAX: Duration = Duration::from_secs(10);
/// Calls that may carry a whole pool.
const WHOLE: [&str; 8] =
    ["sessions", "leases", "marks", "resources", "publish", "listing", "ledger", "checkup"];
/// The most that an answer may hold.
const ANSWER_MAX: usize = 256 << 20;
/// The most that is read of a refusal.
const REFUSAL_MAX: usize = 64 << 10;

/// The line to a server.
#[derive(Debug)]
pub(super) struct Line {
    address: Address,
    key: Option<ApiKey>,
}

impl Line {
    pub(super) fn new(url: &ServerUrl, key: Option<ApiKey>) -> Result<Self, StoreError> {
        Ok(Self { address: Address::new(url, key.as_ref())?, key })
    }

    /// How people are told of the server.
    pub(super) fn place(&self) -> &str {
        &self.address.place
    }

    /// Whether what is said can be read on the way.
    pub(super) fn is_open_to_others(&self) -> bool {
        self.address.is_open_to_others
    }

    /// Asks the server what it is.
    pub(super) async fn about(&self) -> Result<About, StoreError> {
        let request = self.address.client.get(self.address.path("")).timeout(CALL_MAX);
        let about: About = self.answer(wire::ROOT, request).await?;
        if about.version != VERSION {
            return Err(StoreError::misconfigured(format!(
                "{} speaks version {} of the members' API and this program version {VERSION}; use a program and a \
                 server that speak the same",
                self.place(),
                about.version
            )));
        }
        Ok(about)
    }

    /// Makes a call.
    pub(super) async fn call<C: Call>(&self, call: &C) -> Result<C::Answer, StoreError> {
        let body = serde_json::to_vec(call).map_err(|error| {
            StoreError::misconfigured(format!("{} cannot be written as JSON", C::NAME)).caused_by(error)
        })?;
        let limit = if WHOLE.contains(&C::NAME) { WHOLE_MAX } else { CALL_MAX };
        let request = self.address.client.post(self.address.path(C::NAME)).timeout(limit);
        let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body);
        self.answer(C::NAME, request).await
    }

    /// Begins to listen for hints about a pool. The stream itself has no end in time.
    pub(super) async fn listen(&self, pool: &Pool) -> Result<Response, StoreError> {
        let mut url = self.address.path(wire::CHANGES);
        url.query_pairs_mut().append_pair("pool", pool.as_str());
        let response = self.send(wire::CHANGES, self.address.client.get(url));
        let late = |_| StoreError::unavailable(format!("{} does not begin to tell of changes", self.place()));
        tokio::time::timeout(CALL_MAX, response).await.map_err(late)?
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        call: &str,
        request: RequestBuilder,
    ) -> Result<T, StoreError> {
        let response = self.send(call, request).await?;
        let is_json = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.starts_with("application/json")));
        if !is_json {
            return Err(failure::strange(self.place(), "an answer"));
        }
        let body = self.body(call, response, ANSWER_MAX).await?;
        serde_json::from_slice(&body)
            .map_err(|error| failure::strange(self.place(), "an answer").caused_by(error))
    }

    /// Sends a request and refuses every answer but a good one.
    async fn send(&self, call: &str, request: RequestBuilder) -> Result<Response, StoreError> {
        let shown = self.key.as_ref().map(ApiKey::header);
        let request = match &shown {
            Some(header) => request.header(AUTHORIZATION, header),
            None => request,
        };
        let response = request.send().await.map_err(|error| failure::broken(self.place(), call, error))?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response);
        }
        if let (StatusCode::UNAUTHORIZED, Some(key), Some(shown)) = (status, &self.key, &shown)
            && key.look_again(shown)
        {
            let said = format!("{} refused an API key that was replaced meanwhile", self.place());
            return Err(StoreError::unavailable(said));
        }
        let body = self.body(call, response, REFUSAL_MAX).await.unwrap_or_default();
        let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
        Err(failure::refused(self.place(), call, status, &refusal, self.key.as_ref()))
    }

    async fn body(&self, call: &str, mut response: Response, max: usize) -> Result<Vec<u8>, StoreError> {
        let mut body = Vec::new();
        let broken = |error| failure::broken(self.place(), call, error);
        while let Some(piece) = response.chunk().await.map_err(broken)? {
            if body.len() + piece.len() > max {
                return Err(failure::strange(self.place(), "more"));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}
