//! The Redis store with servers that refuse, break off, do not answer or are set up wrongly: a clear sentence, soon.

#[path = "support/certificates.rs"]
mod certificates;
#[path = "support/redis_reconnect.rs"]
mod redis_reconnect;
#[path = "support/redis_server.rs"]
mod redis_server;

use std::future::poll_fn;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use certificates::Certificates;
use leasehold::clock;
use leasehold::lease::{Nonce, ResourceId};
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{
    self, Acquired, Answer, Begin, Cursor, Declared, Freed, Grade, Listing, MarkKind, Marked, Migrated,
    Others, Released, Revoked, Store, StoreError, StoreErrorKind, StoreUrl, Thawed, Version,
};
use leasehold_testkit::{Persistence, Redis, RedisSetup, Sentinels};
use redis_reconnect::reconnect;
use redis_server::{OnRedis, address, open};

/// More than any call takes, with room for a busy machine.
const SOON: Duration = Duration::from_secs(8);

/// The error with which a store is refused, which comes soon.
async fn refused(url: &str) -> StoreError {
    let url: StoreUrl = url.parse().expect("a good address");
    let before = clock::now();
    let opened = store::open(&url).await;
    let took = clock::now().since(before);
    assert!(took < SOON, "it took {took:?}");
    opened.expect_err("the server cannot be used")
}

async fn is_refused(url: &str, kind: StoreErrorKind, said: &str) {
    let error = refused(url).await;
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(said), "{error}");
}

const MISCONFIGURED: StoreErrorKind = StoreErrorKind::Misconfigured;
const UNAVAILABLE: StoreErrorKind = StoreErrorKind::Unavailable;

// proves S15
#[tokio::test]
async fn a_wrong_password_is_refused_and_not_repeated() {
    let setup = RedisSetup { password: Some("hunter2".to_owned()), ..RedisSetup::default() };
    let server = Redis::start_with(setup);
    let port = server.port();
    for url in [
        format!("redis://:wrong-secret@127.0.0.1:{port}"),
        format!("redis://x:wrong-secret@127.0.0.1:{port}"),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), MISCONFIGURED, "{error}");
        assert!(error.to_string().contains("refused the user or the password"), "{error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    is_refused(&format!("redis://127.0.0.1:{port}"), MISCONFIGURED, "wants a password").await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "hunter2\n").expect("our own file");
    let url = format!("redis://127.0.0.1:{port}?password-file={}", file.path().display());
    let store = open(&url.parse().expect("a good address")).await;
    assert!(!format!("{store:?}").contains("hunter2"), "{store:?}");
}

#[tokio::test]
async fn a_server_that_runs_no_scripts_is_refused() {
    let server = Redis::start_with(RedisSetup::default().with(&["--rename-command", "EVALSHA", ""]));
    let url = address(&server, "");
    let error = store::migrate(&url, Begin::Live).await.expect_err("there are no scripts");
    assert_eq!(error.kind(), MISCONFIGURED, "{error}");
    is_refused(&server.url(), MISCONFIGURED, "must have scripts").await;

    let server = Redis::start();
    server.cli(&["ACL", "SETUSER", "anna", "on", "nopass", "~*", "&*", "+@all", "-@scripting"]);
    let url = format!("redis://anna:x@127.0.0.1:{}", server.port());
    is_refused(&url, MISCONFIGURED, "does not permit this user to run scripts").await;
}

#[tokio::test]
async fn a_user_with_the_rights_that_the_manual_names_is_enough() {
    let server = Redis::start();
    let manual = include_str!("../../../docs/stores/redis.md");
    let line =
        manual.lines().find(|line| line.starts_with("ACL SETUSER")).expect("the manual names the rights");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(server.cli(&words), "OK");
    for options in ["", "?mirror=work"] {
        server.flush_all();
        let url = format!("redis://leasehold:secret@127.0.0.1:{}{options}", server.port());
        let url: StoreUrl = url.parse().expect("a good address");
        store::migrate(&url, Begin::Live).await.expect("it may prepare the store");
        uses_everything(&open(&url).await).await;
    }
}

