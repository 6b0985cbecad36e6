//! Where every request passes before anything looks at what it says.

use axum::http::{HeaderMap, Method};

use super::needs::Need;
use super::{Identity, session};
use crate::app::App;
use crate::problem::Answer;

/// Lets pass who may, and says as whom it knows them; nobody where nobody need be known.
pub(crate) async fn admit(
    app: &App,
    route: Option<&str>,
    method: &Method,
    headers: &HeaderMap,
) -> Answer<Option<Identity>> {
    let need = Need::of(method, route);
    if need == Need::Nothing {
        return Ok(None);
    }
    let identity = app.access().who(headers).await?;
    session::check(&identity, method, headers)?;
    app.rates().spend(&identity)?;
    need.check(&identity)?;
    Ok(Some(identity))
}
