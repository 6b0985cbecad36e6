//! The server, as clients see it: real connections, and candidates of a real election where who leads matters.

mod client;
mod limits;
mod opening;
mod stage;

use std::collections::BTreeMap;

use leasehold::MemberId;
use leasehold::participant::{State, Status};
use serde_json::{Value, json};

use self::client::{Address, soon};
use self::stage::{KEY, Pair, Scene, TTL};

// proves U16
#[tokio::test]
async fn a_leader_says_that_it_leads() {
    let pair = Pair::start().await;
    let (one, id) = (&pair.leader, pair.leader.id());
    let token = one.candidate.is_leader().unwrap().0;

    soon("health", async || {
        one.address.get("/health").await.json()
            == json!({ "status": "healthy", "why": null, "session": "held", "is_leader": true })
    })
    .await;
    let ready = one.address.get("/ready").await;
    assert_eq!(ready.status, 200);
    assert_eq!(
        ready.json(),
        json!({ "ready": true, "is_leader": true, "current_leader_id": id, "instance_id": id, "token": token })
    );
    assert_eq!(
        one.address.get("/info").await.json(),
        json!({
            "name": "one", "version": crate::args::VERSION, "key": KEY, "pool": ".ccm.scheduler.leader",
            "instance_id": id, "ttl_seconds": TTL.as_secs_f64(),
        })
    );
    assert_eq!(
        one.address.get("/admin/leader-status").await.json(),
        json!({
            "key": KEY, "seat": "taken", "is_leader": true, "instance_id": id, "current_leader_id": id,
            "current_leader_name": "one", "token": token,
        })
    );
    soon("both are known", async || {
        one.address.get("/admin/stats").await.json()
            == json!({ "elections_won": 1, "members": 2, "session": "held", "store_frozen": false })
    })
    .await;
    assert_eq!(one.address.get("/healthz").await.said(), (200, "ok\n"));
    assert_eq!(one.address.get("/readyz").await.said(), (200, "ok\n"));
    assert_eq!(one.address.get("/leader").await.said(), (200, "leader\n"));
    let triggered = one.address.post("/admin/trigger-reconcile").await;
    assert_eq!((triggered.status, triggered.json()), (202, json!({ "triggered": true })));
    assert_eq!(one.reconciled(), 1);
}

// proves U16
#[tokio::test]
async fn a_standby_names_the_leader_and_does_nothing_that_only_a_leader_can() {
    let pair = Pair::start().await;
    let two = &pair.standby;
    let leader = pair.leader.id();
    soon("the leader is known", async || {
        two.address.get("/ready").await.json()
            == json!({
                "ready": true, "is_leader": false, "current_leader_id": leader, "instance_id": two.id(),
                "token": null,
            })
    })
    .await;
    let status = two.address.get("/admin/leader-status").await.json();
    assert_eq!(status["current_leader_name"], "one");
    assert_eq!(status["token"], json!(pair.leader.candidate.is_leader()));
    assert_eq!(two.address.get("/admin/stats").await.json()["elections_won"], 0);
    assert_eq!(two.address.get("/readyz").await.status, 200);
    assert_eq!(two.address.get("/leader").await.said(), (503, "standby\n"));
    for path in ["/admin/resign-leadership", "/admin/trigger-reconcile"] {
        let refused = two.address.post(path).await;
        assert_eq!(refused.status, 409, "{path}");
        assert_eq!(refused.json()["current_leader_id"], json!(leader));
        assert!(refused.json()["error"].as_str().unwrap().contains("does not lead"));
    }
    assert_eq!(two.reconciled(), 0);
    assert!(pair.leader.candidate.is_leader().is_some());
}

// proves U16
#[tokio::test]
async fn a_leader_that_is_told_to_resign_answers_when_it_has_stopped_and_the_other_leads() {
    let pair = Pair::start().await;
    let resigned = pair.leader.address.post("/admin/resign-leadership").await;
    assert_eq!((resigned.status, resigned.json()), (200, json!({ "resigned": true })));
    assert_eq!(pair.leader.address.get("/leader").await.status, 503);
    soon("the other leads", async || pair.standby.address.get("/leader").await.status == 200).await;
    assert_eq!(pair.leader.address.post("/admin/resign-leadership").await.status, 409);
    let other = json!(pair.standby.id());
    soon("it is known who leads", async || {
        pair.leader.address.get("/ready").await.json()["current_leader_id"] == other
    })
    .await;
}

