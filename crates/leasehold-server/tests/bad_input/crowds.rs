//! Many who come and say nothing.

use std::sync::Arc;

use leasehold::store::memory::MemoryStore;
use leasehold_server::Settings;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::support::{Plane, holder};
use super::{SOON, helps};

/// How many come.
const CROWD: u64 = 5000;
/// Files that are open for other reasons.
const OTHERS: u64 = 500;

/// How many connections this machine allows, at both of their ends.
fn allowed() -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = (2 * CROWD + OTHERS).min(hard);
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).unwrap();
    }
    let allowed = CROWD.min((soft.max(wanted) - OTHERS) / 2);
    if allowed < CROWD {
        println!("this machine allows {hard} open files: {allowed} connections instead of {CROWD}");
    }
    allowed
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_served_beside_five_thousand_who_say_nothing() {
    let crowd = allowed();
    let mut settings = Settings::at("127.0.0.1:0".parse().unwrap());
    // They are not to be cut off while they are counted.
    settings.limits.head = 10 * SOON;
    let plane = Plane::with(settings, Arc::new(MemoryStore::new())).await;
    plane.scenes(1).await;
    let address = plane.running.as_ref().unwrap().address();
    let mut idle = Vec::new();
    for _ in 0..crowd {
        idle.push(timeout(SOON, TcpStream::connect(address)).await.unwrap().unwrap());
    }
    // A new client, which has no connection yet.
    let late = Plane { running: None, client: reqwest::Client::new(), store: Arc::clone(&plane.store) };
    for _ in 0..20 {
        let url = plane.url("/api/v1/scenes/scene-0/lease");
        let request = late.client.post(url).body(holder("h").to_string()).send();
        let status = timeout(SOON, request).await.unwrap().unwrap().status().as_u16();
        assert!([201, 409].contains(&status), "{status}");
        assert_eq!(plane.renew("scene-0", &holder("h")).await.status, 200);
    }
    for stream in &idle {
        let open = stream.try_read(&mut [0]).expect_err("nothing was said, and none was closed");
        assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
    }
    drop(idle);
    let gone = plane.get("/api/v1/scenes/nobody").await;
    helps(&gone, 404, "scene_not_found");
}
