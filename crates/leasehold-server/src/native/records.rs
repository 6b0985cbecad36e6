//! What surrounds ownership: marks, declared resources, listings and the ledger.

use axum::Json;
use axum::extract::State;
use leasehold::ResourceId;
use leasehold::store::http::wire::calls::{
    AppendCall, CollectListingsCall, DeclareCall, LedgerCall, ListingCall, MarksCall, PublishCall,
    ResourcesCall, SetMarkCall,
};
use leasehold::store::http::wire::records::{Changed, Mark, Marked, Nothing, Reply, Row};
use leasehold::store::{Declared, Listing, MarkKind};

use super::body::{Call as Body, refuse_above};
use super::scope::Scope;
use super::{Answered, Refused};
use crate::app::App;
use crate::cameras::masked;
use crate::keys::Role;
use crate::problem::Problem;

/// The most rows that one call appends.
const APPEND_MAX: usize = 1024;
/// The most rows that one answer has; who wants more asks again after the last.
const ROWS_MAX: usize = 10_000;
/// The longest subject of a mark. Members' names and resources' ids are shorter.
const SUBJECT_MAX: usize = 512;

/// Operators' marks
///
/// Removed ones included. With a cursor, what changed since.
#[utoipa::path(post, path = "/api/v1/store/marks", operation_id = "store_marks", tag = "store", request_body = MarksCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Changed<Mark>>), Refused))]
pub(crate) async fn marks(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<MarksCall>,
) -> Answered<MarksCall> {
    let pool = scope.pool(&call.pool)?;
    let read = app.store().marks(&pool, call.since.0).await?;
    Ok(Json(Reply { value: Changed::of(read, Into::into) }))
}

/// Sets or, with no value, removes a mark
///
/// Only if its version is still the expected one; 0 is absent.
#[utoipa::path(post, path = "/api/v1/store/set_mark", operation_id = "store_set_mark", tag = "store", request_body = SetMarkCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Marked>), Refused))]
pub(crate) async fn set_mark(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<SetMarkCall>,
) -> Answered<SetMarkCall> {
    // That work keeps failing is a member's to say, and which tokens it has seen; all other marks are an operator's.
    if !matches!(call.kind, MarkKind::Quarantine | MarkKind::Floor) {
        scope.needs(Role::Operator)?;
    }
    let pool = scope.pool(&call.pool)?;
    if call.subject.len() > SUBJECT_MAX {
        return Err(Problem::invalid(format!("the subject of a mark has at most {SUBJECT_MAX} bytes")));
    }
    let marked = app.store().set_mark(&pool, call.kind, &call.subject, call.value.as_deref(), call.expected);
    let value = marked.await?.into();
    Ok(Json(Reply { value }))
}

/// Declared resources
///
/// Removed ones included. With a cursor, what changed since.
#[utoipa::path(post, path = "/api/v1/store/resources", operation_id = "store_resources", tag = "store", request_body = ResourcesCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Changed<Declared>>), Refused))]
pub(crate) async fn resources(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<ResourcesCall>,
) -> Answered<ResourcesCall> {
    let pool = scope.pool(&call.pool)?;
    let read = app.store().resources(&pool, call.since.0).await?;
    let may_know = scope.needs(Role::Member).is_ok();
    let shown = |declared| if may_know { declared } else { masked(declared) };
    Ok(Json(Reply { value: Changed::of(read, shown) }))
}

/// Declares, changes or removes a resource
///
/// Only if its version is still the one given; 0 is absent.
#[utoipa::path(post, path = "/api/v1/store/declare", operation_id = "store_declare", tag = "store", request_body = DeclareCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Marked>), Refused))]
pub(crate) async fn declare(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<DeclareCall>,
) -> Answered<DeclareCall> {
    let pool = scope.pool(&call.pool)?;
    let value = app.store().declare(&pool, &call.declared).await?.into();
    Ok(Json(Reply { value }))
}

/// Keeps a listing under the id of its content
#[utoipa::path(post, path = "/api/v1/store/publish", operation_id = "store_publish", tag = "store", request_body = PublishCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Nothing>), Refused))]
pub(crate) async fn publish(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<PublishCall>,
) -> Answered<PublishCall> {
    let pool = scope.pool(&call.pool)?;
    let listing = Listing::new(call.listing)
        .map_err(|twice| Problem::invalid(format!("resource {twice} is listed twice; remove one of them")))?;
    // Whoever finds a listing by its id takes it for what its content says.
    if listing.id() != call.id {
        return Err(Problem::invalid(format!("this listing has the id {:?}", listing.id().0)));
    }
    app.store().publish(&pool, &call.id, &listing).await?;
    Ok(Json(Reply { value: Nothing }))
}

/// The listing with an id
#[utoipa::path(post, path = "/api/v1/store/listing", operation_id = "store_listing", tag = "store", request_body = ListingCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Option<Vec<ResourceId>>>), Refused))]
pub(crate) async fn listing(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<ListingCall>,
) -> Answered<ListingCall> {
    let pool = scope.pool(&call.pool)?;
    let listing = app.store().listing(&pool, &call.id).await?;
    Ok(Json(Reply { value: listing.map(|listing| listing.ids().to_vec()) }))
}

/// Forgets listings that nobody publishes
#[utoipa::path(post, path = "/api/v1/store/collect_listings", operation_id = "store_collect_listings", tag = "store", request_body = CollectListingsCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Nothing>), Refused))]
pub(crate) async fn collect_listings(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<CollectListingsCall>,
) -> Answered<CollectListingsCall> {
    let pool = scope.pool(&call.pool)?;
    app.store().collect_listings(&pool).await?;
    Ok(Json(Reply { value: Nothing }))
}

/// Appends rows to the ledger
#[utoipa::path(post, path = "/api/v1/store/append", operation_id = "store_append", tag = "store", request_body = AppendCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Nothing>), Refused))]
pub(crate) async fn append(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<AppendCall>,
) -> Answered<AppendCall> {
    let pool = scope.pool(&call.pool)?;
    refuse_above(call.entries.len(), APPEND_MAX)?;
    app.store().append(&pool, &call.entries).await?;
    Ok(Json(Reply { value: Nothing }))
}

/// Rows of the ledger, oldest first
///
/// At most 10000; who wants more asks again after the last.
#[utoipa::path(post, path = "/api/v1/store/ledger", operation_id = "store_ledger", tag = "store", request_body = LedgerCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Vec<Row>>), Refused))]
pub(crate) async fn ledger(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<LedgerCall>,
) -> Answered<LedgerCall> {
    let pool = scope.pool(&call.pool)?;
    let limit = call.limit.min(ROWS_MAX);
    let rows = app.store().ledger(&pool, call.resource.as_ref(), call.after, limit).await?;
    Ok(Json(Reply { value: rows.into_iter().map(|(row, entry)| Row { row, entry }).collect() }))
}
