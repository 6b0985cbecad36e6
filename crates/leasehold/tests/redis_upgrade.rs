//! A Redis server that version 1 has written: it is used as it is, and brought to version 2 when that is asked for.

#[path = "support/redis_server.rs"]
mod redis_server;

use std::sync::Arc;

use leasehold::lease::{Term, Token};
use leasehold::store::conformance::{Member, pool, resource};
use leasehold::store::{
    self, Acquired, Answer, Begin, Cursor, LeaseRecord, Migrated, Offer, Release, Released, Revoked, Store,
    Wanted,
};
use leasehold_testkit::Redis;
use redis_server::{OnRedis, address, open};

/// What members of version 1 ask the server to do.
const ACQUIRE: &str = include_str!("support/redis_first_acquire.lua");
const EMIT: &str = include_str!("support/redis_first_emit.lua");

/// Has the server do what a member of version 1 would ask it for.
fn ask(server: &Redis, script: &str, own: &[&str]) -> String {
    let nonce = server.cli(&["HGET", "leasehold:era", "nonce"]);
    let keys = ["EVAL", script, "3", "leasehold:era", "leasehold:past", "leasehold:pools"];
    let every = ["leasehold", "0", "endpoints", "poll", &nonce, "1", "0", "fedcba9876543210", "60000"];
    server.cli(&[&keys[..], &every[..], own].concat())
}

/// Takes something for a session as a member of version 1 does.
fn take(on: &OnRedis, member: &Member, beat: u32, name: &str) -> String {
    let nonce = on.server.cli(&["HGET", "leasehold:era", "nonce"]);
    let (beat, none) = (format!("{beat:020}"), "0".repeat(20));
    ask(&on.server, ACQUIRE, &[member.id().as_str(), &nonce, &beat, &none, "9007199254740991", name, "0"])
}

fn emit(on: &OnRedis, member: &Member, term: &Term) -> String {
    let (token, id) = (term.token.to_string(), member.id().as_str());
    let what = [term.resource.as_str(), &token, id, "stream", "told", "9", "what"];
    ask(&on.server, EMIT, &[&["work"][..], &what].concat())
}

async fn all_leases(store: &Arc<dyn Store>) -> Vec<LeaseRecord> {
    store.leases(&pool("work"), Cursor::START).await.expect("the store answers").items
}

async fn lease(store: &Arc<dyn Store>, name: &str) -> LeaseRecord {
    let found = all_leases(store).await.into_iter().find(|lease| lease.resource.as_str() == name);
    found.expect("something is known of it")
}

async fn upgrade(on: &OnRedis) -> Migrated {
    store::migrate(&address(&on.server, ""), Begin::Frozen).await.expect("it can be upgraded")
}

/// What the server has in keys that only version 1 writes.
fn hashes(on: &OnRedis) -> String {
    on.server.cli(&["EVAL", "return #redis.call('KEYS', 'leasehold:work:lease:*')", "0"])
}

// Both versions use the same server, until it is upgraded.
#[tokio::test]
async fn members_of_both_versions_share_a_server_of_the_first() {
    let on = OnRedis::of_version_1().await;
    let (mut new, old) = (Member::join(&on.store, "new").await, Member::join(&on.store, "old").await);
    let held = new.take("a").await;
    assert!(take(&on, &old, 1, "a").contains(new.id().as_str()), "it is held");
    assert!(take(&on, &old, 2, "b").contains("granted"), "it is free");
    let Acquired::Held { by, token } = new.ask("b").await else { panic!("it is held") };
    assert_eq!((&by, token), (old.id(), Token(1)));
    assert_eq!(emit(&on, &new, &held), "told");
    assert_eq!(new.give_back(&held).await, Released::Freed);
    assert!(take(&on, &old, 3, "a").contains("granted"), "it was given back");
    assert_eq!(lease(&on.store, "a").await.token, Token(2));
    // A control plane of the new version prepares what is missing, and that is nothing.
    let found = store::prepare(&address(&on.server, ""), Begin::Frozen).await.expect("it is there");
    assert_eq!(found, Migrated { before: Some(1), now: 1 });
    assert!(take(&on, &old, 4, "c").contains("granted"), "nothing has changed for it");
}

