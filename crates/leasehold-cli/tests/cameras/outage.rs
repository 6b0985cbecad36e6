//! The control plane is away: who held a camera then is honoured when it is back, and nobody else is granted it before.

use std::time::Duration;

use leasehold::clock;
use serde_json::Value;

use crate::fleet::{Plane, path};
use crate::support::{Place, wait_for};

/// For how long runners may go on by themselves.
const GRACE: Duration = Duration::from_secs(30);
/// Longer than a restart, and than the patience with a lease of two seconds.
const AWAY: Duration = Duration::from_secs(12);
const TTL: u64 = 2;

// proves C45
#[test]
fn after_an_outage_holders_in_grace_are_honoured_and_nothing_is_granted_twice() {
    let mut plane = Plane::start(Place::new(), &["--outage-grace", "30s"], None);
    plane.populate(4, &["one", "two", "gone"]);
    let (_, held) = plane.acquire("cam-0", "one", TTL);
    let (_, left) = plane.acquire("cam-1", "gone", TTL);
    // What the control plane signs of itself is at most this old.
    std::thread::sleep(Duration::from_secs(2));
    plane.expect(200, "PUT", &path(&held, "renew"), &Value::Null);
    plane.expect(200, "PUT", &path(&left, "renew"), &Value::Null);
    // Its holder has not heard of it when the control plane goes away.
    let (_, revoked) = plane.acquire("cam-3", "gone", TTL);
    plane.expect(200, "POST", &path(&revoked, "revoke"), &Value::Null);
    let killed = clock::now();
    plane.kill();
    std::thread::sleep(AWAY);
    plane.again();

    // Long after what they were granted has run out, and after what is listened for without an outage.
    for _ in 0..16 {
        for camera in ["cam-0", "cam-1"] {
            let (code, said) = plane.acquire(camera, "two", TTL);
            assert_eq!((code, &said["error_code"]), (409, &"already_held".into()), "{camera}: {said}");
        }
        let (code, said) = plane.acquire("cam-3", "two", TTL);
        assert_eq!(code, 409, "what was revoked may still be worked on: {said}");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(plane.acquire("cam-2", "two", TTL).0, 201, "what nobody held is granted");
    let renewed = plane.expect(200, "PUT", &path(&held, "renew"), &Value::Null);
    for field in ["lease_id", "fencing_token", "runner_id"] {
        assert_eq!(renewed[field], held[field], "{field}");
    }
    assert!(plane.logs().contains("the control plane was away"), "it says so");

    // Who does not come back has its camera for no longer than that.
    let taken = wait_for("the camera is granted to another", || {
        let (code, said) = plane.acquire("cam-1", "two", TTL);
        (code == 201).then_some(said)
    });
    let after = clock::now().since(killed);
    assert!(after > GRACE - Duration::from_secs(5), "granted after {after:?}");
    assert!(taken["fencing_token"].as_u64() > left["fencing_token"].as_u64(), "{taken}");
    assert_eq!(plane.ask("PUT", &path(&left, "renew"), &Value::Null).0, 410);
}

#[test]
fn a_strict_control_plane_owes_no_grace_and_a_ledger_keeps_as_many_rows_as_it_is_told() {
    let place = Place::new();
    let config = place.write("plane.toml", "outage-grace = \"0s\"\nkeep-events = 100\n");
    let mut plane = Plane::start(place, &["--config", &config], None);
    plane.populate(2, &["one", "two"]);
    assert_eq!(plane.acquire("cam-0", "one", TTL).0, 201);
    for _ in 0..80 {
        let (code, lease) = plane.acquire("cam-1", "one", 60);
        assert_eq!(code, 201, "{lease}");
        plane.expect(200, "DELETE", &path(&lease, "release"), &Value::Null);
    }
    let events = plane.audited();
    assert!((50..=100).contains(&events.len()), "{} events are kept", events.len());
    assert!(events[0]["row"].as_u64() > Some(50), "the oldest are gone: {}", events[0]);
    plane.kill();
    std::thread::sleep(AWAY);
    plane.again();
    wait_for("it is granted when its TTL has passed", || {
        (plane.acquire("cam-0", "two", TTL).0 == 201).then_some(())
    });
}
