//! `/api/v1/auth/session`: logging in and out, for browsers.
//!
//! A browser keeps its secret in a cookie that no script reads (`HttpOnly`) and no other site's page sends (`SameSite=Strict`). What
//! changes something must say a second one besides, which only our own page can have read, and come from our own page as far
//! as the browser tells (`Origin`).

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, COOKIE, HOST, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use utoipa::ToSchema;

use super::{Access, Identity, Verdict, refused};
use crate::app::App;
use crate::keys::{Role, session};
use crate::problem::{Answer, Problem, ProblemBody};
use crate::request::Json;

/// The name of the cookie.
const NAME: &str = "leasehold_session";
/// The header with the second secret.
const CSRF: &str = "x-leasehold-csrf";

/// Who wants to log in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogIn {
    /// An API key.
    #[schema(example = "lh_…", min_length = 1)]
    key: String,
}

/// Who is logged in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionForm {
    /// Whether no key is asked for here.
    open: bool,
    /// What one may do; null for who is not logged in.
    role: Option<Role>,
    /// What people call the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The id of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// To be sent as `X-Leasehold-Csrf` with everything that changes something.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf: Option<String>,
    /// The version of the program.
    version: &'static str,
}

/// The secret that our own page sends besides the cookie, for the secret in it.
pub(super) fn csrf_of(cookie: &str) -> String {
    let digest = Sha256::digest(format!("not by another page: {cookie}"));
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The secret in the cookie.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == NAME).map(|(_, value)| value)
}

/// Whether the browser says that a page of ours sends this, or does not say.
fn is_our_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or("?"));
    let same = text(ORIGIN).is_none_or(|origin| origin.split_once("://").map(|(_, host)| host) == text(HOST));
    let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("?"));
    same && site.is_none_or(|site| ["same-origin", "none"].contains(&site))
}

fn not_our_page() -> Problem {
    let said = "this did not come from the page of this server; open the page itself and try again";
    Problem::new(StatusCode::FORBIDDEN, "forbidden", said)
}

impl Access {
    /// Who is logged in with this cookie.
    pub(super) async fn logged_in(&self, offered: &str) -> Answer<Identity> {
        if let Verdict::Good(identity) = self.known.session(offered) {
            return Ok(identity);
        }
        // It may have been made a moment ago, on another replica.
        let answered = self.look().await;
        match self.known.session(offered) {
            Verdict::Good(identity) => Ok(identity),
            Verdict::Wrong if !answered => Err(super::unknown_for_now()),
            Verdict::Wrong | Verdict::Expired(_) => {
                Err(refused("expired", "you are not logged in any more; log in again"))
            }
        }
    }
}

/// Refuses what another site's page may have a browser send with our cookie.
pub(super) fn check(identity: &Identity, method: &Method, headers: &HeaderMap) -> Answer<()> {
    let Some((_, csrf)) = identity.session() else { return Ok(()) };
    if [Method::GET, Method::HEAD].contains(method) {
        return Ok(());
    }
    let sent = headers.get(CSRF).map(|value| value.as_bytes()).unwrap_or_default();
    if bool::from(sent.ct_eq(csrf.as_bytes())) && is_our_page(headers) {
        return Ok(());
    }
    metrics::counter!("leasehold_auth_failures_total", "reason" => "foreign").increment(1);
    Err(not_our_page())
}

fn form(app: &App, identity: Option<&Identity>) -> SessionForm {
    SessionForm {
        open: app.access().is_open(),
        role: identity.map(Identity::role),
        name: identity.and_then(|identity| identity.name().map(str::to_owned)),
        key: identity.and_then(|identity| identity.key().map(str::to_owned)),
        csrf: identity.and_then(|identity| identity.session().map(|(_, csrf)| csrf.to_owned())),
        version: env!("CARGO_PKG_VERSION"),
    }
}

fn kept(value: &str, seconds: u64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// Whether the browser came by TLS, here or in front of here.
fn is_secure(app: &App, headers: &HeaderMap) -> bool {
    app.access().tls || headers.get("x-forwarded-proto").is_some_and(|by| by == "https")
}

/// Who is logged in
///
/// For the page: whether a key is asked for, and what one may do. Whoever is not logged in is told so.
#[utoipa::path(get, path = "/api/v1/auth/session", operation_id = "get_session", tag = "keys", security(()), responses(
    (status = 200, description = "who, if anybody", body = SessionForm),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn get(State(app): State<App>, headers: HeaderMap) -> Answer<Response> {
    let who = match app.access().who(&headers).await {
        Ok(identity) => Some(identity),
        Err(problem) if problem.error() == "unauthorized" => None,
        Err(problem) => return Err(problem),
    };
    Ok(([(CACHE_CONTROL, "no-store")], axum::Json(form(&app, who.as_ref()))).into_response())
}

/// Log in
///
/// With an API key, for twelve hours. The answer sets a cookie that scripts cannot read and other sites' pages do not send; requests
/// with it that change something need `X-Leasehold-Csrf` as well. Programs have no need of this: they send their key.
#[utoipa::path(post, path = "/api/v1/auth/session", operation_id = "log_in", tag = "keys", security(()), request_body = LogIn, responses(
    (status = 200, description = "logged in", body = SessionForm, headers(("Set-Cookie" = String, description = "the log-in"))),
    (status = 401, description = "this is no key that is good", body = ProblemBody),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn log_in(
    State(app): State<App>,
    headers: HeaderMap,
    Json(sent): Json<LogIn>,
) -> Answer<Response> {
    if !is_our_page(&headers) {
        return Err(not_our_page());
    }
    if app.access().is_open() {
        let identity = app.access().who(&headers).await?;
        return Ok(([(CACHE_CONTROL, "no-store")], axum::Json(form(&app, Some(&identity)))).into_response());
    }
    let identity = app.access().check(sent.key.trim()).await?;
    app.rates().spend(&identity)?;
    let key = identity.key().unwrap_or_default();
    let record = app.access().known.record(key).ok_or_else(super::unknown_for_now)?;
    let lasts = app.limits().session;
    let secret = session::begin(&**app.store(), key, &record, lasts).await?;
    tracing::info!(key, "somebody logged in");
    let identity = app.access().logged_in(secret.expose()).await?;
    let cookie = kept(secret.expose(), lasts.as_secs(), is_secure(&app, &headers));
    let headers = [(SET_COOKIE, cookie), (CACHE_CONTROL, "no-store".to_owned())];
    Ok((headers, axum::Json(form(&app, Some(&identity)))).into_response())
}

/// Log out
#[utoipa::path(delete, path = "/api/v1/auth/session", operation_id = "log_out", tag = "keys", responses(
    (status = 204, description = "logged out"),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn log_out(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
) -> Answer<Response> {
    if let Some((id, _)) = identity.session() {
        session::end(&**app.store(), id).await?;
        tracing::info!(key = identity.key(), "somebody logged out");
        app.access().look().await;
    }
    let cookie = kept("", 0, is_secure(&app, &headers));
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}
