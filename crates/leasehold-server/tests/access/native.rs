//! Members over the native API: what one tenant's cannot do to another's, and streams that end with their keys.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::lease::{BeatNumber, Nonce};
use leasehold::store::http::{ApiKey, HttpStore};
use leasehold::store::{
    Answer, Cursor, EndSilent, LeaseStore, MarkKind, OpenSession, Profile, Pulse, Registry, StoreUrl, Version,
};
use leasehold::{MemberId, MemberName, Pool};
use leasehold_server::keys::Role;
use leasehold_server::{Running, start};
use reqwest::StatusCode;

use super::stage::{Key, PATIENCE, Stage};

pub(crate) async fn member(server: &Running, key: &Key) -> HttpStore {
    let url: StoreUrl = format!("http://{}", server.address()).parse().unwrap();
    let StoreUrl::Http(url) = url else { panic!("{url} is no server") };
    HttpStore::open_with(&url, Some(ApiKey::new(&key.text).unwrap())).await.unwrap()
}

pub(crate) fn session(name: &str) -> OpenSession {
    let name = MemberName::new(name).unwrap();
    OpenSession {
        pool: Pool::new("jobs").unwrap(),
        id: MemberId::generate_for(&name),
        ttl: Duration::from_secs(30),
        profile: Profile {
            name,
            capacity: None,
            labels: BTreeMap::new(),
            ready: true,
            settled: false,
            leaving: false,
            listing: None,
            plan_version: leasehold::plan::VERSION,
            flaps: 0,
            version: None,
        },
    }
}

pub(crate) fn done<T: std::fmt::Debug>(answer: Answer<T>) -> T {
    let Answer::Done(value) = answer else { panic!("{answer:?}") };
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_one_tenant_cannot_touch_the_session_of_another() {
    let stage = Stage::new();
    let (one, two) = (stage.closed().await, stage.server().await);
    let acme = member(&one, &stage.key(Role::Member, Some("acme"), None).await).await;
    let other_key = stage.key(Role::Operator, Some("other"), None).await;
    let theirs = session("acme-1");
    let era: Nonce = done(acme.open(&theirs).await.unwrap());
    let pulse = |number| Pulse { era, number: BeatNumber(number), confirmed: BeatNumber(0) };
    // Whether the replica has heard of the session or not.
    for (round, server) in [&one, &two].into_iter().enumerate() {
        let other = member(server, &other_key).await;
        let pool = Pool::new("jobs").unwrap();
        assert_eq!(other.sessions(&pool, Cursor::START).await.unwrap().items, []);
        assert_eq!(other.leases(&pool, Cursor::START).await.unwrap().items, []);
        assert_eq!(other.ledger(&pool, None, 0, 100).await.unwrap(), []);
        assert_eq!(LeaseStore::pools(&other).await.unwrap(), []);
        let number = 100 + u64::try_from(round).unwrap();
        assert!(matches!(other.beat(&theirs.id, pulse(number)).await.unwrap(), Answer::Gone));
        assert!(matches!(other.acquire(&theirs.id, pulse(number), &[]).await.unwrap(), Answer::Gone));
        assert!(matches!(other.release(&theirs.id, pulse(number), &[]).await.unwrap(), Answer::Gone));
        other.close(&theirs.id).await.unwrap();
        other.collect(&theirs.id).await.unwrap();
        assert_ne!(other.end_silent(&theirs.id, BeatNumber(0), era).await.unwrap(), EndSilent::Ended);
        // To say that it is one's own teaches nobody that it is.
        let _ = other.open(&theirs).await;
        other.close(&theirs.id).await.unwrap();
    }
    let found = acme.sessions(&Pool::new("jobs").unwrap(), Cursor::START).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert!(!found[0].ended && found[0].beat < BeatNumber(100), "{found:?}");
    assert!(matches!(acme.beat(&theirs.id, pulse(2)).await.unwrap(), Answer::Done(_)));
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_says_that_work_fails_and_sets_no_other_mark() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let member = member(&server, &stage.key(Role::Member, None, None).await).await;
    let pool = Pool::new("jobs").unwrap();
    for kind in [MarkKind::Drain, MarkKind::Cordon, MarkKind::Pin, MarkKind::Pause] {
        let set = member.set_mark(&pool, kind, "a", Some("x"), Version(0)).await;
        assert!(set.is_err(), "{kind:?}: {set:?}");
    }
    assert!(member.set_mark(&pool, MarkKind::Quarantine, "a", Some("x"), Version(0)).await.is_ok());
    let own = Pool::new("_leasehold").unwrap();
    assert!(member.marks(&own, Cursor::START).await.is_err(), "keys are nobody's to read");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_hints_are_counted_and_end_with_their_key() {
    counted_and_ended("/api/v1/store/changes").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_events_are_counted_and_end_with_their_key() {
    counted_and_ended("/api/v1/events").await;
}

async fn counted_and_ended(path: &str) {
    let stage = Arc::new(Stage::new());
    let admin = stage.key(Role::Admin, None, None).await;
    let (key, other) = (stage.key(Role::Read, None, None).await, stage.key(Role::Read, None, None).await);
    let mut settings = Stage::settings();
    settings.limits.streams = 3;
    settings.limits.streams_per_key = 2;
    let server = start(settings, stage.store().await).await.unwrap();
    let url = format!("http://{}{path}?pool=jobs", server.address());
    let open = async |key: &Key| stage.client.get(&url).bearer_auth(&key.text).send().await.unwrap();
    let mut first = open(&key).await;
    let second = open(&key).await;
    assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));
    let refused = open(&key).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "two with one key");
    assert!(refused.text().await.unwrap().contains("too_many_streams"));
    let third = open(&other).await;
    assert_eq!(third.status(), StatusCode::OK);
    assert_eq!(open(&admin).await.status(), StatusCode::SERVICE_UNAVAILABLE, "three altogether");
    let at = format!("/api/v1/keys/{}", key.id);
    assert_eq!(stage.ask(&server, "DELETE", &at, Some(&admin), "").await.status, StatusCode::NO_CONTENT);
    let ended = async { while first.chunk().await.unwrap().is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the stream ends with its key");
    drop((second, third));
    // Their places are free again.
    let free = async {
        while open(&admin).await.status() != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, free).await.expect("a place for another stream");
    server.stop().await;
}
