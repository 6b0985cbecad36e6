//! Lines of the ledger: whatever a log holds is read without harm, and what is taken for a line survives being written
//! and read again, with whatever a collector puts before it.

#![no_main]

use leasehold::Pool;
use leasehold::ledger::Entry;
use leasehold::ledger::replay::{LINE_MAX, Replay, parse};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// A line as a member's log has it.
fn written(pool: &Pool, entry: &Entry) -> Vec<u8> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(entry) else { panic!("{entry:?} is no object") };
    let member = fields.remove("member").expect("every row says who wrote it");
    fields.insert("instance".to_owned(), member);
    fields.insert("pool".to_owned(), Value::from(pool.as_str()));
    serde_json::to_vec(&fields).expect("it was JSON")
}

fuzz_target!(|bytes: &[u8]| {
    let mut expected = Replay::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some((pool, entry)) = parse(line) else {
            expected.skipped += usize::from(!line.trim_ascii().is_empty());
            continue;
        };
        let again = written(&pool, &entry);
        // Escapes may make it longer than it was.
        if again.len() <= LINE_MAX {
            assert_eq!(parse(&again).as_ref(), Some(&(pool.clone(), entry.clone())));
            let collected = [b"Nov 15 host leasehold[7]: ".as_slice(), &again].concat();
            assert_eq!(parse(&collected).as_ref(), Some(&(pool.clone(), entry.clone())));
        }
        expected.pools.entry(pool).or_default().push(entry);
        expected.entries += 1;
    }
    let mut replay = Replay::default();
    assert_eq!(replay.read(bytes).ok(), Some(expected.entries));
    assert_eq!((replay.entries, replay.skipped), (expected.entries, expected.skipped));
    assert_eq!(replay.pools, expected.pools);
});
