//! Reads a ledger back from log files in JSON, as members wrote them.
//!
//! Pure, and tolerant: a line that is no line of the ledger is skipped and counted, whatever it is. What a log
//! collector puts before the JSON does not matter.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

use serde::Deserialize;

use super::{Entry, Event, Reason};
use crate::clock::Moment;
use crate::lease::{MemberId, MemberName, Pool, ResourceId, Token};

/// The most bytes a line may have; a longer one is skipped.
pub const LINE_MAX: usize = 64 * 1024;
/// The most entries that are kept.
pub const ENTRIES_MAX: usize = 1_000_000;

/// What was read so far.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Replay {
    /// The entries of each pool, in the order in which they were read.
    pub pools: BTreeMap<Pool, Vec<Entry>>,
    /// How many entries were read.
    pub entries: usize,
    /// How many lines were something else.
    pub skipped: usize,
}

impl Replay {
    /// Reads everything there is. Answers how many entries that brought.
    ///
    /// # Errors
    /// What `input` answers, and that there are more than [`ENTRIES_MAX`] entries.
    pub fn read(&mut self, mut input: impl BufRead) -> io::Result<usize> {
        let before = self.entries;
        let mut line = Vec::new();
        loop {
            line.clear();
            let limit = LINE_MAX as u64 + 1;
            if input.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
                return Ok(self.entries - before);
            }
            if line.len() > LINE_MAX && line.last() != Some(&b'\n') {
                input.skip_until(b'\n')?;
                self.skipped += 1;
                continue;
            }
            self.take(&line)?;
        }
    }

    fn take(&mut self, line: &[u8]) -> io::Result<()> {
        match parse(line) {
            Some(_) if self.entries >= ENTRIES_MAX => {
                Err(io::Error::other(format!("there are more than {ENTRIES_MAX} lines of the ledger")))
            }
            Some((pool, entry)) => {
                self.pools.entry(pool).or_default().push(entry);
                self.entries += 1;
                Ok(())
            }
            None => {
                self.skipped += usize::from(!line.trim_ascii().is_empty());
                Ok(())
            }
        }
    }
}

/// The pool and the entry of one line, if it is a line of the ledger.
#[must_use]
pub fn parse(line: &[u8]) -> Option<(Pool, Entry)> {
    let json = &line[line.iter().position(|byte| *byte == b'{')?..];
    if json.len() > LINE_MAX {
        return None;
    }
    let line: Line = serde_json::from_slice(json).ok()?;
    let entry = Entry {
        wall_nanos: line.wall_nanos,
        at: line.at,
        boot: line.boot,
        number: line.number,
        member: line.instance,
        name: line.name,
        event: line.event,
        resource: line.resource,
        token: line.token,
        trusted_until: line.trusted_until,
        ttl_ms: line.ttl_ms,
        reason: line.reason,
        error: line.error.map(Words::into_message),
        other: line.other,
        detail: line.detail,
    };
    Some((line.pool, entry))
}

/// A line as [`Entry::log`] writes it.
#[derive(Debug, Deserialize)]
struct Line {
    pool: Pool,
    instance: MemberId,
    name: MemberName,
    event: Event,
    at: Moment,
    wall_nanos: u64,
    boot: String,
    number: Option<u64>,
    resource: Option<ResourceId>,
    token: Option<Token>,
    trusted_until: Option<Moment>,
    ttl_ms: Option<u64>,
    reason: Option<Reason>,
    error: Option<Words>,
    other: Option<MemberId>,
    detail: Option<String>,
}

/// What went wrong: plain words, or with a type beside them, as programs log it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Words {
    Plain(String),
    Typed { message: String },
}

impl Words {
    fn into_message(self) -> String {
        let (Self::Plain(message) | Self::Typed { message }) = self;
        message
    }
}
