//! Which cameras are to be had.

use axum::extract::State;
use leasehold::ResourceId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::acquire::assignment;
use super::camera::{CameraForm, Kept};
use super::runners::{find, no_runner, runner_name};
use super::tenant::{Tenant, site};
use crate::access::Identity;
use crate::app::App;
use crate::problem::{Answer, CameraProblem, CameraRefusals, Problem};
use crate::rest::Query;

/// Which cameras, and for whom.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only those of this tenant.
    #[param(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9-][A-Za-z0-9_-]*$")]
    tenant_id: Option<String>,
    /// Only those of this site.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    site_id: Option<String>,
    /// Only those that this runner should take.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    runner_id: Option<String>,
    /// Those as well that others should hand over to that runner: they can be acquired with `reserve`.
    #[serde(default)]
    #[param(value_type = Option<bool>)]
    reservable: bool,
    /// How many at most; a thousand unless the control plane allows less.
    #[param(minimum = 1)]
    limit: Option<usize>,
}

/// The cameras that can be acquired
///
/// An array. Without `runner_id` all that nobody has; with it those that the plan gives to that runner, so that runners that ask
/// only for these share the cameras evenly. Whoever asks for another free one gets it all the same.
#[utoipa::path(get, path = "/api/v1/cameras/available", operation_id = "list_available_cameras", tag = "cameras", params(Wanted), responses(
    (status = 200, description = "the cameras", body = Vec<CameraForm>),
    (status = 404, description = "there is no such runner", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn list(
    State(app): State<App>,
    identity: Identity,
    Query(wanted): Query<Wanted>,
) -> Answer<axum::Json<Vec<CameraForm>>> {
    let most = app.limits().page;
    if wanted.limit == Some(0) {
        return Err(Problem::invalid("limit is 0; it is at least 1"));
    }
    let limit = wanted.limit.unwrap_or(most).min(most);
    let only = wanted.site_id.as_deref().map(site).transpose()?;
    let of_site = |kept: &Kept<'_>| only.as_deref().is_none_or(|site| site == kept.site());
    let mut forms = Vec::new();
    for (tenant, offered) in offers(&app, &identity, &wanted).await? {
        let Some(desk) = app.holders().known(&tenant.cameras) else { continue };
        let known = desk.lately().await?;
        let room = limit - forms.len();
        match offered {
            Some(offered) => {
                let cameras = offered.iter().filter_map(|(id, reserve)| {
                    let kept = known.declared(id).and_then(Kept::of).filter(of_site)?;
                    Some(kept.form(&tenant.id)?.masked().offered(*reserve))
                });
                forms.extend(cameras.take(room));
            }
            None => {
                let all = known.view.declared().values().filter_map(Kept::of).filter(of_site);
                let free = all.filter(|kept| {
                    !kept.is_deleting()
                        && !known.is_paused(kept.id())
                        && known.view.holder(kept.id()).is_none()
                });
                forms.extend(free.filter_map(|kept| Some(kept.form(&tenant.id)?.masked())).take(room));
            }
        }
    }
    Ok(axum::Json(forms))
}

/// What the plan gives to a runner, with whether it is to be reserved.
type Offers = Vec<(ResourceId, bool)>;

/// The tenants to look at, and what of each the plan gives to the runner that is asked for.
async fn offers(app: &App, identity: &Identity, wanted: &Wanted) -> Answer<Vec<(Tenant, Option<Offers>)>> {
    let Some(name) = &wanted.runner_id else {
        let tenants = Tenant::candidates(app, identity, wanted.tenant_id.as_deref()).await?;
        for tenant in &tenants {
            if let Some(desk) = app.holders().known(&tenant.cameras) {
                drop(desk.fresh().await?);
            }
        }
        return Ok(tenants.into_iter().map(|tenant| (tenant, None)).collect());
    };
    let (tenant, _, runner) = find(app, identity, &runner_name(name)?, wanted.tenant_id.as_deref()).await?;
    if runner.ended {
        return Err(no_runner(&runner.name));
    }
    let (assignment, _) = assignment(app, &tenant).await?;
    let mut offers: Offers = assignment.offers(&runner.session).map(|id| (id.clone(), false)).collect();
    if wanted.reservable {
        offers.extend(assignment.moves(&runner.session).map(|id| (id.clone(), true)));
    }
    Ok(vec![(tenant, Some(offers))])
}
