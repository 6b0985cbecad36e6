//! Hints: one stream of watches for each handle, begun again whenever it ends.
//!
//! A hint says no more than "read again", so a watch that was interrupted begins at the present and gives everybody one hint.
//! Beats and ledger rows give none: who listens for beats reads anyway.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::watch;
use tonic::{Request, Status};

use super::keys::{Key, Keys, after};
use super::mirror::Mirrors;
use super::proto::event::EventType;
use super::proto::watch_client::WatchClient;
use super::proto::watch_request::RequestUnion;
use super::proto::{Event, WatchCreateRequest, WatchRequest, WatchResponse};
use super::record::SessionValue;
use super::transact::Engine;
use crate::lease::Pool;
use crate::store::{Hint, Hints};

/// How long is waited before a watch is begun again: the more often it failed, the longer.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long an endpoint may take to begin a watch.
const BEGIN: Duration = Duration::from_secs(3);

/// How often a pool was told something.
#[derive(Debug, Default, Clone, Copy)]
struct Told {
    hints: u64,
    doubts: u64,
}

/// Who listens to which pool.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pools: HashMap<Pool, watch::Sender<Told>>,
    watching: Option<tokio::task::AbortHandle>,
    closed: bool,
}

impl Listeners {
    /// The hints of a pool from now on. The first listener begins the watch.
    pub(super) fn listen(&self, pool: &Pool, begin: impl FnOnce() -> tokio::task::AbortHandle) -> Hints {
        let mut state = self.lock();
        if state.closed {
            return Box::pin(PoolHints::of(watch::channel(Told::default()).1));
        }
        state.pools.retain(|_, hints| hints.receiver_count() > 0);
        let hints =
            state.pools.entry(pool.clone()).or_insert_with(|| watch::channel(Told::default()).0).subscribe();
        if state.watching.as_ref().is_none_or(tokio::task::AbortHandle::is_finished) {
            state.watching = Some(begin());
        }
        Box::pin(PoolHints::of(hints))
    }

    fn tell(&self, pool: &str) {
        if let Some(hints) = self.lock().pools.get(pool) {
            hints.send_modify(|told| told.hints += 1);
        }
    }

    fn doubt(&self, pool: &str) {
        if let Some(hints) = self.lock().pools.get(pool) {
            hints.send_modify(|told| told.doubts += 1);
        }
    }

    fn tell_everybody(&self) {
        for hints in self.lock().pools.values() {
            hints.send_modify(|told| told.hints += 1);
        }
    }

    /// Ends all hints and the watch.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.pools.clear();
        if let Some(watching) = state.watching.take() {
            watching.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is watched.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) keys: Keys,
    pub(super) mirrors: watch::Receiver<Arc<Mirrors>>,
}

