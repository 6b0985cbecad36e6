//! Leases over REST: document 000 to the letter, and what it leaves open.

mod support;
#[path = "rest/tokens.rs"]
mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold::store;
use leasehold::store::memory::MemoryStore;
use reqwest::Method;
use serde_json::{Value, json};
use support::{Answered, File, Plane, brief, eventually, holder};

async fn plane() -> Plane {
    Plane::serving(Arc::new(MemoryStore::new())).await
}

// proves R023, R024, R025, R027, R028, R029, C05
#[tokio::test(flavor = "multi_thread")]
async fn a_scene_is_listed_acquired_renewed_and_released() {
    let plane = plane().await;
    assert_eq!(plane.get("/api/v1/scenes?leased=false").await.body, json!([]));
    plane.scenes(2).await;

    let free = plane.get("/api/v1/scenes?leased=false").await;
    assert_eq!(free.status, 200);
    assert_eq!(free.body.as_array().unwrap().len(), 2, "a scene that was never leased is free: {free:?}");
    let first = &free.body[0];
    assert_eq!(
        (&first["scene_id"], &first["holder_id"], &first["expires_at"], &first["version"]),
        (&json!("scene-0"), &Value::Null, &Value::Null, &json!(0))
    );

    let granted = plane.acquire("scene-0", &holder("tracker-0")).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    assert_eq!((&granted.body["version"], &granted.body["ttl_ms"]), (&json!(1), &json!(30_000)));
    assert!(granted.body["expires_at"].as_str().unwrap().ends_with('Z'));
    assert!(granted.header("x-request-id").is_some());

    let shown = plane.get("/api/v1/scenes/scene-0/lease").await;
    assert_eq!(shown.status, 200);
    assert_eq!((&shown.body["holder_id"], &shown.body["version"]), (&json!("tracker-0"), &json!(1)));
    let leased = plane.get("/api/v1/scenes?leased=true").await.body;
    assert_eq!(leased.as_array().unwrap().len(), 1);
    assert_eq!(leased[0]["scene_id"], "scene-0");

    let renewed = plane.renew("scene-0", &holder("tracker-0")).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    assert_eq!(renewed.body["version"], 1, "a renewal leaves the version as it is");

    let released = plane.release("scene-0", &holder("tracker-0")).await;
    assert_eq!((released.status, released.header("x-lease-released")), (204, Some("true")));
    let again = plane.acquire("scene-0", &holder("tracker-1")).await;
    assert_eq!((again.status, &again.body["version"]), (201, &json!(2)));
}

// proves R025, C03, C14
#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_is_refused_to_everybody_and_to_its_holder() {
    let plane = plane().await;
    plane.scenes(1).await;
    plane.acquire("scene-0", &holder("tracker-0")).await;
    for name in ["tracker-0", "tracker-1"] {
        let refused = plane.acquire("scene-0", &holder(name)).await;
        assert_eq!((refused.status, &refused.body["error"]), (409, &json!("already_held")));
        assert_eq!(refused.body["current"]["holder_id"], "tracker-0");
        assert_eq!(refused.body["current"]["version"], 1);
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=30).contains(&wait), "{wait}");
    }
    let leases = plane.store.leases(&"scenes".parse().unwrap(), store::Cursor::START).await.unwrap();
    let sessions = plane.store.sessions(&"scenes".parse().unwrap(), store::Cursor::START).await.unwrap();
    assert_eq!((leases.items.len(), sessions.items.len()), (1, 1), "a refusal leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_repeated_under_its_idempotency_key() {
    let plane = plane().await;
    plane.scenes(1).await;
    let ask = async |key: &str, name: &str| {
        let url = plane.url("/api/v1/scenes/scene-0/lease");
        let request = plane.client.post(url).header("Idempotency-Key", key).body(brief(name).to_string());
        Answered::of(request.send().await.unwrap()).await
    };
    let (first, second) = (ask("once", "tracker-0").await, ask("once", "tracker-0").await);
    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!(first.body["version"], second.body["version"]);
    // Whoever is told again that it holds the lease counts from then on: for longer than a TTL and the patience with it.
    for _ in 0..14 {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let again = ask("once", "tracker-0").await;
        assert_eq!((again.status, &again.body["version"]), (201, &first.body["version"]));
    }
    assert_eq!(ask("twice", "tracker-0").await.status, 409);
    assert_eq!(ask("once", "tracker-1").await.status, 409);
}

