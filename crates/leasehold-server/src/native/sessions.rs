//! Sessions: opened, heard, ended by themselves.

use axum::Json;
use axum::extract::State;
use leasehold::Term;
use leasehold::participant::{TTL_MAX, TTL_MIN};
use leasehold::store::OpenSession;
use leasehold::store::http::wire::Hex;
use leasehold::store::http::wire::calls::{
    BeatCall, ClaimCall, CloseCall, DescribeCall, OpenCall, ReassertCall, SessionsCall,
};
use leasehold::store::http::wire::records::{
    Answer, Changed, Claimed, Nothing, Reasserted, Reply, Session, SessionRecord,
};

use super::body::{Call as Body, within_limit};
use super::scope::Scope;
use super::{Answered, Refused};
use crate::app::App;
use crate::holders::KEY;
use crate::problem::{self, Problem};

/// The session to open or to reassert, in a pool of the caller's.
async fn session(scope: &Scope, session: Session) -> problem::Answer<OpenSession> {
    let mut session = OpenSession::from(session);
    if !(TTL_MIN..=TTL_MAX).contains(&session.ttl) {
        return Err(Problem::invalid(format!(
            "a TTL of {:?} is not between {TTL_MIN:?} and {TTL_MAX:?}",
            session.ttl
        )));
    }
    session.pool = scope.pool(&session.pool)?;
    scope.new_session(&mut session).await?;
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
    let session = session(&scope, call.session).await?;
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
    let session = session(&scope, call.session).await?;
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
    let (session, pulse) = (scope.session(&call.session).await?, call.pulse.into());
    let answer = app.store().beat(&session, pulse).await?;
    scope.note_freeze(&call.session, pulse, &answer);
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
    let (session, pulse) = (scope.session(&call.session).await?, call.pulse.into());
    let mut profile = call.profile;
    scope.sign(&mut profile)?;
    let answer = app.store().describe(&session, pulse, &profile).await?;
    scope.note_freeze(&call.session, pulse, &answer);
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
    let mut read = app.store().sessions(&pool, call.since.0).await?;
    for session in &mut read.items {
        scope.learn(session, &pool);
        // Whose key it is was never the member's own word, and is no business of the others'.
        session.profile.labels.remove(KEY);
    }
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
    let session = session(&scope, call.session).await?;
    let answer = app.store().reassert(&session, call.pulse.into(), &call.terms).await?;
    Ok(Json(Answer::of(answer, |terms| terms.into_iter().map(Into::into).collect())))
}
