//! `POST /api/v1/auth`: from a name and a password to a token, as document 000's clients want it. The password is the key,
//! and so is the token.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::problem::{Answer, Problem, ProblemBody};
use crate::request::Raw;

/// Who wants a token.
#[derive(Deserialize, ToSchema)]
pub(crate) struct Credentials {
    /// Any name; it decides nothing.
    #[schema(example = "tracker", required = true, value_type = String, min_length = 1)]
    username: Option<String>,
    /// The key.
    #[schema(example = "lh_…", required = true, value_type = String, min_length = 1)]
    password: Option<String>,
}

/// What to send from now on.
#[derive(Serialize, ToSchema)]
#[schema(as = AuthToken)]
pub(crate) struct Token {
    /// To be sent as `Authorization: Token …`.
    token: String,
}

/// A token for a name and a password
///
/// As a form or as JSON. The password is an API key. Whoever has one can send it at once as `Authorization: Bearer KEY`.
#[utoipa::path(post, path = "/api/v1/auth", tag = "keys", security(()),
    request_body(content(
        (Credentials = "application/x-www-form-urlencoded"),
        (Credentials = "application/json"),
    )),
    responses(
        (status = 200, description = "the token", body = Token),
        (status = 400, description = "the name or the password is missing", body = ProblemBody),
        (status = 401, description = "the password is no key that is good", body = ProblemBody),
        (status = "4XX", description = "the request cannot be used", body = ProblemBody),
        (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn auth(
    State(app): State<App>,
    headers: HeaderMap,
    Raw(raw): Raw,
) -> Answer<axum::Json<Token>> {
    let unreadable = |_| {
        let said = "the body is neither a form nor JSON; send username and password";
        Problem::new(StatusCode::BAD_REQUEST, "malformed", said)
    };
    let content = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // What cannot be read is not repeated: it may hold the password.
    let sent: Credentials = if content.starts_with("application/json") || raw.trim_ascii().starts_with(b"{") {
        serde_json::from_slice(&raw).map_err(|_| unreadable(()))?
    } else {
        let query = std::str::from_utf8(&raw).map_err(|_| unreadable(()))?;
        form(query).ok_or_else(|| unreadable(()))?
    };
    let missing = |what: &str| Problem::new(StatusCode::BAD_REQUEST, "missing", format!("{what} is missing"));
    sent.username.filter(|name| !name.is_empty()).ok_or_else(|| missing("username"))?;
    let token = sent.password.filter(|key| !key.is_empty()).ok_or_else(|| missing("password"))?;
    if app.access().is_open() {
        app.access().who(&headers).await?;
    } else {
        app.access().check(&token).await?;
    }
    Ok(axum::Json(Token { token }))
}

/// Reads a form.
fn form(text: &str) -> Option<Credentials> {
    let uri = axum::http::Uri::builder().path_and_query(format!("/?{}", text.trim())).build().ok()?;
    axum::extract::Query::try_from_uri(&uri).ok().map(|axum::extract::Query(sent)| sent)
}
