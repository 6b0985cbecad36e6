//! `/api/v1/tokens`: the newest token of every resource of a pool, and every change, for fences.
//!
//! A stream begins with everything, so there is nothing to resume: whoever comes back is told it all again, and then what
//! changes. Renewals change no token and are not told.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse;
use futures_core::Stream;
use futures_util::stream::{self, StreamExt};
use leasehold::fence::{Authority, Newest, PoolAuthority};
use leasehold::store::Hints;
use leasehold::{ResourceId, Token};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use utoipa::{IntoParams, ToSchema};

use super::Query;
use super::forms::Named;
use crate::access::Identity;
use crate::app::App;
use crate::problem::{Answer, Problem, ProblemBody};

/// Without a hint the leases are read this often.
const PERIOD: Duration = Duration::from_secs(1);
/// How often something is sent where nothing happens.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Whose tokens.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Whose {
    /// Tokens of this pool.
    pool: String,
    /// Only of this resource.
    resource: Option<String>,
}

/// The newest term of a resource.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenForm {
    #[serde(flatten)]
    named: Named,
    /// The fencing token of the newest term.
    #[schema(example = 42)]
    version: u64,
}

/// The newest tokens of a pool, and every change
///
/// Server-sent events without end: an event `token` for every resource that was ever granted, with `TokenForm` as JSON in `data`, an event
/// `current` when all have been named, and from then on an event `token` whenever one rises. A remark is sent every 5
/// seconds: a stream on which nothing is heard for longer is dead, and what it said is to be believed no more.
#[utoipa::path(get, path = "/api/v1/tokens", operation_id = "follow_tokens", tag = "leases", params(Whose), responses(
    (status = 200, description = "the tokens", content_type = "text/event-stream", body = TokenForm),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "too many streams are open, or the store does not answer", body = ProblemBody),
))]
pub(crate) async fn follow(
    State(app): State<App>,
    identity: Identity,
    Query(whose): Query<Whose>,
) -> Answer<sse::Sse<impl Stream<Item = Result<sse::Event, Infallible>>>> {
    let pool = identity.pool(&whose.pool)?;
    let resource = whose.resource.map(ResourceId::new).transpose();
    let resource = resource.map_err(|error| Problem::invalid(error.to_string()))?;
    let authority = PoolAuthority::new(std::sync::Arc::clone(app.store()), pool);
    let follower = Follower {
        hints: authority.changes(),
        authority,
        pool: whose.pool,
        resource,
        told: HashMap::new(),
        waiting: VecDeque::new(),
        is_current: false,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await;
        Some((Ok(event), follower))
    });
    let events = events.take_until(Box::pin(app.stream_permit(&identity)?.ended()));
    Ok(sse::Sse::new(events).keep_alive(sse::KeepAlive::new().interval(KEEP_ALIVE)))
}

struct Follower {
    authority: PoolAuthority,
    hints: Hints,
    /// The pool's name as the caller knows it.
    pool: String,
    resource: Option<ResourceId>,
    told: HashMap<ResourceId, Token>,
    waiting: VecDeque<sse::Event>,
    is_current: bool,
}

impl Follower {
    async fn next(&mut self) -> sse::Event {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            match self.authority.newest().await {
                Ok(newest) => self.take(newest),
                Err(error) => {
                    tracing::debug!(%error, pool = self.pool, "a stream of tokens waits for the store");
                    sleep(PERIOD).await;
                    continue;
                }
            }
            if !self.is_current {
                self.is_current = true;
                self.waiting.push_back(sse::Event::default().event("current").data("{}"));
            }
            if self.waiting.is_empty() {
                match timeout(PERIOD, self.hints.next()).await {
                    Ok(Some(_)) | Err(_) => {}
                    // Hints end with the store only; what is left is to look now and then.
                    Ok(None) => sleep(PERIOD).await,
                }
            }
        }
    }

    fn take(&mut self, newest: Vec<Newest>) {
        for Newest { resource, token, .. } in newest {
            if self.resource.as_ref().is_some_and(|only| *only != resource)
                || self.told.get(&resource) == Some(&token)
            {
                continue;
            }
            let form = TokenForm { named: Named::of(&self.pool, &resource), version: token.0 };
            let data = serde_json::to_string(&form).unwrap_or_default();
            self.waiting.push_back(sse::Event::default().event("token").data(data));
            self.told.insert(resource, token);
        }
    }
}
