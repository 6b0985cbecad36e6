//! What a manager tells of itself over HTTP: to probes, Prometheus, operators and `leasehold manager status`.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use leasehold::clock::{self, Moment};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::keeper::{Ask, News};
use crate::health::METRICS_TYPE;

/// A keeper that has not looked at everything for so long is not alive.
const ALIVE_MAX: std::time::Duration = std::time::Duration::from_secs(30);

/// A manager at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) at: Moment,
    pub(super) ready: bool,
    pub(super) status: Value,
    pub(super) metrics: String,
}

#[derive(Clone)]
struct Told {
    snapshot: watch::Receiver<Snapshot>,
    news: mpsc::Sender<News>,
}

/// The routes.
pub(super) fn routes(snapshot: watch::Receiver<Snapshot>, news: mpsc::Sender<News>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/ready", get(ready))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route(
            "/v1/workers",
            get(async |State(told): State<Told>| Json(told.snapshot.borrow().status.clone())),
        )
        .route("/drain", post(drain))
        .route("/undrain", post(async |State(told): State<Told>| told.ask(Ask::Undrain).await))
        .route("/terminate", post(async |State(told): State<Told>| told.ask(Ask::Terminate).await))
        .with_state(Told { snapshot, news })
}

impl Told {
    async fn ask(&self, ask: Ask) -> Response {
        match self.news.send(News::Asked(ask)).await {
            Ok(()) => (StatusCode::ACCEPTED, Json(json!({ "accepted": true }))).into_response(),
            Err(_) => {
                (StatusCode::CONFLICT, Json(json!({ "error": "the manager is ending" }))).into_response()
            }
        }
    }
}

fn yes(yes: bool) -> StatusCode {
    if yes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn healthz(State(told): State<Told>) -> impl IntoResponse {
    let alive = clock::now().since(told.snapshot.borrow().at) < ALIVE_MAX;
    (yes(alive), if alive { "ok\n" } else { "stuck\n" })
}

async fn ready(State(told): State<Told>) -> impl IntoResponse {
    let snapshot = told.snapshot.borrow().clone();
    let fields = ["runner_id", "mode", "registered", "cameras_held", "cameras_working", "control_plane"];
    let mut said = json!({ "ready": snapshot.ready });
    for field in fields {
        said[field] = snapshot.status[field].clone();
    }
    (yes(snapshot.ready), Json(said))
}

async fn readyz(State(told): State<Told>) -> impl IntoResponse {
    let ready = told.snapshot.borrow().ready;
    (yes(ready), if ready { "ok\n" } else { "not ready\n" })
}

async fn metrics(State(told): State<Told>) -> impl IntoResponse {
    ([(CONTENT_TYPE, METRICS_TYPE)], told.snapshot.borrow().metrics.clone())
}

#[derive(Debug, Deserialize)]
struct How {
    #[serde(default)]
    mode: String,
}

async fn drain(State(told): State<Told>, Query(how): Query<How>) -> Response {
    match how.mode.as_str() {
        "" | "soft" => told.ask(Ask::Drain).await,
        "hard" => told.ask(Ask::DrainHard).await,
        _ => {
            let said = json!({ "error": "mode is soft or hard" });
            (StatusCode::BAD_REQUEST, Json(said)).into_response()
        }
    }
}
