//! Batches that are written as a whole because nobody knows a token of anything in them, and what the primary key refuses of them.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::lease::{MemberId, Token};
use leasehold::store::conformance::member::{all_leases, term};
use leasehold::store::conformance::{Member, pool, wanted};
use leasehold::store::{Acquired, Answer, Cursor, Wanted};

use super::hinted;
use super::postgres_server::{Database, open};

/// How many leases were written as a whole: by another transaction than the one that is noted as their last change, as it was one within it.
const WHOLE: &str = "SELECT count(*) FROM leasehold.leases WHERE xmin::text::bigint <> changed % 4294967296";

async fn outcomes(member: &mut Member, names: &[&str]) -> Vec<Acquired> {
    match member.acquire(names).await {
        Answer::Done(outcomes) => outcomes,
        other => panic!("a living session got {other:?}"),
    }
}

fn granted(name: &str, token: u64) -> Acquired {
    Acquired::Granted(term(name, token))
}

fn held(by: &MemberId, token: u64) -> Acquired {
    Acquired::Held { by: by.clone(), token: Token(token) }
}

fn insert(name: &str, holder: &MemberId) -> String {
    format!(
        "INSERT INTO leasehold.leases (pool, resource, token, holder, ttl_ms, revoked, changed) \
         VALUES ('work', '{name}', 1, '{holder}', 30000, false, leasehold.here())"
    )
}

/// Somebody else's call that has written this lease, and goes on as soon as somebody waits for it.
async fn in_the_middle(
    database: &Database,
    name: &str,
    holder: &MemberId,
    rest: &str,
) -> tokio::task::JoinHandle<()> {
    let theirs = database.execute(format!(
        "BEGIN; {}; DO $$ BEGIN WHILE NOT EXISTS \
         (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid' AND transactionid = pg_current_xact_id()::xid) \
         LOOP PERFORM pg_sleep(0.01); END LOOP; END $$; {rest}",
        insert(name, holder)
    ));
    let theirs = tokio::spawn(theirs);
    let there = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'BEGIN; INSERT%' \
                 AND backend_xid IS NOT NULL";
    while database.query(there).await == "0" && !theirs.is_finished() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    theirs
}

#[tokio::test]
async fn what_nobody_knows_a_token_of_is_written_as_a_whole_and_announced() {
    let database = Database::fresh().await;
    let (store, other) = (open(&database.url()).await, open(&database.url()).await);
    let mut one = Member::join(&store, "one").await;
    let mut hints = other.changes(&pool("work"));
    // What its session is announced by comes first.
    while tokio::time::timeout(Duration::from_millis(300), hinted(&mut hints)).await.is_ok() {}
    assert_eq!(
        outcomes(&mut one, &["c", "a", "b"]).await,
        [granted("c", 1), granted("a", 1), granted("b", 1)]
    );
    assert_eq!(database.query(WHOLE).await, "3");
    assert!(hinted(&mut hints).await);
    let read = other.leases(&pool("work"), Cursor::START).await.expect("the store answers");
    assert!(read.items.iter().all(|lease| lease.holder.as_ref() == Some(one.id())), "{read:?}");
    let again = other.leases(&pool("work"), read.cursor).await.expect("the store answers");
    assert_eq!(again.items, [], "all of it was read");

    let known = [wanted("d"), Wanted { floor: Token(7), ..wanted("e") }];
    assert_eq!(one.acquire_wanted(&known).await, Answer::Done(vec![granted("d", 1), granted("e", 8)]));
    assert_eq!(database.query(WHOLE).await, "3", "of one of these somebody knows a token");
}

/// proves R003
#[tokio::test]
async fn of_a_batch_that_is_taken_in_part_the_rest_is_granted_and_a_name_that_is_repeated_once() {
    let database = Database::fresh().await;
    let store = open(&database.url()).await;
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let given_back = two.take("d").await;
    let _ = (two.take("b").await, two.give_back(&given_back).await);
    assert_eq!(
        outcomes(&mut one, &["d", "c", "b", "a"]).await,
        [granted("d", 2), granted("c", 1), held(two.id(), 1), granted("a", 1)]
    );
    assert_eq!(
        outcomes(&mut one, &["y", "x", "y"]).await,
        [granted("y", 1), granted("x", 1), held(&one.id().clone(), 1)]
    );
    assert_eq!(database.query(WHOLE).await, "0", "what was refused as a whole left nothing behind");
    let leases = all_leases(&store, &pool("work")).await;
    let tokens: Vec<_> = leases.iter().map(|lease| (lease.resource.as_str(), lease.token.0)).collect();
    assert_eq!(tokens, [("a", 1), ("b", 1), ("c", 1), ("d", 2), ("x", 1), ("y", 1)]);
}

