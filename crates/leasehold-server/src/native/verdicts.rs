//! Verdicts on others: who fell silent is ended, what is orphaned or was revoked freed, a frozen store thawed.
//!
//! Invariant: where keys are asked for, no caller is taken at its word about others. Its verdict counts if this replica has
//! heard the same for as long (`holders/verdict.rs`); otherwise it is answered with what was heard here. Nothing waits for
//! it: the control plane listens to every pool, and gives these verdicts itself.

use axum::Json;
use axum::extract::State;
use leasehold::store;
use leasehold::store::http::wire::calls::{
    CollectCall, EndSilentCall, FreeOrphanCall, FreeRevokedCall, ThawCall,
};
use leasehold::store::http::wire::records::{EndSilent, Freed, Nothing, Reply, Thawed};

use super::body::Call as Body;
use super::scope::Scope;
use super::{Answered, Refused};
use crate::app::App;

/// Ends a session that fell silent
///
/// The caller has heard this beat, and no other, for the whole TTL of the session. A caller with a key is believed if the
/// control plane has heard the same.
#[utoipa::path(post, path = "/api/v1/store/end_silent", operation_id = "store_end_silent", tag = "store", request_body = EndSilentCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<EndSilent>), Refused))]
pub(crate) async fn end_silent(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<EndSilentCall>,
) -> Answered<EndSilentCall> {
    let value = if scope.is_open() {
        app.store().end_silent(&call.session, call.heard, call.era.0).await?
    } else {
        match scope.seen(&call.session).await? {
            Some(owned) => app.desk(&owned.pool)?.end_silent(&call.session, call.heard).await?,
            None => store::EndSilent::Absent,
        }
    };
    Ok(Json(Reply { value: value.into() }))
}

/// Forgets an ended session
///
/// A caller with a key changes nothing by it: the control plane does that itself.
#[utoipa::path(post, path = "/api/v1/store/collect", operation_id = "store_collect", tag = "store", request_body = CollectCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Nothing>), Refused))]
pub(crate) async fn collect(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<CollectCall>,
) -> Answered<CollectCall> {
    // What refuses an ended session that comes back must not go too early.
    if scope.is_open() {
        app.store().collect(&call.session).await?;
    }
    Ok(Json(Reply { value: Nothing }))
}

/// Ends a freeze
///
/// The caller has heard this nonce for the longest TTL that the store knows of. A caller with a key is believed if the
/// control plane has heard the same.
#[utoipa::path(post, path = "/api/v1/store/thaw", operation_id = "store_thaw", tag = "store", request_body = ThawCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Thawed>), Refused))]
pub(crate) async fn thaw(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<ThawCall>,
) -> Answered<ThawCall> {
    // Who ends a freeze early takes from others what they hold, in every pool.
    let thawed = if scope.is_open() || app.holders().heard_frozen(call.nonce.0).await? {
        app.store().thaw(call.nonce.0).await?
    } else {
        store::Thawed::Changed
    };
    Ok(Json(Reply { value: thawed.into() }))
}

/// Frees a lease whose holder's session is absent
///
/// The caller has heard holder and token unchanged, and the session absent, for a whole TTL. A caller with a key is
/// believed if the control plane has heard the same.
#[utoipa::path(post, path = "/api/v1/store/free_orphan", operation_id = "store_free_orphan", tag = "store", request_body = FreeOrphanCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Freed>), Refused))]
pub(crate) async fn free_orphan(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<FreeOrphanCall>,
) -> Answered<FreeOrphanCall> {
    let pool = scope.pool(&call.pool)?;
    let value = if scope.is_open() {
        app.store().free_orphan(&pool, &call.holder, &call.term, call.era.0).await?
    } else {
        app.desk(&pool)?.free_orphan(&call.holder, &call.term).await?
    };
    Ok(Json(Reply { value: value.into() }))
}

/// Frees a revoked term
///
/// The caller has waited for a whole TTL of the holder since it knows of the revocation. A caller with a key is believed if the
/// control plane has heard the same.
#[utoipa::path(post, path = "/api/v1/store/free_revoked", operation_id = "store_free_revoked", tag = "store", request_body = FreeRevokedCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Freed>), Refused))]
pub(crate) async fn free_revoked(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<FreeRevokedCall>,
) -> Answered<FreeRevokedCall> {
    let pool = scope.pool(&call.pool)?;
    let value = if scope.is_open() {
        app.store().free_revoked(&pool, &call.term, call.era.0).await?
    } else {
        app.desk(&pool)?.free_revoked(&call.term).await?
    };
    Ok(Json(Reply { value: value.into() }))
}
