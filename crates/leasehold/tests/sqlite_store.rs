//! What is special about a store in a file: files are deleted, replaced, copied, full, and not ours.

#[path = "support/sqlite_file.rs"]
mod sqlite_file;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use leasehold::Election;
use leasehold::clock;
use leasehold::election::Key;
use leasehold::lease::Nonce;
use leasehold::store::conformance::member::{all_leases, freeze, session, session_of};
use leasehold::store::conformance::{Member, pool, wanted};
use leasehold::store::sqlite::SqliteStore;
use leasehold::store::{
    Acquired, Answer, Cursor, Era, Guard, Reasserted, Released, Store, StoreError, StoreErrorKind, StoreUrl,
    Thawed, Wanted,
};
use sqlite_file::{File, open};

async fn era_of(store: &Arc<dyn Store>) -> Era {
    store.sessions(&pool("work"), Cursor::START).await.expect("the store answers").era
}

fn frozen<T: std::fmt::Debug>(answer: Answer<T>) -> Nonce {
    match answer {
        Answer::Frozen(nonce) => nonce,
        other => panic!("a store that has forgotten answered {other:?}"),
    }
}

/// Deletes the file, perhaps without what SQLite keeps beside it.
fn delete(file: &File, leave_companions: bool) {
    std::fs::remove_file(file.path()).expect("the file is there");
    for companion in ["work.db-wal", "work.db-shm"] {
        if !leave_companions {
            let _ = std::fs::remove_file(file.path().with_file_name(companion));
        }
    }
}

/// Gives the file another name, so that its inode can be used for a copy whatever becomes of the path.
fn keep_inode(file: &File) -> PathBuf {
    let kept = file.path().with_file_name("kept");
    std::fs::hard_link(file.path(), &kept).expect("the file can have another name");
    kept
}

/// Puts the copy in the file's place where the file system gives it an inode that was used before.
fn put_copy_back_as(file: &File, kept: &Path) {
    std::fs::copy(file.copy_path(), kept).expect("a copy was taken");
    std::fs::rename(kept, file.path()).expect("the copy can be moved");
}

async fn refusal(path: &Path) -> StoreError {
    SqliteStore::open(path).await.expect_err("such a path cannot be used")
}