// proves C01, C02, C12, R028
#[tokio::test(flavor = "multi_thread")]
async fn a_late_word_of_an_old_holder_changes_nothing() {
    let plane = plane().await;
    plane.scenes(1).await;
    plane.acquire("scene-0", &holder("tracker-0")).await;
    plane.release("scene-0", &holder("tracker-0")).await;
    plane.acquire("scene-0", &holder("tracker-1")).await;

    let late = plane.release("scene-0", &holder("tracker-0")).await;
    assert_eq!((late.status, late.header("x-lease-released")), (204, Some("false")));
    let renewed = plane.renew("scene-0", &holder("tracker-0")).await;
    assert_eq!((renewed.status, &renewed.body["error"]), (404, &json!("lease_lost")));
    assert_eq!(renewed.body["current"]["holder_id"], "tracker-1");

    // The same name in a second life: the version tells them apart, from the body, the query and the headers.
    plane.release("scene-0", &holder("tracker-1")).await;
    plane.acquire("scene-0", &holder("tracker-1")).await;
    let old = json!({"holder_id": "tracker-1", "version": 2});
    assert_eq!(plane.renew("scene-0", &old).await.status, 404);
    assert_eq!(plane.release("scene-0", &old).await.header("x-lease-released"), Some("false"));
    let query = "/api/v1/scenes/scene-0/lease?holder_id=tracker-1&version=2";
    assert_eq!(plane.send(Method::DELETE, query, "").await.header("x-lease-released"), Some("false"));
    let with_headers = |version: &str| {
        let request = plane.client.delete(plane.url("/api/v1/scenes/scene-0/lease/"));
        request.header("X-Holder-Id", "tracker-1").header("X-Lease-Version", version).send()
    };
    let answered = Answered::of(with_headers("2").await.unwrap()).await;
    assert_eq!((answered.status, answered.header("x-lease-released")), (204, Some("false")));
    let answered = Answered::of(with_headers("3").await.unwrap()).await;
    assert_eq!((answered.status, answered.header("x-lease-released")), (204, Some("true")));
}

// proves C01, C05, U05
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_told_from_what_is_lost() {
    let plane = plane().await;
    for answer in [
        plane.get("/api/v1/scenes/nowhere/lease").await,
        plane.acquire("nowhere", &holder("tracker-0")).await,
        plane.renew("nowhere", &holder("tracker-0")).await,
    ] {
        assert_eq!((answer.status, &answer.body["error"]), (404, &json!("scene_not_found")), "{answer:?}");
    }
    plane.scenes(1).await;
    let lost = plane.renew("scene-0", &holder("tracker-0")).await;
    assert_eq!(
        (lost.status, &lost.body["error"], &lost.body["current"]),
        (404, &json!("lease_lost"), &Value::Null)
    );
    let other = plane.get("/api/v1/jobs/nothing/lease").await;
    assert_eq!((other.status, &other.body["error"]), (404, &json!("resource_not_found")));
}

// proves R026, R035, C06: silence frees what was held, and only silence
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_renew_loses_its_lease_and_who_does_keeps_it() {
    let plane = plane().await;
    plane.scenes(2).await;
    assert_eq!(plane.acquire("scene-0", &brief("silent")).await.status, 201);
    assert_eq!(plane.acquire("scene-1", &brief("busy")).await.status, 201);
    let taken = async || {
        assert_eq!(plane.renew("scene-1", &holder("busy")).await.status, 200);
        plane.acquire("scene-0", &holder("heir")).await
    };
    let mut grant = taken().await;
    assert_eq!(grant.status, 409);
    for _ in 0..600 {
        if grant.status == 201 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        grant = taken().await;
    }
    assert_eq!((grant.status, &grant.body["version"]), (201, &json!(2)), "{grant:?}");
    let renewed = plane.renew("scene-0", &holder("silent")).await;
    assert_eq!((renewed.status, &renewed.body["current"]["holder_id"]), (404, &json!("heir")));

    let events = async || {
        let rows = plane.store.ledger(&"scenes".parse().unwrap(), None, 0, 100).await.unwrap();
        rows.into_iter()
            .filter_map(|(_, row)| Some((row.event.to_string(), row.resource?.to_string())))
            .collect::<Vec<_>>()
    };
    eventually("the ledger has it all", async || {
        let rows = events().await;
        ["expired", "taken_over"]
            .iter()
            .all(|event| rows.contains(&((*event).to_owned(), "scene-0".to_owned())))
    })
    .await;
}

