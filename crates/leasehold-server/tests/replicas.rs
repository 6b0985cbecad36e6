//! Control planes that come and go: restarted, killed, several on one database, and stores that forget.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::ledger::{Entry, Event};
use leasehold::store::around::{Fault, Faulty};
use leasehold::store::memory::MemoryStore;
use leasehold::store::{self, Begin, Cursor, Declared, Store, StoreUrl};
use leasehold_testkit::Postgres;
use serde_json::json;
use support::{File, Plane, brief, eventually, holder};

/// Ten thousand leases survive a restart: nobody loses one, nobody gets a second one.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_ten_thousand_leases_costs_nobody_anything() {
    const LEASES: usize = 10_000;
    let file = File::new();
    let plane = Arc::new(Plane::on(&file.url()).await);
    let long = |number: usize| json!({"holder_id": format!("holder-{}", number % 50), "ttl_ms": 3_600_000});
    let takers = (0..64).map(|taker| {
        let plane = Arc::clone(&plane);
        tokio::spawn(async move {
            let mut granted = Vec::new();
            for number in (taker..LEASES).step_by(64) {
                let scene = format!("scene-{number}");
                let declared = Declared::new(scene.parse().unwrap());
                let _ = plane.store.declare(&"scenes".parse().unwrap(), &declared).await.unwrap();
                let answer = plane.acquire(&scene, &long(number)).await;
                assert_eq!(answer.status, 201, "{answer:?}");
                granted.push((number, answer.body["version"].as_u64().unwrap()));
            }
            granted
        })
    });
    let mut versions = BTreeMap::new();
    for taker in takers.collect::<Vec<_>>() {
        versions.extend(taker.await.unwrap());
    }
    assert_eq!(versions.len(), LEASES);
    let mut plane = Arc::into_inner(plane).unwrap();
    plane.stop().await;
    let plane = Plane::on(&file.url()).await;
    for number in (0..LEASES).step_by(9) {
        let scene = format!("scene-{number}");
        let said = json!({"holder_id": format!("holder-{}", number % 50), "version": versions[&number]});
        let renewed = plane.renew(&scene, &said).await;
        assert_eq!(renewed.status, 200, "{renewed:?}");
        assert_eq!(plane.acquire(&scene, &holder("another")).await.status, 409);
    }
    let free = plane.get("/api/v1/scenes?leased=false").await;
    assert_eq!(free.body, json!([]));
}

/// Two replicas on one PostgreSQL, one of them gone under load: what was granted stays granted, and to one holder.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_dies_under_load_takes_no_grant_with_it() {
    let server = Postgres::start();
    server.create("work");
    let url: StoreUrl = server.url("work").parse().unwrap();
    store::migrate(&url, Begin::Live).await.unwrap();
    let mut first = Plane::on(&url).await;
    let second = Arc::new(Plane::on(&url).await);
    let pool = "scenes".parse().unwrap();
    for number in 0..400 {
        let declared = Declared::new(format!("scene-{number}").parse().unwrap());
        let _ = second.store.declare(&pool, &declared).await.unwrap();
    }
    let over = Arc::new(AtomicBool::new(false));
    let racers = (0..16).map(|racer: usize| {
        let urls = [first.url(""), second.url("")];
        let (client, over) = (second.client.clone(), Arc::clone(&over));
        tokio::spawn(async move {
            let mut won = Vec::new();
            for number in (0..400).cycle().skip(racer * 25).take(400) {
                // Each goes to both, in turn; one that does not answer says nothing.
                let url = format!("{}/api/v1/scenes/scene-{number}/lease", urls[(number + racer) % 2]);
                let body = json!({"holder_id": format!("racer-{racer}"), "ttl_ms": 3_600_000}).to_string();
                let Ok(answer) = client.post(url).body(body).send().await else {
                    over.store(true, Ordering::SeqCst);
                    continue;
                };
                if answer.status().as_u16() == 201 {
                    won.push(number);
                }
            }
            won
        })
    });
    let racers: Vec<_> = racers.collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Without a word, as a process that is killed.
    drop(first.running.take());
    let mut winners: BTreeMap<usize, usize> = BTreeMap::new();
    for (racer, won) in racers.into_iter().enumerate() {
        for number in won.await.unwrap() {
            assert_eq!(winners.insert(number, racer), None, "scene-{number} was granted twice");
        }
    }
    assert!(over.load(Ordering::SeqCst), "the first replica was not missed by anybody");
    for (number, racer) in &winners {
        let lease = second.get(&format!("/api/v1/scenes/scene-{number}/lease")).await;
        assert_eq!(lease.body["holder_id"], format!("racer-{racer}"), "an acknowledged grant was lost");
        let renewed = second.renew(&format!("scene-{number}"), &holder(&format!("racer-{racer}"))).await;
        assert_eq!(renewed.status, 200, "{renewed:?}");
    }
}