#[tokio::test]
async fn prometheus_reads_who_leads_and_how_the_store_answers() {
    let pair = Pair::start().await;
    let read = async |address: &Address| {
        let answer = address.get("/metrics").await;
        assert_eq!(answer.status, 200);
        assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
        answer.body
    };
    let has = |text: &str, line: &str| text.lines().any(|said| said == line);
    soon("both candidates are known", async || {
        has(&read(&pair.leader.address).await, &format!("leasehold_members{{key=\"{KEY}\"}} 2"))
    })
    .await;
    let leader = read(&pair.leader.address).await;
    let token = pair.leader.candidate.is_leader().unwrap();
    for line in [
        format!("leasehold_is_leader{{key=\"{KEY}\"}} 1"),
        format!("leasehold_elections_won_total{{key=\"{KEY}\"}} 1"),
        format!("leasehold_fencing_token{{key=\"{KEY}\"}} {token}"),
        format!("leasehold_store_frozen{{key=\"{KEY}\"}} 0"),
        format!("leasehold_session_state{{key=\"{KEY}\",state=\"held\"}} 1"),
        format!("leasehold_session_state{{key=\"{KEY}\",state=\"lost\"}} 0"),
        format!("leasehold_build_info{{version=\"{}\"}} 1", crate::args::VERSION),
        "# TYPE leasehold_elections_won_total counter".to_owned(),
        "# TYPE leasehold_store_call_seconds histogram".to_owned(),
    ] {
        assert!(has(&leader, &line), "{line} is not in\n{leader}");
    }
    assert!(leader.contains("leasehold_store_calls_total{call=\"acquire\",outcome=\"answered\"} "));
    assert!(leader.contains("leasehold_store_call_seconds_bucket{call=\"acquire\",le=\"0.001\"} "));
    let standby = read(&pair.standby.address).await;
    assert!(has(&standby, &format!("leasehold_is_leader{{key=\"{KEY}\"}} 0")));
    assert!(has(&standby, &format!("leasehold_fencing_token{{key=\"{KEY}\"}} 0")));
    assert!(has(&standby, &format!("leasehold_elections_won_total{{key=\"{KEY}\"}} 0")));
}

#[tokio::test]
async fn without_a_session_a_candidate_is_alive_and_not_ready() {
    let scene = Scene::without_session().await;
    let health = scene.address.get("/health").await;
    assert_eq!(health.status, 200);
    assert_eq!(health.json()["status"], "degraded");
    assert_eq!(health.json()["why"], "there is no session with the store");
    let ready = scene.address.get("/ready").await;
    assert_eq!(ready.status, 503);
    assert_eq!(
        ready.json(),
        json!({ "ready": false, "is_leader": false, "current_leader_id": null, "instance_id": null, "token": null })
    );
    assert_eq!(scene.address.get("/admin/leader-status").await.json()["seat"], "unknown");
    assert_eq!(scene.address.get("/healthz").await.status, 200);
    assert_eq!(scene.address.get("/readyz").await.said(), (503, "not ready\n"));
    assert_eq!(scene.address.get("/leader").await.said(), (503, "standby\n"));
}

#[tokio::test]
async fn a_candidate_that_is_alive_says_what_is_wrong() {
    let scene = Scene::without_session().await;
    let member = Some(MemberId::generate());
    for (state, frozen, why) in [
        (State::Uncertain, false, "the store has not confirmed the last heartbeat"),
        (State::Held, true, "the store is frozen, so nobody is elected"),
        (State::Held, false, "the store has not said who leads"),
    ] {
        let status = Status { member: member.clone(), state, held: BTreeMap::new(), members: 1, frozen };
        *scene.status.lock().unwrap() = status;
        let health = scene.address.get("/health").await;
        assert_eq!((health.status, &health.json()["status"]), (200, &json!("degraded")));
        assert_eq!(health.json()["why"], why);
        assert_eq!(scene.address.get("/ready").await.status, 200);
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_in_json() {
    let scene = Scene::without_session().await;
    let error = |value: Value| value["error"].as_str().unwrap().to_owned();
    let unknown = scene.address.get("/nothing/here").await;
    assert_eq!((unknown.status, error(unknown.json())), (404, "there is no /nothing/here".to_owned()));
    let wrong = scene.address.get("/admin/resign-leadership").await;
    assert_eq!(wrong.status, 405);
    assert_eq!(wrong.header("allow"), Some("POST"));
    assert!(error(wrong.json()).contains("does not take GET"));
    let wrong = scene.address.post("/health").await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET,HEAD")));
    for path in ["/health", "/ready", "/metrics", "/info", "/healthz", "/readyz", "/leader", "/admin/stats"] {
        let (head, whole) = (scene.address.head(path).await, scene.address.get(path).await);
        assert_eq!((head.status, head.body.as_str()), (whole.status, ""), "{path}");
        assert_eq!(head.header("cache-control"), Some("no-store"), "{path}");
    }
    let page = [("Origin", "https://elsewhere.example")];
    assert_eq!(scene.address.ask("POST", "/admin/resign-leadership", &page).await.status, 403);
}
