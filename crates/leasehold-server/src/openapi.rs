//! The description of the API, made from the code that serves it.

use std::sync::OnceLock;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::IntoResponse;
use leasehold::lease::Nonce;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{OpenApi as Document, RefOr, Required};
use utoipa::{Modify, OpenApi};

use crate::problem::ProblemBody;
use crate::routes;

#[derive(OpenApi)]
#[openapi(
    info(title = "Leasehold", description = "One owner for every piece of work: leases over HTTP.", license(name = "MIT OR Apache-2.0")),
    tags(
        (name = "resources", description = "What is leased: the resources of a pool"),
        (name = "leases", description = "Who holds a resource, as in `/api/v1/scenes/{scene_id}/lease`"),
        (name = "operate", description = "What operators do, and what it would move"),
        (name = "cameras", description = "Cameras, their sites, zones and runners: document 004"),
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

/// Operations whose body may be left out: nothing of it is needed, or it can be said elsewhere.
const BODY_IS_OPTIONAL: [&str; 12] = [
    "camera_lease_heartbeat",
    "patch_other_resource",
    "patch_resource",
    "put_other_resource",
    "put_resource",
    "release_lease",
    "renew_lease",
    "rotate_key",
    "runner_heartbeat",
    "set_pool",
    "store_checkup",
    "store_pools",
];

/// The OpenAPI document of everything that is served.
#[must_use]
pub fn document() -> Document {
    let mut document = routes::described().into_openapi();
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let id = operation.operation_id.as_deref().unwrap_or_default();
            let is_optional = BODY_IS_OPTIONAL.contains(&id);
            if let Some(RefOr::T(body)) = operation.request_body.as_mut().filter(|_| is_optional) {
                body.required = Some(Required::False);
            }
        }
    }
    document
}

fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_json().unwrap_or_default())
}

/// The description of the API
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", tag = "health", responses(
    (status = 200, description = "an OpenAPI 3.1 document", body = Object),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn served() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], text())
}

/// The description of the API, for people
///
/// One page with everything in it: saved to a file it can be read anywhere.
#[utoipa::path(get, path = "/docs", tag = "health", responses(
    (status = 200, description = "a page", body = String, content_type = "text/html"),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn docs() -> impl IntoResponse {
    static PAGE: OnceLock<String> = OnceLock::new();
    let page = PAGE.get_or_init(|| {
        // Whatever is described, it cannot end the element that it is in.
        let document = text().replace('<', "\\u003c");
        include_str!("openapi/docs.html")
            .replace("{script}", include_str!("openapi/docs.js"))
            .replace("{document}", &document)
    });
    // What has the nonce is ours; nothing else is run, shown or asked for, whatever the page may say.
    let nonce = format!("{:016x}{:016x}", Nonce::generate().0, Nonce::generate().0);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_SECURITY_POLICY, policy),
        (CACHE_CONTROL, "no-store".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, page.replace("{nonce}", &nonce))
}
