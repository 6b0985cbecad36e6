//! A Redis server serves nobody else while a script runs, so none may run for long, however much is held.

#[path = "support/redis_server.rs"]
mod redis_server;

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::lease::{ResourceId, Term, Token};
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{Acquired, Answer, Cursor, Reasserted, Release, Wanted};
use leasehold_testkit::{Faults, Proxy};
use redis_server::{OnRedis, address, open};

/// What one script may use of the server's processor, in microseconds. All of a kind do the same amount of work.
const LONG: f64 = 10_000.0;

/// Asks for `r0` to `r<count>` in batches.
async fn take_all(member: &mut Member, count: usize) -> Vec<Term> {
    let wanted: Vec<Wanted> = (0..count)
        .map(|number| Wanted { resource: ResourceId::new(format!("r{number}")).unwrap(), floor: Token(0) })
        .collect();
    let mut terms = Vec::new();
    for batch in wanted.chunks(member.store.capabilities().batch_max) {
        let Answer::Done(outcomes) = member.acquire_wanted(batch).await else { panic!("a living session") };
        terms.extend(outcomes.into_iter().map(|outcome| match outcome {
            Acquired::Granted(term) => term,
            other => panic!("it is free: {other:?}"),
        }));
    }
    terms
}

/// What the server has used of its processor, in microseconds, and how many scripts it has run. Time on the wall would
/// tell of the machine's other work.
fn used(on: &OnRedis) -> (f64, f64) {
    let said = on.server.cli(&["INFO", "everything"]);
    let number = |name: &str| {
        let found = said.lines().find_map(|line| line.trim().strip_prefix(name));
        found.and_then(|rest| rest.split([',', ' ']).next()?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let seconds = number("used_cpu_sys_main_thread:") + number("used_cpu_user_main_thread:");
    (seconds * 1e6, number("cmdstat_evalsha:calls="))
}

/// Does something and says what each script that it took used.
async fn measured<T>(on: &OnRedis, what: &str, work: impl Future<Output = T>) -> T {
    let before = used(on);
    let done = work.await;
    let after = used(on);
    let (calls, each) = (after.1 - before.1, (after.0 - before.0) / (after.1 - before.1));
    println!("{what}: {calls} scripts, {each:.0} µs each");
    assert!(each < LONG, "{what}: a script takes {each:.0} µs");
    done
}

#[tokio::test]
async fn sixty_thousand_leases_never_hold_the_server_up() {
    const COUNT: usize = 60_000;
    let on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    let terms = measured(&on, "acquire", take_all(&mut one, COUNT)).await;
    let beats = async {
        for _ in 0..100 {
            assert_eq!(one.beat().await, Answer::Done(vec![]));
        }
    };
    measured(&on, "beat", beats).await;
    let work = pool("work");
    let read = measured(&on, "read", on.store.leases(&work, Cursor::START)).await;
    let all = read.expect("the store answers");
    assert_eq!(all.items.len(), COUNT);
    assert_eq!(
        on.store.leases(&pool("work"), all.cursor).await.unwrap().items,
        [],
        "the cursor is at the end"
    );
    let mut stranger = one.clone();
    stranger.era = leasehold::lease::Nonce::generate();
    let Answer::Frozen(nonce) = stranger.beat().await else { panic!("an era that never was") };
    let kept = measured(&on, "reassert", one.reassert(nonce, &terms)).await;
    assert_eq!(kept, Answer::Done(vec![Reasserted::Kept; COUNT]));
    let _ = on.store.thaw(nonce).await.expect("the store answers");
    one.close().await;
    // One call may not have time for all.
    let collected = async {
        while !on.store.sessions(&pool("work"), Cursor::START).await.unwrap().items.is_empty() {
            let _ = on.store.collect(one.id()).await;
        }
    };
    measured(&on, "collect", collected).await;
    let freed = on.store.leases(&pool("work"), all.cursor).await.expect("the store answers").items;
    assert!(freed.len() == COUNT && freed.iter().all(|lease| lease.holder.is_none()), "all were cleared");
}

#[tokio::test]
async fn a_mirror_of_ten_thousand_leases_is_kept_up_in_short_steps() {
    const COUNT: usize = 10_000;
    let on = OnRedis::with("?mirror=work").await;
    let mut one = Member::join(&on.store, "one").await;
    measured(&on, "acquire with a mirror", take_all(&mut one, COUNT)).await;
    on.server.cli(&["EVAL", "for i = 0, 9999, 2 do redis.call('DEL', 'poll:lease:r' .. i) end", "0"]);
    assert_eq!(measured(&on, "beat with a mirror", one.beat()).await, Answer::Done(vec![]));
    let left = on.server.cli(&["EVAL", "return #redis.call('KEYS', 'poll:lease:*')", "0"]);
    assert_eq!(left, COUNT.to_string(), "what was missing was put back");
}

#[tokio::test]
async fn a_read_begins_at_its_first_page_and_misses_nothing_that_changes_meanwhile() {
    let on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    let terms = take_all(&mut one, 5000).await;
    let reader = open(&address(&on.server, "")).await;
    let (mut known, mut cursor) = (BTreeMap::new(), Cursor::START);
    let churn = tokio::spawn(async move {
        for term in terms.iter().step_by(7) {
            let _ = one.give_back(term).await;
        }
    });
    let mut last = false;
    loop {
        let read = reader.leases(&pool("work"), cursor).await.expect("the store answers");
        cursor = read.cursor;
        known.extend(read.items.into_iter().map(|lease| (lease.resource.clone(), lease)));
        if last {
            break;
        }
        last = churn.is_finished();
    }
    let whole = reader.leases(&pool("work"), Cursor::START).await.expect("the store answers").items;
    assert_eq!(known.into_values().collect::<Vec<_>>(), whole);
}

// A hundred readers of ten thousand leases have no time to read everything in one go, and would read for ever if each of
// them began again.
#[tokio::test]
async fn a_read_that_is_given_up_on_is_gone_on_with_and_finds_what_changed_since() {
    let on = OnRedis::with("").await;
    let mut one = Member::join(&on.store, "one").await;
    let terms = take_all(&mut one, 20_000).await;
    let way = Proxy::to(on.server.port());
    let reader = open(&format!("redis://127.0.0.1:{}", way.port()).parse().unwrap()).await;
    way.set(Faults { delay: Duration::from_millis(20), ..Faults::default() });
    let work = pool("work");
    // Time for a few of its forty pages.
    let some = Duration::from_millis(300);
    let mut given_up = 0;
    let read = loop {
        match tokio::time::timeout(some, reader.leases(&work, Cursor::START)).await {
            Ok(read) => break read.expect("the store answers"),
            Err(_) => given_up += 1,
        }
        // What was read first changes.
        assert!(given_up < 300, "it never comes to an end");
        let _ = one.give_back(&terms[given_up]).await;
    };
    assert!(given_up > 1, "there was time for everything");
    assert_eq!(read.items, on.store.leases(&work, Cursor::START).await.unwrap().items);
    assert_eq!(reader.leases(&work, read.cursor).await.unwrap().items, [], "the cursor is at the end");
}

// Members of one process share a handle, and each has come to another place: none takes the other's.
#[tokio::test]
async fn readers_that_share_a_handle_and_give_up_by_turns_both_come_to_an_end() {
    let on = OnRedis::with("").await;
    let (mut one, work) = (Member::join(&on.store, "one").await, pool("work"));
    let terms = take_all(&mut one, 20_000).await;
    let middle = on.store.leases(&work, Cursor::START).await.unwrap().cursor;
    let releases: Vec<Release> = terms.into_iter().map(|term| Release { term, offer: None }).collect();
    for batch in releases.chunks(100).take(100) {
        assert!(matches!(one.release(batch).await, Answer::Done(_)));
    }
    let way = Proxy::to(on.server.port());
    let reader = open(&format!("redis://127.0.0.1:{}", way.port()).parse().unwrap()).await;
    way.set(Faults { delay: Duration::from_millis(20), ..Faults::default() });
    let mut reading = vec![Cursor::START, middle];
    for _ in 0..300 {
        let mut unfinished = Vec::new();
        for since in reading {
            let read = tokio::time::timeout(Duration::from_millis(300), reader.leases(&work, since)).await;
            match read {
                Ok(read) => {
                    let whole = on.store.leases(&work, since).await.unwrap().items;
                    assert_eq!(read.expect("the store answers").items, whole);
                }
                Err(_) => unfinished.push(since),
            }
        }
        reading = unfinished;
        if reading.is_empty() {
            return;
        }
    }
    panic!("they never come to an end: {reading:?}");
}

// In a mirrored pool what readers are told is kept beside the records. Where it is missing or of another change, the records
// count.
#[tokio::test]
async fn what_readers_are_told_is_made_anew_where_it_was_lost() {
    let on = OnRedis::with("?mirror=work").await;
    let mut one = Member::join(&on.store, "one").await;
    let terms = take_all(&mut one, 4).await;
    let _ = one.give_back(&terms[0]).await;
    let work = pool("work");
    let before = on.store.leases(&work, Cursor::START).await.unwrap().items;
    assert_eq!(before.iter().filter(|lease| lease.holder.is_some()).count(), 3);
    let rows = "leasehold:work:rows:leases";
    on.server.cli(&["HSET", rows, "r1", "1\u{1f}9\u{1f}two-1\u{1f}30000\u{1f}0\u{1f}\u{1f}\u{1f}\u{1f}r1"]);
    assert_eq!(on.server.cli(&["HDEL", rows, "r0", "r2"]), "2");
    assert_eq!(on.store.leases(&work, Cursor::START).await.unwrap().items, before);
    on.server.cli(&["DEL", rows, "poll:fence:{poll:lease:r3}"]);
    assert_eq!(
        on.store.leases(&work, Cursor::START).await.unwrap().items,
        before[..3],
        "nothing is known of it"
    );
}
