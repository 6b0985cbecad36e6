//! What document 004 calls tables, on a real PostgreSQL server.

use leasehold::store::{Begin, StoreUrl, migrate};
use leasehold_testkit::Postgres;
use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{registration, site};
use crate::support::{Plane, eventually};

// proves R155, R209, R210, R211, R212, R213, R214, C43, C55
#[tokio::test(flavor = "multi_thread")]
async fn leases_events_and_runners_can_be_looked_at_and_nothing_is_granted_by_typing() {
    let server = Postgres::start();
    server.create("work");
    let url: StoreUrl = server.url("work").parse().unwrap();
    let _ = migrate(&url, Begin::Live).await.unwrap();
    let plane = Plane::on(&url).await;
    plane.cameras(&site("tenant-1", "site-1"), &["cam-1", "cam-2"]).await;
    plane.post("/api/v1/runners/register/", &registration("one")).await;
    let acquire = async |camera: &str| {
        let body = json!({"camera_uuid": camera, "runner_id": "one", "shard_id": "shard-1", "tenant_id": "tenant-1",
            "config_version": "abc", "zone_version": "def", "ttl_seconds": 60});
        let granted = plane.post("/api/v1/leases/acquire/", &body).await;
        assert_eq!(granted.status, 201, "{granted:?}");
        granted.body
    };
    let (lease, over) = (acquire("cam-1").await, acquire("cam-2").await);
    let path =
        |lease: &Value, what: &str| format!("/api/v1/leases/{}/{what}/", lease["lease_id"].as_str().unwrap());
    plane.send(Method::PUT, &path(&lease, "renew"), "").await;
    plane.post(&path(&lease, "heartbeat"), &json!({"fps": 25})).await;
    plane.delete(&path(&over, "release")).await;
    let look = |statement: &str| -> Value {
        let statement = format!("SELECT coalesce(json_agg(t), '[]') FROM ({statement}) AS t");
        serde_json::from_str(server.sql("work", &statement).trim()).unwrap()
    };

    let rows = look("SELECT * FROM leasehold_cameras.leases WHERE status = 'active'");
    let row = &rows[0];
    for field in [
        "lease_id",
        "camera_uuid",
        "runner_id",
        "shard_id",
        "tenant_id",
        "site_id",
        "config_version",
        "zone_version",
        "fencing_token",
    ] {
        assert_eq!(row[field], lease[field], "{field}: {row}");
    }
    assert_eq!(row["processing_stats"], json!({"fps": 25}));
    for field in ["acquired_at", "expires_at", "renewed_at", "last_heartbeat"] {
        assert!(row[field].is_string(), "{field}: {row}");
    }
    eventually("the ledger has what is over", || {
        let past = look("SELECT lease_id, status FROM leasehold_cameras.leases WHERE camera_uuid = 'cam-2'");
        let expected = json!([{"lease_id": over["lease_id"], "status": "released"}]);
        async move { past == expected }
    })
    .await;
    let events =
        look("SELECT * FROM leasehold_cameras.lease_events WHERE camera_uuid = 'cam-2' ORDER BY timestamp");
    let kinds: Vec<&str> =
        events.as_array().unwrap().iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["lease_acquired", "lease_released"]);
    assert_eq!((&events[0]["runner_id"], &events[0]["shard_id"]), (&json!("one"), &json!("shard-1")));
    assert!(events[0]["event_id"].as_str().unwrap().len() == 36 && events[0]["details"].is_object());
    let runners = look("SELECT * FROM leasehold_cameras.runners");
    let runner = &runners[0];
    for field in [
        "runner_id",
        "tenant_id",
        "site_id",
        "deployment_group",
        "deployment_version",
        "host",
        "port",
        "capacity",
    ] {
        assert_eq!(runner[field], registration("one")[field], "{field}: {runner}");
    }
    assert_eq!((&runner["status"], &runner["current_load"]), (&json!("active"), &json!(1)));

    // What document 004 has an index on has one, and is found by it where there is much to look through.
    let names = server.sql("work", "SELECT indexname FROM pg_indexes WHERE schemaname = 'leasehold'");
    for index in [
        "leases_pkey",
        "cameras_leases_camera",
        "cameras_leases_runner",
        "cameras_leases_status",
        "cameras_events_lease_id",
        "cameras_events_timestamp",
        "cameras_runners_site",
        "cameras_runners_status",
        "cameras_runners_version",
    ] {
        assert!(names.lines().any(|name| name == index), "{index} in {names}");
    }
    server.sql("work", "INSERT INTO leasehold.ledger (pool, resource, entry) SELECT 'other.cameras', 'cam', json_build_object(\
         'event', 'acquired', 'member', gen_random_uuid(), 'wall_nanos', i, 'token', 1, 'detail', '{\"shard\": \"\"}') \
         FROM generate_series(1, 5000) AS i");
    // Whoever writes to such a pool may say what it likes; no line is refused for its length, nor because it cannot be taken apart.
    server.sql("work", r#"INSERT INTO leasehold.ledger (pool, resource, entry) SELECT 'other.cameras', 'cam',
         json_build_object('event', 'failed', 'member', 'one', 'wall_nanos', 1, 'detail', said)::text
         FROM (VALUES ('{oops}'), ('{"shard": "\u0000"}'), (repeat('{"a":', 100000) || '1' || repeat('}', 100000))) AS v (said)"#);
    server.sql(
        "work",
        r#"INSERT INTO leasehold.ledger (pool, resource, entry) VALUES ('other.cameras', 'cam',
         '{"event": "failed", "member": "one", "wall_nanos": 1, "detail": "\u0000"}')"#,
    );
    server.sql("work", "INSERT INTO leasehold.ledger (pool, resource, entry) SELECT 'other.cameras', 'cam', json_build_object(\
         'event', 'acquired', 'member', 'one', 'wall_nanos', 1, 'token', 1, \
         'detail', json_build_object('shard', '', 'resource', repeat('x', 300), 'holder', repeat('y', 300))::text)");
    let all =
        server.sql("work", "SELECT count(details) FROM leasehold_cameras.lease_events WHERE shard_id = ''");
    assert_eq!(all.trim(), "5001", "what cannot be taken apart is left out");
    server.sql(
        "work",
        "INSERT INTO leasehold.leases (pool, resource, token, holder, ttl_ms, revoked, changed) \
         SELECT 'other.cameras', 'other-' || i, 1, 'one-of-' || i, 1000, false, 0 FROM generate_series(1, 5000) AS i",
    );
    server.sql(
        "work",
        "INSERT INTO leasehold.sessions SELECT (jsonb_populate_record(s, jsonb_build_object('id', 'one-of-' || i))).* \
         FROM (SELECT s FROM leasehold.sessions AS s WHERE profile LIKE '%extra.shard%' LIMIT 1) AS found, \
         generate_series(1, 5000) AS i",
    );
    server.sql("work", "ANALYZE leasehold.ledger; ANALYZE leasehold.leases; ANALYZE leasehold.sessions");
    for (of, index) in [
        ("lease_events WHERE lease_id = '018c2f6e-7a10-8f4b-b2c1-5d3a9e0b77aa'", "cameras_events_lease_id"),
        ("lease_events WHERE timestamp > now()", "cameras_events_timestamp"),
        ("leases WHERE camera_uuid = 'other-7'", "cameras_leases_camera"),
        ("leases WHERE status = 'pending'", "cameras_leases_status"),
    ] {
        let plan = server.sql("work", &format!("EXPLAIN SELECT * FROM leasehold_cameras.{of}"));
        assert!(plan.contains(index), "{of} does not use {index}: {plan}");
    }

    // A second active lease of one camera, as somebody would type it.
    let typed = |camera: &str| {
        server.try_sql("work", &format!(
            "INSERT INTO leasehold_cameras.leases (lease_id, camera_uuid, runner_id, shard_id, tenant_id, site_id, expires_at, \
             status, config_version, zone_version) VALUES (gen_random_uuid(), '{camera}', 'thief', 's', 'tenant-1', 'site-1', \
             now() + interval '1 minute', 'active', '', '')"
        ))
    };
    let refused = typed("cam-1").expect_err("a second active lease");
    assert!(refused.contains("has an active lease already"), "{refused}");
    let refused = typed("cam-2").expect_err("nothing is granted by typing");
    assert!(refused.contains("to look at") && refused.contains("control plane"), "{refused}");
    server.try_sql("work", "DELETE FROM leasehold_cameras.leases").expect_err("nor taken away");
    // Nor around the views: a camera has one row, and in it one holder.
    let around = server.try_sql("work", 
        "INSERT INTO leasehold.leases SELECT pool, resource, token + 1, 'thief', ttl_ms, false, NULL, NULL, 0 \
         FROM leasehold.leases WHERE resource = 'cam-1'",
    );
    assert!(around.expect_err("a second row").contains("duplicate key"));
    assert_eq!(plane.send(Method::PUT, &path(&lease, "renew"), "").await.status, 200);
}
