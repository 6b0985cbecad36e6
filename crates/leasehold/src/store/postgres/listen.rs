//! Hints: one connection that listens, and those who want to hear.
//!
//! The connection is made anew when it is lost, and everybody is told to read again each time: what happened in between
//! was not heard. Whether anything is heard at all is found out by saying something on another connection, because a
//! pooler takes `LISTEN` and passes nothing on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_postgres::Notification;

use super::Shared;
use super::connect::{CONNECT_MAX, Link, within};
use super::failure::Failure;
use super::lanes::Param;
use crate::lease::{Nonce, Pool};
use crate::store::{Hint, Hints};

/// How long something that was said may take to be heard.
const HEARD_MAX: Duration = Duration::from_secs(1);
/// How long nothing is heard before the connection is tried.
const QUIET_MAX: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How many hints wait for somebody slow before they are merged into one.
const WAITING_MAX: usize = 256;

/// Whom a change concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Pool(String),
    Everybody,
}

/// Who wants to hear.
#[derive(Debug)]
pub(super) struct Ears {
    told: broadcast::Sender<Told>,
    pushes: AtomicBool,
}

impl Default for Ears {
    fn default() -> Self {
        Self { told: broadcast::channel(WAITING_MAX).0, pushes: AtomicBool::new(false) }
    }
}

impl Ears {
    /// Whether what others change is heard.
    pub(super) fn pushes(&self) -> bool {
        self.pushes.load(Ordering::Relaxed)
    }

    pub(super) fn hints(&self, pool: &Pool) -> Hints {
        let told = self.told.subscribe();
        Box::pin(PoolHints { next: Box::pin(next_of(told, pool.clone())), pool: pool.clone() })
    }

    fn pass_on(&self, payload: &str) {
        let told = if payload.is_empty() { Told::Everybody } else { Told::Pool(payload.to_owned()) };
        // Nobody listening is no trouble.
        let _ = self.told.send(told);
    }
}

/// Listens for as long as the store lives. `tried` is set once it is known whether anything is heard.
pub(super) async fn serve(shared: Arc<Shared>, tried: watch::Sender<bool>) {
    let mut pause = PAUSE_MIN;
    loop {
        match listen(&shared, &tried).await {
            Ok(()) => pause = PAUSE_MIN,
            Err(failure) => {
                tracing::debug!(error = %failure.in_use(), "no hints for the moment; members read");
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
        tried.send_replace(true);
        tokio::time::sleep(pause).await;
    }
}

/// Listens on one connection until it is lost.
async fn listen(shared: &Shared, tried: &watch::Sender<bool>) -> Result<(), Failure> {
    let (heard, mut hearing) = mpsc::channel(WAITING_MAX);
    let link = Link::open(&shared.address, Some(heard)).await?;
    ask(&link, "LISTEN leasehold").await?;
    let pushes = try_out(shared, &mut hearing).await?;
    shared.ears.pushes.store(pushes, Ordering::Relaxed);
    tried.send_replace(true);
    shared.ears.pass_on("");
    loop {
        match tokio::time::timeout(QUIET_MAX, hearing.recv()).await {
            Ok(Some(notification)) => shared.ears.pass_on(notification.payload()),
            Ok(None) => return Ok(()),
            Err(_) => {
                if let Err(failure) = ask(&link, "").await {
                    link.give_up(&shared.address);
                    return Err(failure);
                }
            }
        }
    }
}

async fn ask(link: &Link, sql: &str) -> Result<(), Failure> {
    within(CONNECT_MAX, &link.place, async {
        link.client.batch_execute(sql).await.map_err(|error| Failure::of(&link.place, error))
    })
    .await
}

/// Says something on another connection, and whether it was heard.
async fn try_out(shared: &Shared, hearing: &mut mpsc::Receiver<Notification>) -> Result<bool, Failure> {
    // No pool has such a name.
    let word = format!("heard? {}", Nonce::generate());
    let say = [Param::text(word.as_str())];
    shared.reads.ask(&shared.address, "SELECT pg_notify('leasehold', $1)", &say).await?;
    let heard = async {
        while let Some(notification) = hearing.recv().await {
            if notification.payload() == word {
                return true;
            }
        }
        false
    };
    Ok(tokio::time::timeout(HEARD_MAX, heard).await.unwrap_or(false))
}

/// The hints of one pool out of those of all.
struct PoolHints {
    next: Pin<Box<dyn Future<Output = Option<broadcast::Receiver<Told>>> + Send>>,
    pool: Pool,
}

async fn next_of(mut told: broadcast::Receiver<Told>, pool: Pool) -> Option<broadcast::Receiver<Told>> {
    loop {
        match told.recv().await {
            Ok(Told::Pool(other)) if other != pool.as_str() => {}
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {
                // Whoever reads now reads everything that was told so far.
                return Some(told.resubscribe());
            }
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}

impl Stream for PoolHints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        match self.next.as_mut().poll(context) {
            Poll::Ready(Some(told)) => {
                let pool = self.pool.clone();
                self.next = Box::pin(next_of(told, pool));
                Poll::Ready(Some(Hint::Changed))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
