//! Log lines in JSON are read back as the rows they were written with, and nothing else is taken for one.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::clock::{Moment, SystemClock};
use leasehold::ledger::replay::{LINE_MAX, Replay, parse};
use leasehold::ledger::{Entry, Event, Reason, Recorder};
use leasehold::store::Registry;
use leasehold::store::memory::MemoryStore;
use leasehold::{MemberId, MemberName, Pool, ResourceId, Term, Token};
use proptest::prelude::*;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a member wrote: its log in JSON, and its rows.
async fn written() -> (Vec<u8>, Vec<Entry>) {
    let (lines, store, pool) = (Lines::default(), MemoryStore::new(), Pool::new("jobs").unwrap());
    let writer = lines.clone();
    let log = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(move || writer.clone())
        .finish();
    let (one, two) = (MemberId::generate(), MemberId::generate());
    let name = MemberName::new("one").unwrap();
    let (recorder, kept) = Recorder::new(pool.clone(), name, Arc::new(SystemClock), Arc::new(store.clone()));
    let term = Term { resource: ResourceId::new("cam:7@site+1=x").unwrap(), token: Token(u64::MAX >> 11) };
    tracing::subscriber::with_default(log, || {
        tracing::info!(event = "nothing", "no line of the ledger");
        recorder.note(&one, Event::Joined).ttl(Duration::from_secs(30)).until(Moment(u64::MAX)).write();
        recorder.note(&one, Event::TakenOver).term(&term).other(&two).write();
        recorder.note(&one, Event::Renewed).until(Moment(9)).write();
        recorder.note(&one, Event::RenewFailed).error("what \"went\"\n wrong").detail("ä\u{1}").write();
        recorder.note(&one, Event::Stopped).term(&term).reason(Reason::TtlExpiry).until(Moment(0)).write();
        recorder.accepted(&two, &term);
    });
    drop(recorder);
    kept.await.unwrap();
    let rows = store.ledger(&pool, None, 0, 100).await.unwrap();
    let lines = lines.0.lock().unwrap().clone();
    (lines, rows.into_iter().map(|(_, row)| row).collect())
}

#[tokio::test]
async fn a_log_line_carries_everything_that_a_row_has() {
    let (lines, rows) = written().await;
    let mut replay = Replay::default();
    assert_eq!(replay.read(&lines[..]).unwrap(), 6);
    assert_eq!((replay.entries, replay.skipped), (6, 1));
    let pool = Pool::new("jobs").unwrap();
    assert_eq!(replay.pools[&pool], rows);
    let numbers: Vec<u64> = rows.iter().filter_map(|row| row.number).collect();
    assert_eq!(numbers, [0, 1, 1, 1, 2, 0], "rows about terms are counted for each member");
}

#[tokio::test]
async fn what_is_no_line_of_the_ledger_is_skipped_and_counted() {
    let (lines, _) = written().await;
    let good = lines.split_inclusive(|byte| *byte == b'\n').nth(1).unwrap();
    let mut input = b"not json\n\n{\"event\":\"acquired\"}\n{\xff}\n".to_vec();
    input.extend(b"Nov 15 host leasehold[7]: ");
    input.extend(good);
    input.extend(vec![b'{'; 3 * LINE_MAX]);
    input.push(b'\n');
    input.extend(good);
    // The last line may have been cut off by a kill.
    input.extend(&good[..good.len() / 2]);
    let mut replay = Replay::default();
    assert_eq!(replay.read(&input[..]).unwrap(), 2);
    assert_eq!((replay.entries, replay.skipped), (2, 5));
}

#[tokio::test]
async fn more_lines_than_memory_has_room_for_are_refused() {
    let (lines, _) = written().await;
    let mut replay = Replay::default();
    replay.entries = 1_000_000;
    let refused = replay.read(&lines[..]).unwrap_err();
    assert_eq!(refused.to_string(), "there are more than 1000000 lines of the ledger");
}

#[test]
fn an_error_is_read_with_its_type_and_without() {
    let line = |error: &str| {
        format!(
            "{{\"pool\":\"jobs\",\"instance\":\"one\",\"name\":\"one\",\"event\":\"renew_failed\",\"at\":1,\
             \"wall_nanos\":2,\"boot\":\"b\",\"error\":{error}}}"
        )
    };
    for error in ["\"no answer\"", "{\"type\":\"error\",\"message\":\"no answer\"}"] {
        let (_, entry) = parse(line(error).as_bytes()).expect("a line of the ledger");
        assert_eq!(entry.error.as_deref(), Some("no answer"));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
        let mut replay = Replay::default();
        prop_assert!(replay.read(&bytes[..]).is_ok());
        prop_assert_eq!(replay.entries, 0);
    }
}
