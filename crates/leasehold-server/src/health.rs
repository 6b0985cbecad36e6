//! Whether this replica is alive and of use.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use leasehold::clock;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::holders::wall_time;

/// Whether the process answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `healthy`.
    #[schema(example = "healthy")]
    status: &'static str,
}

/// Whether the replica can do its work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Readiness {
    /// `ready` or `notready`.
    #[schema(example = "ready")]
    status: &'static str,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The whole report, as document 000's Manager gives it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Report {
    /// `healthy` or `degraded`.
    #[schema(example = "healthy")]
    status: &'static str,
    /// Whether leases can be granted.
    ready: bool,
    /// Who says so.
    #[schema(example = "leasehold")]
    component: &'static str,
    /// When, in RFC 3339.
    timestamp: String,
    /// The version of the program.
    version: &'static str,
    /// More, for people.
    details: Details,
}

/// More about the store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Details {
    /// How well the store keeps its word.
    #[schema(example = "durable-on-one-node")]
    grade: &'static str,
    /// Why leases cannot be granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Whether the store answers, and why not.
async fn store_answers(app: &App) -> Result<(), String> {
    match tokio::time::timeout(app.limits().call, app.store().pools()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("the store gave no answer within {:?}", app.limits().call)),
    }
}

/// Whether the process answers
#[utoipa::path(get, path = "/healthz", tag = "health", security(()), responses((status = 200, description = "it does", body = Health)))]
pub(crate) async fn healthz() -> axum::Json<Health> {
    axum::Json(Health { status: "healthy" })
}

/// Whether the replica can do its work
#[utoipa::path(get, path = "/readyz", tag = "health", security(()), responses(
    (status = 200, description = "it can", body = Readiness),
    (status = 503, description = "it cannot", body = Readiness),
))]
pub(crate) async fn readyz(State(app): State<App>) -> impl IntoResponse {
    match store_answers(&app).await {
        Ok(()) => (StatusCode::OK, axum::Json(Readiness { status: "ready", reason: None })),
        Err(reason) => {
            let body = Readiness { status: "notready", reason: Some(reason) };
            (StatusCode::SERVICE_UNAVAILABLE, axum::Json(body))
        }
    }
}

/// The whole report
#[utoipa::path(get, path = "/api/v1/health", operation_id = "health", tag = "health", security(()), responses((status = 200, description = "the report", body = Report)))]
pub(crate) async fn report(State(app): State<App>) -> axum::Json<Report> {
    let reason = store_answers(&app).await.err();
    axum::Json(Report {
        status: if reason.is_none() { "healthy" } else { "degraded" },
        ready: reason.is_none(),
        component: "leasehold",
        timestamp: wall_time(clock::unix_nanos()),
        version: env!("CARGO_PKG_VERSION"),
        details: Details { grade: app.store().capabilities().grade.as_str(), reason },
    })
}
