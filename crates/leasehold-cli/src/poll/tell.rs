//! What a poller tells of itself over HTTP.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State as Asked;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use leasehold::Pool;
use leasehold::clock::SystemClock;
use leasehold::participant::{State, Status};
use leasehold::store::Store;
use leasehold::view::View;
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};

use super::poller::{Counts, Leases, Pollers};
use crate::args::VERSION;
use crate::health::{METRICS_TYPE, Page, state_name};
use crate::inspect::nodes::{History, Myself, Nodes};

/// How long the store may take; what was known last is told otherwise.
const STORE_MAX: Duration = Duration::from_secs(1);

/// What is told, and what is known for it.
pub(super) struct Telling {
    status: watch::Receiver<Status>,
    store: Arc<dyn Store>,
    pool: Pool,
    counts: Arc<Counts>,
    owned: Arc<Leases>,
    known: Mutex<(View, History)>,
}

impl Telling {
    pub(super) fn of(
        status: watch::Receiver<Status>,
        store: Arc<dyn Store>,
        pool: Pool,
        pollers: &Pollers,
    ) -> Arc<Self> {
        let known = Mutex::new((View::new(pool.clone()), History::default()));
        Arc::new(Self { status, store, pool, counts: pollers.counts(), owned: pollers.owned(), known })
    }

    /// What the member knows of itself. A lease knows first that a heartbeat went unconfirmed.
    fn status(&self) -> Status {
        let mut status = self.status.borrow().clone();
        if let Some(lease) = self.owned.all().first().filter(|lease| !lease.is_stopping()) {
            status.state = lease.state();
        }
        status
    }

    fn is_ready(&self) -> bool {
        let status = self.status();
        status.member.is_some() && status.state == State::Held
    }
}

pub(super) fn routes(telling: Arc<Telling>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/v1/nodes", get(nodes))
        .with_state(telling)
}

async fn readyz(Asked(telling): Asked<Arc<Telling>>) -> impl IntoResponse {
    if telling.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

async fn health(Asked(telling): Asked<Arc<Telling>>) -> Json<Value> {
    let status = telling.status();
    let why = match status.state {
        _ if status.member.is_none() => Some("there is no session with the store"),
        State::Lost => Some("there is no session with the store"),
        State::Uncertain => Some("the store has not confirmed the last heartbeat, so nothing is polled"),
        State::Held if status.frozen => Some("the store is frozen, so nothing changes hands"),
        State::Held => None,
    };
    Json(json!({
        "status": if why.is_none() { "healthy" } else { "degraded" },
        "why": why,
        "session": state_name(status.state),
        "instance_id": status.member,
        "endpoints": status.held.len(),
        "members": status.members,
    }))
}

async fn metrics(Asked(telling): Asked<Arc<Telling>>) -> impl IntoResponse {
    let (status, counts) = (telling.status(), &telling.counts);
    let mut page = Page::default();
    page.family("leasehold_build_info", "gauge", "The version of this program.");
    page.sample("leasehold_build_info", &[("version", VERSION)], 1);
    let pool = ("pool", telling.pool.as_str());
    for (name, help, value) in [
        ("leasehold_held", "How many endpoints this member owns.", status.held.len()),
        ("leasehold_members", "How many members are known, this one included.", status.members),
        ("leasehold_store_frozen", "Whether the store is frozen.", usize::from(status.frozen)),
    ] {
        page.family(name, "gauge", help);
        page.sample(name, &[pool], value);
    }
    page.family(
        "leasehold_session_state",
        "gauge",
        "1 for the state that the session is in, 0 for the others.",
    );
    for state in [State::Held, State::Uncertain, State::Lost] {
        let labels = [pool, ("state", state_name(state))];
        page.sample("leasehold_session_state", &labels, u8::from(state == status.state));
    }
    for (name, help, by_outcome) in [
        (
            "leasehold_polls_total",
            "Requests to endpoints, by outcome.",
            [("answered", &counts.answered), ("failed", &counts.failed), ("cancelled", &counts.cancelled)],
        ),
        (
            "leasehold_poll_results_total",
            "Answers of endpoints, by what became of them.",
            [("told", &counts.told), ("stale", &counts.stale), ("lost", &counts.lost)],
        ),
    ] {
        page.family(name, "counter", help);
        for (outcome, count) in by_outcome {
            page.sample(name, &[pool, ("outcome", outcome)], count.load(Ordering::Relaxed));
        }
    }
    page.calls();
    ([(CONTENT_TYPE, METRICS_TYPE)], page.text())
}

/// Who is there and who owns what. Where the store does not answer, what was known last, and of this member what it knows.
async fn nodes(Asked(telling): Asked<Arc<Telling>>) -> Json<Nodes> {
    let mut known = telling.known.lock().await;
    let (view, history) = &mut *known;
    let reading = async {
        let viewed = view.refresh(&*telling.store, &SystemClock).await.map(drop).map_err(Into::into);
        viewed.and(history.read(&telling.store, &telling.pool).await)
    };
    match tokio::time::timeout(STORE_MAX, reading).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "nodes are told as they were known last"),
        Err(_) => tracing::debug!("nodes are told as they were known last: the store gave no answer"),
    }
    let me = Myself { id: telling.status().member, leases: telling.owned.all() };
    Json(Nodes::of(view, history, Some(&me)))
}
