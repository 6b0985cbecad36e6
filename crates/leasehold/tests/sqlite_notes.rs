//! Claims on a SQLite file are noted before they are rows, and nobody can tell.

#[path = "support/sqlite_file.rs"]
mod sqlite_file;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::lease::{BeatNumber, Token};
use leasehold::store::conformance::member::{lease, session, wanted};
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{Answer, Claimed, Cursor, EndSilent, OpenSession, Store};
use rusqlite::Connection;
use sqlite_file::{File, open};

/// How many rows of notes, leases and sessions the file has.
fn rows(file: &File) -> (u64, u64, u64) {
    let connection = Connection::open(file.path()).expect("the file is there");
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        connection.query_row(&sql, [], |row| row.get(0)).expect("a number")
    };
    (count("notes"), count("leases"), count("sessions"))
}

async fn claim(store: &Arc<dyn Store>, open: &OpenSession, name: &str) -> Claimed {
    match store.claim(open, &wanted(name)).await.expect("the store answers") {
        Answer::Done(claimed) => claimed,
        other => panic!("the claim got {other:?}"),
    }
}

async fn take(store: &Arc<dyn Store>, name: &str) -> (OpenSession, Token) {
    let open = session("one");
    match claim(store, &open, name).await {
        Claimed::Granted { term, .. } => (open, term.token),
        held @ Claimed::Held { .. } => panic!("{name} should be free: {held:?}"),
    }
}

async fn retire(store: &Arc<dyn Store>, open: &OpenSession) {
    store.retire(&open.id).await.expect("the store answers");
}

#[tokio::test]
async fn claims_become_rows_when_somebody_reads() {
    let file = File::new();
    let store = open(&file.path()).await;
    for _ in 0..3 {
        let (one, _) = take(&store, "a").await;
        retire(&store, &one).await;
    }
    let (two, token) = take(&store, "a").await;
    assert_eq!(token, Token(4));
    assert_eq!(rows(&file), (7, 0, 0), "one note for each commit, and no rows");
    let held = lease(&store, "a").await;
    assert_eq!((held.token, held.holder), (token, Some(two.id.clone())));
    assert_eq!(rows(&file), (0, 1, 1), "who came and went left nothing");
    retire(&store, &two).await;
    assert_eq!(rows(&file), (0, 1, 1), "who was read leaves a tombstone");
    let read = store.sessions(&pool("work"), Cursor::START).await.expect("the store answers");
    assert!(read.items.iter().all(|session| session.ended), "{:?}", read.items);
    let (_, token) = take(&store, "a").await;
    assert_eq!((token, rows(&file)), (Token(5), (1, 1, 1)), "what is free again is noted again");
}

#[tokio::test]
async fn whoever_changes_rows_finds_what_was_noted() {
    let file = File::new();
    let store = open(&file.path()).await;
    let mut member = Member::join(&store, "member").await;
    let (one, token) = take(&store, "a").await;
    let answer = member.ask("a").await;
    let held = leasehold::store::Acquired::Held { by: one.id.clone(), token };
    assert_eq!(answer, held);
    let (_, token) = take(&store, "b").await;
    let read = store.sessions(&pool("work"), Cursor::START).await.expect("the store answers");
    let ended = store.end_silent(&one.id, BeatNumber(1), read.era.nonce).await.expect("the store answers");
    assert_eq!(ended, EndSilent::Ended);
    let term = member.take("a").await;
    assert_eq!((term.token, token), (Token(2), Token(1)));
    // Its row names a holder that is over: that is for the rows to judge.
    let (_, token) = {
        member.close().await;
        take(&store, "a").await
    };
    assert_eq!((token, rows(&file).0), (Token(3), 0), "not noted");
}

