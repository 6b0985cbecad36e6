//! Members and clients that know nothing of Leasehold share endpoints: each keeps the other out, and each sees the other.

#[path = "support/redis_server.rs"]
mod redis_server;

use std::future::poll_fn;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::lease::{MemberId, Term, Token};
use leasehold::store::conformance::member::session;
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{Acquired, Answer, Begin, Cursor, Reasserted, Released, Store, Thawed, migrate};
use leasehold_testkit::{Redis, RedisSetup, wait_for};
use redis_server::{OnRedis, address, open};

/// A member of the pool that is mirrored.
async fn join(store: &Arc<dyn Store>, name: &str) -> Member {
    let mut session = session(name);
    session.pool = pool("endpoints");
    let Answer::Done(era) = store.open(&session).await.expect("the store answers") else { panic!("refused") };
    Member { store: store.clone(), session, era, sent: 0, confirmed: 0 }
}

/// A foreigner takes an endpoint, as the documents say.
fn foreigner_takes(server: &Redis, endpoint: &str, instance: &str, millis: u64) -> bool {
    let key = format!("poll:lease:{endpoint}");
    server.cli(&["SET", &key, instance, "NX", "PX", &millis.to_string()]) == "OK"
}

fn mirror(server: &Redis, endpoint: &str) -> String {
    server.cli(&["GET", &format!("poll:lease:{endpoint}")])
}

fn held_by(name: &str, token: u64) -> Acquired {
    Acquired::Held { by: MemberId::new(name).expect("a good id"), token: Token(token) }
}

// proves R071, R077, R094, R095, C23
#[tokio::test]
async fn foreigners_see_the_exact_keys_of_the_documents() {
    let on = OnRedis::with("").await;
    let mut one = join(&on.store, "one").await;
    let held = one.take("42").await;
    assert_eq!(mirror(&on.server, "42"), one.id().as_str());
    assert_eq!(on.server.cli(&["GET", &format!("poll:node:{}", one.id())]), "1");
    for key in ["poll:lease:42".to_owned(), format!("poll:node:{}", one.id())] {
        let left: i64 = on.server.cli(&["PTTL", &key]).parse().expect("a number");
        assert!((20_000..=30_000).contains(&left), "{key} has {left} ms left");
    }
    assert_eq!(on.server.cli(&["HGET", "poll:fence:{poll:lease:42}", "token"]), held.token.to_string());
    assert!(!foreigner_takes(&on.server, "42", "foreign-1", 30_000), "it is ours");
    on.server.cli(&["PEXPIRE", "poll:lease:42", "5000"]);
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    let left: i64 = on.server.cli(&["PTTL", "poll:lease:42"]).parse().expect("a number");
    assert!(left > 20_000, "a beat renews it: {left}");
    assert_eq!(one.give_back(&held).await, Released::Freed);
    assert_eq!(mirror(&on.server, "42"), "", "it was given back");
    assert!(foreigner_takes(&on.server, "42", "foreign-1", 30_000));
    one.close().await;
    assert_eq!(on.server.cli(&["EXISTS", &format!("poll:node:{}", one.id())]), "0");
}

#[tokio::test]
async fn ordinary_pools_have_no_mirror() {
    let on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    let _ = one.take("42").await;
    assert_eq!(on.server.cli(&["KEYS", "poll:*"]), "");
}