/// Every call that needs a right of its own.
async fn uses_everything(store: &Arc<dyn Store>) {
    let work = pool("work");
    let mut hints = store.changes(&work);
    assert!(poll_fn(|context| hints.as_mut().poll_next(context)).await.is_some());
    let mut one = Member::join(store, "one").await;
    let (held, other) = (one.take("a").await, one.take("b").await);
    assert_eq!(store.revoke(&work, &held).await.unwrap(), Revoked::Marked);
    assert_eq!(one.beat().await, Answer::Done(vec![held.clone()]));
    assert_eq!(store.free_revoked(&work, &held, one.era).await.unwrap(), Freed::Freed);
    assert_eq!(one.give_back(&other).await, Released::Freed);
    let set = store.set_mark(&work, MarkKind::Drain, "one", Some(""), Version(0)).await.unwrap();
    assert_eq!(set, Marked::Set(Version(1)));
    assert_eq!(store.marks(&work, Cursor::START).await.unwrap().items.len(), 1);
    let listing = Listing::default();
    store.publish(&work, &listing.id(), &listing).await.unwrap();
    assert_eq!(store.listing(&work, &listing.id()).await.unwrap(), Some(listing));
    store.collect_listings(&work).await.unwrap();
    assert_eq!(store.ledger(&work, None, 0, 9).await.unwrap(), []);
    let mut strange = one.clone();
    strange.era = Nonce::generate();
    let Answer::Frozen(nonce) = strange.beat().await else { panic!("an era that never was") };
    assert_eq!(one.reassert(nonce, &[]).await, Answer::Done(vec![]));
    assert_eq!(store.thaw(nonce).await.unwrap(), Thawed::Thawed);
    let _ = one.take("a").await;
    one.close().await;
    store.collect(one.id()).await.unwrap();
    assert_eq!(store.pools().await.unwrap(), std::slice::from_ref(&work));
    let checkup = store.checkup().await.expect("it may look at the settings");
    let unseen = checkup.findings.iter().any(|finding| finding.what.contains("could not be looked at"));
    assert!(!unseen, "{checkup:?}");
}

#[tokio::test]
async fn a_replica_is_refused() {
    let server = Redis::start();
    let replica = server.replica();
    is_refused(&replica.url(), MISCONFIGURED, "is a replica, which takes no writes; name the primary").await;
}

#[tokio::test]
async fn a_primary_that_becomes_a_replica_is_unavailable_and_no_more() {
    let on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    let other = Redis::start();
    on.server.cli(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    for _ in 0..2 {
        let pulse = one.pulse();
        let error = on.store.beat(one.id(), pulse).await.expect_err("a replica takes no writes");
        assert_eq!(error.kind(), UNAVAILABLE, "{error}");
    }
}

#[tokio::test]
async fn a_cluster_is_refused() {
    let server = Redis::start_with(RedisSetup::default().with(&["--cluster-enabled", "yes"]));
    is_refused(&server.url(), MISCONFIGURED, "is a cluster").await;
}

#[tokio::test]
async fn a_server_that_takes_connections_and_never_answers_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    is_refused(&format!("redis://127.0.0.1:{port}"), UNAVAILABLE, "did not answer within").await;
    is_refused(&format!("redis+sentinel://127.0.0.1:{port}/main"), UNAVAILABLE, "the sentinel at").await;
}

#[tokio::test]
async fn a_server_that_is_down_is_unavailable() {
    let port = leasehold_testkit::free_port();
    is_refused(&format!("redis://127.0.0.1:{port}"), UNAVAILABLE, "cannot be reached").await;
    is_refused(&format!("redis+sentinel://127.0.0.1:{port}/main"), UNAVAILABLE, "the sentinel at").await;
    is_refused("redis://no-such-host.invalid", UNAVAILABLE, "").await;
}

