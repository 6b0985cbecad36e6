//! `/api/v1/keys`: keys for admins. Nobody can make or see one that opens more than their own.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Identity;
use crate::app::App;
use crate::keys::{self, KeyError, KeyInfo, NewKey, Role, Secret};
use crate::problem::{Answer, Problem, ProblemBody};
use crate::request::{Json, Path};

/// How long the secret before is taken after a rotation, unless said otherwise.
const GRACE: Duration = Duration::from_secs(3600);

/// What a new key is for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKeyBody {
    /// What people call it.
    #[serde(default)]
    #[schema(example = "trackers")]
    name: String,
    /// What it may do.
    role: Role,
    /// In which pools; all if this is left out.
    #[schema(min_items = 1, max_items = 256)]
    pools: Option<BTreeSet<String>>,
    /// Whose pools.
    tenant: Option<String>,
    /// How long it lasts, in seconds; for ever if this is left out.
    expires_in_s: Option<u64>,
}

/// How a key is rotated.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RotateBody {
    /// How long the secret before is still taken, in seconds; an hour if this is left out.
    grace_s: Option<u64>,
}

/// A key with its secret, which is shown this once.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeKey {
    /// The key itself. It is not kept, and cannot be shown again.
    #[schema(example = "lh_5a0e6fd98c31_…")]
    key: String,
    #[serde(flatten)]
    info: KeyInfo,
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Invalid(said) => Self::invalid(said),
            KeyError::Unknown(_) => unknown(),
            KeyError::Busy(_) => Self::new(StatusCode::CONFLICT, "changed_meanwhile", error.to_string()),
            KeyError::Store(error) => error.into(),
        }
    }
}

fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "key_not_found", "there is no such key; GET /api/v1/keys lists them")
}

/// Whether a key opens nothing that the caller's does not.
fn is_within(identity: &Identity, tenant: Option<&str>, pools: Option<&BTreeSet<String>>) -> bool {
    let own = identity.tenant().is_none() || identity.tenant() == tenant;
    own && identity
        .pools()
        .is_none_or(|mine| identity.tenant() == tenant && pools.is_some_and(|pools| pools.is_subset(mine)))
}

fn sees(identity: &Identity, info: &KeyInfo) -> bool {
    is_within(identity, info.tenant.as_deref(), info.pools.as_ref())
}

/// The key of that id, if the caller may know of it.
async fn seen(app: &App, identity: &Identity, id: &str) -> Answer<KeyInfo> {
    let info = keys::get(&**app.store(), id).await?;
    if sees(identity, &info) { Ok(info) } else { Err(unknown()) }
}

fn made(status: StatusCode, info: KeyInfo, secret: &Secret) -> Response {
    let body = MadeKey { key: secret.expose().to_owned(), info };
    (status, [(CACHE_CONTROL, "no-store")], axum::Json(body)).into_response()
}

/// Every key
///
/// Without secrets: nobody has those but whoever was given them. Admins of a tenant see its keys.
#[utoipa::path(get, path = "/api/v1/keys", operation_id = "list_keys", tag = "keys", responses(
    (status = 200, description = "the keys, the oldest first", body = Vec<KeyInfo>),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody, content_type = "application/problem+json"),
    (status = 503, description = "the store does not answer", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn list(State(app): State<App>, identity: Identity) -> Answer<axum::Json<Vec<KeyInfo>>> {
    let mut found = keys::list(&**app.store()).await?;
    found.retain(|info| sees(&identity, info));
    Ok(axum::Json(found))
}

/// Make a key
///
/// The key is in the answer and nowhere else. Where none was ever made, from then on one is asked for.
#[utoipa::path(post, path = "/api/v1/keys", operation_id = "create_key", tag = "keys", request_body = NewKeyBody, responses(
    (status = 201, description = "made", body = MadeKey),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody, content_type = "application/problem+json"),
    (status = 503, description = "the store does not answer", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn create(
    State(app): State<App>,
    identity: Identity,
    Json(body): Json<NewKeyBody>,
) -> Answer<Response> {
    // What an admin of a part does not say is its own part.
    let tenant = body.tenant.or_else(|| identity.tenant().map(str::to_owned));
    let pools = body.pools.or_else(|| identity.pools().cloned());
    if !is_within(&identity, tenant.as_deref(), pools.as_ref()) {
        let said = "your key is for one tenant, or for some pools; those you make cannot be for others";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", said));
    }
    let lasts = body.expires_in_s.map(Duration::from_secs);
    let new = NewKey { name: body.name, role: body.role, pools, tenant, lasts };
    let (info, secret) = keys::create(&**app.store(), &new).await?;
    tracing::info!(key = info.id, role = %info.role, by = identity.key(), "a key was made");
    app.access().look().await;
    Ok(made(StatusCode::CREATED, info, &secret))
}

/// A key
#[utoipa::path(get, path = "/api/v1/keys/{id}", operation_id = "get_key", tag = "keys",
    params(("id" = String, Path, description = "the id of the key")),
    responses(
        (status = 200, description = "what is known of it", body = KeyInfo),
        (status = 404, description = "there is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = "4XX", description = "the request cannot be used", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "the store does not answer", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn get(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<String>,
) -> Answer<axum::Json<KeyInfo>> {
    seen(&app, &identity, &id).await.map(axum::Json)
}

/// Revoke a key
///
/// Within a second no replica takes it any more. What it holds goes on until it is not renewed.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", operation_id = "revoke_key", tag = "keys",
    params(("id" = String, Path, description = "the id of the key")),
    responses(
        (status = 204, description = "revoked"),
        (status = 404, description = "there is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = "4XX", description = "the request cannot be used", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "the store does not answer", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn revoke(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let info = seen(&app, &identity, &id).await?;
    keys::revoke(&**app.store(), &info.id).await?;
    tracing::info!(key = info.id, by = identity.key(), "a key was revoked");
    app.access().look().await;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a key a new secret
///
/// Its id stays, so what it holds stays its own. The secret before is taken for a while longer.
#[utoipa::path(post, path = "/api/v1/keys/{id}/rotate", operation_id = "rotate_key", tag = "keys", request_body = RotateBody,
    params(("id" = String, Path, description = "the id of the key")),
    responses(
        (status = 200, description = "rotated", body = MadeKey),
        (status = 404, description = "there is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = "4XX", description = "the request cannot be used", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "the store does not answer", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn rotate(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<String>,
    Json(body): Json<RotateBody>,
) -> Answer<Response> {
    let info = seen(&app, &identity, &id).await?;
    let grace = body.grace_s.map_or(GRACE, Duration::from_secs);
    let (info, secret) = keys::rotate(&**app.store(), &info.id, grace).await?;
    tracing::info!(key = info.id, by = identity.key(), "a key was rotated");
    app.access().look().await;
    Ok(made(StatusCode::OK, info, &secret))
}
