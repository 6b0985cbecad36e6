//! What members need: every call of the store over HTTP, for programs that have no way to the database.
//!
//! A request travels like this: [`body`] reads the call within its limits, [`scope`] says whether what it touches is the
//! caller's, the store does it, and its answer goes back as it is. Nothing is decided here; [`verdicts`] on others are
//! compared with what this replica has heard itself. What crosses the line is
//! `leasehold::store::http::wire`, which members use too.

mod body;
mod changes;
mod leases;
mod records;
pub(crate) mod scope;
mod sessions;
mod verdicts;

use axum::Json;
use axum::extract::State;
use axum::routing::any;
use leasehold::store::Capabilities;
use leasehold::store::http::wire::{About, Call};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::problem::{Answer, ProblemBody};
use crate::request;

pub(crate) use self::scope::Sessions;

/// What a call is answered with, or what is wrong.
type Answered<C> = Answer<Json<<C as Call>::Answer>>;

/// What every call may be answered with instead.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "describes what `Problem` writes")]
pub(crate) enum Refused {
    /// The body cannot be read, is too large, or says something that cannot be.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Invalid(ProblemBody),
    /// The answer is unknown: the store does not answer, or cannot be used.
    #[response(status = 503, content_type = "application/problem+json")]
    Unknown(ProblemBody),
}

/// Every route with its description.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(about))
        .routes(routes!(changes::changes))
        .routes(routes!(sessions::open))
        .routes(routes!(sessions::claim))
        .routes(routes!(sessions::beat))
        .routes(routes!(sessions::describe))
        .routes(routes!(sessions::close))
        .routes(routes!(verdicts::end_silent))
        .routes(routes!(verdicts::collect))
        .routes(routes!(sessions::sessions))
        .routes(routes!(sessions::reassert))
        .routes(routes!(verdicts::thaw))
        .routes(routes!(leases::acquire))
        .routes(routes!(leases::release))
        .routes(routes!(leases::revoke))
        .routes(routes!(verdicts::free_orphan))
        .routes(routes!(verdicts::free_revoked))
        .routes(routes!(leases::leases))
        .routes(routes!(leases::pools))
        .routes(routes!(leases::checkup))
        .routes(routes!(records::marks))
        .routes(routes!(records::set_mark))
        .routes(routes!(records::resources))
        .routes(routes!(records::declare))
        .routes(routes!(records::publish))
        .routes(routes!(records::listing))
        .routes(routes!(records::collect_listings))
        .routes(routes!(records::append))
        .routes(routes!(records::ledger))
        // A call that there is not is no resource of a pool.
        .route("/api/v1/store/{call}", any(request::not_found))
}

/// What the store can do
///
/// Members ask this first, and go no further if they speak another version.
#[utoipa::path(get, path = "/api/v1/store", operation_id = "store", tag = "store", responses(
    (status = 200, description = "the version of this API and what the store can do", body = About),
    Refused,
))]
pub(crate) async fn about(State(app): State<App>) -> Json<About> {
    Json(About::of(Capabilities { batch_max: body::batch_max(&app), ..app.store().capabilities() }))
}
