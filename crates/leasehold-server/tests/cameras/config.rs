//! Configuration: cameras, zones, versions.

use std::sync::Arc;

use leasehold::store::Store;
use leasehold::store::memory::MemoryStore;
use leasehold_server::keys::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{key, plane, printed, simple, site, with};
use crate::support::Plane;

// proves R156, R157, R158, R159, R175, R176, U19, U23, C54
#[tokio::test(flavor = "multi_thread")]
async fn a_camera_is_made_shown_changed_and_deleted() {
    let plane = plane().await;
    let at = site("tenant-1", "site-1");
    assert_eq!(plane.get(&format!("{at}/cameras/")).await.body, json!([]), "a bare array");
    let made = plane.post(&format!("{at}/cameras/"), &printed()).await;
    assert_eq!(made.status, 201, "{made:?}");

    // Everything that was sent is in the answer, flat, and so are the versions.
    for path in [
        "/api/v1/cameras/cam-001/".to_owned(),
        "/api/v1/cameras/cam-001".to_owned(),
        format!("{at}/cameras/cam-001/"),
    ] {
        let shown = plane.get(&path).await;
        assert_eq!(shown.status, 200, "{path}: {shown:?}");
        for (name, value) in printed().as_object().unwrap() {
            let same = |one: &Value, two: &Value| {
                one.to_string().replace(".0", "") == two.to_string().replace(".0", "")
            };
            assert!(same(&shown.body[name], value), "{name}: {} is not {value}", shown.body[name]);
        }
        let version = shown.body["config_version"].as_str().unwrap();
        assert_eq!(version.len(), 64);
        assert_eq!(shown.header("etag"), Some(format!("\"{version}\"").as_str()));
    }
    assert_eq!(plane.get(&format!("{at}/cameras")).await.body[0]["camera_uuid"], "cam-001");

    // What was answered can be sent back, and changes nothing.
    let before = plane.get("/api/v1/cameras/cam-001/").await.body;
    let same = plane.put(&format!("{at}/cameras/cam-001/"), &before).await;
    assert_eq!((same.status, &same.body["config_version"]), (200, &before["config_version"]));

    let changed = plane.put(&format!("{at}/cameras/cam-001/"), &with("/min_score", json!(0.5))).await;
    assert_eq!((changed.status, &changed.body["min_score"]), (200, &json!(0.5)));
    assert_ne!(changed.body["config_version"], before["config_version"]);
    assert_eq!(changed.body["zone_version"], before["zone_version"], "the zones are the same");

    assert_eq!(plane.delete(&format!("{at}/cameras/cam-001/")).await.status, 204);
    let gone = plane.get("/api/v1/cameras/cam-001/").await;
    assert_eq!((gone.status, &gone.body["error_code"]), (404, &json!("camera_not_found")));
    for field in ["message", "details", "timestamp", "request_id"] {
        assert!(!gone.body[field].is_null(), "{field}: {gone:?}");
    }
    assert!(gone.body["timestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(plane.delete(&format!("{at}/cameras/cam-001/")).await.status, 404);
    // Its id can be used again.
    assert_eq!(plane.post(&format!("{at}/cameras/"), &printed()).await.status, 201);
}

// proves R160, R161, R162, R163, R164, R232
#[tokio::test(flavor = "multi_thread")]
async fn zones_belong_to_the_site_and_move_its_version() {
    let plane = plane().await;
    let at = site("tenant-1", "site-1");
    let version = async || plane.get(&format!("{at}/config/version")).await;
    let empty = version().await;
    assert_eq!(empty.status, 200);

    let zone = printed()["zones"][0].clone();
    let made = plane.post(&format!("{at}/zones/"), &zone).await;
    assert_eq!((made.status, &made.body["zone_id"]), (201, &json!(1)), "{made:?}");
    let twice = plane.post(&format!("{at}/zones/"), &zone).await;
    assert_eq!((twice.status, &twice.body["error_code"]), (409, &json!("zone_exists")));
    let listed = plane.get(&format!("{at}/zones/")).await.body;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &json!("driveway")));
    assert_eq!(plane.get(&format!("{}/zones/", site("tenant-1", "site-2"))).await.body, json!([]));

    plane.cameras(&at, &["cam-a"]).await;
    let with_zone = version().await;
    assert_ne!(with_zone.body["zone_version"], empty.body["zone_version"]);
    let mut other = zone.clone();
    other["name"] = json!("gate");
    let tag = made.header("etag").unwrap();
    let changed = plane.ask(Method::PUT, &format!("{at}/zones/1/"), &[("If-Match", tag)], &other).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let late = plane.ask(Method::PUT, &format!("{at}/zones/1/"), &[("If-Match", tag)], &zone).await;
    assert_eq!((late.status, &late.body["error_code"]), (412, &json!("version_conflict")));
    let after = version().await;
    assert_ne!(after.body["config_version"], with_zone.body["config_version"]);

    // Cheap to ask again and again.
    let tag = after.header("etag").unwrap().to_owned();
    let path = format!("{at}/config/version");
    let same = plane.ask(Method::GET, &path, &[("If-None-Match", &tag)], &Value::Null).await;
    assert_eq!((same.status, same.body), (304, json!("")));
    assert_eq!(plane.delete(&format!("{at}/zones/1/")).await.status, 204);
    assert_eq!(plane.delete(&format!("{at}/zones/1/")).await.status, 404);
    let other = plane.ask(Method::GET, &path, &[("If-None-Match", &tag)], &Value::Null).await;
    assert_eq!(other.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_configuration_is_refused_and_changes_nothing() {
    let plane = plane().await;
    let at = site("tenant-1", "site-1");
    plane.post(&format!("{at}/cameras/"), &printed()).await;
    let before = plane.get("/api/v1/cameras/cam-001/").await.body;
    let zone = printed()["zones"][0].clone();
    let bad = [
        ("a polygon with two points", with("/zones/0/polygon", json!([[1, 1], [2, 2]]))),
        ("one that crosses itself", with("/zones/0/polygon", json!([[0, 0], [9, 9], [9, 0], [0, 9]]))),
        ("a score above 1", with("/min_score", json!(1.01))),
        ("a zone's score above 1", with("/zones/0/min_score", json!(1.01))),
        ("a threshold below 0", with("/iou_threshold", json!(-0.1))),
        ("an unknown label type", with("/allow_labels", json!([7]))),
        ("a label that is none", with("/zones/0/allow_labels", json!(["<person>"]))),
        ("an unknown kind", with("/zones/0/kind", json!("perhaps"))),
        ("a duplicate zone", with("/zones", json!([zone, zone]))),
        ("an address that is none", with("/rtsp_url", json!("http://camera.local/"))),
        ("masked credentials", with("/rtsp_url", json!("rtsp://***:***@camera.local/"))),
        ("another site than the path's", with("/site_id", json!("site-2"))),
        ("another tenant than the path's", with("/tenant_id", json!("tenant-2"))),
        ("another id than the path's", with("/camera_uuid", json!("cam-002"))),
    ];
    for (what, body) in bad {
        let refused = plane.put(&format!("{at}/cameras/cam-001/"), &body).await;
        assert_eq!(
            (refused.status, &refused.body["error_code"]),
            (422, &json!("invalid")),
            "{what}: {refused:?}"
        );
        assert!(refused.body["message"].as_str().unwrap().len() > 10, "{what}");
    }
    let refused = plane.post(&format!("{at}/cameras/"), &printed()).await;
    assert_eq!((refused.status, &refused.body["error_code"]), (409, &json!("camera_exists")));
    let elsewhere = format!("{}/cameras/", site("tenant-1", "site-2"));
    assert_eq!(
        plane.post(&elsewhere, &with("/site_id", json!("site-2"))).await.status,
        409,
        "ids are the tenant's"
    );
    let tags = [("If-Match", "\"0000\"")];
    let refused = plane.ask(Method::PUT, &format!("{at}/cameras/cam-001/"), &tags, &printed()).await;
    assert_eq!((refused.status, &refused.body["error_code"]), (412, &json!("version_conflict")));
    let new = plane.ask(Method::PUT, &format!("{at}/cameras/new/"), &tags, &simple("new")).await;
    assert_eq!(new.status, 412, "what is not there has no version");
    assert_eq!(plane.send(Method::PUT, &format!("{at}/cameras/cam-001/"), "{").await.status, 400);
    // Nothing knows what a configuration must be where other resources are changed.
    let around = plane.put("/api/v1/tenant-1.cameras/cam-001", &json!({"document": 1})).await;
    assert_eq!((around.status, &around.body["error"]), (409, &json!("is_a_camera")));
    assert_eq!(plane.delete("/api/v1/tenant-1.cameras/cam-001").await.status, 409);
    assert_eq!(plane.get("/api/v1/cameras/cam-001/").await.body, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_resources_of_the_pool_are_as_in_any_pool() {
    let plane = plane().await;
    assert_eq!(plane.put("/api/v1/cameras/plain", &json!({"labels": {"a": "b"}})).await.status, 201);
    let shown = plane.get("/api/v1/cameras/plain").await;
    assert_eq!((shown.status, &shown.body["resource_id"]), (200, &json!("plain")));
    let held = plane.post("/api/v1/cameras/plain/lease", &json!({"holder_id": "h"})).await;
    assert_eq!((held.status, &held.body["ttl_ms"]), (201, &json!(60_000)));
    assert_eq!(plane.send(Method::PATCH, "/api/v1/cameras/plain", "{}").await.status, 200);
    assert_eq!(plane.delete("/api/v1/cameras/plain").await.status, 204);
    let reserved = plane.put("/api/v1/scenes/x", &json!({"labels": {"leasehold.camera": "1"}})).await;
    assert_eq!(reserved.status, 422, "nobody makes a camera by its label");
}

#[tokio::test(flavor = "multi_thread")]
async fn cameras_come_in_pages_in_the_order_of_their_ids() {
    let plane = plane().await;
    let at = site("t", "s");
    plane.cameras(&at, &["c", "a", "d", "b"]).await;
    plane.cameras(&site("t", "other"), &["aa"]).await;
    let ids = |body: &Value| -> Vec<String> {
        body.as_array()
            .unwrap()
            .iter()
            .map(|camera| camera["camera_uuid"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = plane.get(&format!("{at}/cameras/?limit=3")).await;
    assert_eq!(ids(&first.body), ["a", "b", "c"]);
    let link = first.header("link").unwrap().split(['<', '>']).nth(1).unwrap().to_owned();
    let second = plane.get(&link).await;
    assert_eq!((ids(&second.body), second.header("link")), (vec!["d".to_owned()], None));
}

// proves U22, R134
#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_apart_and_credentials_are_for_those_who_work() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let operator = key(&store, Role::Operator, Some("acme")).await;
    let read = key(&store, Role::Read, Some("acme")).await;
    let member = key(&store, Role::Member, Some("acme")).await;
    let other = key(&store, Role::Operator, Some("other")).await;
    let root = key(&store, Role::Admin, None).await;
    let looks_at_all = key(&store, Role::Read, None).await;
    // Not sooner: who finds no key asks for none, until it has looked again.
    let plane = Plane::serving(Arc::clone(&store)).await;
    let ask = async |method: Method, path: &str, key: &str, body: &Value| {
        plane.ask(method, path, &[("Authorization", key)], body).await
    };
    let at = site("acme", "site-1");
    let mut body = simple("cam-1");
    body["rtsp_url"] = json!("rtsp://admin:hunter2@camera.local/stream");
    let made = ask(Method::POST, &format!("{at}/cameras/"), &operator, &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let nothing = Value::Null;

    for who in [&operator, &member, &root] {
        let shown = ask(Method::GET, "/api/v1/cameras/cam-1/", who, &nothing).await;
        assert_eq!(shown.body["rtsp_url"], "rtsp://admin:hunter2@camera.local/stream");
    }
    let paths = [
        "/api/v1/cameras/cam-1/".to_owned(),
        format!("{at}/cameras/cam-1/"),
        format!("{at}/cameras/"),
        "/api/v1/cameras".to_owned(),
    ];
    for path in &paths {
        let shown = ask(Method::GET, path, &read, &nothing).await;
        assert_eq!(shown.status, 200, "{path}");
        assert!(!shown.body.to_string().contains("hunter2"), "{path}: {shown:?}");
        // Lists are for looking, whoever looks.
        let listed = ask(Method::GET, &format!("{at}/cameras/"), &operator, &nothing).await;
        assert_eq!(listed.body[0]["rtsp_url"], "rtsp://***:***@camera.local/stream");
    }
    let all = ask(Method::GET, "/api/v1/acme.cameras/cam-1", &looks_at_all, &nothing).await;
    assert_eq!(all.status, 200, "{all:?}");
    assert!(!all.body.to_string().contains("hunter2"));
    let call = json!({"pool": "cameras", "since": "0"});
    let native = ask(Method::POST, "/api/v1/store/resources", &read, &call).await;
    assert!(native.status == 200 && !native.body.to_string().contains("hunter2"), "{native:?}");
    assert!(native.body.to_string().contains("cam-1"), "{native:?}");

    // What is not a tenant's is not there for it, and not another's to make.
    for (method, path) in [
        (Method::GET, format!("{at}/cameras/")),
        (Method::POST, format!("{at}/cameras/")),
        (Method::PUT, format!("{at}/cameras/cam-1/")),
        (Method::DELETE, format!("{at}/cameras/cam-1/")),
        (Method::GET, format!("{at}/zones/")),
        (Method::GET, format!("{at}/config/version")),
    ] {
        let refused = ask(method, &path, &other, &body).await;
        assert_eq!((refused.status, &refused.body["error_code"]), (404, &json!("unknown_tenant")), "{path}");
        let nobody = ask(Method::GET, &path.replace("acme", "nobody"), &other, &nothing).await;
        assert!(nobody.status == 404 || nobody.status == 405, "{nobody:?}");
    }
    assert_eq!(ask(Method::GET, "/api/v1/cameras/cam-1/", &other, &nothing).await.status, 404);
    // Two tenants may use the same id; who sees both says which.
    let theirs = format!("{}/cameras/", site("other", "site-1"));
    assert_eq!(ask(Method::POST, &theirs, &other, &simple("cam-1")).await.status, 201);
    assert_eq!(ask(Method::GET, "/api/v1/cameras/cam-1/", &root, &nothing).await.status, 409);
    let one = ask(Method::GET, "/api/v1/cameras/cam-1/?tenant_id=other", &root, &nothing).await;
    assert_eq!((one.status, &one.body["tenant_id"]), (200, &json!("other")));
    // Members and readers change nothing.
    for who in [&read, &member] {
        assert_eq!(ask(Method::PUT, &format!("{at}/cameras/cam-1/"), who, &body).await.status, 403);
    }
}
