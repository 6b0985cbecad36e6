//! `/api/v1/pools`: which there are, and what is set for each as a whole.

use axum::extract::State;
use axum::http::StatusCode;
use leasehold::Pool;
use leasehold::store::{Cursor, Mark, MarkKind, Marked, Version};

use super::InPool;
use super::forms::{PoolForm, PoolPath, PoolSettings};
use crate::access::Identity;
use crate::app::App;
use crate::own::server_pool;
use crate::problem::{Answer, Problem, ProblemBody};
use crate::request::Json;

/// What is set for a pool, and the version of that.
async fn read(app: &App, pool: &Pool) -> Answer<(PoolSettings, Version)> {
    let marks = app.store().marks(&server_pool(), Cursor::START).await?;
    let of_pool = |mark: &Mark| mark.kind == MarkKind::Pool && mark.subject == pool.as_str();
    let Some(mark) = marks.items.into_iter().find(of_pool) else { return Ok(Default::default()) };
    let settings = mark.value.as_deref().and_then(|value| serde_json::from_str(value).ok());
    Ok((settings.unwrap_or_default(), mark.version))
}

/// What is set for a pool.
pub(crate) async fn settings(app: &App, pool: &Pool) -> Answer<PoolSettings> {
    read(app, pool).await.map(|(settings, _)| settings)
}

/// Every pool with a resource, a lease or a session
#[utoipa::path(get, path = "/api/v1/pools", operation_id = "list_pools", tag = "resources", responses(
    (status = 200, description = "their names", body = Vec<String>),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn list(State(app): State<App>, identity: Identity) -> Answer<axum::Json<Vec<String>>> {
    let pools = app.store().pools().await?;
    Ok(axum::Json(pools.iter().filter_map(|pool| identity.name_of(pool)).collect()))
}

/// What is set for a pool
#[utoipa::path(get, path = "/api/v1/pools/{pool}", operation_id = "get_pool", tag = "resources",
    params(PoolPath),
    responses(
        (status = 200, description = "its settings", body = PoolForm),
        (status = "4XX", description = "the request cannot be used", body = ProblemBody),
        (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn get(State(app): State<App>, within: InPool) -> Answer<axum::Json<PoolForm>> {
    let settings = settings(&app, &within.pool).await?;
    Ok(axum::Json(PoolForm { pool: within.name, mode: settings.mode }))
}

/// Set something for a pool
///
/// In a `static` pool every resource names the one member that may hold it.
#[utoipa::path(put, path = "/api/v1/pools/{pool}", operation_id = "set_pool", tag = "resources", request_body = PoolSettings,
    params(PoolPath),
    responses(
        (status = 200, description = "its settings", body = PoolForm),
        (status = "4XX", description = "the request cannot be used", body = ProblemBody),
        (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn put(
    State(app): State<App>,
    within: InPool,
    Json(settings): Json<PoolSettings>,
) -> Answer<axum::Json<PoolForm>> {
    let (_, version) = read(&app, &within.pool).await?;
    let value = serde_json::to_string(&settings).unwrap_or_default();
    let (pool, subject) = (server_pool(), within.pool.as_str());
    match app.store().set_mark(&pool, MarkKind::Pool, subject, Some(&value), version).await? {
        Marked::Set(_) => Ok(axum::Json(PoolForm { pool: within.name, mode: settings.mode })),
        Marked::Conflict(_) => {
            let said = "somebody else changed the pool at the same time; look and try again";
            Err(Problem::new(StatusCode::CONFLICT, "changed_meanwhile", said))
        }
    }
}