#[tokio::test]
async fn another_process_knows_what_is_noted_and_from_then_on_everything_is_rows() {
    let file = File::new();
    let (first, second) = (open(&file.path()).await, open(&file.path()).await);
    let (one, token) = take(&first, "a").await;
    assert_eq!(rows(&file).0, 1);
    let held = Claimed::Held { by: one.id.clone(), token };
    assert_eq!(claim(&second, &session("two"), "a").await, held);
    assert_eq!(rows(&file), (0, 1, 1), "whoever is asked settles what others noted");
    let (three, token) = take(&second, "b").await;
    let held = Claimed::Held { by: three.id.clone(), token };
    assert_eq!(claim(&first, &session("four"), "b").await, held);
    // They have seen each other by now.
    let (_, _) = (take(&first, "c").await, take(&second, "d").await);
    assert_eq!(rows(&file).0, 0);
    retire(&second, &one).await;
    assert_eq!(take(&first, "a").await.1, Token(2));
}

#[tokio::test]
async fn a_program_that_knows_of_no_notes_cannot_decide_by_rows_that_are_out_of_date() {
    let file = File::new();
    let store = open(&file.path()).await;
    let (one, _) = take(&store, "a").await;
    let old = Connection::open(file.path()).expect("the file is there");
    let open_session = "INSERT INTO sessions (id, pool, ttl_ms, beat, ended, profile, changed) \
                        VALUES ('m', 'work', 1, 0, 0, '{}', 1)";
    for sql in [
        "INSERT INTO leases (pool, resource, token, holder, ttl_ms, revoked, changed) \
         VALUES ('work', 'a', 1, 'm', 1, 0, 1)",
        open_session,
    ] {
        let error = old.execute(sql, []).expect_err("there is a note");
        assert!(error.to_string().contains("not settled"), "{error}");
    }
    assert_eq!(lease(&store, "a").await.holder, Some(one.id.clone()));
    assert_eq!(old.execute(open_session, []).expect("all is settled"), 1);
    let _ = take(&store, "c").await;
    for sql in ["UPDATE sessions SET ended = 1", "UPDATE leases SET holder = NULL", "DELETE FROM sessions"] {
        // Having seen the other write, the store takes no more notes; this is for one that has not yet.
        old.execute("INSERT INTO notes (content) VALUES ('[]')", []).expect("a note");
        let error = old.execute(sql, []).expect_err("there is a note");
        assert!(error.to_string().contains("not settled"), "{error}");
        old.execute("DELETE FROM notes", []).expect("no note");
    }
}

#[tokio::test]
async fn a_note_that_cannot_be_read_is_told_and_loses_nothing() {
    let file = File::new();
    let store = open(&file.path()).await;
    let _ = take(&store, "a").await;
    let other = Connection::open(file.path()).expect("the file is there");
    other.execute("INSERT INTO notes (content) VALUES ('what?')", []).expect("written");
    let error = store.claim(&session("two"), &wanted("b")).await.expect_err("nobody knows what it says");
    assert!(error.to_string().contains("a note in the file cannot be read"), "{error}");
    assert_eq!(rows(&file).0, 2, "nothing was lost");
    other.execute("DELETE FROM notes WHERE content = 'what?'", []).expect("mended");
    assert_eq!(lease(&store, "a").await.token, Token(1));
}

/// proves R003, R006
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_while_many_come_and_go_sees_one_owner_and_rising_tokens() {
    let file = File::new();
    let store = open(&file.path()).await;
    let over = Arc::new(AtomicBool::new(false));
    let claiming: Vec<_> = (0..8)
        .map(|number| {
            let (store, over) = (Arc::clone(&store), Arc::clone(&over));
            tokio::spawn(async move {
                let mut granted = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    let open = session("one");
                    let name = if number % 2 == 0 { "a" } else { "b" };
                    if let Claimed::Granted { .. } = claim(&store, &open, name).await {
                        granted += 1;
                        retire(&store, &open).await;
                    }
                }
                granted
            })
        })
        .collect();
    let mut before: BTreeMap<String, Token> = BTreeMap::new();
    for _ in 0..300 {
        let leases = store.leases(&pool("work"), Cursor::START).await.expect("the store answers").items;
        for lease in leases {
            let last = before.insert(lease.resource.to_string(), lease.token).unwrap_or(Token(0));
            assert!(last <= lease.token, "{} fell from {last} to {}", lease.resource, lease.token);
        }
    }
    over.store(true, Ordering::Relaxed);
    let mut granted = 0;
    for claiming in claiming {
        granted += claiming.await.expect("it ends");
    }
    let tokens = lease(&store, "a").await.token.0 + lease(&store, "b").await.token.0;
    assert_eq!(tokens, granted, "every grant has a token of its own");
}