/// A renewal through one replica is heard by the others, and a silence goes on where a replica stopped.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_hear_each_others_renewals_and_continue_each_others_silences() {
    let store = Arc::new(MemoryStore::new());
    let (mut one, two) = (Plane::serving(store.clone()).await, Plane::serving(store).await);
    one.scenes(2).await;
    assert_eq!(one.acquire("scene-0", &brief("moving")).await.status, 201);
    assert_eq!(one.acquire("scene-1", &brief("silent")).await.status, 201);
    // Longer than a TTL and the patience with it, through both in turn.
    for turn in 0..60 {
        let plane = if turn % 2 == 0 { &one } else { &two };
        assert_eq!(plane.renew("scene-0", &holder("moving")).await.status, 200);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    one.stop().await;
    eventually("the silent one is ended", async || {
        two.acquire("scene-1", &holder("heir")).await.status == 201
    })
    .await;
    assert_eq!(two.renew("scene-0", &holder("moving")).await.status, 200);
}

/// What was silent before a restart is not given a whole TTL anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_does_not_forget_a_silence() {
    let file = File::new();
    let mut plane = Plane::on(&file.url()).await;
    plane.scenes(1).await;
    let body = json!({"holder_id": "silent", "ttl_ms": 30_000});
    assert_eq!(plane.acquire("scene-0", &body).await.status, 201);
    let told = async |plane: &Plane| {
        let pool = store::SERVER_POOL.parse().unwrap();
        let marks = plane.store.marks(&pool, Cursor::START).await.unwrap();
        let silence = marks.items.into_iter().find(|mark| mark.kind == store::MarkKind::Silence);
        let value = silence.and_then(|mark| mark.value).unwrap_or_else(|| "[]".to_owned());
        let silences: Vec<leasehold::listen::Silence> = serde_json::from_str(&value).unwrap();
        silences.first().map_or(0, |silence| silence.millis)
    };
    // A quarter of its TTL, then it is worth writing down.
    eventually("the silence is written down", async || told(&plane).await > 0).await;
    let before = told(&plane).await;
    plane.stop().await;
    let plane = Plane::on(&file.url()).await;
    eventually("the silence goes on", async || told(&plane).await > before + 1000).await;
}

/// A store that was put back to an older copy is frozen: who renews keeps its lease, nobody else gets one meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_restored_backup_who_renews_keeps_its_lease() {
    let store = MemoryStore::new();
    let plane = Plane::serving(Arc::new(store.clone())).await;
    plane.scenes(2).await;
    let backup = store.snapshot();
    let granted = plane.acquire("scene-0", &brief("holder")).await;
    assert_eq!(granted.status, 201);
    assert_eq!(plane.renew("scene-0", &holder("holder")).await.status, 200);
    store.restore(&backup);
    // It learns of it by the next read, and says what the holder holds.
    let version = granted.body["version"].as_u64().unwrap();
    let renewed = plane.renew("scene-0", &json!({"holder_id": "holder", "version": version})).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    let refused = plane.acquire("scene-0", &holder("heir")).await;
    assert!(refused.status == 409 || refused.status == 503, "{refused:?}");
    let other = plane.acquire("scene-1", &holder("heir")).await;
    assert_eq!((other.status, &other.body["error"]), (503, &json!("frozen")));
    // It goes on until the store is in use again, and after that too.
    eventually("the store is thawed", async || {
        assert_eq!(plane.renew("scene-0", &holder("holder")).await.status, 200);
        plane.acquire("scene-1", &holder("heir")).await.status == 201
    })
    .await;
    let lease = plane.get("/api/v1/scenes/scene-0/lease").await;
    assert_eq!((&lease.body["holder_id"], &lease.body["version"]), (&json!("holder"), &json!(version)));
}

