//! What is told on a Redis server under a term: only what stands, by a server that has been judged.

#[path = "support/redis_server.rs"]
mod redis_server;

use leasehold::lease::Term;
use leasehold::store::conformance::{Member, pool};
use leasehold::store::redis::{EMISSIONS_MAX, Emission, Emitted, Outlet, RedisLine};
use leasehold::store::{Answer, Begin, Reasserted, Released, migrate};
use leasehold_testkit::Redis;
use redis_server::{OnRedis, address, open};

fn emission(member: &Member, term: &Term) -> Emission {
    let outlet = Outlet::Stream { key: "told".to_owned(), keep: 100 };
    Emission { holder: member.id().clone(), term: term.clone(), outlet, what: "what".to_owned() }
}

/// Tells something under this term, in a stream that keeps it.
async fn tell(line: &RedisLine, member: &Member, term: &Term) -> Emitted {
    let told = line.emit(&pool("work"), &[emission(member, term)]).await.expect("the server answers");
    told[0]
}

fn told(server: &Redis) -> String {
    server.cli(&["XLEN", "told"])
}

// proves C22
#[tokio::test]
async fn nothing_is_told_under_a_term_that_does_not_stand() {
    let on = OnRedis::with("").await;
    let line = RedisLine::open(&address(&on.server, "")).await.expect("the server answers");
    let (mut one, mut other) = (Member::join(&on.store, "one").await, Member::join(&on.store, "other").await);
    let held = one.take("a").await;
    assert_eq!(tell(&line, &one, &held).await, Emitted::Told);
    assert_eq!(tell(&line, &other, &held).await, Emitted::Stale, "it is somebody else's");
    assert_eq!(one.give_back(&held).await, Released::Freed);
    assert_eq!(tell(&line, &one, &held).await, Emitted::Stale, "it was given back");
    let next = other.take("a").await;
    assert_eq!(tell(&line, &one, &held).await, Emitted::Stale, "it has another term");
    assert_eq!(tell(&line, &other, &next).await, Emitted::Told);
    on.store.close(other.id()).await.expect("the store answers");
    assert_eq!(tell(&line, &other, &next).await, Emitted::Stale, "its holder has ended");
    assert_eq!(told(&on.server), "2");

    // Of several at once each is compared by itself.
    let mut third = Member::join(&on.store, "third").await;
    let (free, kept) = (third.take("b").await, third.take("c").await);
    assert_eq!(third.give_back(&free).await, Released::Freed);
    let several = [&kept, &next, &free, &kept].map(|term| emission(&third, term));
    let emitted = line.emit(&pool("work"), &several).await.expect("the server answers");
    assert_eq!(emitted, [Emitted::Told, Emitted::Stale, Emitted::Stale, Emitted::Told]);
    assert_eq!(told(&on.server), "4");
    let many = vec![emission(&third, &kept); EMISSIONS_MAX + 1];
    let refused = line.emit(&pool("work"), &many).await.expect_err("everything has a limit");
    assert!(refused.to_string().contains("at most 64"), "{refused}");
}

// proves C20, C22
#[tokio::test]
async fn a_server_that_was_set_back_tells_nothing_that_was_not_said_again() {
    let mut server = Redis::start();
    let url = address(&server, "");
    migrate(&url, Begin::Live).await.expect("an empty server");
    let store = open(&url).await;
    let line = RedisLine::open(&url).await.expect("the server answers");
    let (mut one, mut other) = (Member::join(&store, "one").await, Member::join(&store, "other").await);
    let (lost, kept) = (one.take("lost").await, other.take("kept").await);
    assert_eq!(tell(&line, &one, &lost).await, Emitted::Told);
    server.dump();
    // All that comes now is forgotten.
    assert_eq!(one.give_back(&lost).await, Released::Freed);
    other.take("lost").await;
    server.restore();
    // The first that is said is said on a connection that is no more.
    let broken = line.emit(&pool("work"), &[emission(&one, &lost)]).await;
    assert!(broken.is_err() || broken.as_ref().is_ok_and(|said| said == &[Emitted::Stale]), "{broken:?}");
    assert_eq!(tell(&line, &one, &lost).await, Emitted::Stale, "the server would have let it pass");
    assert_eq!(tell(&line, &other, &kept).await, Emitted::Stale, "nobody has said it again yet");
    other.store = open(&url).await;
    let Answer::Frozen(nonce) = other.beat().await else { panic!("it has forgotten something") };
    let said = other.reassert(nonce, std::slice::from_ref(&kept)).await;
    assert_eq!(said, Answer::Done(vec![Reasserted::Kept]));
    assert_eq!(tell(&line, &other, &kept).await, Emitted::Told);
}