// proves R022, C03: of 64 clients that race for 1,000 scenes each scene has one winner
#[tokio::test(flavor = "multi_thread")]
async fn every_scene_of_a_thousand_has_one_winner_among_64_clients() {
    let file = File::new();
    let plane = Arc::new(Plane::on(&file.url()).await);
    plane.scenes(1000).await;
    let racers = (0..64).map(|racer: usize| {
        let plane = Arc::clone(&plane);
        tokio::spawn(async move {
            let mut won = Vec::new();
            for turn in 0..128 {
                // Eight of them or more meet at every scene.
                let scene = (turn + racer * 16) % 1000;
                let body = json!({"holder_id": format!("racer-{racer}"), "ttl_ms": 3_600_000});
                let answer = plane.acquire(&format!("scene-{scene}"), &body).await;
                match answer.status {
                    201 => won.push((scene, answer.body["version"].as_u64().unwrap())),
                    409 => {}
                    _ => panic!("{answer:?}"),
                }
            }
            won
        })
    });
    let mut winners: BTreeMap<usize, u64> = BTreeMap::new();
    for racer in racers.collect::<Vec<_>>() {
        for (scene, version) in racer.await.unwrap() {
            assert_eq!(winners.insert(scene, version), None, "scene-{scene} was granted twice");
        }
    }
    assert_eq!(winners.len(), 1000);
    assert!(winners.values().all(|version| *version == 1));
}