#[tokio::test]
async fn an_upgrade_keeps_what_is_known_of_every_lease() {
    let on = OnRedis::of_version_1().await;
    let (mut one, mut two) = (Member::join(&on.store, "one").await, Member::join(&on.store, "two").await);
    let names: Vec<String> = (0..700).map(|number| format!("r{number}")).collect();
    for batch in names.chunks(100) {
        let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
        let _ = one.acquire(&batch).await;
    }
    let term = |name: &str| Term { resource: resource(name), token: Token(1) };
    let offer = Some(Offer { to: two.id().clone(), load: 7 });
    let _ = one.release(&[Release { term: term("r1"), offer }]).await;
    assert_eq!(one.give_back(&term("r2")).await, Released::Freed);
    assert_eq!(two.take("r2").await.token, Token(2));
    assert_eq!(on.store.revoke(&pool("work"), &term("r3")).await.unwrap(), Revoked::Marked);
    let (before, cursor) = {
        let read = on.store.leases(&pool("work"), Cursor::START).await.unwrap();
        (read.items, read.cursor)
    };
    // What readers are told may be missing or of an earlier change: the record counted, and goes on counting.
    let rows = "leasehold:work:rows:leases";
    on.server.cli(&["HSET", rows, "r4", "1\u{1f}9\u{1f}two-1\u{1f}30000\u{1f}0\u{1f}\u{1f}\u{1f}\u{1f}r4"]);
    assert_eq!(on.server.cli(&["HDEL", rows, "r5"]), "1");
    assert_eq!(hashes(&on), "700");

    assert_eq!(upgrade(&on).await, Migrated { before: Some(1), now: 2 });
    assert_eq!(hashes(&on), "0", "what nobody reads any more is gone");
    assert_eq!(all_leases(&on.store).await, before);
    assert_eq!(on.store.leases(&pool("work"), cursor).await.unwrap().items, [], "nothing has changed");
    assert_eq!(one.beat().await, Answer::Done(vec![term("r3")]), "members go on");
    let Acquired::Held { by, .. } = two.ask("r0").await else { panic!("it is held") };
    assert_eq!(&by, one.id());
    assert_eq!(one.give_back(&term("r0")).await, Released::Freed);
    assert_eq!(two.take("r0").await.token, Token(2), "tokens go on");
    let changed = on.store.leases(&pool("work"), cursor).await.unwrap().items;
    let names: Vec<&str> = changed.iter().map(|lease| lease.resource.as_str()).collect();
    assert_eq!(names, ["r0"]);
    one.close().await;
    on.store.collect(one.id()).await.unwrap();
    let left = |leases: Vec<LeaseRecord>| leases.iter().filter(|lease| lease.holder.is_some()).count();
    assert_eq!(left(all_leases(&on.store).await), 2, "what it held is found");
    assert_eq!(upgrade(&on).await, Migrated { before: Some(2), now: 2 });
}

// An upgrade that was cut short is finished by the next: what nobody reads is looked for again.
#[tokio::test]
async fn what_an_upgrade_left_behind_is_taken_away_by_the_next() {
    let on = OnRedis::of_version_1().await;
    let mut one = Member::join(&on.store, "one").await;
    let held = one.take("a").await;
    upgrade(&on).await;
    on.server.cli(&["HSET", "leasehold:era", "leftover", "1"]);
    on.server.cli(&["HSET", "leasehold:work:lease:a", "token", "9", "holder", "somebody-1"]);
    assert_eq!(upgrade(&on).await, Migrated { before: Some(2), now: 2 });
    assert_eq!(hashes(&on), "0");
    assert_eq!(one.give_back(&held).await, Released::Freed, "it was not believed");
}

// A member of version 1 that was there all the time gets nothing and tells nothing, and disturbs nobody.
#[tokio::test]
async fn who_knows_version_1_only_can_do_nothing_after_an_upgrade() {
    let on = OnRedis::of_version_1().await;
    let mut old = Member::join(&on.store, "old").await;
    let held = old.take("a").await;
    assert_eq!(emit(&on, &old, &held), "told");
    upgrade(&on).await;
    let everything =
        || on.server.cli(&["EVAL", "return redis.sha1hex(redis.call('DUMP', 'leasehold:era'))", "0"]);
    let before = everything();
    for name in ["a", "b"] {
        let said = take(&on, &old, 9, name);
        assert!(said.contains("used with other options"), "{said}");
    }
    assert_eq!(emit(&on, &old, &held), "unseen");
    assert_eq!(everything(), before, "and nothing was written");
    assert_eq!(old.beat().await, Answer::Done(vec![]), "the new ones are not disturbed");
}

// What is given for the first time together is one change, and each of it changes by itself afterwards.
#[tokio::test]
async fn a_batch_of_fresh_resources_is_read_whole_and_one_by_one() {
    let on = OnRedis::with("").await;
    let (mut one, mut two) = (Member::join(&on.store, "one").await, Member::join(&on.store, "two").await);
    let names: Vec<String> = (0..100).map(|number| format!("r{number:02}")).collect();
    let mut wanted: Vec<Wanted> =
        names.iter().map(|name| Wanted { resource: resource(name), floor: Token(0) }).collect();
    wanted.push(wanted[0].clone());
    wanted[7].floor = Token(41);
    let Answer::Done(outcomes) = one.acquire_wanted(&wanted).await else { panic!("a living session") };
    let Acquired::Held { by, token } = &outcomes[100] else { panic!("it was wanted twice") };
    assert_eq!((by, *token), (one.id(), Token(1)));
    let tokens: Vec<u64> = all_leases(&on.store).await.iter().map(|lease| lease.token.0).collect();
    assert_eq!(tokens, (0..100).map(|place| if place == 7 { 42 } else { 1 }).collect::<Vec<_>>());

    let work = pool("work");
    let cursor = on.store.leases(&work, Cursor::START).await.unwrap().cursor;
    let given = Term { resource: resource("r03"), token: Token(1) };
    assert_eq!(one.give_back(&given).await, Released::Freed);
    assert_eq!(two.take("r03").await.token, Token(2));
    let changed = on.store.leases(&work, cursor).await.unwrap().items;
    assert_eq!(changed, [lease(&on.store, "r03").await], "nothing else has changed");
    assert_eq!(all_leases(&on.store).await.len(), 100, "each is there once");

    one.close().await;
    on.store.collect(one.id()).await.unwrap();
    let held: Vec<LeaseRecord> =
        all_leases(&on.store).await.into_iter().filter(|lease| lease.holder.is_some()).collect();
    assert_eq!(held, [lease(&on.store, "r03").await], "what somebody else holds is left alone");
    assert_eq!(on.server.cli(&["KEYS", "leasehold:work:held:one*"]), "");
    assert_eq!(
        open(&address(&on.server, "")).await.leases(&work, Cursor::START).await.unwrap().items.len(),
        100
    );
}