// proves R012
#[tokio::test]
async fn a_new_file_where_nobody_is_begins_live() {
    let file = File::new();
    let url: StoreUrl = format!("sqlite:{}", file.path().display()).parse().expect("a good URL");
    let store = leasehold::store::open(&url).await.expect("the store can be opened");
    assert!(!era_of(&store).await.frozen);
    let mut one = Member::join(&store, "one").await;
    assert_eq!(one.take("a").await.token.0, 1);
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_but_the_owner_and_its_group_reads_a_new_file_or_takes_its_lock() {
    use std::os::unix::fs::PermissionsExt;
    let file = File::new();
    let store = open(&file.path()).await;
    Member::join(&store, "one").await;
    for name in ["work.db", "work.db-wal", "work.db-shm", ".work.db.lock"] {
        let found = std::fs::metadata(file.path().with_file_name(name)).expect("the file is there");
        let mode = found.permissions().mode() & 0o777;
        assert_eq!(mode & !0o660, 0, "{name} has mode {mode:o}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handles_that_create_the_file_at_once_share_one_live_era() {
    let file = File::new();
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let path = file.path();
        opening.spawn(async move { open(&path).await });
    }
    let handles = opening.join_all().await;
    let first = era_of(&handles[0]).await;
    assert!(!first.frozen, "nobody can remember another file");
    for handle in &handles {
        assert_eq!(era_of(handle).await, first);
    }
}

#[tokio::test]
async fn a_file_deleted_under_a_holder_comes_back_frozen_and_is_reasserted() {
    for leave_companions in [false, true] {
        let file = File::new();
        let (store, other) = (open(&file.path()).await, open(&file.path()).await);
        let mut holder = Member::join(&store, "holder").await;
        let held = holder.take("a").await;
        delete(&file, leave_companions);
        let nonce = frozen(holder.beat().await);
        assert_eq!(era_of(&other).await.ttl_max, holder.session.ttl, "who thaws waits as long as before");
        let kept = holder.reassert(nonce, std::slice::from_ref(&held)).await;
        assert_eq!(kept, Answer::Done(vec![Reasserted::Kept]));
        assert_eq!(era_of(&other).await.nonce, nonce, "both handles stand on the new file");
        assert_eq!(other.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
        assert_eq!(holder.beat().await, Answer::Done(vec![]));
        let mut two = Member::join(&other, "two").await;
        assert_eq!(two.ask("a").await, Acquired::Held { by: holder.id().clone(), token: held.token });
    }
}

#[tokio::test]
async fn a_newcomer_that_creates_a_deleted_file_first_cannot_be_granted_what_is_held() {
    let file = File::new();
    let store = open(&file.path()).await;
    let mut holder = Member::join(&store, "holder").await;
    let held = holder.take("a").await;
    delete(&file, false);
    let newcomer = open(&file.path()).await;
    let era = era_of(&newcomer).await;
    assert!(era.frozen, "somebody here may remember another file");
    assert_eq!(era.ttl_max, holder.session.ttl, "who thaws waits as long as before");
    assert_eq!(newcomer.open(&session("new")).await.expect("the store answers"), Answer::Frozen(era.nonce));
    assert_eq!(holder.beat().await, Answer::Frozen(era.nonce), "it is not frozen again");
    assert_eq!(holder.reassert(era.nonce, &[held]).await, Answer::Done(vec![Reasserted::Kept]));
}

// proves the contract's second point across deletion of the whole file
#[tokio::test]
async fn a_file_deleted_while_nobody_is_there_begins_live_above_every_token_it_gave_out() {
    let file = File::new();
    let store = open(&file.path()).await;
    let mut one = Member::join(&store, "one").await;
    let given = one.take("a").await;
    drop((one, store));
    delete(&file, false);
    let store = open(&file.path()).await;
    assert!(!era_of(&store).await.frozen, "nobody is left who could hold anything");
    let mut two = Member::join(&store, "two").await;
    assert!(two.take("a").await.token > given.token);
}

// proves the contract's second point across a restored backup
#[tokio::test]
async fn a_copy_put_back_while_nobody_is_there_never_gives_out_a_token_again() {
    for in_place in [false, true] {
        let file = File::new();
        let store = open(&file.path()).await;
        let mut one = Member::join(&store, "one").await;
        let early = one.take("a").await;
        file.copy();
        let _ = one.give_back(&early).await;
        let late = one.take("a").await;
        drop((one, store));
        if in_place {
            std::fs::copy(file.copy_path(), file.path()).expect("the copy can be put back");
        } else {
            file.put_copy_back();
        }
        let store = open(&file.path()).await;
        let era = era_of(&store).await;
        assert!(era.frozen, "in place {in_place}: the file was set back");
        assert_eq!(store.thaw(era.nonce).await.expect("the store answers"), Thawed::Thawed);
        let mut two = Member::join(&store, "two").await;
        assert!(two.take("a").await.token > late.token, "in place {in_place}");
    }
}

// proves R003
#[tokio::test]
async fn an_older_copy_in_its_place_is_frozen_once_for_every_handle() {
    let file = File::new();
    let (store, other) = (open(&file.path()).await, open(&file.path()).await);
    let mut holder = Member::join(&store, "holder").await;
    file.copy();
    let held = holder.take("a").await;
    file.put_copy_back();
    let era = era_of(&other).await;
    assert!(era.frozen, "the copy is not the file that it says it is");
    assert_eq!(frozen(holder.beat().await), era.nonce);
    assert_eq!(holder.reassert(era.nonce, &[held]).await, Answer::Done(vec![Reasserted::Kept]));
    assert_eq!(all_leases(&store, &pool("work")).await, all_leases(&other, &pool("work")).await);
    assert_eq!(era_of(&open(&file.path()).await).await.nonce, era.nonce, "for a third one too");
}

#[derive(Debug, PartialEq)]
enum First {
    WhoWasThere,
    ANewcomer,
    ANewcomerAfterEverybodyLeft,
}

/// File systems give the inode of a file that is gone to the next one: a copy can be the file that it says it is.
#[tokio::test]
async fn an_era_that_is_over_does_not_come_back_with_a_copy_that_was_frozen() {
    for first in [First::WhoWasThere, First::ANewcomer, First::ANewcomerAfterEverybodyLeft] {
        let file = File::new();
        let store = open(&file.path()).await;
        let over = freeze(&store).await;
        file.copy();
        let kept = keep_inode(&file);
        file.put_copy_back();
        let next = era_of(&store).await.nonce;
        assert_ne!(next, over, "{first:?}: the copy is not the file that it says it is");
        let there = (first != First::ANewcomerAfterEverybodyLeft).then_some(store);
        put_copy_back_as(&file, &kept);
        let reader = match (&first, &there) {
            (First::WhoWasThere, Some(store)) => Arc::clone(store),
            _ => open(&file.path()).await,
        };
        let era = era_of(&reader).await;
        assert!(era.frozen && ![over, next].contains(&era.nonce), "{first:?}: {era:?} after {over}, {next}");
        if let Some(store) = &there {
            assert_eq!(era_of(store).await.nonce, era.nonce, "{first:?}: it is frozen once");
        }
        assert_eq!(reader.thaw(era.nonce).await.expect("the store answers"), Thawed::Thawed);
    }
}

#[tokio::test]
async fn who_thaws_waits_for_the_longest_ttl_that_anybody_remembers() {
    for first in [First::WhoWasThere, First::ANewcomer, First::ANewcomerAfterEverybodyLeft] {
        let file = File::new();
        let store = open(&file.path()).await;
        let short = Member::join(&store, "short").await;
        file.copy();
        let mut long = session("long");
        long.ttl *= 3;
        let opened = store.open(&long).await.expect("the store answers");
        assert!(matches!(opened, Answer::Done(_)), "{opened:?}");
        let there = (first != First::ANewcomerAfterEverybodyLeft).then_some((store, short));
        file.put_copy_back();
        let reader = match (&first, &there) {
            (First::WhoWasThere, Some((store, _))) => Arc::clone(store),
            _ => open(&file.path()).await,
        };
        let era = era_of(&reader).await;
        assert!(era.frozen, "{first:?}");
        assert_eq!(era.ttl_max, long.ttl, "{first:?}: the copy knows nothing of it");
    }
}

#[tokio::test]
async fn a_copy_opened_elsewhere_is_frozen() {
    let file = File::new();
    let store = open(&file.path()).await;
    let holder = Member::join(&store, "holder").await;
    file.copy();
    let copy = open(&file.copy_path()).await;
    let era = era_of(&copy).await;
    assert!(era.frozen && era.nonce != holder.era, "tokens would otherwise be given twice");
}

#[tokio::test]
async fn a_file_that_was_set_back_in_place_is_frozen_for_readers_and_writers() {
    let file = File::new();
    let store = open(&file.path()).await;
    let mut one = Member::join(&store, "one").await;
    let _ = one.take("a").await;
    file.execute("UPDATE era SET seq = 1", []);
    let era = era_of(&store).await;
    assert!(era.frozen, "its counter fell");
    assert_eq!(frozen(one.beat().await), era.nonce);
    let nonce = era.nonce;
    assert_eq!(one.reassert(nonce, &[]).await, Answer::Done(vec![]));
    file.execute("UPDATE era SET seq = 1", []);
    let again = frozen(one.acquire(&["b"]).await);
    assert_ne!(again, nonce, "set back while frozen: what was reasserted may be gone");
}

#[tokio::test]
async fn a_path_that_cannot_be_used_is_refused_with_what_to_change() {
    let file = File::new();
    let directory = file.path().parent().expect("it lies in one").to_owned();
    let text = directory.join("notes.txt");
    std::fs::write(&text, "this is a text file, long enough to have a header of its own".repeat(9))
        .expect("written");
    for (path, words) in [
        (directory.clone(), "it is a directory; give the path of a file in it"),
        (directory.join("missing/work.db"), "its directory does not exist; create it"),
        (text.join("work.db"), "its directory does not exist; create it"),
        (text.clone(), "is not a SQLite database; give another path"),
    ] {
        let error = refusal(&path).await;
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        let said = error.to_string();
        assert!(said.contains(words) && said.contains(&path.display().to_string()), "{said}");
    }
    assert!(std::fs::read_to_string(&text).expect("it is still there").starts_with("this is"));
}

#[tokio::test]
async fn a_file_of_another_program_or_of_a_newer_version_is_left_alone() {
    let file = File::new();
    file.execute("CREATE TABLE theirs (x)", []);
    let error = refusal(&file.path()).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("of another program; give another path"), "{error}");

    let file = File::new();
    drop(open(&file.path()).await);
    file.execute("PRAGMA user_version = 999", []);
    let error = refusal(&file.path()).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("was written by a newer leasehold; upgrade this one"), "{error}");
}

#[tokio::test]
async fn a_call_nobody_waits_for_is_run_all_the_same() {
    let file = File::new();
    let store = open(&file.path()).await;
    let new = session("one");
    let mut call = Box::pin(store.open(&new));
    let sent = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    drop((call, sent));
    let beyond = session("after");
    let _ = store.open(&beyond).await.expect("the store answers");
    assert!(!session_of(&store, &new.id).await.ended, "it came before the one that was waited for");
}

#[tokio::test]
async fn a_dropped_store_lets_go_of_its_file_and_ends_its_hints() {
    let file = File::new();
    let store = open(&file.path()).await;
    let mut hints = store.changes(&pool("work"));
    drop(store);
    let lock = std::fs::File::open(file.path().with_file_name(".work.db.lock")).expect("the lock lies there");
    lock.try_lock().expect("no thread of the store is left");
    loop {
        let next = std::future::poll_fn(|context| hints.as_mut().poll_next(context));
        if tokio::time::timeout(Duration::from_secs(10), next).await.expect("hints end").is_none() {
            break;
        }
    }
}

// proves R006
#[tokio::test]
async fn a_failed_grant_does_not_take_others_in_the_same_commit_with_it() {
    let file = File::new();
    let store = open(&file.path()).await;
    let mut members = vec![];
    for number in 0..8 {
        members.push(Member::join(&store, &format!("m{number}")).await);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for (number, mut member) in members.into_iter().enumerate() {
        let floor = if number % 2 == 0 { 0 } else { u64::MAX };
        let wish = Wanted { floor: leasehold::lease::Token(floor), ..wanted(&format!("r{number}")) };
        let pulse = member.pulse();
        tasks.spawn(async move { member.store.acquire(member.id(), pulse, &[wish]).await.is_ok() });
    }
    let granted = tasks.join_all().await.into_iter().filter(|granted| *granted).count();
    assert_eq!(granted, 4);
    assert_eq!(all_leases(&store, &pool("work")).await.len(), 4, "what failed left nothing behind");
}

// A heartbeat gets in while another process takes thousands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beats_get_in_while_another_handle_acquires_in_bulk() {
    let file = File::new();
    let (store, busy) = (open(&file.path()).await, open(&file.path()).await);
    let mut one = Member::join(&store, "one").await;
    let mut greedy = Member::join(&busy, "greedy").await;
    let bulk = tokio::spawn(async move {
        for batch in 0..12 {
            let all: Vec<Wanted> = (0..256).map(|number| wanted(&format!("r{batch}-{number}"))).collect();
            assert!(matches!(greedy.acquire_wanted(&all).await, Answer::Done(_)));
        }
    });
    let mut slowest = Duration::ZERO;
    while !bulk.is_finished() {
        let before = clock::now();
        assert_eq!(one.beat().await, Answer::Done(vec![]));
        slowest = slowest.max(clock::now().since(before));
    }
    bulk.await.expect("everything was granted");
    assert!(slowest < Duration::from_secs(2), "a beat took {slowest:?}");
}

#[tokio::test]
async fn a_frozen_file_is_frozen_for_who_comes_later() {
    let file = File::new();
    let store = open(&file.path()).await;
    let nonce = freeze(&store).await;
    let later = open(&file.path()).await;
    assert_eq!(era_of(&later).await.nonce, nonce);
}

/// Whoever lived in an era that a copy does not have tells the copy of it, so that its sessions are not taken for a
/// sign that more was forgotten.
#[tokio::test]
async fn an_era_that_only_a_handle_remembers_is_past_once_the_copy_is_thawed() {
    let file = File::new();
    let (store, other) = (open(&file.path()).await, open(&file.path()).await);
    file.copy();
    let later = freeze(&store).await;
    assert_eq!(store.thaw(later).await.expect("the store answers"), Thawed::Thawed);
    let mut forgotten = Member::join(&store, "forgotten").await;
    assert_eq!(forgotten.era, later);
    file.put_copy_back();
    let era = era_of(&other).await;
    assert!(era.frozen && era.nonce != later);
    assert_eq!(era_of(&store).await.nonce, era.nonce, "it is not frozen again");
    assert_eq!(other.thaw(era.nonce).await.expect("the store answers"), Thawed::Thawed);
    assert_eq!(forgotten.beat().await, Answer::Gone);
    let thawed = era_of(&other).await;
    assert_eq!((thawed.nonce, thawed.frozen), (era.nonce, false));
}

#[tokio::test]
async fn who_runs_out_of_tokens_is_told_the_last_one() {
    let file = File::new();
    let store = open(&file.path()).await;
    let mut one = Member::join(&store, "one").await;
    let last = leasehold::lease::TOKEN_MAX;
    let wish = Wanted { floor: leasehold::lease::Token(last - 1), ..wanted("a") };
    let Answer::Done(outcomes) = one.acquire_wanted(&[wish]).await else { panic!("a living session") };
    let [Acquired::Granted(term)] = outcomes.as_slice() else { panic!("the last token: {outcomes:?}") };
    assert_eq!(one.give_back(term).await, Released::Freed);
    let pulse = one.pulse();
    let error = store.acquire(one.id(), pulse, &[wanted("a")]).await.expect_err("there is no token left");
    assert!(
        error.to_string().contains(&format!("the tokens of a are used up: {last} is the last")),
        "{error}"
    );
}

// proves C39
#[tokio::test]
async fn who_leads_no_more_cannot_write_to_the_same_file_under_its_guard() {
    let file = File::new();
    let key = Key::new("seat").expect("a good key");
    let candidate =
        |store: Arc<dyn Store>, key: Key| Election::new(store, key).ttl(Duration::from_secs(2)).start();
    let one = candidate(open(&file.path()).await, key.clone()).await.expect("it can start");
    let first = one.campaign().await;
    file.execute("CREATE TABLE written (n int)", []);
    let write = |row: u32, guard: &Option<Guard>| match guard {
        Some(Guard::Sql { condition }) => {
            file.execute(&format!("INSERT INTO written SELECT {row} WHERE {condition}"), []);
        }
        other => panic!("{other:?} is for another store"),
    };
    let old = first.guard();
    write(1, &old);
    drop(first);
    let two = candidate(open(&file.path()).await, key).await.expect("it can start");
    let second = two.campaign().await;
    write(2, &old);
    write(3, &second.guard());
    let connection = rusqlite::Connection::open(file.path()).expect("the file can be opened");
    let mut rows = connection.prepare("SELECT n FROM written ORDER BY n").expect("a good query");
    let rows: Result<Vec<u32>, _> = rows.query_map([], |row| row.get(0)).expect("rows").collect();
    assert_eq!(rows.expect("numbers"), [1, 3]);
}