#[tokio::test]
async fn sentinels_that_do_not_know_the_service_are_a_mistake_in_the_address() {
    let server = Redis::start();
    let sentinels = Sentinels::start(&server, "main", 0);
    let url = sentinels.url().replace("/main", "/other");
    is_refused(&url, MISCONFIGURED, "knows no service \"other\"").await;
    let port = sentinels.url().split(':').nth(2).and_then(|rest| rest.split(',').next()).unwrap().to_owned();
    is_refused(&format!("redis://127.0.0.1:{port}"), MISCONFIGURED, "is a sentinel").await;
}

#[tokio::test]
async fn a_paused_server_is_unknown_in_time_and_served_again_by_itself() {
    let on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    on.server.pause();
    let before = clock::now();
    let pulse = one.pulse();
    let error = on.store.beat(one.id(), pulse).await.expect_err("nobody answers");
    assert_eq!(error.kind(), UNAVAILABLE, "{error}");
    assert!(clock::now().since(before) < SOON);
    on.server.resume();
    reconnect(&on.store).await;
    assert_eq!(one.beat().await, Answer::Done(vec![]), "a pause forgets nothing");
}

#[tokio::test]
async fn a_server_that_is_still_loading_is_waited_for() {
    let mut on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    for number in 0..40 {
        on.server.cli(&["SET", &format!("other:{number}"), &"x".repeat(4000)]);
    }
    on.server.dump();
    on.server.restore_slowly(Duration::from_millis(100));
    let url = address(&on.server, "");
    let mut said = Vec::new();
    for _ in 0..600 {
        match store::open(&url).await {
            Ok(_) => break,
            Err(error) => {
                assert_eq!(error.kind(), UNAVAILABLE, "{error}");
                said.push(error.to_string());
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(said.iter().any(|said| said.contains("still loading")), "{said:?}");
    reconnect(&on.store).await;
    assert!(matches!(one.beat().await, Answer::Frozen(_)), "it was another server before");
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    assert_eq!(on.server.cli(&["SCRIPT", "FLUSH"]), "OK");
    assert!(matches!(one.ask("a").await, Acquired::Granted(_)));
    assert_eq!(one.beat().await, Answer::Done(vec![]));
}

// proves the transport's part of S09
#[tokio::test]
async fn a_private_authority_is_trusted_only_where_it_is_named() {
    let files = Certificates::new();
    let server =
        Redis::start_with(RedisSetup { tls: true, args: files.server_args(), ..RedisSetup::default() });
    let port = server.port();
    let url = format!("rediss://localhost:{port}?ca={}", files.authority());
    // The server wants to know who we are.
    is_refused(&url, MISCONFIGURED, "certificate").await;
    let url = format!("{url}&cert={}&key={}", files.client(), files.client_key());
    let parsed: StoreUrl = url.parse().unwrap();
    store::migrate(&parsed, Begin::Live).await.expect("it is trusted, and so are we");
    let store = open(&parsed).await;
    let mut one = Member::join(&store, "one").await;
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    let strange = Certificates::new();
    let url = format!("rediss://localhost:{port}?ca={}", strange.authority());
    is_refused(&url, MISCONFIGURED, "could not be trusted").await;
    let url = format!("rediss://127.0.0.1:{port}?ca={}", files.authority());
    is_refused(&url, MISCONFIGURED, "could not be trusted").await;
    is_refused(&format!("rediss://localhost:{port}"), MISCONFIGURED, "could not be trusted").await;
    is_refused(&format!("redis://localhost:{port}"), UNAVAILABLE, "").await;
}

#[tokio::test]
async fn a_migration_writes_the_first_era_and_nothing_after() {
    let server = Redis::start();
    let url = address(&server, "");
    open(&url).await;
    assert_eq!(server.cli(&["DBSIZE"]), "0", "opening writes nothing");
    assert_eq!(store::migrate(&url, Begin::Frozen).await.unwrap(), Migrated { before: None, now: 2 });
    let record = || server.cli(&["HMGET", "leasehold:era", "nonce", "frozen", "identity", "ttl_max", "seq"]);
    let before = record();
    assert_eq!(store::migrate(&url, Begin::Live).await.unwrap(), Migrated { before: Some(2), now: 2 });
    assert_eq!(record(), before, "what is there stays");
    let era = open(&url).await.sessions(&pool("work"), Cursor::START).await.unwrap().era;
    assert!(era.frozen && era.ttl_max == Duration::from_secs(60), "{era:?}");
    let there = open(&url).await;
    server.cli(&["HSET", "leasehold:era", "version", "3"]);
    let refused = there.sessions(&pool("work"), Cursor::START).await.expect_err("it cannot read that");
    assert!(refused.to_string().contains("written by a newer Leasehold"), "{refused}");
    is_refused(&server.url(), MISCONFIGURED, "written by a newer Leasehold").await;
}

#[tokio::test]
async fn a_database_with_others_keys_in_the_way_is_refused() {
    let server = Redis::start();
    server.cli(&["SET", "leasehold:era", "something"]);
    is_refused(&server.url(), MISCONFIGURED, "a key of another kind").await;
}

/// Records of a mirrored pool have other keys, so two members that mirror differently would never meet.
#[tokio::test]
async fn members_that_mirror_differently_are_kept_out() {
    let on = OnRedis::with("").await;
    for options in ["?mirror=work", "?poll=other"] {
        let url = address(&on.server, options);
        let error = store::migrate(&url, Begin::Live).await.expect_err("it is used otherwise");
        assert_eq!(error.kind(), MISCONFIGURED, "{error}");
        let store = open(&url).await;
        let error = store.sessions(&pool("work"), Cursor::START).await.expect_err("it is used otherwise");
        assert!(error.to_string().contains("other values of mirror= or poll="), "{error}");
    }
    let mut one = Member::join(&on.store, "one").await;
    assert_eq!(one.beat().await, Answer::Done(vec![]), "the others are not disturbed");
}

#[tokio::test]
async fn what_too_few_replicas_have_is_unknown() {
    let server = Redis::start();
    let url = address(&server, "?wait=1");
    let error = store::migrate(&url, Begin::Live).await.expect_err("there is no replica");
    assert_eq!(error.kind(), UNAVAILABLE, "{error}");
    assert!(error.to_string().contains("only 0 of 1 replicas have it"), "{error}");
    let _replica = server.replica();
    server.flush_all();
    store::migrate(&url, Begin::Live).await.expect("there is a replica now");
    let store = open(&url).await;
    let mut one = Member::join(&store, "one").await;
    assert_eq!(one.beat().await, Answer::Done(vec![]));
}

/// What a check-up says of a server that was set up so.
async fn looked_over(setup: RedisSetup, options: &str) -> (Grade, String) {
    let server = Redis::start_with(setup);
    let store = open(&address(&server, options)).await;
    let checkup = store.checkup().await.expect("the store answers");
    assert!(checkup.server.starts_with("Redis "), "{checkup:?}");
    assert_eq!(store.capabilities().grade, checkup.grade);
    let weak: Vec<String> = checkup.findings.into_iter().filter(|f| f.weak).map(|f| f.what).collect();
    (checkup.grade, weak.join("; "))
}

// proves P12
#[tokio::test]
async fn the_grade_follows_from_the_servers_real_settings() {
    let keeps = |persistence| RedisSetup { persistence, ..RedisSetup::default() };
    assert_eq!(looked_over(keeps(Persistence::Always), "").await, (Grade::DurableOnOneNode, String::new()));
    let (grade, weak) = looked_over(keeps(Persistence::EverySecond), "").await;
    assert!(grade == Grade::MayLoseWrites && weak.contains("up to a second"), "{grade}: {weak}");
    let (grade, weak) = looked_over(keeps(Persistence::Nothing), "").await;
    assert!(grade == Grade::MayLoseWrites && weak.contains("nothing is kept on the disk"), "{grade}: {weak}");
    let evicts =
        keeps(Persistence::Always).with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let (grade, weak) = looked_over(evicts, "").await;
    assert!(grade == Grade::Volatile && weak.contains("any key may be evicted"), "{grade}: {weak}");
    let evicts =
        keeps(Persistence::Always).with(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"]);
    let (grade, weak) = looked_over(evicts, "").await;
    assert!(grade == Grade::DurableOnOneNode && weak.contains("mirror"), "{grade}: {weak}");
}

#[tokio::test]
async fn replicas_and_settings_that_cannot_be_seen_lower_the_grade() {
    let server = Redis::start_with(RedisSetup { persistence: Persistence::Always, ..RedisSetup::default() });
    let _replica = server.replica();
    let checkup = open(&address(&server, "")).await.checkup().await.unwrap();
    let weak: Vec<_> = checkup.findings.iter().filter(|finding| finding.weak).collect();
    assert_eq!((checkup.grade, weak.len()), (Grade::MayLoseWrites, 1), "{checkup:?}");
    assert!(weak[0].advice.as_ref().unwrap().contains("wait=1"), "{weak:?}");
    let checkup = open(&address(&server, "?wait=1")).await.checkup().await.unwrap();
    assert_eq!(checkup.grade, Grade::DurableOnOneNode, "{checkup:?}");
    server.cli(&["ACL", "SETUSER", "anna", "on", "nopass", "~*", "&*", "+@all", "-config"]);
    let url = format!("redis://anna:x@127.0.0.1:{}?wait=1", server.port());
    let checkup = open(&url.parse().unwrap()).await.checkup().await.unwrap();
    assert_eq!(checkup.grade, Grade::MayLoseWrites);
    assert!(checkup.findings.iter().any(|f| f.what.contains("could not be looked at")), "{checkup:?}");
}

/// Whether a reader that has read everything is told that nothing but beats changed, after each kind of change.
#[tokio::test]
async fn a_pool_is_quiet_only_while_nothing_but_beats_changes() {
    let on = OnRedis::with("").await;
    let (store, work) = (&on.store, pool("work"));
    let mut one = Member::join(store, "one").await;
    let read = async || {
        let others = Others {
            leases: store.leases(&work, Cursor::START).await.unwrap().cursor,
            marks: store.marks(&work, Cursor::START).await.unwrap().cursor,
            declared: store.resources(&work, Cursor::START).await.unwrap().cursor,
        };
        (store.sessions(&work, Cursor::START).await.unwrap().cursor, others)
    };
    let (sessions, others) = read().await;
    let quiet = async |sessions, others| store.sessions_if_quiet(&work, sessions, others).await.unwrap();
    assert_eq!(quiet(sessions, others).await.expect("nothing changed").items, []);
    let _ = one.beat().await;
    let told = quiet(sessions, others).await.expect("only a beat");
    let plain = store.sessions(&work, sessions).await.unwrap();
    assert_eq!((told.items.len(), &told), (1, &plain), "as if asked without condition");
    let (two, all) = (Member::join(store, "two").await, quiet(told.cursor, others).await.expect("a session"));
    assert_eq!(all.items.iter().map(|session| &session.id).collect::<Vec<_>>(), [two.id()]);
    one.take("a").await;
    assert_eq!(quiet(sessions, others).await, None, "a lease");
    let (sessions, others) = read().await;
    let _ = store.set_mark(&work, MarkKind::Pause, "a", Some(""), Version::default()).await.unwrap();
    assert_eq!(quiet(sessions, others).await, None, "a mark");
    let (sessions, others) = read().await;
    let _ = store.declare(&work, &Declared::new(ResourceId::new("b").unwrap())).await.unwrap();
    assert_eq!(quiet(sessions, others).await, None, "a declared resource");
    let (sessions, others) = read().await;
    on.server.flush_all();
    let forgot = quiet(sessions, others).await;
    assert!(forgot.is_none_or(|told| told.era.frozen), "another era is told as such");
}
