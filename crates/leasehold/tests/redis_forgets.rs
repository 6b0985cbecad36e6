//! What a Redis server can forget, and what the store makes of it: it is frozen, holders say again what they hold, nobody
//! else is given it, and no token comes twice.

#[path = "support/redis_reconnect.rs"]
mod redis_reconnect;
#[path = "support/redis_server.rs"]
mod redis_server;

use std::sync::Arc;
use std::time::Duration;

use leasehold::lease::{MemberId, Nonce, Term};
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{Acquired, Answer, Begin, Cursor, Era, Reasserted, Released, Store, Thawed, migrate};
use leasehold_testkit::{Faults, Persistence, Proxy, Redis, RedisSetup, Sentinels};
use redis_reconnect::reconnect;
use redis_server::{OnRedis, address, open};

async fn era(store: &Arc<dyn Store>) -> Era {
    store.sessions(&pool("work"), Cursor::START).await.expect("the store answers").era
}

fn frozen<T: std::fmt::Debug>(answer: Answer<T>) -> Nonce {
    match answer {
        Answer::Frozen(nonce) => nonce,
        other => panic!("a store that has forgotten answered {other:?}"),
    }
}

/// Takes a resource so often that its token is 5.
async fn fifth(member: &mut Member, name: &str) -> Term {
    let mut held = member.take(name).await;
    while held.token.0 < 5 {
        assert_eq!(member.give_back(&held).await, Released::Freed);
        held = member.take(name).await;
    }
    held
}

/// The store has forgotten. Somebody without a history comes first and gets nothing; the holder keeps what it has, and
/// after a thaw tokens go on above everything.
async fn nothing_is_given_twice(store: &Arc<dyn Store>, holder: &mut Member, held: &Term) {
    let newcomer = leasehold::store::OpenSession { id: MemberId::generate(), ..holder.session.clone() };
    let nonce = frozen(store.open(&newcomer).await.expect("the store answers"));
    assert!(nonce != holder.era, "a freeze has a nonce of its own");
    assert_eq!(holder.beat().await, Answer::Frozen(nonce), "it is frozen once");
    let kept = holder.reassert(nonce, std::slice::from_ref(held)).await;
    assert_eq!(kept, Answer::Done(vec![Reasserted::Kept]));
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    let mut other = Member::join(store, "other").await;
    let refused = Acquired::Held { by: holder.id().clone(), token: held.token };
    assert_eq!(other.ask(held.resource.as_str()).await, refused);
    assert_eq!(holder.beat().await, Answer::Done(vec![]));
    assert_eq!(holder.give_back(held).await, Released::Freed);
    assert!(other.take(held.resource.as_str()).await.token > held.token);
    assert!(other.take("never-seen").await.token.0 > 1 << 40, "what was forgotten needs no witness");
}

// proves C20
#[tokio::test]
async fn a_flush_under_living_holders_gives_nothing_twice() {
    let on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    let held = fifth(&mut one, "a").await;
    on.server.flush_all();
    assert!(era(&on.store).await.frozen, "who reads first finds it frozen");
    assert!(era(&on.store).await.ttl_max >= Duration::from_secs(60), "it may have forgotten any TTL");
    nothing_is_given_twice(&on.store, &mut one, &held).await;
}

// proves C20, R100
#[tokio::test]
async fn a_restart_without_persistence_gives_nothing_twice() {
    let mut on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    let held = fifth(&mut one, "a").await;
    on.server.restart();
    reconnect(&on.store).await;
    nothing_is_given_twice(&on.store, &mut one, &held).await;
}

/// A server that kept everything is started again: that is a freeze all the same.
async fn is_frozen_by(mut server: Redis, restart: impl FnOnce(&mut Redis)) {
    let url = address(&server, "");
    migrate(&url, Begin::Live).await.expect("an empty server");
    let store = open(&url).await;
    let mut one = Member::join(&store, "one").await;
    let held = fifth(&mut one, "a").await;
    restart(&mut server);
    let store = open(&url).await;
    one.store = store.clone();
    let kept = store.leases(&pool("work"), Cursor::START).await.expect("the store answers");
    assert_eq!((kept.era.frozen, kept.items[0].token), (true, held.token));
    nothing_is_given_twice(&store, &mut one, &held).await;
}

#[tokio::test]
async fn a_restart_that_kept_everything_is_a_freeze_all_the_same() {
    let setup = RedisSetup { persistence: Persistence::Always, ..RedisSetup::default() };
    is_frozen_by(Redis::start_with(setup), Redis::restart).await;
}

/// Its file names the replication id that it had, for its replicas' sake. It does not go by it.
#[tokio::test]
async fn a_primary_with_replicas_is_another_server_after_a_restart() {
    let primary = Redis::start();
    let _replica = primary.replica();
    let restart = |primary: &mut Redis| {
        primary.dump();
        primary.restore();
    };
    is_frozen_by(primary, restart).await;
}

