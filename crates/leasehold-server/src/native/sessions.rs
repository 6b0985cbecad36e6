//! Sessions: opened, heard, ended; and what the whole store is asked.

use axum::Json;
use axum::extract::State;
use leasehold::Term;
use leasehold::participant::{TTL_MAX, TTL_MIN};
use leasehold::store::http::wire::Hex;
use leasehold::store::http::wire::calls::{
    BeatCall, ClaimCall, CloseCall, CollectCall, DescribeCall, EndSilentCall, OpenCall, ReassertCall,
    SessionsCall, ThawCall,
};
use leasehold::store::http::wire::records::{
    Answer, Changed, Claimed, EndSilent, Nothing, Reasserted, Reply, Session, SessionRecord, Thawed,
};
use leasehold::store::{self, OpenSession};

use super::body::{Call as Body, within_limit};
use super::scope::Scope;
use super::{Answered, Refused};
use crate::app::App;
use crate::problem::{self, Problem};

/// The session to open or to reassert, in a pool of the caller's.
fn session(scope: &Scope, session: Session) -> problem::Answer<OpenSession> {
    let mut session = OpenSession::from(session);
    if !(TTL_MIN..=TTL_MAX).contains(&session.ttl) {
        return Err(Problem::invalid(format!(
            "a TTL of {:?} is not between {TTL_MIN:?} and {TTL_MAX:?}",
            session.ttl
        )));
    }
    session.pool = scope.pool(&session.pool)?;
    scope.new_session(&session.id)?;
    Ok(session)
}

/// Opens a session
///
/// Answers the nonce of the era it was opened in.
#[utoipa::path(post, path = "/api/v1/store/open", operation_id = "store_open", tag = "store", request_body = OpenCall,
    responses((status = 200, description = "done, or not: what became of it", body = Answer<Hex>), Refused))]
pub(crate) async fn open(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<OpenCall>,
) -> Answered<OpenCall> {
    let session = session(&scope, call.session)?;
    let answer = app.store().open(&session).await?;
    Ok(Json(Answer::of(answer, Hex)))
}

/// Opens a session and takes one resource with it
///
/// Or opens nothing, because somebody has it.
#[utoipa::path(post, path = "/api/v1/store/claim", operation_id = "store_claim", tag = "store", request_body = ClaimCall,
    responses((status = 200, description = "done, or not: what became of it", body = Answer<Claimed>), Refused))]
pub(crate) async fn claim(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<ClaimCall>,
) -> Answered<ClaimCall> {
    let session = session(&scope, call.session)?;
    let answer = app.store().claim(&session, &call.wanted.into()).await?;
    Ok(Json(Answer::of(answer, Into::into)))
}

/// Raises a session's beat
///
/// Answers the terms that were revoked.
#[utoipa::path(post, path = "/api/v1/store/beat", operation_id = "store_beat", tag = "store", request_body = BeatCall,
    responses((status = 200, description = "done, or not: what became of it", body = Answer<Vec<Term>>), Refused))]
pub(crate) async fn beat(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<BeatCall>,
) -> Answered<BeatCall> {
    let session = scope.session(&call.session).await?;
    let answer = app.store().beat(&session, call.pulse.into()).await?;
    Ok(Json(Answer::of(answer, |revoked| revoked)))
}

/// Replaces what a session publishes about itself
#[utoipa::path(post, path = "/api/v1/store/describe", operation_id = "store_describe", tag = "store", request_body = DescribeCall,
    responses((status = 200, description = "done, or not: what became of it", body = Answer<Nothing>), Refused))]
pub(crate) async fn describe(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<DescribeCall>,
) -> Answered<DescribeCall> {
    let session = scope.session(&call.session).await?;
    let answer = app.store().describe(&session, call.pulse.into(), &call.profile).await?;
    Ok(Json(Answer::of(answer, |()| Nothing)))
}

/// Ends the caller's own session
///
/// With it everything that it holds is free.
#[utoipa::path(post, path = "/api/v1/store/close", operation_id = "store_close", tag = "store", request_body = CloseCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Nothing>), Refused))]
pub(crate) async fn close(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<CloseCall>,
) -> Answered<CloseCall> {
    let session = scope.session(&call.session).await?;
    app.store().close(&session).await?;
    Ok(Json(Reply { value: Nothing }))
}

/// Ends a session that fell silent
///
/// The caller has heard this beat, and no other, for the whole TTL of the session.
#[utoipa::path(post, path = "/api/v1/store/end_silent", operation_id = "store_end_silent", tag = "store", request_body = EndSilentCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<EndSilent>), Refused))]
pub(crate) async fn end_silent(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<EndSilentCall>,
) -> Answered<EndSilentCall> {
    let session = scope.session(&call.session).await?;
    let value = app.store().end_silent(&session, call.heard, call.era.0).await?.into();
    Ok(Json(Reply { value }))
}

/// Forgets an ended session
#[utoipa::path(post, path = "/api/v1/store/collect", operation_id = "store_collect", tag = "store", request_body = CollectCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Nothing>), Refused))]
pub(crate) async fn collect(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<CollectCall>,
) -> Answered<CollectCall> {
    let session = scope.session(&call.session).await?;
    app.store().collect(&session).await?;
    Ok(Json(Reply { value: Nothing }))
}

/// Who is there
///
/// Ended sessions included. With a cursor, what changed since.
#[utoipa::path(post, path = "/api/v1/store/sessions", operation_id = "store_sessions", tag = "store", request_body = SessionsCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Changed<SessionRecord>>), Refused))]
pub(crate) async fn sessions(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<SessionsCall>,
) -> Answered<SessionsCall> {
    let pool = scope.pool(&call.pool)?;
    let read = app.store().sessions(&pool, call.since.0).await?;
    read.items.iter().for_each(|session| scope.learn(&session.id, &pool));
    Ok(Json(Reply { value: Changed::of(read, Into::into) }))
}

/// Says again, after a freeze, what a session holds
#[utoipa::path(post, path = "/api/v1/store/reassert", operation_id = "store_reassert", tag = "store", request_body = ReassertCall,
    responses((status = 200, description = "done, or not: what became of it", body = Answer<Vec<Reasserted>>), Refused))]
pub(crate) async fn reassert(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<ReassertCall>,
) -> Answered<ReassertCall> {
    within_limit(&app, call.terms.len())?;
    let session = session(&scope, call.session)?;
    let answer = app.store().reassert(&session, call.pulse.into(), &call.terms).await?;
    Ok(Json(Answer::of(answer, |terms| terms.into_iter().map(Into::into).collect())))
}

/// Ends a freeze
///
/// The caller has heard this nonce for the longest TTL that the store knows of. Whom only a part of the store is open to
/// changes nothing by it: the control plane ends freezes itself.
#[utoipa::path(post, path = "/api/v1/store/thaw", operation_id = "store_thaw", tag = "store", request_body = ThawCall,
    responses((status = 200, description = "done, or not: what became of it", body = Reply<Thawed>), Refused))]
pub(crate) async fn thaw(
    State(app): State<App>,
    scope: Scope,
    Body(call): Body<ThawCall>,
) -> Answered<ThawCall> {
    // Who ends a freeze early takes from others what they hold, in every pool.
    let thawed =
        if scope.is_whole() { app.store().thaw(call.nonce.0).await? } else { store::Thawed::Changed };
    Ok(Json(Reply { value: thawed.into() }))
}
