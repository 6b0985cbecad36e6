//! What happened to leases of cameras: as it happens, and as the ledger has it.

use std::convert::Infallible;

use axum::extract::State;
use axum::http::header::LINK;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response, sse};
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::config::camera_id;
use super::tenant::Tenant;
use crate::access::Identity;
use crate::app::App;
use crate::events::camera::LeaseEvent;
use crate::events::sink::{Event, Tenants};
use crate::events::stream::{Begin, stream};
use crate::problem::{Answer, CameraProblem, CameraRefusals, Problem};
use crate::rest::Query;

/// How many rows are read at once, and how often for one answer.
const ROWS: usize = 1000;
const PAGES_MAX: usize = 20;

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Whose cameras; the key's tenant if it is left out.
    #[param(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9-][A-Za-z0-9_-]*$")]
    tenant_id: Option<String>,
    /// Only events of this camera.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:@+=-]+$")]
    camera_uuid: Option<String>,
    /// Only events of leases of this runner.
    runner_id: Option<String>,
    /// Only events of this lease.
    lease_id: Option<String>,
    /// Only rows behind this one; without it from the oldest that the ledger has.
    after: Option<u64>,
    /// How many at most, in a list.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl Which {
    fn wants(&self, event: &LeaseEvent) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.camera_uuid, &event.camera_uuid)
            && is(&self.runner_id, &event.runner_id)
            && is(&self.lease_id, &event.lease_id)
    }
}

/// Events of leases, as they happen
///
/// Server-sent events without end: `id` is the row, `data` an event. A client that comes back with `Last-Event-ID` goes on where it
/// was; if rows were dropped meanwhile, an event `gap` comes first.
#[utoipa::path(get, path = "/api/v1/leases/events", operation_id = "follow_lease_events", tag = "cameras", params(Which), responses(
    (status = 200, description = "the events", content_type = "text/event-stream", body = LeaseEvent),
    (status = "4XX", description = "the request cannot be used", body = CameraProblem),
    (status = 503, description = "too many streams are open, or the store does not answer", body = CameraProblem),
))]
pub(crate) async fn follow(
    State(app): State<App>,
    identity: Identity,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Answer<sse::Sse<impl Stream<Item = Result<sse::Event, Infallible>>>> {
    let tenant = Tenant::meant(&identity, which.tenant_id.as_deref())?;
    let begin = Begin::asked(&headers, which.after)?;
    let mut tenants = Tenants::default();
    tenants.insert(&tenant.id);
    let wanted = Box::new(move |event: &Event| event.camera.as_ref().is_some_and(|event| which.wants(event)));
    stream(&app, &identity, tenant.cameras, None, tenants, begin, wanted)
}

/// An event as a list has it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Audited {
    /// The row's number in the ledger. Numbers rise, with gaps.
    row: u64,
    /// Names the event, the same wherever it is delivered.
    event_id: String,
    #[serde(flatten)]
    event: LeaseEvent,
}

/// What happened to leases
///
/// An array, the oldest first. `Link` says where it goes on, also where nothing that was asked for was among the rows that were
/// looked at.
#[utoipa::path(get, path = "/api/v1/leases/audit", operation_id = "list_lease_events", tag = "cameras", params(Which), responses(
    (status = 200, description = "the events", body = Vec<Audited>, headers(("Link" = String, description = "where it goes on"))),
    CameraRefusals,
))]
pub(crate) async fn audit(
    State(app): State<App>,
    identity: Identity,
    Query(which): Query<Which>,
) -> Answer<Response> {
    let tenant = Tenant::meant(&identity, which.tenant_id.as_deref())?;
    let limit = which.limit.unwrap_or(ROWS).min(ROWS);
    if limit == 0 {
        return Err(Problem::invalid("limit is 0; it is at least 1"));
    }
    let camera = which.camera_uuid.as_deref().map(camera_id).transpose()?;
    let mut tenants = Tenants::default();
    tenants.insert(&tenant.id);
    let (mut found, mut after, mut more) = (Vec::new(), which.after.unwrap_or(0), true);
    for _ in 0..PAGES_MAX {
        let rows = app.store().ledger(&tenant.cameras, camera.as_ref(), after, ROWS).await?;
        more = rows.len() == ROWS;
        for (row, entry) in &rows {
            after = *row;
            let event = Event::of(&tenant.cameras, *row, entry, &tenants);
            let Some(Event { id, camera: Some(event), .. }) = event.filter(|_| found.len() < limit) else {
                continue;
            };
            if which.wants(&event) {
                found.push(Audited { row: *row, event_id: id, event });
                more |= found.len() == limit;
            }
            if found.len() == limit {
                break;
            }
        }
        if !more || found.len() == limit {
            break;
        }
    }
    let mut response = axum::Json(found).into_response();
    if more {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("tenant_id", &tenant.id).append_pair("after", &after.to_string());
        for (name, value) in [
            ("camera_uuid", &which.camera_uuid),
            ("runner_id", &which.runner_id),
            ("lease_id", &which.lease_id),
        ] {
            value.iter().for_each(|value| {
                query.append_pair(name, value);
            });
        }
        let link = format!("</api/v1/leases/audit/?{}&limit={limit}>; rel=\"next\"", query.finish());
        if let Ok(link) = HeaderValue::from_str(&link) {
            response.headers_mut().insert(LINK, link);
        }
    }
    Ok(response)
}
