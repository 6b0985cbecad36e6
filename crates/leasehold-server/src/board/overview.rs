//! `/api/v1/health/pools`: how every pool stands, at a glance.

use axum::extract::State;
use leasehold::store::MarkKind;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Identity;
use crate::app::App;
use crate::problem::{Answer, ProblemBody};

/// How a pool stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolStanding {
    /// Its name.
    #[schema(example = "scenes")]
    pool: String,
    /// How many members and REST holders are there.
    members: usize,
    /// How many resources there are.
    resources: usize,
    /// How many of them somebody owns.
    owned: usize,
    /// How many nobody is to own.
    paused: usize,
    /// Whether the store is frozen.
    frozen: bool,
}

/// How every pool stands
///
/// As this replica read it last, at most a few seconds ago.
#[utoipa::path(get, path = "/api/v1/health/pools", operation_id = "pools_overview", tag = "health", responses(
    (status = 200, description = "the pools, in the order of their names", body = Vec<PoolStanding>),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn overview(
    State(app): State<App>,
    identity: Identity,
) -> Answer<axum::Json<Vec<PoolStanding>>> {
    let mut standings = Vec::new();
    for desk in app.holders().desks() {
        let Some(pool) = identity.name_of(desk.pool()) else { continue };
        let known = desk.lately().await?;
        let view = &known.view;
        let resources = view.resources();
        standings.push(PoolStanding {
            pool,
            members: view.sessions().values().filter(|session| !session.ended).count(),
            resources: resources.len(),
            owned: resources.iter().filter(|resource| resource.holder.is_some()).count(),
            paused: view.marks().filter(|mark| mark.kind == MarkKind::Pause).count(),
            frozen: view.era().is_some_and(|era| era.frozen),
        });
    }
    standings.sort_by(|one, two| one.pool.cmp(&two.pool));
    Ok(axum::Json(standings))
}
