//! Resources of the pool `cameras` that are none: changed as those of any pool are. Cameras are refused here.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::config::CameraPath;
use crate::app::App;
use crate::problem::{Answer, CameraProblem, CameraRefusals};
use crate::request::Json;
use crate::rest::forms::{ResourceBody, ResourceForm};
use crate::rest::{AtResource, resources};

/// Create or replace a resource of the pool `cameras` that is no camera
#[utoipa::path(put, path = "/api/v1/cameras/{camera_uuid}", operation_id = "put_other_resource", tag = "cameras", request_body = ResourceBody, params(CameraPath), responses(
    (status = 200, description = "replaced", body = ResourceForm),
    (status = 201, description = "created", body = ResourceForm),
    (status = 409, description = "it is a camera", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn put(
    state: State<App>,
    at: AtResource,
    headers: HeaderMap,
    body: Json<ResourceBody>,
) -> Answer<Response> {
    resources::put(state, at, headers, body).await
}

/// Change a resource of the pool `cameras` that is no camera
#[utoipa::path(patch, path = "/api/v1/cameras/{camera_uuid}", operation_id = "patch_other_resource", tag = "cameras", request_body = ResourceBody, params(CameraPath), responses(
    (status = 200, description = "changed", body = ResourceForm),
    (status = 404, description = "there is none", body = CameraProblem),
    (status = 409, description = "it is a camera", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn patch(
    state: State<App>,
    at: AtResource,
    headers: HeaderMap,
    body: Json<ResourceBody>,
) -> Answer<Response> {
    resources::patch(state, at, headers, body).await
}

/// Remove a resource of the pool `cameras` that is no camera
#[utoipa::path(delete, path = "/api/v1/cameras/{camera_uuid}", operation_id = "remove_other_resource", tag = "cameras", params(CameraPath), responses(
    (status = 204, description = "removed"),
    (status = 404, description = "there is none", body = CameraProblem),
    (status = 409, description = "it is a camera", body = CameraProblem),
    CameraRefusals,
))]
pub(crate) async fn remove(state: State<App>, at: AtResource, headers: HeaderMap) -> Answer<StatusCode> {
    resources::remove(state, at, headers).await
}