/// What it shows may be behind, and it has the replication id of its primary.
#[tokio::test]
async fn a_primary_that_became_a_replica_is_not_even_read() {
    let primary = Redis::start();
    let url = address(&primary, "");
    migrate(&url, Begin::Live).await.expect("an empty server");
    let other = Redis::start();
    let store = open(&url).await;
    Member::join(&store, "one").await.take("a").await;
    other.cli(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let in_step = |server: &Redis| server.cli(&["INFO", "replication"]).contains("master_link_status:up");
    leasehold_testkit::wait_for("the other follows", || in_step(&other));
    other.cli(&["REPLICAOF", "NO", "ONE"]);
    let thawed = open(&address(&other, "")).await;
    assert_eq!(thawed.thaw(era(&thawed).await.nonce).await.expect("the store answers"), Thawed::Thawed);
    primary.cli(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    leasehold_testkit::wait_for("it follows the other", || in_step(&primary));
    let refused = store.leases(&pool("work"), Cursor::START).await;
    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test]
async fn a_promoted_replica_that_lacks_the_last_writes_gives_nothing_twice() {
    let mut primary = Redis::start();
    let line = Proxy::to(primary.port());
    let replica = primary.replica_of_port(line.port());
    let url = address(&primary, "");
    migrate(&url, Begin::Live).await.expect("an empty server");
    let store = open(&url).await;
    let mut one = Member::join(&store, "one").await;
    let given_back = one.take("a").await;
    assert_eq!(one.give_back(&given_back).await, Released::Freed);
    assert_ne!(primary.cli(&["WAIT", "1", "20000"]), "0");
    line.set(Faults::cut());
    let held = fifth(&mut one, "a").await;
    primary.kill();
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    let store = open(&address(&replica, "")).await;
    one.store = store.clone();
    let known = store.leases(&pool("work"), Cursor::START).await.expect("the store answers");
    assert!(known.era.frozen && known.items.iter().all(|lease| lease.token < held.token), "{known:?}");
    nothing_is_given_twice(&store, &mut one, &held).await;
}

/// The same process, set back by another while nobody looked: only its replication id tells.
#[tokio::test]
async fn a_primary_that_was_a_replica_in_between_is_another_server() {
    let primary = Redis::start();
    let line = Proxy::to(primary.port());
    let replica = primary.replica_of_port(line.port());
    let url = address(&primary, "");
    migrate(&url, Begin::Live).await.expect("an empty server");
    let store = open(&url).await;
    let mut one = Member::join(&store, "one").await;
    assert_ne!(primary.cli(&["WAIT", "1", "20000"]), "0");
    line.set(Faults::cut());
    let held = one.take("a").await;
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    primary.cli(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()]);
    leasehold_testkit::wait_for("it follows the other", || {
        primary.cli(&["INFO", "replication"]).contains("master_link_status:up")
    });
    primary.cli(&["REPLICAOF", "NO", "ONE"]);
    let store = open(&url).await;
    let known = store.leases(&pool("work"), Cursor::START).await.expect("the store answers");
    assert!(known.era.frozen && known.items.is_empty(), "the grant is forgotten, and it shows: {known:?}");
    one.store = store.clone();
    nothing_is_given_twice(&store, &mut one, &held).await;
}

#[tokio::test]
async fn a_failover_by_sentinels_is_followed_and_gives_nothing_twice() {
    let mut primary = Redis::start();
    let _replica = primary.replica();
    let sentinels = Sentinels::start(&primary, "main", 1);
    let url = sentinels.url().parse().expect("a good address");
    migrate(&url, Begin::Live).await.expect("an empty server");
    let store = open(&url).await;
    let mut one = Member::join(&store, "one").await;
    let held = fifth(&mut one, "a").await;
    let old = primary.port();
    assert_eq!(sentinels.primary(), Some(old));
    primary.kill();
    let pulse = one.pulse();
    let unknown = store.beat(one.id(), pulse).await;
    assert!(unknown.is_err(), "a missing primary is unknown, not lost: {unknown:?}");
    sentinels.wait_for_another(old);
    reconnect(&store).await;
    nothing_is_given_twice(&store, &mut one, &held).await;
}

#[tokio::test]
async fn a_server_that_shows_less_than_this_handle_has_seen_has_forgotten() {
    let on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    let _ = one.take("a").await;
    let before = era(&on.store).await;
    on.server.cli(&["HINCRBY", "leasehold:era", "seq", "-1"]);
    let newcomer = open(&address(&on.server, "")).await;
    assert_eq!(era(&newcomer).await, before, "who has seen nothing notices nothing");
    let after = era(&on.store).await;
    assert!(after.frozen && after.nonce != before.nonce, "{after:?}");
    assert_eq!(era(&newcomer).await, after);
}

#[tokio::test]
async fn a_server_that_knows_nothing_begins_frozen() {
    let server = Redis::start();
    let store = open(&address(&server, "")).await;
    let newcomer = leasehold::store::conformance::member::session("newcomer");
    let nonce = frozen(store.open(&newcomer).await.expect("the store answers"));
    let begun = era(&store).await;
    assert_eq!((begun.nonce, begun.frozen, begun.ttl_max), (nonce, true, Duration::from_secs(60)));
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    let mut one = Member::join(&store, "one").await;
    assert!(one.take("a").await.token.0 > 1 << 40);
}

#[tokio::test]
async fn stores_with_different_prefixes_do_not_know_each_other() {
    let server = Redis::start();
    let (here, there) = (address(&server, ""), address(&server, "?prefix=staging"));
    for url in [&here, &there] {
        migrate(url, Begin::Live).await.expect("an empty prefix");
    }
    let (here, there) = (open(&here).await, open(&there).await);
    let (mut one, mut two) = (Member::join(&here, "one").await, Member::join(&there, "two").await);
    assert_eq!(one.take("a").await.token, two.take("a").await.token);
    assert_eq!(here.sessions(&pool("work"), Cursor::START).await.unwrap().items.len(), 1);
}
