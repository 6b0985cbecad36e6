//! Hints as server-sent events.
//!
//! Every stream begins with a hint, because nobody knows what the listener missed before: that is all there is to resuming.
//! A hint says "read again", so those that come together are one.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_core::Stream;
use leasehold::Pool;
use leasehold::store::http::wire::KEEP_ALIVE_SECONDS;
use leasehold::store::{Hint, Hints};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Refused;
use super::scope::Scope;
use crate::app::App;
use crate::problem::Answer;
use crate::rest::Query;

/// The most hints that become one event.
const TOGETHER_MAX: usize = 64;

/// Which pool.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfPool {
    /// The pool.
    pool: Pool,
}

/// Hints that something changed in a pool
///
/// Server-sent events `changed` (read again) and `doubted` (read again, and give a sign of life), one at the beginning of
/// every stream. A remark is sent every 5 seconds: a stream on which nothing is heard for longer is dead.
#[utoipa::path(get, path = "/api/v1/store/changes", operation_id = "store_changes", tag = "store", params(OfPool), responses(
    (status = 200, description = "events", content_type = "text/event-stream", body = String),
    Refused,
))]
pub(crate) async fn changes(
    State(app): State<App>,
    scope: Scope,
    Query(of): Query<OfPool>,
) -> Answer<impl IntoResponse> {
    let pool = scope.pool(&of.pool)?;
    let ended = Box::pin(app.stream_permit(scope.identity())?.ended());
    let changes = Changes { hints: app.store().changes(&pool), ended, sent: 0 };
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(KEEP_ALIVE_SECONDS));
    Ok(Sse::new(changes).keep_alive(keep_alive))
}

struct Changes {
    hints: Hints,
    /// When the server stops, or the key is not good any more.
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    sent: u64,
}

impl Changes {
    /// What has come, if anything; `Ready(None)` at the end.
    fn heard(&mut self, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        let mut heard = None;
        for _ in 0..TOGETHER_MAX {
            match self.hints.as_mut().poll_next(context) {
                Poll::Ready(Some(Hint::Doubted)) => heard = Some(Hint::Doubted),
                Poll::Ready(Some(hint)) => heard = heard.or(Some(hint)),
                Poll::Ready(None) => return Poll::Ready(heard),
                Poll::Pending => return heard.map_or(Poll::Pending, |hint| Poll::Ready(Some(hint))),
            }
        }
        Poll::Ready(heard)
    }
}

impl Stream for Changes {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let hint = match self.heard(context) {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(hint)) => hint,
            // The store has been asked for hints by now: from here on none is missed.
            Poll::Pending if self.sent == 0 => Hint::Changed,
            Poll::Pending => return Poll::Pending,
        };
        self.sent += 1;
        let name = if hint == Hint::Doubted { "doubted" } else { "changed" };
        Poll::Ready(Some(Ok(Event::default().event(name).id(self.sent.to_string()).data(""))))
    }
}
