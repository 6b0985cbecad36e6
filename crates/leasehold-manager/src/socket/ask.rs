//! The asking side, for `leasehold check`: synchronous, and over within its time whatever the supervisor does.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leasehold::clock;

use super::{Problem, Question, Reply, json_line};

/// The longest reply that is read.
const REPLY_MAX: u64 = 64 * 1024;

/// Why there is no reply. Whoever gets none is not trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// There is nobody to ask.
    #[error("the supervisor cannot be asked at {}; is it still running?", path.display())]
    Unreachable {
        /// Where it was asked.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There was no reply in time.
    #[error("the supervisor did not reply within {within:?}; it may be frozen")]
    Silent {
        /// How long the question was.
        within: Duration,
    },
    /// The supervisor did not understand.
    #[error("the supervisor refused the question: {reason}")]
    Refused {
        /// What it said.
        reason: String,
    },
    /// The reply could not be read.
    #[error("the supervisor's reply cannot be read: {reply:?}")]
    Garbled {
        /// The reply.
        reply: String,
    },
}

/// Asks the supervisor whose socket lies at `path`.
///
/// The time that the question took counts as used: `remaining_ms` holds from when this returns, and a trust that
/// ran out on the way is refused.
///
/// # Errors
///
/// If there is no reply, or none that can be read, within `limit`. Then there is no trust.
pub fn ask(path: &Path, question: &Question, limit: Duration) -> Result<Reply, AskError> {
    let asked_at = clock::now();
    let (answer, reply) = mpsc::channel();
    let (place, line) = (path.to_owned(), json_line(question));
    // Connecting to a supervisor that is frozen and has a long queue blocks for ever, and only a thread can be left.
    thread::Builder::new()
        .name("leasehold-ask".to_owned())
        .spawn(move || answer.send(exchange(&place, &line)))
        .map_err(|source| AskError::Unreachable { path: path.to_owned(), source })?;
    let reply = reply
        .recv_timeout(limit)
        .map_err(|_| AskError::Silent { within: limit })?
        .map_err(|source| AskError::Unreachable { path: path.to_owned(), source })?;
    Ok(aged(read(&reply)?, clock::now().since(asked_at)))
}

fn exchange(path: &Path, line: &[u8]) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(line)?;
    let mut reply = String::new();
    BufReader::new(stream.take(REPLY_MAX)).read_line(&mut reply)?;
    if reply.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up"));
    }
    Ok(reply)
}

fn read(reply: &str) -> Result<Reply, AskError> {
    if let Ok(reply) = serde_json::from_str(reply) {
        return Ok(reply);
    }
    match serde_json::from_str(reply) {
        Ok(Problem { error }) => Err(AskError::Refused { reason: error }),
        Err(_) => Err(AskError::Garbled { reply: reply.trim_end().to_owned() }),
    }
}

fn aged(mut reply: Reply, by: Duration) -> Reply {
    let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    reply.remaining_ms = reply.remaining_ms.map(|remaining| remaining.saturating_sub(by));
    if reply.trusted && reply.remaining_ms == Some(0) {
        reply.trusted = false;
        reply.reason = Some("trust ended while the supervisor was asked".to_owned());
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question { resource: "a".to_owned(), token: Some(7) }
    }

    #[test]
    fn trust_that_ran_out_on_the_way_is_no_trust() {
        let reply = Reply::trusted(&question(), 7, Duration::from_millis(100));
        assert_eq!(aged(reply.clone(), Duration::from_millis(20)).remaining_ms, Some(79));
        let late = aged(reply, Duration::from_millis(100));
        assert!(!late.trusted);
        assert_eq!(late.remaining_ms, Some(0));
    }

    #[test]
    fn a_reply_is_told_apart_from_a_problem_and_from_nonsense() {
        assert!(read(r#"{"trusted":true,"resource":"a"}"#).is_ok_and(|reply| reply.trusted));
        assert!(matches!(read(r#"{"error":"no"}"#), Err(AskError::Refused { reason }) if reason == "no"));
        assert!(matches!(read("hello\n"), Err(AskError::Garbled { reply }) if reply == "hello"));
    }
}
