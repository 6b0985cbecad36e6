//! What is served where.

use axum::Router;
use axum::middleware;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{auth, keys, session};
use crate::app::App;
use crate::events::stream as events;
use crate::openapi::Description;
use crate::{board, cameras, health, metrics, native, openapi, page, request, rest};

/// Names that are no pools: other things are found under them.
pub(crate) const RESERVED: [&str; 15] = [
    "auth",
    "deployments",
    "docs",
    "events",
    "health",
    "keys",
    "leases",
    "members",
    "pools",
    "runners",
    "sessions",
    "sites",
    "store",
    "tenants",
    "tokens",
];

/// Every route with its description.
pub(crate) fn described() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::report))
        .routes(routes!(metrics::metrics))
        .routes(routes!(openapi::served))
        .routes(routes!(openapi::docs))
        .routes(routes!(page::index))
        .routes(routes!(page::asset))
        .routes(routes!(auth::auth))
        .routes(routes!(session::get, session::log_in, session::log_out))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::get, keys::revoke))
        .routes(routes!(keys::rotate))
        .routes(routes!(events::follow))
        .routes(routes!(rest::tokens::follow))
        .routes(routes!(rest::pools::list))
        .routes(routes!(rest::pools::get, rest::pools::put))
        .routes(routes!(board::watch::watch))
        .routes(routes!(rest::acts::plan))
        .routes(routes!(rest::acts::act))
        .routes(routes!(board::overview::overview))
        .merge(native::routes())
        .merge(cameras::routes())
        .routes(routes!(rest::resources::list, rest::resources::create))
        .routes(routes!(
            rest::resources::get,
            rest::resources::put,
            rest::resources::patch,
            rest::resources::remove
        ))
        .routes(routes!(rest::leases::get, rest::leases::acquire, rest::leases::release))
        .routes(routes!(rest::leases::renew))
}

/// The router, with everything that surrounds a request.
pub(crate) fn router(app: App) -> Router {
    let (router, _) = described().split_for_parts();
    router
        .fallback(request::not_found)
        .method_not_allowed_fallback(request::wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), request::answer))
        .with_state(app)
}
