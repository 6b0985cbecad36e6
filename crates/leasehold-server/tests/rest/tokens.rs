//! What fences ask: the newest token, cheaply, and every change.

use std::sync::Arc;

use leasehold::fence::{Authority, PoolAuthority};
use leasehold::{ResourceId, Token};
use reqwest::Response;
use serde_json::{Value, json};

use super::plane;
use super::support::{Answered, Plane, holder};

async fn lease(plane: &Plane, known: Option<&str>) -> Answered {
    let mut request = plane.client.get(plane.url("/api/v1/scenes/scene-0/lease"));
    if let Some(tag) = known {
        request = request.header("If-None-Match", tag);
    }
    Answered::of(request.send().await.unwrap()).await
}

// proves R041, R043: cheap and cacheable, for less than the TTL
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_known_is_not_sent_again_until_its_term_changes() {
    let plane = plane().await;
    plane.scenes(1).await;
    let free = lease(&plane, None).await;
    assert_eq!((free.status, free.header("etag")), (200, Some("W/\"0-free\"")));
    plane.acquire("scene-0", &holder("tracker-0")).await;
    let held = lease(&plane, free.header("etag")).await;
    assert_eq!((held.status, &held.body["version"]), (200, &json!(1)));
    assert_eq!(held.header("cache-control"), Some("private, max-age=10, must-revalidate"), "a third of 30 s");
    let tag = held.header("etag").unwrap().to_owned();
    plane.renew("scene-0", &holder("tracker-0")).await;
    for known in [tag.clone(), format!("\"other\", {tag}"), "*".to_owned()] {
        let same = lease(&plane, Some(&known)).await;
        assert_eq!((same.status, &same.body), (304, &json!("")), "{known}: a renewal is no other term");
        assert_eq!(same.header("etag"), Some(&*tag));
        assert!(same.header("cache-control").is_some());
    }
    plane.release("scene-0", &holder("tracker-0")).await;
    let released = lease(&plane, Some(&tag)).await;
    assert_eq!((released.status, released.header("etag")), (200, Some("W/\"1-free\"")));

    // However short the TTL: what may be kept is kept for less.
    for (ttl, kept) in [(1000, "no-cache"), (9000, "private, max-age=3, must-revalidate")] {
        plane.acquire("scene-0", &json!({"holder_id": "tracker-1", "ttl_ms": ttl})).await;
        assert_eq!(lease(&plane, None).await.header("cache-control"), Some(kept));
        plane.release("scene-0", &holder("tracker-1")).await;
    }
}

/// What a stream says next: the kind of an event and its data.
async fn next(stream: &mut Response, text: &mut String) -> (String, Value) {
    loop {
        if let Some(end) = text.find("\n\n") {
            let block: String = text.drain(..end + 2).collect();
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let (Some(kind), Some(data)) = (field("event:"), field("data:")) {
                return (kind.to_owned(), serde_json::from_str(data).unwrap());
            }
            continue;
        }
        text.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_names_every_token_and_then_every_change() {
    let plane = plane().await;
    plane.scenes(2).await;
    plane.acquire("scene-0", &holder("tracker-0")).await;
    let url = plane.url("/api/v1/tokens?pool=scenes");
    let (mut stream, mut text) = (plane.client.get(url).send().await.unwrap(), String::new());
    let token =
        |scene: &str, version: u64| ("token".to_owned(), json!({"scene_id": scene, "version": version}));
    assert_eq!(next(&mut stream, &mut text).await, token("scene-0", 1));
    assert_eq!(next(&mut stream, &mut text).await, ("current".to_owned(), json!({})));
    plane.renew("scene-0", &holder("tracker-0")).await;
    plane.acquire("scene-1", &holder("tracker-0")).await;
    assert_eq!(next(&mut stream, &mut text).await, token("scene-1", 1), "a renewal is not told");
    plane.release("scene-0", &holder("tracker-0")).await;
    plane.acquire("scene-0", &holder("tracker-1")).await;
    assert_eq!(next(&mut stream, &mut text).await, token("scene-0", 2), "nor is a release");
    for query in ["pool=_leasehold", "pool=scenes&resource=a/b", "resource=a", "pool=scenes&x=1"] {
        let refused = plane.get(&format!("/api/v1/tokens?{query}")).await;
        assert_eq!(refused.status, 422, "{query}");
    }
}

// proves C09: what a fence has seen and the store has forgotten is told to the store
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_below_the_floor_has_to_take_its_lease_anew_above_it() {
    let plane = plane().await;
    plane.scenes(1).await;
    plane.acquire("scene-0", &holder("tracker-0")).await;
    let authority = PoolAuthority::new(Arc::clone(&plane.store), "scenes".parse().unwrap());
    let scene = ResourceId::new("scene-0").unwrap();
    for floor in [41, 7] {
        authority.raise(&scene, Token(floor)).await.unwrap();
    }
    let lost = plane.renew("scene-0", &holder("tracker-0")).await;
    assert_eq!((lost.status, &lost.body["error"]), (404, &json!("lease_lost")), "{lost:?}");
    plane.release("scene-0", &holder("tracker-0")).await;
    let granted = plane.acquire("scene-0", &holder("tracker-1")).await;
    assert_eq!((granted.status, &granted.body["version"]), (201, &json!(42)));
    assert_eq!(plane.renew("scene-0", &holder("tracker-1")).await.status, 200);
}