/// After a thaw every token is above what may have been forgotten.
#[tokio::test]
async fn a_batch_that_is_written_as_a_whole_begins_above_the_base_of_its_era() {
    let database = Database::fresh().await;
    let store = open(&database.url()).await;
    let base =
        |base: u64| format!("UPDATE leasehold.era SET token_base = {base}, written = leasehold.here()");
    database.execute(base(1000)).await;
    let mut one = Member::join(&store, "one").await;
    assert_eq!(outcomes(&mut one, &["a", "b"]).await, [granted("a", 1001), granted("b", 1001)]);
    let written = all_leases(&store, &pool("work")).await;
    assert_eq!(written.iter().map(|lease| lease.token.0).collect::<Vec<_>>(), [1001, 1001]);
    assert_eq!(database.query(WHOLE).await, "2");
    database.execute(base(9_007_199_254_740_991)).await;
    let pulse = one.pulse();
    let refused =
        store.acquire(one.id(), pulse, &["c", "d"].map(wanted)).await.expect_err("no token is left");
    assert!(refused.to_string().contains("used up"), "{refused}");
    assert_eq!(all_leases(&store, &pool("work")).await.len(), 2);
}

/// proves R003, R059
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_meets_another_in_the_middle_of_writing_waits_and_is_told_who_was_first() {
    for (end, others) in [("COMMIT", true), ("ROLLBACK", false)] {
        let database = Database::fresh().await;
        let store = open(&database.url()).await;
        let mut one = Member::join(&store, "one").await;
        let two = Member::join(&store, "two").await;
        let theirs = in_the_middle(&database, "b", two.id(), end).await;
        let all = outcomes(&mut one, &["a", "b", "c"]).await;
        theirs.await.expect("they have ended");
        let between = if others { held(two.id(), 1) } else { granted("b", 1) };
        assert_eq!(all, [granted("a", 1), between, granted("c", 1)], "{end}");
        assert_eq!(database.query(WHOLE).await, if others { "0" } else { "3" }, "{end}");
    }
}

/// Who waits holds nothing that comes later by its name, in whatever order it asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_written_in_the_order_of_names() {
    let database = Database::fresh().await;
    let store = open(&database.url()).await;
    let mut one = Member::join(&store, "one").await;
    let two = Member::join(&store, "two").await;
    let rest = format!("{}; COMMIT", insert("c", two.id()));
    let theirs = in_the_middle(&database, "a", two.id(), &rest).await;
    let all = outcomes(&mut one, &["c", "b", "a"]).await;
    theirs.await.expect("they have ended");
    assert_eq!(all, [held(two.id(), 1), granted("b", 1), held(two.id(), 1)]);
}

/// proves R059, R070
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_those_who_race_for_overlapping_batches_each_resource_has_one_owner_and_nobody_waits_in_vain() {
    const ROUNDS: usize = 25;
    const NAMES: usize = 60;
    let database = Database::fresh().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..4 {
        let store = open(&database.url()).await;
        tasks.spawn(async move {
            let mut member = Member::join(&store, &format!("m{number}")).await;
            let mut got = Vec::new();
            for round in 0..ROUNDS {
                // Half of what there is, from another place for each, and in another order for every second.
                let mut names: Vec<String> = (0..NAMES / 2)
                    .map(|place| format!("{round}-{:02}", (number * NAMES / 4 + place) % NAMES))
                    .collect();
                if number % 2 == 1 {
                    names.reverse();
                }
                let asked: Vec<&str> = names.iter().map(String::as_str).collect();
                for (name, outcome) in names.iter().zip(outcomes(&mut member, &asked).await) {
                    got.push((name.clone(), outcome));
                }
            }
            (member, got)
        });
    }
    let mut owners = BTreeMap::new();
    let all = tasks.join_all().await;
    for (member, got) in &all {
        for (name, outcome) in got {
            if matches!(outcome, Acquired::Granted(_)) {
                assert_eq!(*outcome, granted(name, 1));
                assert_eq!(owners.insert(name.as_str(), member.id()), None, "{name} was granted twice");
            }
        }
    }
    for (_, got) in &all {
        for (name, outcome) in got.iter().filter(|(_, outcome)| !matches!(outcome, Acquired::Granted(_))) {
            assert_eq!(*outcome, held(owners[name.as_str()], 1), "{name}");
        }
    }
    assert_eq!(owners.len(), ROUNDS * NAMES, "nothing that somebody asked for is free");
    assert_ne!(database.query(WHOLE).await, "0", "some were alone with a batch");
}
