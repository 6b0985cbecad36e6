//! One tenant learns nothing of another, and a key for some pools nothing of the others.

use leasehold_server::keys::Role;
use reqwest::StatusCode;
use serde_json::json;

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_nothing_of_another() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let acme = stage.key(Role::Admin, Some("acme"), None).await;
    let other = stage.key(Role::Admin, Some("other"), None).await;
    let root = stage.key(Role::Admin, None, None).await;
    let (mine, theirs) = (Some(&acme), Some(&other));
    let made = stage.ask(&server, "PUT", "/api/v1/scenes/secret-scene", mine, "{\"document\": 1}").await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(made.body["scene_id"], "secret-scene", "the pool is called as its tenant calls it");
    let body = "{\"holder_id\": \"secret-holder\"}";
    let held = stage.ask(&server, "POST", "/api/v1/scenes/secret-scene/lease", mine, body).await;
    assert_eq!(held.status, StatusCode::CREATED);

    // What another tenant asks for is answered as if there were nothing, whatever it calls it.
    for pool in ["scenes", "acme.scenes"] {
        let at = |rest: &str| format!("/api/v1/{pool}{rest}");
        let listed = stage.ask(&server, "GET", &at(""), theirs, "").await;
        assert_eq!((listed.status, listed.body), (StatusCode::OK, json!([])));
        for (method, rest) in [
            ("GET", "/secret-scene"),
            ("GET", "/secret-scene/lease"),
            ("POST", "/secret-scene/lease"),
            ("POST", "/secret-scene/lease/renew"),
            ("DELETE", "/secret-scene"),
            ("PATCH", "/secret-scene"),
        ] {
            let body = if rest.contains("lease") { body } else { "{}" };
            let there = stage.ask(&server, method, &at(rest), theirs, body).await;
            let nothing = stage.ask(&server, method, &at(&rest.replace("secret", "no")), theirs, body).await;
            assert_eq!(there.status, StatusCode::NOT_FOUND, "{method} {rest}: {there:?}");
            assert_eq!(there.status, nothing.status);
            assert_eq!(there.body["error"], nothing.body["error"]);
        }
        let released = stage.ask(&server, "DELETE", &at("/secret-scene/lease"), theirs, body).await;
        assert_eq!(released.headers["x-lease-released"], "false");
        let settings = stage.ask(&server, "GET", &format!("/api/v1/pools/{pool}"), theirs, "").await;
        assert_eq!(settings.body, json!({"pool": pool, "mode": "dynamic"}));
    }
    // Figures are of the whole store.
    let figures = stage.ask(&server, "GET", "/metrics", theirs, "").await;
    assert_eq!(figures.status, StatusCode::FORBIDDEN);
    assert_eq!(stage.ask(&server, "GET", "/metrics", Some(&root), "").await.status, StatusCode::OK);

    let pools = async |key| stage.ask(&server, "GET", "/api/v1/pools", key, "").await.body;
    assert_eq!(pools(mine).await, json!(["scenes"]));
    assert_eq!(pools(theirs).await, json!([]));
    assert_eq!(pools(Some(&root)).await, json!(["acme.scenes"]));

    // The admin of a tenant has its keys and makes no others.
    let listed = stage.ask(&server, "GET", "/api/v1/keys", theirs, "").await.body;
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|key| key["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [other.id.as_str()]);
    for method in ["GET", "DELETE"] {
        let at = format!("/api/v1/keys/{}", acme.id);
        assert_eq!(stage.ask(&server, method, &at, theirs, "").await.status, StatusCode::NOT_FOUND);
    }
    let rotated = stage.ask(&server, "POST", &format!("/api/v1/keys/{}/rotate", root.id), theirs, "").await;
    assert_eq!(rotated.status, StatusCode::NOT_FOUND);
    let wanted = "{\"role\": \"read\", \"tenant\": \"acme\"}";
    let made = stage.ask(&server, "POST", "/api/v1/keys", theirs, wanted).await;
    assert_eq!(made.status, StatusCode::FORBIDDEN);
    let made = stage.ask(&server, "POST", "/api/v1/keys", theirs, "{\"role\": \"read\"}").await;
    assert_eq!((made.status, &made.body["tenant"]), (StatusCode::CREATED, &json!("other")));

    // All of it left the lease alone.
    let lease = stage.ask(&server, "GET", "/api/v1/scenes/secret-scene/lease", mine, "").await;
    assert_eq!(lease.body["holder_id"], "secret-holder");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_one_pool_is_for_no_other() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let operator = stage.key(Role::Operator, None, None).await;
    let some = stage.key(Role::Operator, None, Some(&["scenes"])).await;
    for pool in ["scenes", "cameras"] {
        let at = format!("/api/v1/{pool}/one");
        let made = stage.ask(&server, "PUT", &at, Some(&operator), "").await;
        assert_eq!(made.status, StatusCode::CREATED);
    }
    let ask = async |method, path| stage.ask(&server, method, path, Some(&some), "").await;
    assert_eq!(ask("GET", "/api/v1/scenes/one").await.status, StatusCode::OK);
    assert_eq!(ask("GET", "/api/v1/pools").await.body, json!(["scenes"]));
    for path in ["/api/v1/cameras", "/api/v1/cameras/one", "/api/v1/cameras/none", "/api/v1/nothing"] {
        assert_eq!(ask("GET", path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(ask("PUT", "/api/v1/cameras/two").await.status, StatusCode::FORBIDDEN);
    assert_eq!(ask("GET", "/metrics").await.status, StatusCode::FORBIDDEN);
    let reserved = ask("GET", "/api/v1/_leasehold").await;
    assert_eq!(reserved.status, StatusCode::UNPROCESSABLE_ENTITY);
    server.stop().await;
}
