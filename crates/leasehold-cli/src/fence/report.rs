//! What a fence tells of itself over HTTP.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use leasehold::fence::Gate;
use leasehold_server::fence::Tally;
use serde_json::json;

use crate::args::VERSION;
use crate::health::page::{self, Page};

/// What there is to tell.
#[derive(Clone)]
pub(super) struct Told {
    pub(super) gate: Arc<Gate>,
    pub(super) tally: Arc<Tally>,
}

impl Told {
    /// What is not as it should be, if anything.
    async fn trouble(&self) -> Option<&'static str> {
        if !self.tally.is_connected() {
            Some("there is no connection to the broker")
        } else if !self.gate.is_current().await {
            Some("nobody says which terms are the newest")
        } else {
            None
        }
    }

    fn metrics(&self) -> String {
        let (counts, mut page) = (self.gate.counts(), Page::default());
        page.family("leasehold_build_info", "gauge", "The version of this program.");
        page.sample("leasehold_build_info", &[("version", VERSION)], 1);
        page.family("leasehold_fence_passed_total", "counter", "What passed, checked or unversioned.");
        let checked = counts.passed.saturating_sub(counts.passed_unversioned);
        page.sample("leasehold_fence_passed_total", &[("how", "checked")], checked);
        page.sample("leasehold_fence_passed_total", &[("how", "unversioned")], counts.passed_unversioned);
        page.family("leasehold_fence_refused_total", "counter", "What was refused, by reason.");
        for (reason, count) in counts.refused().into_iter().chain(self.tally.refused()) {
            page.sample("leasehold_fence_refused_total", &[("reason", reason)], count);
        }
        for (name, help, count) in [
            ("leasehold_fence_delivered_total", "What passed and was confirmed.", self.tally.delivered()),
            ("leasehold_fence_connections_total", "Connections that were made.", self.tally.connections()),
            (
                "leasehold_fence_unanswered_total",
                "Questions that the authority did not answer.",
                self.gate.unanswered(),
            ),
        ] {
            page.family(name, "counter", help);
            page.sample(name, &[], count);
        }
        page.calls();
        page.text()
    }
}

pub(super) fn routes(told: Told) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/health", get(health))
        .route(
            "/metrics",
            get(async |State(told): State<Told>| ([(CONTENT_TYPE, page::CONTENT_TYPE)], told.metrics())),
        )
        .with_state(told)
}

async fn readyz(State(told): State<Told>) -> impl IntoResponse {
    match told.trouble().await {
        None => (StatusCode::OK, "ok\n"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}

async fn health(State(told): State<Told>) -> impl IntoResponse {
    let trouble = told.trouble().await;
    Json(json!({ "status": if trouble.is_none() { "healthy" } else { "degraded" }, "why": trouble }))
}
