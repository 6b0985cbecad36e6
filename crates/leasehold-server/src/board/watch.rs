//! A pool's picture as server-sent events: everything first, then what is new.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response, sse};
use futures_util::stream::{self, StreamExt};
use leasehold::clock::{Clock, SystemClock};
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::Board;
use super::picture::{FeedRow, Head, MemberRow, Picture, ResourceRow, Row, Rows};
use crate::app::App;
use crate::problem::{Answer, ProblemBody};
use crate::rest::InPool;
use crate::rest::forms::PoolPath;

/// How many rows one event carries at most.
const ROWS: usize = 500;
/// How often something is said where nothing happens: whoever hears nothing for a few of these has lost the connection.
const TICK: Duration = Duration::from_secs(2);

/// One event of the stream. The first events are everything there is; `whole` says which is the first and the last of them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Change {
    /// The time by this server's clock, in milliseconds since 1970.
    now: u64,
    /// `first` for the first event of a whole picture, `last` for the last, `both` if it is one only; null for what is new.
    whole: Option<&'static str>,
    /// The pool as a whole.
    head: Head,
    /// Members that are new or changed.
    members: Vec<MemberRow>,
    /// The ids of those that are gone.
    members_gone: Vec<String>,
    /// Resources that are new or changed.
    resources: Vec<ResourceRow>,
    /// The ids of those that are gone.
    resources_gone: Vec<String>,
    /// What happened.
    feed: Vec<FeedRow>,
}

/// Watch a pool
///
/// Server-sent events without end: members, resources with their tenures, and what happens. The first events `change` are everything there
/// is, those that follow are what is new. An event `tick` with the server's time comes every two seconds, whatever happens:
/// whoever hears none has lost the connection. This is what the page at `/` shows.
#[utoipa::path(get, path = "/api/v1/pools/{pool}/watch", operation_id = "watch_pool", tag = "events", params(PoolPath), responses(
    (status = 200, description = "the events", body = Change, content_type = "text/event-stream"),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "too many streams are open, or the store does not answer", body = ProblemBody),
))]
pub(crate) async fn watch(State(app): State<App>, within: InPool) -> Answer<Response> {
    let board = app.boards().of(&within.pool, app.store(), &app.limits());
    let pictures = board.pictures.clone();
    let mut pictures = pictures;
    // Whoever comes later begins with what there is.
    pictures.mark_changed();
    let watcher = Watcher { _board: board, pictures, told: Arc::default(), waiting: VecDeque::new() };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((Ok::<_, Infallible>(event), watcher))
    });
    let events = events.take_until(Box::pin(app.stream_permit(&within.identity)?.ended()));
    Ok(([(CACHE_CONTROL, "no-store")], sse::Sse::new(events)).into_response())
}

struct Watcher {
    _board: Arc<Board>,
    pictures: tokio::sync::watch::Receiver<Arc<Picture>>,
    told: Arc<Picture>,
    waiting: VecDeque<String>,
}

fn now() -> u64 {
    SystemClock.wall_nanos() / 1_000_000
}

impl Watcher {
    /// The next event; none once the pool is not drawn any more, so that whoever comes back has it drawn again.
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(data) = self.waiting.pop_front() {
                return Some(sse::Event::default().event("change").data(data));
            }
            match timeout(TICK, self.pictures.changed()).await {
                Ok(Ok(())) => {
                    let picture = Arc::clone(&self.pictures.borrow_and_update());
                    if picture.number > 0 {
                        self.waiting = changes(&self.told, &picture);
                        self.told = picture;
                    }
                }
                Ok(Err(_)) => return None,
                Err(_) => {
                    let data = format!("{{\"now\":{}}}", now());
                    return Some(sse::Event::default().event("tick").data(data));
                }
            }
        }
    }
}

/// What of `rows` is not what it was, and what is no more.
fn difference<'a, T: Serialize>(
    before: &'a Rows<T>,
    now: &'a Rows<T>,
) -> (Vec<&'a Arc<Row<T>>>, Vec<&'a String>) {
    let is_new = |(id, row): &(&String, &Arc<Row<T>>)| {
        before.get(*id).is_none_or(|old: &Arc<Row<T>>| !Arc::ptr_eq(old, row))
    };
    let new = now.iter().filter(is_new).map(|(_, row)| row).collect();
    let gone = before.keys().filter(|id| !now.contains_key(*id)).collect();
    (new, gone)
}

fn list<T: Serialize>(rows: &[&Arc<Row<T>>]) -> String {
    let rows: Vec<&str> = rows.iter().map(|row| row.json()).collect();
    rows.join(",")
}

fn written<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The events that lead from one picture to another, each of a bounded size.
fn changes(before: &Picture, now_: &Picture) -> VecDeque<String> {
    let (resources, resources_gone) = difference(&before.resources, &now_.resources);
    let (members, members_gone) = difference(&before.members, &now_.members);
    let last = before.feed.last().map_or(0, |row| row.row);
    let feed: Vec<&Arc<FeedRow>> = now_.feed.iter().filter(|row| row.row > last).collect();
    let head = written(&now_.head);
    let count = resources.len().div_ceil(ROWS).max(members.len().div_ceil(ROWS)).max(1);
    let part = |at: usize, length: usize| (at * ROWS).min(length)..((at + 1) * ROWS).min(length);
    let event = |at: usize| {
        let whole = match (before.number, at == 0, at + 1 == count) {
            (0, true, true) => "\"both\"",
            (0, true, false) => "\"first\"",
            (0, false, true) => "\"last\"",
            (0, false, false) => "\"more\"",
            _ => "null",
        };
        let (members_gone, resources_gone, feed) = match at {
            0 => (written(&members_gone), written(&resources_gone), written(&feed)),
            _ => ("[]".to_owned(), "[]".to_owned(), "[]".to_owned()),
        };
        format!(
            "{{\"now\":{},\"whole\":{whole},\"head\":{head},\"members\":[{}],\"members_gone\":{members_gone},\
             \"resources\":[{}],\"resources_gone\":{resources_gone},\"feed\":{feed}}}",
            now(),
            list(&members[part(at, members.len())]),
            list(&resources[part(at, resources.len())]),
        )
    };
    (0..count).map(event).collect()
}
