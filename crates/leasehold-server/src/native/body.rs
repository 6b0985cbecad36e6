//! A call as it was sent, within its limits.

use axum::extract::{FromRequest, Request};
use leasehold::store::http::wire;
use leasehold::store::http::wire::calls::PublishCall;

use crate::app::App;
use crate::problem::{Answer, Problem};
use crate::request;

/// The largest listing that is taken, in bytes of JSON. Everything else has the limit of all requests.
const LISTING_MAX: usize = 16 << 20;

/// The most items that a call may carry. A member asks one replica how many and is served by any, of the version before too: so it is no more
/// than any version takes, whatever the store could.
const ITEMS_MAX: usize = 256;

/// The call that a body holds.
pub(super) struct Call<C>(pub(super) C);

impl<C: wire::Call> FromRequest<App> for Call<C> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Answer<Self> {
        let limits = app.limits();
        let max = if C::NAME == <PublishCall as wire::Call>::NAME { LISTING_MAX } else { limits.body };
        let bytes = request::read(request, max, limits.upload).await?;
        request::parse(&bytes).map(Self)
    }
}

/// The most items that a call may carry here.
pub(super) fn batch_max(app: &App) -> usize {
    app.store().capabilities().batch_max.min(ITEMS_MAX)
}

/// Refuses a batch that is larger.
pub(super) fn within_limit(app: &App, items: usize) -> Answer<()> {
    refuse_above(items, batch_max(app))
}

/// Refuses more items than that.
pub(super) fn refuse_above(items: usize, max: usize) -> Answer<()> {
    if items <= max {
        return Ok(());
    }
    Err(Problem::invalid(format!("the call carries {items} items; at most {max} are allowed in one")))
}
