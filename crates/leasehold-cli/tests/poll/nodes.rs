//! What an instance and `status` tell of who polls what.

use std::process::Command;
use std::time::Duration;

use leasehold_testkit::{Faults, Proxy, free_port};
use serde_json::Value;

use crate::fleet::Fleet;
use crate::support::{wait_for, wait_until};

fn asked(port: u16, path: &str) -> Option<String> {
    let out = Command::new("curl")
        .args(["-s", "-m", "10", &format!("http://127.0.0.1:{port}{path}")])
        .output()
        .unwrap();
    out.status.success().then(|| String::from_utf8(out.stdout).unwrap())
}

fn nodes(port: u16) -> Option<Value> {
    serde_json::from_str(&asked(port, "/v1/nodes")?).ok()
}

// proves U11
#[test]
fn an_instance_and_status_tell_who_polls_what() {
    let mut fleet = Fleet::new(4);
    fleet.ttl = Duration::from_secs(12);
    let (port, way) = (free_port(), Proxy::to(fleet.redis.port()));
    let health = format!("127.0.0.1:{port}");
    fleet.enter_by("one", &format!("redis://127.0.0.1:{}", way.port()), &["--health", &health]);
    fleet.enter("two");
    fleet.until_shared(&["one", "two"], &[2, 2]);
    let polling = fleet.polling();
    let told = wait_for("all is told", || {
        let told = nodes(port)?;
        let owned = told["liveNodes"].as_array()?.iter().filter_map(|node| node["ownedSessions"].as_array());
        let all = owned.flatten().filter(|session| !session["lastRenewedAt"].is_null()).count();
        (all == 4).then_some(told)
    });
    let me = polling.values().find(|ask| ask.name == "one").unwrap().instance.clone();
    assert_eq!(told["thisInstanceId"], me.as_str());
    assert!(told["timestamp"].as_str().unwrap().ends_with('Z'));
    let status = fleet.place.json(&["status", "--nodes"])["endpoints"].clone();
    assert!(status["thisInstanceId"].is_null());
    for report in [&told, &status] {
        let all = report["liveNodes"].as_array().unwrap();
        assert_eq!(all.len(), 2, "{report}");
        for node in all {
            let is_me = node["instanceId"] == me.as_str() && !report["thisInstanceId"].is_null();
            assert_eq!(node["isThisInstance"], is_me);
            assert_eq!(node["status"], "live");
            for session in node["ownedSessions"].as_array().unwrap() {
                let ask = &polling[session["sessionId"].as_str().unwrap()];
                assert_eq!(
                    (&session["ownerId"], &node["instanceId"]),
                    (&ask.instance.clone().into(), &ask.instance.clone().into())
                );
                assert_eq!(
                    (&session["state"], &session["preferredOwnerId"]),
                    (&"owned".into(), &session["ownerId"])
                );
                assert!(
                    session["acquiredAt"].is_string() && session["uncertainSince"].is_null(),
                    "{session}"
                );
            }
        }
    }
    let lines = fleet.place.told(&["status", "--nodes"]);
    assert!(lines.contains("NODE") && lines.contains(&me) && lines.contains("owned"), "{lines}");
    let metrics = asked(port, "/metrics").unwrap();
    assert!(metrics.contains("leasehold_held{pool=\"endpoints\"} 2"), "{metrics}");
    assert!(asked(port, "/readyz").unwrap().contains("ok"));
    // Redis is away: what the instance knows of itself is still told.
    way.set(Faults::cut());
    wait_until("it is uncertain", || {
        let told = nodes(port).unwrap_or_default();
        let mine =
            told["liveNodes"].as_array().into_iter().flatten().find(|node| node["isThisInstance"] == true);
        let session = mine.map(|node| node["ownedSessions"][0].clone()).unwrap_or_default();
        session["state"] == "uncertain" && session["uncertainSince"].is_string()
    });
    assert!(asked(port, "/health").unwrap().contains("nothing is polled"));
    way.heal();
    wait_until("it is certain again", || asked(port, "/readyz").is_some_and(|said| said.contains("ok")));
}