/// Watches for as long as the task lives.
pub(super) async fn serve(engine: Arc<Engine>, mut watched: Watched, listeners: Arc<Listeners>) {
    let mut pause = PAUSE;
    loop {
        let (place, _) = engine.client.current();
        let began = follow(&engine, &mut watched, &listeners).await;
        match began {
            Ok(()) => pause = PAUSE,
            Err(status) => {
                tracing::debug!(error = status.message(), "the watch of etcd was interrupted");
                engine.client.turn_from(place);
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Watches until the stream ends or something else is to be watched; an error if it never began.
async fn follow(engine: &Engine, watched: &mut Watched, listeners: &Listeners) -> Result<(), Status> {
    let client = &engine.client;
    let (_, peer) = client.current();
    let ranges = watched.keys.watched();
    let mut wanted: Vec<WatchRequest> = ranges.into_iter().map(|(key, end)| create(key, end)).collect();
    let mirrors = Arc::clone(&watched.mirrors.borrow_and_update());
    wanted.extend(mirrors.iter().map(|(_, _, key)| create(key.clone(), Vec::new())));
    let (mut lacking, mut watching) = (wanted.len(), None);
    let begin = async {
        let token = client.token(&peer).await.map_err(|_| Status::unauthenticated("no login"))?;
        let mut request = Request::new(Wanted(wanted));
        if let Some(token) = token {
            request.metadata_mut().insert("token", token);
        }
        let answers = WatchClient::new(peer.channel.clone())
            .max_decoding_message_size(super::client::ANSWER_MAX)
            .watch(request)
            .await;
        answers.map(tonic::Response::into_inner).inspect_err(|_| client.forget_token())
    };
    let late = |_| Status::deadline_exceeded("the watch did not begin");
    let mut answers = tokio::time::timeout(BEGIN, begin).await.map_err(late)??;
    let mut began = false;
    loop {
        let answer = tokio::select! {
            answer = answers.message() => answer,
            Ok(()) = watched.mirrors.changed() => return Ok(()),
        };
        match answer {
            Ok(Some(answer)) if answer.canceled => {
                tracing::debug!(why = answer.cancel_reason, "etcd ended a watch");
                return if began { Ok(()) } else { Err(Status::cancelled(answer.cancel_reason)) };
            }
            Ok(Some(answer)) => {
                if answer.created {
                    began = true;
                    lacking = lacking.saturating_sub(1);
                    // What happened before this is not told.
                    listeners.tell_everybody();
                }
                if lacking == 0 && watching.is_none() {
                    watching = Some(engine.news.watch());
                }
                // Whoever is woken by the hint finds the news there.
                let puts = answer.events.iter().filter(|event| is_put(event));
                engine.news.tell(puts.filter_map(|event| event.kv.as_ref()));
                tell(&answer, &watched.keys, &mirrors, listeners);
            }
            Ok(None) | Err(_) if began => return Ok(()),
            Ok(None) => return Err(Status::cancelled("the stream ended")),
            Err(status) => return Err(status),
        }
    }
}

fn tell(answer: &WatchResponse, keys: &Keys, mirrors: &Mirrors, listeners: &Listeners) {
    for event in &answer.events {
        let Some(kv) = &event.kv else { continue };
        match after(&kv.key, &keys.all()) {
            Some("era") => listeners.tell_everybody(),
            Some(place) => {
                if let Some(pool) = worth_a_hint(place, event) {
                    listeners.tell(pool);
                }
            }
            None => {
                for (pool, _, _) in mirrors.iter().filter(|(_, _, key)| **key == kv.key) {
                    listeners.doubt(pool.as_str());
                }
            }
        }
    }
}

fn is_put(event: &Event) -> bool {
    event.r#type == i32::from(EventType::Put)
}

/// The pool in which an event is news.
fn worth_a_hint<'a>(place: &'a str, event: &Event) -> Option<&'a str> {
    let (family, rest) = place.split_once('/')?;
    let (pool, _) = rest.split_once('/')?;
    match family {
        "lease" | "mark" | "resource" => Some(pool),
        "session" if is_put(event) => {
            let value = &event.kv.as_ref()?.value;
            let quiet = serde_json::from_slice::<SessionValue>(value).is_ok_and(|session| session.quiet);
            (!quiet).then_some(pool)
        }
        _ => None,
    }
}

fn create(key: Key, range_end: Key) -> WatchRequest {
    let create = WatchCreateRequest { key, range_end, start_revision: 0, progress_notify: true };
    WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

/// Says what is to be watched, and then stays: the watch ends with the stream of requests.
struct Wanted(Vec<WatchRequest>);

impl Stream for Wanted {
    type Item = WatchRequest;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<WatchRequest>> {
        if self.0.is_empty() { Poll::Pending } else { Poll::Ready(Some(self.0.remove(0))) }
    }
}

type Next = Pin<Box<dyn Future<Output = Option<(Hint, u64, watch::Receiver<Told>)>> + Send>>;

/// The hints of one pool; those that come while nobody looks are merged.
struct PoolHints {
    next: Next,
}

impl PoolHints {
    fn of(hints: watch::Receiver<Told>) -> Self {
        let doubts = hints.borrow().doubts;
        Self { next: Self::after(hints, doubts) }
    }

    /// The next hint to somebody who has been told of so many doubts.
    fn after(mut hints: watch::Receiver<Told>, doubts: u64) -> Next {
        Box::pin(async move {
            hints.changed().await.ok()?;
            let told = *hints.borrow_and_update();
            let hint = if told.doubts == doubts { Hint::Changed } else { Hint::Doubted };
            Some((hint, told.doubts, hints))
        })
    }
}

impl Stream for PoolHints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        match self.next.as_mut().poll(context) {
            Poll::Ready(Some((hint, doubts, hints))) => {
                self.next = Self::after(hints, doubts);
                Poll::Ready(Some(hint))
            }
            Poll::Ready(None) => {
                // A stream that has ended may be asked again.
                self.next = Box::pin(std::future::ready(None));
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
