//! The description of the API, made from the code that serves it.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::routes;

#[derive(OpenApi)]
#[openapi(
    info(title = "Leasehold", description = "One owner for every piece of work: leases over HTTP.", license(name = "MIT OR Apache-2.0")),
    tags(
        (name = "resources", description = "What is leased: the resources of a pool"),
        (name = "leases", description = "Who holds a resource, as in `/api/v1/scenes/{scene_id}/lease`"),
        (name = "events", description = "What happens, as it happens"),
        (name = "store", description = "What members need: the store over HTTP"),
        (name = "keys", description = "Who may ask for what"),
        (name = "health", description = "Whether it works"),
    ),
    modifiers(&Keys),
    security(("key" = [])),
)]
pub(crate) struct Description;

/// How a key is sent.
struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut Document) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("key", scheme);
    }
}

/// The OpenAPI document of everything that is served.
#[must_use]
pub fn document() -> Document {
    routes::described().into_openapi()
}

/// The description of the API
#[utoipa::path(get, path = "/openapi.json", tag = "health", responses((status = 200, description = "an OpenAPI 3.1 document", content_type = "application/json")))]
pub(crate) async fn served() -> impl IntoResponse {
    static TEXT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let text = TEXT.get_or_init(|| document().to_json().unwrap_or_default());
    ([(CONTENT_TYPE, "application/json")], text.as_str())
}