/// A store that has less than it confirmed has forgotten, even if it looks the same otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_renewal_that_is_missing_freezes_the_store() {
    let store = MemoryStore::new();
    let plane = Plane::serving(Arc::new(store.clone())).await;
    plane.scenes(2).await;
    assert_eq!(plane.acquire("scene-0", &brief("holder")).await.status, 201);
    let before = store.snapshot();
    assert_eq!(plane.renew("scene-0", &holder("holder")).await.status, 200);
    store.lose_unanswered(&before);
    assert_eq!(plane.renew("scene-0", &holder("holder")).await.status, 200, "it says what it holds");
    let other = plane.acquire("scene-1", &holder("other")).await;
    assert_eq!((other.status, &other.body["error"]), (503, &json!("frozen")), "{other:?}");
}

/// The rows of a pool's ledger that grant something.
async fn grants(store: &dyn Store) -> Vec<Entry> {
    let rows = store.ledger(&"scenes".parse().unwrap(), None, 0, 1000).await.unwrap();
    let grants = rows.into_iter().map(|(_, row)| row);
    grants.filter(|row| matches!(row.event, Event::Acquired | Event::TakenOver)).collect()
}

/// A replica that grants `scene-0` and is gone before it has written that down.
async fn granted_and_gone(file: &File) -> u64 {
    let faulty = Faulty::new(store::open(&file.url()).await.unwrap());
    let plane = Plane::serving(Arc::new(faulty.clone())).await;
    plane.scenes(2).await;
    assert_eq!(plane.acquire("scene-1", &holder("before")).await.status, 201);
    eventually("the first grant is written down", async || grants(&*plane.store).await.len() == 1).await;
    faulty.break_calls(&["append"], Fault::Hangs);
    let granted = plane.acquire("scene-0", &holder("tracker-0")).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    assert_eq!(grants(&*plane.store).await.len(), 1, "the row waits");
    granted.body["version"].as_u64().unwrap()
}

fn is_the_missing_one(row: &Entry, version: u64) {
    assert_eq!(row.resource.as_ref().unwrap().as_str(), "scene-0");
    assert_eq!((row.token.unwrap().0, row.name.as_str()), (version, "tracker-0"));
    assert!(row.detail.as_deref().is_some_and(|detail| detail.contains("written late")), "{row:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_was_not_written_down_is_written_after_a_restart() {
    let file = File::new();
    let version = granted_and_gone(&file).await;
    let mut plane = Plane::on(&file.url()).await;
    // A renewal before that is no proof.
    assert_eq!(plane.renew("scene-0", &holder("tracker-0")).await.status, 200);
    eventually("the grant is written down", async || grants(&*plane.store).await.len() == 2).await;
    is_the_missing_one(&grants(&*plane.store).await[1], version);
    plane.stop().await;
    // Once: the next start finds everything, and says so by what it writes when it looked.
    let plane = Plane::on(&file.url()).await;
    eventually("the next start has looked", async || {
        assert_eq!(plane.renew("scene-0", &holder("tracker-0")).await.status, 200);
        let rows = plane.store.ledger(&"scenes".parse().unwrap(), None, 0, 1000).await.unwrap();
        rows.iter().any(|(_, row)| row.event == Event::Renewed && row.name.as_str() == "tracker-0")
    })
    .await;
    assert_eq!(grants(&*plane.store).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_writes_down_what_one_could_not() {
    let file = File::new();
    let other = Plane::on(&file.url()).await;
    let version = granted_and_gone(&file).await;
    eventually("the grant is written down", async || grants(&*other.store).await.len() == 2).await;
    is_the_missing_one(&grants(&*other.store).await[1], version);
}