#[tokio::test]
async fn what_a_foreigner_has_is_held_and_taken_when_it_has_run_out() {
    let on = OnRedis::with("").await;
    let mut one = join(&on.store, "one").await;
    let before = clock::now();
    assert!(foreigner_takes(&on.server, "42", "foreign-1", 1500));
    assert_eq!(one.ask("42").await, held_by("foreign-1", 0));
    for _ in 0..600 {
        match one.ask("42").await {
            Acquired::Granted(term) => {
                assert!(clock::now().since(before) >= Duration::from_millis(1500), "it was still theirs");
                assert_eq!(term.token, Token(1));
                assert_eq!(mirror(&on.server, "42"), one.id().as_str());
                return;
            }
            held => assert_eq!(held, held_by("foreign-1", 0)),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it was never taken");
}

/// A server's clock that jumps makes keys vanish early.
#[tokio::test]
async fn a_foreign_lease_that_vanishes_early_is_not_taken_by_who_saw_it() {
    let on = OnRedis::with("").await;
    let mut one = join(&on.store, "one").await;
    assert!(foreigner_takes(&on.server, "42", "foreign-1", 3000));
    let before = clock::now();
    assert_eq!(one.ask("42").await, held_by("foreign-1", 0));
    on.server.cli(&["DEL", "poll:lease:42"]);
    while one.ask("42").await == held_by("foreign-1", 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let waited = clock::now().since(before);
    assert!(waited >= Duration::from_millis(2500), "it was taken after {waited:?}");
}

#[tokio::test]
async fn a_mirror_that_vanished_is_put_back_and_frees_nothing() {
    let on = OnRedis::with("").await;
    let (mut one, mut two) = (join(&on.store, "one").await, join(&on.store, "two").await);
    let held = one.take("42").await;
    on.server.cli(&["DEL", "poll:lease:42"]);
    assert_eq!(two.ask("42").await, held_by(one.id().as_str(), held.token.0));
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    assert_eq!(mirror(&on.server, "42"), one.id().as_str());
}

/// The holder may not have heard of it: until it lets go, no other member gets it.
#[tokio::test]
async fn what_a_foreigner_took_from_a_member_is_revoked_and_no_other_members_until_it_is_let_go() {
    let on = OnRedis::with("").await;
    let (mut one, mut two) = (join(&on.store, "one").await, join(&on.store, "two").await);
    let (lost, kept) = (one.take("42").await, one.take("43").await);
    on.server.cli(&["DEL", "poll:lease:42"]);
    assert!(foreigner_takes(&on.server, "42", "foreign-1", 600_000));
    assert_eq!(one.beat().await, Answer::Done(vec![lost.clone()]), "it is not extended");
    assert_eq!(mirror(&on.server, "42"), "foreign-1", "what is theirs is left alone");
    assert_eq!(two.ask("42").await, held_by("foreign-1", lost.token.0));
    on.server.cli(&["DEL", "poll:lease:42"]);
    let newcomer = open(&address(&on.server, "")).await;
    let mut three = join(&newcomer, "three").await;
    assert_eq!(
        three.ask("42").await,
        held_by(one.id().as_str(), lost.token.0),
        "its holder may still act on it"
    );
    assert_eq!(one.give_back(&lost).await, Released::Freed);
    assert_eq!(three.take("42").await.token.0, lost.token.0 + 1);
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    assert_eq!(mirror(&on.server, "43"), one.id().as_str(), "{kept}");
}

#[tokio::test]
async fn a_mirror_left_by_an_ended_session_is_overwritten() {
    let on = OnRedis::with("").await;
    let (mut one, mut two) = (join(&on.store, "one").await, join(&on.store, "two").await);
    let held = one.take("42").await;
    let ended = on.store.end_silent(one.id(), leasehold::lease::BeatNumber(1), one.era).await;
    assert_eq!(ended.expect("the store answers"), leasehold::store::EndSilent::Ended);
    assert_eq!(mirror(&on.server, "42"), one.id().as_str());
    assert_eq!(two.take("42").await.token.0, held.token.0 + 1);
    assert_eq!(mirror(&on.server, "42"), two.id().as_str());
}

#[tokio::test]
async fn closing_and_collecting_take_the_mirror_away() {
    let on = OnRedis::with("").await;
    for closes in [true, false] {
        let mut one = join(&on.store, "one").await;
        let _ = one.take("42").await;
        if closes {
            one.close().await;
        } else {
            let _ = on.store.end_silent(one.id(), leasehold::lease::BeatNumber(1), one.era).await.unwrap();
            on.store.collect(one.id()).await.unwrap();
        }
        assert_eq!(on.server.cli(&["KEYS", "poll:lease:*"]), "");
        assert_eq!(on.server.cli(&["KEYS", "poll:node:*"]), "");
    }
}

#[tokio::test]
async fn a_foreigner_that_came_first_after_a_flush_keeps_what_it_took() {
    let on = OnRedis::with("").await;
    let mut one = join(&on.store, "one").await;
    let terms = [one.take("42").await, one.take("43").await];
    on.server.flush_all();
    assert!(foreigner_takes(&on.server, "42", "foreign-1", 600_000));
    let Answer::Frozen(nonce) = one.beat().await else { panic!("it has forgotten") };
    let outcomes = one.reassert(nonce, &terms).await;
    assert_eq!(outcomes, Answer::Done(vec![Reasserted::Lost, Reasserted::Kept]));
    assert_eq!(mirror(&on.server, "43"), one.id().as_str());
    assert_eq!(on.store.thaw(nonce).await.unwrap(), Thawed::Thawed);
    assert_eq!(one.beat().await, Answer::Done(vec![]));
}

#[tokio::test]
async fn whatever_stands_in_a_mirror_is_somebodys() {
    let on = OnRedis::with("").await;
    let mut one = join(&on.store, "one").await;
    on.server.cli(&["RPUSH", "poll:lease:list", "x"]);
    on.server.cli(&["SET", "poll:lease:odd", "a value: with / anything"]);
    let Answer::Done(outcomes) = one.acquire(&["list", "odd", "free"]).await else {
        panic!("a living session")
    };
    for odd in &outcomes[..2] {
        let Acquired::Held { by, .. } = odd else { panic!("it is somebody's: {odd:?}") };
        assert!(by.as_str().starts_with("foreign-"), "{by}");
    }
    assert!(matches!(outcomes[2], Acquired::Granted(_)));
}

#[tokio::test]
async fn members_see_what_a_foreigner_has_and_that_it_let_go() {
    let on = OnRedis::with("").await;
    let (mut one, newcomer) = (join(&on.store, "one").await, open(&address(&on.server, "")).await);
    let endpoints = pool("endpoints");
    let holder = async |store: &Arc<dyn Store>| {
        let leases = store.leases(&endpoints, Cursor::START).await.expect("the store answers").items;
        leases.into_iter().find(|lease| lease.resource.as_str() == "42").and_then(|lease| lease.holder)
    };
    assert!(foreigner_takes(&on.server, "42", "foreign-1", 1500));
    assert_eq!(holder(&newcomer).await, None, "nobody has looked");
    assert_eq!(one.ask("42").await, held_by("foreign-1", 0));
    let foreign = MemberId::new("foreign-1").ok();
    assert_eq!((holder(&on.store).await, holder(&newcomer).await), (foreign.clone(), foreign.clone()));
    // It renews, and stays.
    on.server.cli(&["PEXPIRE", "poll:lease:42", "3000"]);
    tokio::time::sleep(Duration::from_millis(1700)).await;
    assert_eq!(holder(&newcomer).await, foreign);
    for _ in 0..600 {
        if holder(&newcomer).await.is_none() {
            assert_eq!(mirror(&on.server, "42"), "", "it has run out");
            assert_eq!(holder(&on.store).await, None, "everybody sees it");
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody noticed that it ran out");
}

/// Takes and gives back endpoints until it has held so many, and makes a directory for each while it holds it.
async fn work(
    mut member: Member,
    directory: Arc<Path>,
    endpoints: Vec<String>,
    rounds: usize,
) -> (usize, usize) {
    let (mut held, mut refused) = (0, 0);
    let begun = clock::now();
    while held < rounds && clock::now().since(begun) < Duration::from_secs(120) {
        let names: Vec<&str> = endpoints.iter().map(String::as_str).collect();
        let Answer::Done(outcomes) = member.acquire(&names).await else { panic!("a living session") };
        let mut terms: Vec<Term> = Vec::new();
        for outcome in outcomes {
            match outcome {
                Acquired::Granted(term) => {
                    std::fs::create_dir(directory.join(term.resource.as_str()))
                        .expect("nobody else holds it");
                    terms.push(term);
                }
                Acquired::Held { .. } => refused += 1,
            }
        }
        assert_eq!(member.beat().await, Answer::Done(vec![]), "nothing is lost while it is held");
        for term in terms {
            std::fs::remove_dir(directory.join(term.resource.as_str())).expect("it is ours");
            assert_eq!(member.give_back(&term).await, Released::Freed);
            held += 1;
        }
    }
    (held, refused)
}

// proves R071, R072, R073, SC-001
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_and_plain_clients_that_race_for_endpoints_exclude_each_other() {
    const ROUNDS: usize = 1000;
    let server = Redis::start_with(RedisSetup::default().with(&["--notify-keyspace-events", "Kgx"]));
    let url = address(&server, "");
    migrate(&url, Begin::Live).await.expect("an empty server");
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let endpoints: Vec<String> = (1..=6).map(|number| format!("endpoint-{number}")).collect();
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/plain_client.py");
    let foreigners: Vec<_> = (0..2)
        .map(|_| {
            let mut command = Command::new("python3");
            command.arg(client).arg(server.port().to_string()).arg(directory.path()).arg(ROUNDS.to_string());
            command.args(&endpoints).stdout(Stdio::piped()).spawn().expect("python3 can be started")
        })
        .collect();
    let path: Arc<Path> = directory.path().into();
    let mut members = Vec::new();
    let mut listening = Vec::new();
    for name in ["one", "two"] {
        let store = open(&url).await;
        let mut hints = store.changes(&pool("endpoints"));
        // Whoever listens hears that a foreigner let go, and need not wait for the end that it saw coming.
        listening.push(tokio::spawn(async move {
            while poll_fn(|c| hints.as_mut().poll_next(c)).await.is_some() {}
        }));
        members.push(tokio::spawn(work(join(&store, name).await, path.clone(), endpoints.clone(), ROUNDS)));
    }
    let mut refused = 0;
    for member in members {
        let (held, others) = member.await.expect("nobody else held what it held");
        assert!(held >= ROUNDS, "{held}");
        refused += others;
    }
    for foreigner in foreigners {
        let output = tokio::task::spawn_blocking(|| foreigner.wait_with_output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "a plain client met somebody: {said}");
        let numbers: Vec<usize> = said.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert_eq!(numbers[0], ROUNDS);
        refused += numbers[1];
    }
    assert!(refused > 0, "they met");
    listening.iter().for_each(tokio::task::JoinHandle::abort);
    wait_for("all is let go", || server.cli(&["KEYS", "poll:lease:*"]).is_empty());
}
