//! Hints: server-sent events, on a connection that is made again whenever it breaks.
//!
//! A server tells one hint at the beginning of every stream, because nobody knows what was missed, and says something
//! every few seconds. A stream on which nothing is heard for longer is dead.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use reqwest::Response;
use tokio::sync::watch;

use super::events::Events;
use super::line::Line;
use super::wire::KEEP_ALIVE_SECONDS;
use crate::lease::Pool;
use crate::store::{Hint, Hints};

/// Two remarks may be late, not more.
const QUIET_MAX: Duration = Duration::from_secs(KEEP_ALIVE_SECONDS * 5 / 2);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Who listens, to what.
struct Listening {
    line: Arc<Line>,
    pool: Pool,
    /// Closed when the store is dropped.
    alive: watch::Receiver<()>,
    stream: Option<(Response, Events)>,
    heard: VecDeque<Hint>,
    failed: u32,
}

/// A hint, and who listens on; `None` when the store has gone.
type Heard = Option<(Hint, Listening)>;

/// The hints of one pool.
struct PoolHints {
    next: Pin<Box<dyn Future<Output = Heard> + Send>>,
}

/// Hints about a pool, until the store is dropped.
pub(super) fn listen(line: Arc<Line>, pool: Pool, alive: watch::Receiver<()>) -> Hints {
    let listening = Listening { line, pool, alive, stream: None, heard: VecDeque::new(), failed: 0 };
    Box::pin(PoolHints { next: Box::pin(listening.next()) })
}

impl Stream for PoolHints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        match self.next.as_mut().poll(context) {
            Poll::Ready(Some((hint, listening))) => {
                self.next = Box::pin(listening.next());
                Poll::Ready(Some(hint))
            }
            Poll::Ready(None) => {
                self.next = Box::pin(std::future::ready(None));
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Listening {
    /// Waits for the next hint. `None` when the store has gone.
    async fn next(mut self) -> Heard {
        let mut alive = self.alive.clone();
        let gone = async move { while alive.changed().await.is_ok() {} };
        let hint = tokio::select! {
            () = gone => return None,
            hint = self.hint() => hint,
        };
        Some((hint, self))
    }

    async fn hint(&mut self) -> Hint {
        loop {
            if let Some(hint) = self.heard.pop_front() {
                return hint;
            }
            match self.stream.take() {
                None => self.begin().await,
                Some((mut response, mut events)) => {
                    let piece = tokio::time::timeout(QUIET_MAX, response.chunk()).await;
                    // Whatever else comes: it broke, ended or is dead, and is begun anew.
                    let Ok(Ok(Some(piece))) = piece else {
                        self.pause().await;
                        continue;
                    };
                    if let Ok(names) = events.take_in(&piece) {
                        self.take_in(&names);
                        self.stream = Some((response, events));
                    }
                }
            }
        }
    }

    /// Events that arrived together are one hint of each kind.
    fn take_in(&mut self, names: &[String]) {
        for name in names {
            // One of a kind that we do not know says that something changed, too.
            let hint = if name == "doubted" { Hint::Doubted } else { Hint::Changed };
            if !self.heard.contains(&hint) {
                self.heard.push_back(hint);
            }
            self.failed = 0;
        }
    }

    /// Connects, however long it takes.
    async fn begin(&mut self) {
        loop {
            match self.line.listen(&self.pool).await {
                Ok(response) => {
                    self.stream = Some((response, Events::default()));
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot listen for changes; members read instead");
                    self.pause().await;
                }
            }
        }
    }

    /// Waits before the next attempt: longer each time, and not all members for equally long.
    async fn pause(&mut self) {
        let longest = PAUSE_MIN.saturating_mul(1 << self.failed.min(10)).min(PAUSE_MAX);
        self.failed = self.failed.saturating_add(1);
        let mut dice = [u8::MAX];
        // Without a random source all wait for equally long.
        let _ = getrandom::fill(&mut dice);
        tokio::time::sleep(longest.mul_f64(0.5 + f64::from(dice[0]) / 510.0)).await;
    }
}
