//! Where a child asks at the moment of use: still trusted? which token? for how long?
//!
//! One line of JSON in, one line of JSON out, over a unix socket in a directory that only this user can enter:
//!
//! ```text
//! {"resource":"a","token":7}
//! {"trusted":true,"resource":"a","token":7,"remaining_ms":12345}
//! ```
//!
//! Invariant: whoever gets no answer, or none that can be read, is not trusted.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::directory::private_directory;

mod ask;

pub use ask::{AskError, ask};

/// The longest question.
pub const LINE_MAX: usize = 4 * 1024;
/// The most connections at once; further ones wait.
pub const CONNECTIONS_MAX: usize = 64;
/// A connection on which nothing is asked for so long is closed.
pub const IDLE_MAX: Duration = Duration::from_secs(2);
/// A connection is closed after so long, so that others get their turn.
pub const CONNECTION_MAX: Duration = Duration::from_secs(30);

/// What a child asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The resource it works on.
    pub resource: String,
    /// The token it was started with; without one, whatever token is held now is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
}

/// What it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Whether it may go on.
    pub trusted: bool,
    /// The resource.
    pub resource: String,
    /// The token now held, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// For how long it may go on without asking again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
    /// Why it may not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Reply {
    /// It may go on for `remaining`.
    #[must_use]
    pub fn trusted(question: &Question, token: u64, remaining: Duration) -> Self {
        Self {
            trusted: true,
            resource: question.resource.clone(),
            token: Some(token),
            remaining_ms: Some(u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX)),
            reason: None,
        }
    }

    /// It may not go on.
    #[must_use]
    pub fn refused(question: &Question, token: Option<u64>, reason: impl Into<String>) -> Self {
        Self {
            trusted: false,
            resource: question.resource.clone(),
            token,
            remaining_ms: None,
            reason: Some(reason.into()),
        }
    }
}

/// What a question that cannot be understood is answered with.
#[derive(Debug, Serialize, Deserialize)]
struct Problem {
    error: String,
}

/// A socket that answers questions. Dropping it closes it and removes its directory.
pub struct Socket {
    path: PathBuf,
    task: AbortHandle,
    _directory: TempDir,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("path", &self.path).finish_non_exhaustive()
    }
}

type Answer = Arc<dyn Fn(&Question) -> Reply + Send + Sync>;

impl Socket {
    /// Opens a socket whose questions `answer` answers at once, from what is known.
    ///
    /// # Errors
    ///
    /// If no directory or socket can be made.
    pub fn open(answer: impl Fn(&Question) -> Reply + Send + Sync + 'static) -> io::Result<Self> {
        let directory = private_directory()?;
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path)?;
        let task = tokio::spawn(listen(listener, Arc::new(answer))).abort_handle();
        Ok(Self { path, task, _directory: directory })
    }

    /// Where the socket lies: the value of `LEASEHOLD_SOCKET`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(listener: UnixListener, answer: Answer) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    let _ = timeout(CONNECTION_MAX, serve(stream, &answer)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a question could not be accepted");
                // Out of descriptors, most likely; trying again at once would spin.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Answers questions until the other side has no more, is idle, or says something too long.
async fn serve(stream: UnixStream, answer: &Answer) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = LINE_MAX as u64 + 1;
        let count = timeout(IDLE_MAX, (&mut stream).take(limit).read_until(b'\n', &mut line)).await??;
        if count == 0 {
            return Ok(());
        }
        let whole = line.len() <= LINE_MAX;
        let reply =
            if whole { reply_to(&line, answer) } else { problem("the question is too long".to_owned()) };
        timeout(IDLE_MAX, stream.write_all(&reply)).await??;
        if !whole {
            return Ok(());
        }
    }
}

fn reply_to(line: &[u8], answer: &Answer) -> Vec<u8> {
    match serde_json::from_slice::<Question>(line) {
        Ok(question) => json_line(&answer(&question)),
        Err(error) => {
            problem(format!("not a question: {error}; ask like {{\"resource\":\"a\",\"token\":7}}"))
        }
    }
}

fn problem(error: String) -> Vec<u8> {
    json_line(&Problem { error })
}

fn json_line(value: &impl Serialize) -> Vec<u8> {
    // These types have only strings, numbers and truth values, which are always written.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}