/// What is noted of others stays noted: it would only be rows for nothing.
#[tokio::test]
async fn whoever_has_rows_goes_its_way_beside_what_is_noted() {
    let file = File::new();
    let store = open(&file.path()).await;
    let mut member = Member::join(&store, "member").await;
    let held = member.take("m").await;
    let (two, _) = take(&store, "b").await;
    assert_eq!(lease(&store, "b").await.holder, Some(two.id.clone()), "it has rows");
    let (one, token) = take(&store, "a").await;
    assert_eq!(member.beat().await, Answer::Done(Vec::new()));
    retire(&store, &two).await;
    assert_eq!(rows(&file).0, 1, "nothing was settled for that");
    let (three, again) = take(&store, "b").await;
    assert_eq!((again, rows(&file).0), (Token(2), 2), "what it held is noted again");
    member.close().await;
    store.collect(member.id()).await.expect("the store answers");
    store.collect(&two.id).await.expect("the store answers");
    assert_eq!(rows(&file).0, 2);
    let leases = store.leases(&pool("work"), Cursor::START).await.expect("the store answers").items;
    let shown: Vec<_> = leases.into_iter().map(|lease| (lease.token, lease.holder)).collect();
    assert_eq!(shown, [(token, Some(one.id)), (again, Some(three.id)), (held.token, None)]);
    let read = store.sessions(&pool("work"), Cursor::START).await.expect("the store answers");
    assert_eq!(read.items.len(), 2, "{:?}", read.items);
}

/// The next call of a session that is only noted makes it a row.
#[tokio::test]
async fn a_noted_session_beats_closes_and_is_ended_like_any_other() {
    let file = File::new();
    let store = open(&file.path()).await;
    let (one, _) = take(&store, "a").await;
    let era = store.pools().await.map(|_| ()).and(store.sessions(&one.pool, Cursor::START).await);
    let era = era.expect("the store answers").era.nonce;
    let (two, _) = take(&store, "b").await;
    let mut noted = Member { store: store.clone(), session: two, era, sent: 1, confirmed: 1 };
    assert_eq!(noted.beat().await, Answer::Done(Vec::new()));
    assert_eq!(rows(&file), (0, 2, 2));
    let (three, _) = take(&store, "c").await;
    store.close(&three.id).await.expect("the store answers");
    assert_eq!(take(&store, "c").await.1, Token(2));
    assert_eq!(store.claim(&three, &wanted("d")).await.expect("the store answers"), Answer::Gone);
}

/// proves R006
#[tokio::test]
async fn what_was_noted_in_a_file_is_not_believed_of_the_one_in_its_place() {
    let file = File::new();
    let store = open(&file.path()).await;
    let (one, _) = take(&store, "a").await;
    file.copy();
    retire(&store, &one).await;
    let _ = take(&store, "b").await;
    file.put_copy_back();
    let answer = store.claim(&session("two"), &wanted("b")).await.expect("the store answers");
    assert!(matches!(answer, Answer::Frozen(_)), "{answer:?}");
    let read = store.leases(&pool("work"), Cursor::START).await.expect("the store answers");
    let shown: Vec<_> =
        read.items.iter().map(|lease| (lease.resource.as_str(), lease.holder.as_ref())).collect();
    assert_eq!((shown, read.era.frozen), (vec![("a", Some(&one.id))], true), "it says what the copy says");
}
