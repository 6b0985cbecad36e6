//! Resources and leases as documents over HTTP. With the pool `scenes` this is document 000 to the letter.

pub(crate) mod acts;
pub(crate) mod forms;
pub(crate) mod leases;
pub(crate) mod pools;
pub(crate) mod resources;
pub(crate) mod tokens;

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use leasehold::{Pool, ResourceId};
use serde::de::DeserializeOwned;

use crate::access::Identity;
use crate::app::App;
use crate::cameras::CAMERAS;
use crate::holders::Desk;
use crate::problem::{Answer, Problem};
use crate::request::Path;

/// The pool that a path names.
pub(crate) struct InPool {
    pub(crate) pool: Pool,
    /// The pool's name as the caller knows it.
    pub(crate) name: String,
    pub(crate) identity: Identity,
}

/// The resource that a path names.
pub(crate) struct AtResource {
    pub(crate) within: InPool,
    pub(crate) resource: ResourceId,
}

impl InPool {
    fn of(identity: Identity, name: &str) -> Answer<Self> {
        Ok(Self { pool: identity.pool(name)?, name: name.to_owned(), identity })
    }

    /// The desk of the pool, made if there is none.
    pub(crate) fn desk(&self, app: &App) -> Answer<Arc<Desk>> {
        app.desk(&self.pool)
    }

    /// The word for a resource that does not exist.
    pub(crate) fn not_found(&self, resource: &ResourceId) -> Problem {
        let (error, word) = match self.name.as_str() {
            "scenes" => ("scene_not_found", "scene"),
            _ => ("resource_not_found", "resource"),
        };
        let said = format!(
            "there is no {word} {resource:?} in {}; create it with POST /api/v1/{}",
            self.name, self.name
        );
        Problem::new(StatusCode::NOT_FOUND, error, said)
    }
}

impl AtResource {
    pub(crate) fn of(identity: Identity, pool: &str, resource: &str) -> Answer<Self> {
        let within = InPool::of(identity, pool)?;
        let resource = ResourceId::new(resource).map_err(|error| Problem::invalid(error.to_string()))?;
        Ok(Self { within, resource })
    }

    /// The desk of the pool, if there is anything in it.
    pub(crate) async fn desk(&self, app: &App) -> Answer<Arc<Desk>> {
        let desk = app.holders().desk_if_known(&self.within.pool).await?;
        desk.ok_or_else(|| self.within.not_found(&self.resource))
    }
}

impl FromRequestParts<App> for InPool {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Answer<Self> {
        let Path(name): Path<String> = Path::from_request_parts(parts, app).await?;
        Self::of(Identity::from_request_parts(parts, app).await?, &name)
    }
}

impl FromRequestParts<App> for AtResource {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Answer<Self> {
        let named = RawPathParams::from_request_parts(parts, app)
            .await
            .map_err(|error| Problem::malformed(format!("the path cannot be read: {error}")))?;
        let named = |name: &str| named.iter().find(|(of, _)| *of == name).map(|(_, value)| value);
        // Cameras have a route of their own, which does not name their pool.
        let pool = named("pool").unwrap_or(CAMERAS);
        let resource = named("resource").or_else(|| named("camera_uuid")).unwrap_or_default();
        Self::of(Identity::from_request_parts(parts, app).await?, pool, resource)
    }
}

/// The query of a request, with a sentence where it is wrong.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Answer<Self> {
        Self::of(&parts.uri)
    }
}

impl<T: DeserializeOwned> Query<T> {
    pub(crate) fn of(uri: &Uri) -> Answer<Self> {
        let taken = axum::extract::Query::try_from_uri(uri);
        let wrong = |error: axum::extract::rejection::QueryRejection| {
            Problem::invalid(format!("the query cannot be used: {error}"))
        };
        taken.map(|axum::extract::Query(taken)| Self(taken)).map_err(wrong)
    }
}