// proves R016
#[tokio::test(flavor = "multi_thread")]
async fn in_a_static_pool_a_resource_belongs_to_the_member_it_names() {
    let plane = plane().await;
    let set = plane.put("/api/v1/pools/scenes", &json!({"mode": "static"})).await;
    assert_eq!((set.status, &set.body["mode"]), (200, &json!("static")), "{set:?}");
    let refused = plane.put("/api/v1/scenes/scene-0", &json!({})).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    let made = plane.put("/api/v1/scenes/scene-0", &json!({"member": "tracker-0"})).await;
    assert_eq!((made.status, &made.body["member"]), (201, &json!("tracker-0")));
    let other = plane.acquire("scene-0", &holder("tracker-1")).await;
    assert_eq!((other.status, &other.body["error"]), (409, &json!("not_eligible")));
    assert_eq!(plane.acquire("scene-0", &holder("tracker-0")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_created_changed_paused_and_removed() {
    let plane = plane().await;
    let body = json!({"id": "a", "weight": 3, "labels": {"site": "x"}, "document": {"cameras": ["c1"]}});
    let made = plane.send(Method::POST, "/api/v1/jobs", body.to_string()).await;
    assert_eq!((made.status, made.header("etag")), (201, Some("\"1\"")), "{made:?}");
    assert_eq!(plane.send(Method::POST, "/api/v1/jobs", body.to_string()).await.status, 409);
    let shown = plane.get("/api/v1/jobs/a").await;
    assert_eq!(shown.body["document"], json!({"cameras": ["c1"]}));
    assert_eq!(shown.body["resource_id"], "a");
    assert_eq!(plane.get("/api/v1/jobs").await.body[0]["document"], Value::Null, "lists are short");

    let changed = plane.send(Method::PATCH, "/api/v1/jobs/a", r#"{"paused": true}"#).await;
    assert_eq!(
        (changed.status, &changed.body["paused"], &changed.body["weight"]),
        (200, &json!(true), &json!(3))
    );
    let refused = plane.send(Method::POST, "/api/v1/jobs/a/lease", holder("h").to_string()).await;
    assert_eq!((refused.status, &refused.body["error"]), (409, &json!("paused")));
    let replaced = plane.put("/api/v1/jobs/a", &json!({"document": null})).await;
    assert_eq!(
        (replaced.status, &replaced.body["paused"], &replaced.body["weight"]),
        (200, &json!(false), &json!(1))
    );
    assert_eq!(replaced.body["document"], Value::Null);

    let stale =
        plane.client.delete(plane.url("/api/v1/jobs/a")).header("If-Match", "\"1\"").send().await.unwrap();
    assert_eq!(stale.status().as_u16(), 412);
    assert_eq!(plane.send(Method::DELETE, "/api/v1/jobs/a", "").await.status, 204);
    assert_eq!(plane.get("/api/v1/jobs/a").await.status, 404);
    assert_eq!(plane.send(Method::DELETE, "/api/v1/jobs/a", "").await.status, 404);
    let back = plane.put("/api/v1/jobs/a", &json!({})).await;
    assert_eq!(back.status, 201);
    assert!(back.body["resource_version"].as_u64().unwrap() > 3, "versions go on: {back:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_is_paged() {
    let plane = plane().await;
    plane.scenes(5).await;
    let (mut path, mut seen) = ("/api/v1/scenes?limit=2&leased=false".to_owned(), Vec::new());
    loop {
        let page = plane.get(&path).await;
        let ids =
            page.body.as_array().unwrap().iter().map(|scene| scene["scene_id"].as_str().unwrap().to_owned());
        seen.extend(ids);
        let Some(link) = page.header("link") else { break };
        path = link.split_once('<').unwrap().1.split_once('>').unwrap().0.to_owned();
    }
    assert_eq!(seen, ["scene-0", "scene-1", "scene-2", "scene-3", "scene-4"]);
}

/// What a request is answered, without what is another for each.
async fn told(plane: &Plane, (method, path, body): &(Method, String, String)) -> (u16, Vec<String>, Value) {
    let mut answered = plane.send(method.clone(), path, body.clone()).await;
    for each in ["request_id", "expires_at", "message"] {
        if let Some(object) = answered.body.as_object_mut() {
            object.remove(each);
        }
    }
    if let Some(current) = answered.body.get_mut("current").and_then(Value::as_object_mut) {
        current.remove("expires_at");
    }
    let mut headers: Vec<String> = answered.headers.keys().map(ToString::to_string).collect();
    headers.sort();
    (answered.status, headers, answered.body)
}

#[tokio::test]
async fn the_shortcut_answers_as_the_router_does() {
    let ways = [
        Plane::serving(Arc::new(MemoryStore::new())).await,
        Plane::serving(Arc::new(MemoryStore::new())).await,
    ];
    for plane in &ways {
        plane.scenes(2).await;
    }
    let long = "x".repeat(2 << 20);
    let holder = |name: &str| json!({"holder_id": name}).to_string();
    let (post, delete) = (Method::POST, Method::DELETE);
    let requests = [
        (&post, "scenes", "scene-0/lease", holder("a")),
        (&post, "scenes", "scene-0/lease", holder("a")),
        (&post, "scenes", "scene-0/lease", holder("b")),
        (&post, "scenes", "scene-0/lease/renew", holder("a")),
        (&post, "scenes", "scene-0/lease/renew", holder("b")),
        (&post, "scenes", "scene-0/lease/renew?holder_id=a", String::new()),
        (&post, "scenes", "scene-0/lease/renew?version=x", holder("a")),
        (&delete, "scenes", "scene-0/lease?version=7", holder("a")),
        (&delete, "scenes", "scene-0/lease", holder("a")),
        (&delete, "scenes", "scene-0/lease", holder("a")),
        (&delete, "scenes", "scene-0/lease", String::new()),
        (&post, "scenes", "scene-1/lease", "{".to_owned()),
        (&post, "scenes", "scene-1/lease", "[]".to_owned()),
        (&post, "scenes", "scene-1/lease", "{\"holder_id\": 7}".to_owned()),
        (&post, "scenes", "scene-1/lease", holder("not/an/id")),
        (&post, "scenes", "scene-1/lease", long),
        (&post, "scenes", "scene-9/lease", holder("a")),
        (&post, "scenes", "no~id/lease", holder("a")),
        (&post, "nowhere", "scene-0/lease", holder("a")),
        (&post, "_leasehold", "scene-0/lease", holder("a")),
        (&post, "..", "scene-0/lease", holder("a")),
    ];
    for (method, pool, rest, body) in requests {
        // A letter that is escaped without need names the same, and goes the long way.
        let escaped = format!("%{:02x}{}", pool.as_bytes()[0], &pool[1..]);
        let [short, long] = [pool.to_owned(), escaped].map(|pool| format!("/api/v1/{pool}/{rest}"));
        let short = told(&ways[0], &(method.clone(), short, body.clone())).await;
        let long = told(&ways[1], &(method.clone(), long, body)).await;
        assert_eq!(short, long, "{method} {pool} {rest}");
    }
}
