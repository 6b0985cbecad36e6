//! Leases: taken, given back, revoked.

use axum::Json;
use axum::extract::State;
use leasehold::Pool;
use leasehold::store::http::wire::calls::{
    AcquireCall, CheckupCall, LeasesCall, PoolsCall, ReleaseCall, RevokeCall,
};
use leasehold::store::http::wire::records::{
    Acquired, Answer, Changed, Checkup, LeaseRecord, Released, Reply, Revoked,
};
use leasehold::store::{Release, Wanted};

use super::body::{Call as Body, within_limit};
use super::scope::Scope;
use super::{Answered, Refused};
use crate::app::App;

/// Takes what is free
///
/// Each item is atomic, the batch is not. Outcomes answer items in order.
#[utoipa::path(post, path = "/api/v1/store/acquire", operation_id = "store_acquire", tag = "store", request_body = AcquireCall,
    responses((status = 200, description = "done, or not: what became of it", body = Answer<Vec<Acquired>>), Refused))]
pub(crate) async fn acquire(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<AcquireCall>,
) -> Answered<AcquireCall> {
    let (session, pulse) = (scope.session(&call.session).await?, call.pulse.into());
    within_limit(&app, call.wanted.len())?;
    let wanted: Vec<Wanted> = call.wanted.into_iter().map(Into::into).collect();
    let answer = app.store().acquire(&session, pulse, &wanted).await?;
    scope.note_freeze(&call.session, pulse, &answer);
    Ok(Json(Answer::of(answer, |items| items.into_iter().map(Into::into).collect())))
}

/// Gives back exactly the named terms
#[utoipa::path(post, path = "/api/v1/store/release", operation_id = "store_release", tag = "store", request_body = ReleaseCall,
    responses((status = 200, description = "done, or not: what became of it", body = Answer<Vec<Released>>), Refused))]
pub(crate) async fn release(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<ReleaseCall>,
) -> Answered<ReleaseCall> {
    let (session, pulse) = (scope.session(&call.session).await?, call.pulse.into());
    within_limit(&app, call.terms.len())?;
    let terms: Vec<Release> = call.terms.into_iter().map(Into::into).collect();
    let answer = app.store().release(&session, pulse, &terms).await?;
    scope.note_freeze(&call.session, pulse, &answer);
    Ok(Json(Answer::of(answer, |items| items.into_iter().map(Into::into).collect())))
}

/// Marks a term as revoked
///
/// From then on the holder's beats do not extend it.
#[utoipa::path(post, path = "/api/v1/store/revoke", operation_id = "store_revoke", tag = "store", request_body = RevokeCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Revoked>), Refused))]
pub(crate) async fn revoke(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<RevokeCall>,
) -> Answered<RevokeCall> {
    let pool = scope.pool(&call.pool)?;
    let value = app.store().revoke(&pool, &call.term).await?.into();
    Ok(Json(Reply { value }))
}

/// Who holds what
///
/// Freed leases included. With a cursor, what changed since.
#[utoipa::path(post, path = "/api/v1/store/leases", operation_id = "store_leases", tag = "store", request_body = LeasesCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Changed<LeaseRecord>>), Refused))]
pub(crate) async fn leases(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<LeasesCall>,
) -> Answered<LeasesCall> {
    let pool = scope.pool(&call.pool)?;
    let read = app.store().leases(&pool, call.since.0).await?;
    Ok(Json(Reply { value: Changed::of(read, Into::into) }))
}

/// Every pool that the caller may see
#[utoipa::path(post, path = "/api/v1/store/pools", operation_id = "store_pools", tag = "store", request_body = PoolsCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Vec<Pool>>), Refused))]
pub(crate) async fn pools(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<PoolsCall>,
) -> Answered<PoolsCall> {
    let PoolsCall {} = call;
    let pools = app.store().pools().await?;
    Ok(Json(Reply { value: scope.visible(pools) }))
}

/// How well the store keeps its word with its present settings
#[utoipa::path(post, path = "/api/v1/store/checkup", operation_id = "store_checkup", tag = "store", request_body = CheckupCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Checkup>), Refused))]
pub(crate) async fn checkup(State(app): State<App>, Body(call): Body<CheckupCall>) -> Answered<CheckupCall> {
    let CheckupCall {} = call;
    let value = app.store().checkup().await?.into();
    Ok(Json(Reply { value }))
}
