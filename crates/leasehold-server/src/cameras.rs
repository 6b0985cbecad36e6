//! Cameras: document 004's control plane.
//!
//! A camera is a resource of its tenant's pool `cameras`: the store's pool `acme.cameras`. Its configuration is the resource's
//! document, its lease is one of [`holders`](crate::holders) like any other, its site and versions are labels. Nothing here
//! decides ownership: what is added are the words of the document, the checks of what operators write, and the plan that
//! says which runner should have which camera.
//!
//! Read `tenant` (whose cameras), `camera`, `zone` and `version` (what a configuration is, pure), `config` and `zones` (it over
//! HTTP); `runner` and `assign` (who should have what, pure), `runners` and `available`; `lease`, `acquire` and `leases`.

pub(crate) mod acquire;
mod assign;
pub(crate) mod available;
mod camera;
pub(crate) mod config;
mod credentials;
mod etag;
mod figures;
mod lease;
pub(crate) mod leases;
pub(crate) mod listed;
pub(crate) mod offers;
pub(crate) mod others;
mod past;
mod runner;
pub(crate) mod runners;
mod seen;
pub(crate) mod sweep;
mod tenant;
mod version;
pub(crate) mod watch;
mod zone;
pub(crate) mod zones;

pub(crate) use self::camera::{is_camera, masked};
pub(crate) use self::credentials::hide;
pub use self::seen::RunnerSeen;
pub(crate) use self::seen::{pools_of, runners_seen};
pub(crate) use self::tenant::{CAMERAS, is_of_cameras};

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

/// Every route of document 004.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(config::list, config::create))
        .routes(routes!(config::get_of_site, config::put, config::remove))
        .routes(routes!(config::site_version))
        .routes(routes!(zones::list, zones::create))
        .routes(routes!(zones::put, zones::remove))
        .routes(routes!(available::list))
        .routes(routes!(config::get, others::put, others::patch, others::remove))
        .routes(routes!(acquire::acquire))
        .routes(routes!(watch::follow))
        .routes(routes!(watch::audit))
        .routes(routes!(listed::of_runner))
        .routes(routes!(listed::of_camera))
        .routes(routes!(leases::get))
        .routes(routes!(leases::validate))
        .routes(routes!(leases::renew))
        .routes(routes!(leases::release))
        .routes(routes!(leases::heartbeat))
        .routes(routes!(leases::revoke))
        .routes(routes!(runners::register))
        .routes(routes!(runners::list))
        .routes(routes!(runners::get, runners::remove))
        .routes(routes!(runners::heartbeat))
}
