//! Sessions belong to the key that opened them, and nobody's word about another's is taken.
// proves C56: a holder touches what is its own

use std::time::Duration;

use leasehold::lease::{BeatNumber, Nonce};
use leasehold::store::{
    Acquired, Answer, Cursor, EndSilent, Freed, LeaseStore, OpenSession, Pulse, Release, Released,
    SessionRecord, Store, Thawed, Wanted,
};
use leasehold::{ResourceId, Token};
use leasehold_server::keys::{self, Role};
use reqwest::StatusCode;
use serde_json::json;

use super::native::{done, member, session};
use super::stage::{Key, PATIENCE, Stage};

fn pulse(era: Nonce, number: u64) -> Pulse {
    Pulse { era, number: BeatNumber(number), confirmed: BeatNumber(0) }
}

fn wanted(resource: &str) -> Wanted {
    Wanted { resource: ResourceId::new(resource).unwrap(), floor: Token(0) }
}

fn forbidden<T: std::fmt::Debug>(answer: Result<T, leasehold::store::StoreError>) {
    let error = answer.expect_err("this is another's session").to_string();
    assert!(error.contains("opened with another key"), "{error}");
}

async fn found(store: &dyn Store, session: &OpenSession) -> SessionRecord {
    let read = store.sessions(&session.pool, Cursor::START).await.unwrap();
    read.items.into_iter().find(|found| found.id == session.id).expect("the session is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_acted_for_with_the_key_that_opened_it() {
    let stage = Stage::new();
    // The second replica has heard of nothing before it is asked.
    let (one, two) = (stage.closed().await, stage.server().await);
    let mine = stage.key(Role::Member, None, None).await;
    let me = member(&one, &mine).await;
    let own = session("mine");
    let era = done(me.open(&own).await.unwrap());
    let granted = done(me.acquire(&own.id, pulse(era, 1), &[wanted("a")]).await.unwrap());
    let [Acquired::Granted(term)] = granted.as_slice() else { panic!("{granted:?}") };
    for role in [Role::Member, Role::Operator, Role::Admin] {
        for (server, pools) in [(&one, None), (&two, None), (&one, Some(["jobs"].as_slice()))] {
            let key = stage.key(role, None, pools).await;
            let other = member(server, &key).await;
            forbidden(other.beat(&own.id, pulse(era, 100)).await);
            forbidden(other.acquire(&own.id, pulse(era, 100), &[wanted("b")]).await);
            let release = Release { term: term.clone(), offer: None };
            forbidden(other.release(&own.id, pulse(era, 100), &[release]).await);
            forbidden(other.describe(&own.id, pulse(era, 100), &own.profile).await);
            forbidden(other.close(&own.id).await);
            forbidden(other.open(&own).await);
            forbidden(other.claim(&own, &wanted("b")).await);
            forbidden(other.reassert(&own, pulse(era, 100), &[]).await);
        }
    }
    let body = json!({"session": own.id, "pulse": {"era": era.to_string(), "number": 100, "confirmed": 0}});
    let key = stage.key(Role::Member, None, None).await;
    let answer = stage.ask(&one, "POST", "/api/v1/store/beat", Some(&key), &body.to_string()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{answer:?}");
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    assert_eq!(answer.body["error"], "not_your_session");
    let store = stage.store().await;
    let now = found(&*store, &own).await;
    assert!(!now.ended && now.beat < BeatNumber(100), "{now:?}");
    // Its own key does all of that, on any replica.
    let me = member(&two, &mine).await;
    assert!(matches!(me.beat(&own.id, pulse(era, 101)).await.unwrap(), Answer::Done(_)));
    assert!(matches!(me.describe(&own.id, pulse(era, 102), &own.profile).await.unwrap(), Answer::Done(())));
    let release = [Release { term: term.clone(), offer: None }];
    assert_eq!(done(me.release(&own.id, pulse(era, 103), &release).await.unwrap()), [Released::Freed]);
    me.close(&own.id).await.unwrap();
    assert!(found(&*store, &own).await.ended);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_a_session_is_cannot_be_said_by_callers() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let key = stage.key(Role::Member, None, None).await;
    let me = member(&server, &key).await;
    for label in ["leasehold.key", "leasehold.holder"] {
        let mut own = session("mine");
        own.profile.labels.insert(label.to_owned(), "somebody".to_owned());
        let error = me.open(&own).await.expect_err("a reserved label").to_string();
        assert!(error.contains("is reserved"), "{error}");
        let plain = OpenSession { profile: session("mine").profile, ..own.clone() };
        let era = done(me.open(&plain).await.unwrap());
        let error = me.describe(&own.id, pulse(era, 1), &own.profile).await.expect_err("a reserved label");
        assert!(error.to_string().contains("is reserved"), "{error}");
        // It is in the store, where replicas find it, and not in what members read.
        assert_eq!(found(&*stage.store().await, &own).await.profile.labels["leasehold.key"], key.id);
        assert_eq!(found(&me, &own).await.profile, plain.profile);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_keeps_its_sessions() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let key = stage.key(Role::Member, None, None).await;
    let own = session("mine");
    let era = done(member(&server, &key).await.open(&own).await.unwrap());
    let (_, secret) = keys::rotate(&*stage.store().await, &key.id, Duration::ZERO).await.unwrap();
    let new = Key { id: key.id.clone(), text: secret.expose().to_owned() };
    stage.until(&server, "/api/v1/pools", &key, StatusCode::UNAUTHORIZED).await;
    let me = member(&server, &new).await;
    assert!(matches!(me.beat(&own.id, pulse(era, 1)).await.unwrap(), Answer::Done(_)));
    me.close(&own.id).await.unwrap();
    assert!(found(&*stage.store().await, &own).await.ended);
    server.stop().await;
}

/// What nobody opened with a key is nobody's to act for: it is there on the database itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_on_the_database_itself_is_out_of_reach() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let direct = session("direct");
    let era = done(stage.store().await.open(&direct).await.unwrap());
    let other = member(&server, &stage.key(Role::Admin, None, None).await).await;
    forbidden(other.beat(&direct.id, pulse(era, 1)).await);
    forbidden(other.close(&direct.id).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_ended_or_freed_at_the_word_of_a_key() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let store = stage.store().await;
    let victim = session("victim");
    let era = done(store.open(&victim).await.unwrap());
    let lost = session("lost");
    done(store.open(&lost).await.unwrap());
    let granted = done(store.acquire(&lost.id, pulse(era, 1), &[wanted("a")]).await.unwrap());
    let [Acquired::Granted(term)] = granted.as_slice() else { panic!("{granted:?}") };
    let other = member(&server, &stage.key(Role::Member, None, None).await).await;
    for round in 0..3 {
        let beat = found(&*store, &victim).await.beat;
        let verdict = other.end_silent(&victim.id, beat, era).await.unwrap();
        assert!(matches!(verdict, EndSilent::Alive(_)), "round {round}: {verdict:?}");
        assert_eq!(other.free_orphan(&lost.pool, &lost.id, term, era).await.unwrap(), Freed::Changed);
        // An era that never was is not even looked at.
        let _ = other.end_silent(&victim.id, beat, Nonce(7)).await.unwrap();
        let _ = other.free_orphan(&lost.pool, &lost.id, term, Nonce(7)).await.unwrap();
    }
    let read = store.sessions(&victim.pool, Cursor::START).await.unwrap();
    assert!(!read.era.frozen && read.era.nonce == era, "{:?}", read.era);
    assert!(read.items.iter().all(|session| !session.ended), "{:?}", read.items);
    // What has ended is remembered for as long as the control plane wants.
    store.close(&lost.id).await.unwrap();
    other.collect(&lost.id).await.unwrap();
    assert!(found(&*store, &lost).await.ended);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_silent_is_ended_where_members_have_keys() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let mine = member(&server, &stage.key(Role::Member, None, None).await).await;
    let mut silent = session("silent");
    silent.ttl = Duration::from_secs(1);
    let era = done(mine.open(&silent).await.unwrap());
    let other = member(&server, &stage.key(Role::Member, None, None).await).await;
    let ended = async {
        while other.end_silent(&silent.id, BeatNumber(0), era).await.unwrap() != EndSilent::Ended {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("the silent session is ended");
    assert!(matches!(mine.beat(&silent.id, pulse(era, 1)).await.unwrap(), Answer::Gone));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_freeze_is_not_ended_early_and_its_key_is_known() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let admin = stage.key(Role::Admin, None, None).await;
    let key = stage.key(Role::Member, None, None).await;
    let me = member(&server, &key).await;
    let own = session("mine");
    let era = done(me.open(&own).await.unwrap());
    let Answer::Frozen(nonce) = me.beat(&own.id, pulse(Nonce(era.0 ^ 1), 1)).await.unwrap() else {
        panic!("a store that may have forgotten something is frozen");
    };
    assert_eq!(me.thaw(nonce).await.unwrap(), Thawed::Changed, "nobody has had time to say what they hold");
    assert!(stage.store().await.sessions(&own.pool, Cursor::START).await.unwrap().era.frozen);
    assert!(matches!(me.beat(&own.id, pulse(era, 2)).await.unwrap(), Answer::Frozen(_)));
    let page = stage.ask(&server, "GET", "/metrics", Some(&admin), "").await;
    let line = format!("leasehold_freezes_found_total{{key=\"{}\"}} 1", key.id);
    assert!(page.body.as_str().unwrap().contains(&line), "{page:?}");
    server.stop().await;
}
