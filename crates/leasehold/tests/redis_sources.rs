//! Resources that others keep on a Redis server: found, followed, and left out where they cannot be used.

#[path = "support/redis_server.rs"]
mod redis_server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::discover::{Record, RedisCollection, RedisSessions, SessionKeys, Source, Targets};
use leasehold::store::StoreUrl;
use leasehold::{Participant, Pool, ResourceId};
use leasehold_testkit::{Redis, RedisSetup};

use self::redis_server::{OnRedis, address};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn add(server: &Redis, id: &str, more: &str) {
    let session =
        format!(r#"{{"id":"{id}","name":"n","address":"http://127.0.0.1:9/{id}","isOnline":true{more}}}"#);
    assert_eq!(server.cli(&["SET", &format!("session:{id}"), &session]), "OK");
}

async fn listed(source: &dyn Source) -> Vec<String> {
    source.list().await.expect("a list").ids().iter().map(ToString::to_string).collect()
}

/// Looks as often as whoever follows the source, until it shows this.
async fn until_listed(source: &dyn Source, wanted: &[&str]) {
    let looking = async {
        while listed(source).await != wanted {
            tokio::select! {
                () = source.changed() => {}
                () = tokio::time::sleep(source.period().expect("it changes")) => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{wanted:?} was never listed"));
}

fn url(server: &Redis) -> StoreUrl {
    address(server, "")
}

async fn sessions(server: &Redis) -> RedisSessions {
    RedisSessions::open(&url(server), SessionKeys::default()).await.expect("it can be read")
}

// proves R049, R050, U09
#[tokio::test]
async fn sessions_that_neither_rest_nor_are_deleted_are_listed() {
    let server = Redis::start();
    for id in ["a", "b", "c", "d"] {
        add(&server, id, "");
    }
    add(&server, "b", r#","isPaused":true"#);
    add(&server, "c", r#","IsPaused":true"#);
    server.cli(&["SET", "deleted-session:d", "1"]);
    server.cli(&["SET", "my-session:e", r#"{"id":"e"}"#]);
    let source = sessions(&server).await;
    assert_eq!(listed(&source).await, ["a"]);
    let rests = |id: &str| source.rests(&ResourceId::new(id).unwrap());
    assert_eq!((rests("a"), rests("b"), rests("c"), rests("d")), (false, true, true, false));
}

#[tokio::test]
async fn what_cannot_be_used_is_left_out_and_the_rest_is_not_disturbed() {
    let server = Redis::start();
    add(&server, "good", "");
    for (key, text) in [
        ("session:text", "not JSON"),
        ("session:list", "[]"),
        ("session:nobody", r#"{"name":"x"}"#),
        ("session:braces", r#"{"id":"a{b}"}"#),
        ("session:spaces", r#"{"id":"a b"}"#),
        ("session:slash", r#"{"id":"a/b"}"#),
        ("session:long", &format!(r#"{{"id":"{}"}}"#, "x".repeat(300))),
        ("session:huge", &format!(r#"{{"id":"huge","note":"{}"}}"#, "x".repeat(100_000))),
        ("session:twin", r#"{"id":"good"}"#),
        ("session:{odd} key", r#"{"id":"odd"}"#),
    ] {
        assert_eq!(server.cli(&["SET", key, text]), "OK");
    }
    server.cli(&["LPUSH", "session:kind", "x"]);
    let source = sessions(&server).await;
    assert_eq!(listed(&source).await, ["good", "odd"]);
}

#[tokio::test]
async fn a_few_sessions_are_found_among_thousands_of_other_keys() {
    let server = Redis::start();
    server.cli(&["EVAL", "for i = 1, 20000 do redis.call('SET', 'cache:' .. i, i) end", "0"]);
    server.cli(&["EVAL", "for i = 1, 5000 do redis.call('SET', 'other-session:' .. i, i) end", "0"]);
    add(&server, "a", "");
    add(&server, "b", "");
    assert_eq!(listed(&sessions(&server).await).await, ["a", "b"]);
}

// proves R109
#[tokio::test]
async fn sessions_that_come_and_go_are_noticed_by_everybody_without_events() {
    let server = Redis::start();
    add(&server, "a", "");
    let (one, two) = (sessions(&server).await, sessions(&server).await);
    assert_eq!((listed(&one).await, listed(&two).await), (vec!["a".to_owned()], vec!["a".to_owned()]));
    let both = async |wanted: &[&str]| {
        tokio::join!(until_listed(&one, wanted), until_listed(&two, wanted));
    };
    add(&server, "b", "");
    both(&["a", "b"]).await;
    add(&server, "a", r#","isPaused":true"#);
    both(&["b"]).await;
    add(&server, "a", "");
    server.cli(&["SET", "deleted-session:b", "1"]);
    both(&["a"]).await;
    server.cli(&["DEL", "session:a", "deleted-session:b"]);
    both(&["b"]).await;
}

// proves R050: many who look cost the server no more than one
#[tokio::test]
async fn of_many_who_look_one_looks_through_all_keys() {
    let server = Redis::start();
    add(&server, "a", "");
    let mut all = Vec::new();
    for _ in 0..8 {
        let source = sessions(&server).await;
        source.list().await.unwrap();
        all.push(source);
    }
    let scans = || -> u64 {
        let told = server.cli(&["INFO", "commandstats"]);
        let line =
            told.lines().find_map(|line| line.trim().strip_prefix("cmdstat_scan:calls=")).expect("scans");
        line.split(',').next().unwrap().parse().unwrap()
    };
    let (before, began) = (scans(), clock::now());
    for _ in 0..8 {
        for source in &all {
            source.list().await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    add(&server, "b", "");
    for source in &all {
        until_listed(source, &["a", "b"]).await;
    }
    add(&server, "a", r#","isPaused":true"#);
    for source in &all {
        until_listed(source, &["b"]).await;
    }
    let (looked, took) = (scans() - before, clock::now().since(began));
    assert!(looked <= took.as_secs() / 4 + 2, "{looked} looked through all keys within {took:?}");
}

#[tokio::test]
async fn where_the_server_tells_of_keys_a_change_is_noticed_at_once() {
    let server = Redis::start_with(RedisSetup::default().with(&["--notify-keyspace-events", "KA"]));
    add(&server, "a", "");
    let source = sessions(&server).await;
    assert_eq!(listed(&source).await, ["a"]);
    // Until it listens, which is not told, nothing is heard.
    let heard = async {
        loop {
            add(&server, "b", "");
            if tokio::time::timeout(Duration::from_millis(200), source.changed()).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("something is heard");
    assert_eq!(listed(&source).await, ["a", "b"]);
    let change = async |args: &[&str]| {
        server.cli(args);
        tokio::time::timeout(PATIENCE, source.changed()).await.expect("it is heard");
        listed(&source).await
    };
    assert_eq!(change(&["SET", "deleted-session:a", "1"]).await, ["b"]);
    assert_eq!(change(&["DEL", "deleted-session:a"]).await, ["a", "b"]);
    assert_eq!(change(&["SET", "session:a", r#"{"id":"a","isPaused":true}"#]).await, ["b"]);
    assert_eq!(change(&["DEL", "session:b"]).await, Vec::<String>::new());
}

#[tokio::test]
async fn prefix_and_fields_can_be_others() {
    let server = Redis::start();
    server.cli(&["SET", "target*:1", r#"{"host":"alpha","asleep":false,"isPaused":true}"#]);
    server.cli(&["SET", "target*:2", r#"{"host":"beta","asleep":true}"#]);
    server.cli(&["SET", "target*:3", r#"{"host":"gamma"}"#]);
    server.cli(&["SET", "deleted-target*:3", "1"]);
    server.cli(&["SET", "targets:4", r#"{"host":"delta"}"#]);
    let mut keys = SessionKeys::default();
    (keys.prefix, keys.id_field, keys.pause_field) = ("target*:".into(), "host".into(), "asleep".into());
    let source = RedisSessions::open(&url(&server), keys).await.unwrap();
    assert_eq!(listed(&source).await, ["alpha"]);
    let ids = ["alpha", "beta", "gamma"].map(|id| ResourceId::new(id).unwrap());
    let records = source.records(&ids).await.unwrap();
    assert!(matches!(&records[0], Record::Kept(value) if value["host"] == "alpha"), "{records:?}");
    assert_eq!(records[1..], [Record::Paused, Record::Gone]);
}

#[tokio::test]
async fn a_set_and_a_hash_are_lists() {
    let server = Redis::start();
    let url = url(&server);
    let set = RedisCollection::set(&url, "targets").await.unwrap();
    assert_eq!(listed(&set).await, Vec::<String>::new());
    server.cli(&["SADD", "targets", "b", "a", "not an id"]);
    assert_eq!(listed(&set).await, ["a", "b"]);
    server.cli(&["SREM", "targets", "a"]);
    assert_eq!(listed(&set).await, ["b"]);
    let hash = RedisCollection::hash(&url, "addresses").await.unwrap();
    server.cli(&["HSET", "addresses", "a", "http://h/a", "b", r#"{"address":"http://h/b","interval":5}"#]);
    assert_eq!(listed(&hash).await, ["a", "b"]);
    let ids = ["a", "b", "c"].map(|id| ResourceId::new(id).unwrap());
    let records = hash.records(&ids).await.unwrap();
    assert!(matches!(&records[0], Record::Kept(value) if value["address"] == "http://h/a"), "{records:?}");
    assert!(matches!(&records[1], Record::Kept(value) if value["interval"] == 5), "{records:?}");
    assert_eq!(records[2], Record::Gone);
    let wrong = RedisCollection::set(&url, "addresses").await.unwrap().list().await.unwrap_err().to_string();
    assert!(wrong.contains("addresses") && wrong.contains("is no set"), "{wrong}");
}

#[tokio::test]
async fn a_user_who_may_not_look_for_sessions_is_told_what_to_grant() {
    let server = Redis::start();
    server.cli(&["ACL", "SETUSER", "anna", "on", ">hush", "~*", "&*", "+@all", "-scan"]);
    let url: StoreUrl = format!("redis://anna:hush@127.0.0.1:{}", server.port()).parse().unwrap();
    let source = RedisSessions::open(&url, SessionKeys::default()).await.unwrap();
    let said = source.list().await.unwrap_err().to_string();
    assert!(said.contains("does not permit this user to find sessions; grant it +scan"), "{said}");
    assert!(!said.contains("hush"), "{said}");
    let elsewhere: StoreUrl = "sqlite:work.db".parse().unwrap();
    let said = RedisSessions::open(&elsewhere, SessionKeys::default()).await.unwrap_err().to_string();
    assert!(said.contains("is no Redis"), "{said}");
}

// proves C31, R109, U10: why an endpoint was let go of is in the ledger
#[tokio::test]
async fn a_session_that_rests_or_is_deleted_is_let_go_of_for_that_reason() {
    let on = OnRedis::with("").await;
    for id in ["a", "b", "c"] {
        add(&on.server, id, "");
    }
    let pool = Pool::new("endpoints").unwrap();
    let source = Arc::new(sessions(&on.server).await);
    let member = Participant::join(Arc::clone(&on.store), pool.clone())
        .ttl(Duration::from_secs(3))
        .source(source)
        .start(|lease| async move {
            lease.lost().await;
        })
        .await
        .unwrap();
    let mut status = member.status();
    let mut holds = async |count: usize| {
        tokio::time::timeout(PATIENCE, status.wait_for(|status| status.held.len() == count))
            .await
            .unwrap()
            .unwrap();
    };
    holds(3).await;
    add(&on.server, "a", r#","isPaused":true"#);
    holds(2).await;
    on.server.cli(&["SET", "deleted-session:b", "1"]);
    holds(1).await;
    assert_eq!(on.server.cli(&["EXISTS", "poll:lease:a", "poll:lease:b", "poll:lease:c"]), "1");
    add(&on.server, "a", "");
    holds(2).await;
    member.leave().await;
    let rows = on.store.ledger(&pool, None, 0, 1000).await.unwrap();
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (_, row) in rows.iter().filter(|(_, row)| row.event.as_str() == "released") {
        let reason = row.reason.map_or("", |reason| reason.as_str());
        reasons.entry(row.resource.as_ref().unwrap().to_string()).or_default().push(reason);
    }
    assert_eq!(reasons["a"], ["session_paused", "shutdown"]);
    assert_eq!(reasons["b"], ["session_deleted"]);
    assert_eq!(reasons["c"], ["shutdown"]);
}
