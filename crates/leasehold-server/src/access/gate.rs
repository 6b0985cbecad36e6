//! Where every request passes before anything looks at what it says.

use axum::extract::{MatchedPath, Request};

use super::needs::Need;
use super::session;
use crate::app::App;
use crate::problem::Answer;

/// Lets pass who may, as whom it knows them to be.
pub(crate) async fn admit(app: &App, request: &mut Request) -> Answer<()> {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let need = Need::of(request.method(), route);
    if need == Need::Nothing {
        return Ok(());
    }
    let identity = app.access().who(request.headers()).await?;
    session::check(&identity, request.method(), request.headers())?;
    app.rates().spend(&identity)?;
    need.check(&identity)?;
    request.extensions_mut().insert(identity);
    Ok(())
}
