//! A database that goes away and returns.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::clock;
use leasehold::store::{self, Begin, StoreUrl};
use leasehold_testkit::Postgres;
use reqwest::Method;

use super::helps;
use super::support::{Answered, Plane, eventually, holder};

/// The longest that anybody may be left without an answer, on a busy machine.
const BOUNDED: Duration = Duration::from_secs(15);

/// Asks for everything, all at once: each is answered in time, that the answer is unknown.
async fn unknown(plane: &Plane, when: &str) {
    let asked = [
        (Method::GET, "/api/v1/scenes"),
        (Method::GET, "/api/v1/scenes/scene-0"),
        (Method::GET, "/api/v1/scenes/scene-0/lease"),
        (Method::POST, "/api/v1/scenes/scene-0/lease/renew"),
        (Method::POST, "/api/v1/scenes/scene-1/lease"),
        (Method::DELETE, "/api/v1/scenes/scene-0/lease"),
        (Method::PUT, "/api/v1/scenes/scene-2"),
        (Method::GET, "/api/v1/pools"),
        (Method::POST, "/api/v1/store/checkup"),
    ];
    let one = async |(method, path): (Method, &str)| {
        let body = if path.contains("lease") { holder("h").to_string() } else { "{}".to_owned() };
        let began = clock::now();
        let asked = tokio::time::timeout(4 * BOUNDED, plane.send(method.clone(), path, body)).await;
        let (answer, took) = (asked.expect("an answer"), clock::now().since(began));
        assert!(took < BOUNDED, "{when}, {method} {path} took {took:?}");
        assert_eq!(answer.status, 503, "{when}, {method} {path}: {answer:?}");
        helps(&answer, 503, "unavailable");
        assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1, "{answer:?}");
    };
    join_all(asked.map(one)).await;
    for (path, status) in [("/healthz", 200), ("/readyz", 503), ("/api/v1/health", 200)] {
        let answer: Answered = plane.get(path).await;
        assert_eq!(answer.status, status, "{when}, {path}: {answer:?}");
    }
    assert_eq!(plane.get("/api/v1/health").await.body["ready"], false);
}

async fn fine_again(plane: &Plane, when: &str) {
    eventually(when, async || plane.get("/readyz").await.status == 200).await;
    eventually(when, async || plane.get("/api/v1/scenes/scene-0").await.status == 200).await;
    eventually(when, async || {
        let taken = plane.acquire("scene-1", &holder("h")).await.status;
        taken == 201 || taken == 409
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_database_it_says_so_in_time_and_recovers() {
    let mut database = Postgres::start();
    database.create("work");
    let url: StoreUrl = database.url("work").parse().unwrap();
    store::migrate(&url, Begin::Live).await.unwrap();
    let plane = Plane::on(&url).await;
    plane.scenes(2).await;
    let long = serde_json::json!({"holder_id": "h", "ttl_ms": 600_000});
    assert_eq!(plane.acquire("scene-0", &long).await.status, 201);

    database.pause();
    unknown(&plane, "while the database stands still").await;
    database.resume();
    fine_again(&plane, "after it stood still").await;

    database.kill();
    unknown(&plane, "while the database is dead").await;
    database.restart();
    fine_again(&plane, "after it was dead").await;
    assert_eq!(
        plane.get("/api/v1/scenes/scene-0/lease").await.body["holder_id"],
        "h",
        "nothing was forgotten"
    );
}
