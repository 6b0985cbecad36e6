//! Who leads, as anybody sees it who can read the store.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Key;
use crate::clock::{Clock, SystemClock};
use crate::lease::{MemberId, MemberName, Token};
use crate::store::{Hints, Store};
use crate::view::View;

/// How often the store is read when nothing is heard of a change.
const PERIOD: Duration = Duration::from_secs(1);
/// How long one reading may take.
const READ_MAX: Duration = Duration::from_secs(5);
/// How long is waited after a reading that failed: the more of them in a row, the longer.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Who has a seat.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seat {
    /// The store has not answered.
    Unknown,
    /// Nobody.
    Vacant,
    /// The store says that this one does. One that died is named until others have noticed.
    Taken(Leader),
}

impl Seat {
    /// Who has it, if anybody is known to.
    #[must_use]
    pub fn leader(&self) -> Option<&Leader> {
        match self {
            Self::Taken(leader) => Some(leader),
            Self::Unknown | Self::Vacant => None,
        }
    }
}

/// A leader.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// Its id, the value of the leader key on etcd.
    pub member: MemberId,
    /// Its name, the same after a restart.
    pub name: Option<MemberName>,
    /// The token it leads under.
    pub token: Token,
}

/// The leaders of an election, one after the other: the present one first, then every change. Changes that come while
/// nobody looks are merged.
#[derive(Debug)]
pub struct Leaders {
    seat: watch::Receiver<Seat>,
    next: Pending,
    reader: Arc<Reader>,
}

struct Pending(Pin<Box<dyn Future<Output = Option<Seat>> + Send + Sync>>);

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}

impl Leaders {
    /// Observes an election without taking part in it.
    #[must_use]
    pub fn of(store: Arc<dyn Store>, key: &Key) -> Self {
        let (seat, seen) = watch::channel(Seat::Unknown);
        let reader = Arc::new(Reader(tokio::spawn(read(store, key.clone(), seat))));
        let next = Pending(Box::pin(first(seen.clone())));
        Self { seat: seen, next, reader }
    }

    /// Who has the seat, as far as is known now.
    #[must_use]
    pub fn now(&self) -> Seat {
        self.seat.borrow().clone()
    }

    /// The next leader; `None` once nobody observes any more.
    pub async fn next(&mut self) -> Option<Seat> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Clone for Leaders {
    fn clone(&self) -> Self {
        let next = Pending(Box::pin(first(self.seat.clone())));
        Self { seat: self.seat.clone(), next, reader: Arc::clone(&self.reader) }
    }
}

impl Stream for Leaders {
    type Item = Seat;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Seat>> {
        match self.next.0.as_mut().poll(context) {
            Poll::Ready(Some(seat)) => {
                self.next = Pending(Box::pin(after(self.seat.clone(), seat.clone())));
                Poll::Ready(Some(seat))
            }
            Poll::Ready(None) => {
                // A stream that has ended may be asked again.
                self.next = Pending(Box::pin(std::future::ready(None)));
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Waits until anything is known.
async fn first(seat: watch::Receiver<Seat>) -> Option<Seat> {
    after(seat, Seat::Unknown).await
}

async fn after(mut seat: watch::Receiver<Seat>, told: Seat) -> Option<Seat> {
    seat.wait_for(|seat| *seat != told).await.ok().map(|seat| seat.clone())
}

/// The task that reads for everybody who observes.
#[derive(Debug)]
struct Reader(JoinHandle<()>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn read(store: Arc<dyn Store>, key: Key, seat: watch::Sender<Seat>) {
    let clock = SystemClock;
    let mut view = View::new(key.pool().clone());
    let mut hints = store.changes(key.pool());
    let mut pause = PAUSE;
    loop {
        let seen = match tokio::time::timeout(READ_MAX, view.refresh(&*store, &clock)).await {
            Ok(Ok(_)) => seat_in(&view, &key),
            Ok(Err(_)) | Err(_) => Seat::Unknown,
        };
        let known = seen != Seat::Unknown;
        seat.send_if_modified(|told| {
            let changed = *told != seen;
            *told = seen;
            changed
        });
        if known {
            pause = PAUSE;
            tokio::select! {
                () = clock.sleep(PERIOD) => {}
                () = next_hint(&mut hints) => {}
            }
        } else {
            clock.sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

async fn next_hint(hints: &mut Hints) {
    if std::future::poll_fn(|context| hints.as_mut().poll_next(context)).await.is_none() {
        std::future::pending().await
    }
}

fn seat_in(view: &View, key: &Key) -> Seat {
    let (Some(member), Some(lease)) = (view.holder(key.seat()), view.leases().get(key.seat())) else {
        return Seat::Vacant;
    };
    let name = view.sessions().get(member).map(|session| session.profile.name.clone());
    Seat::Taken(Leader { member: member.clone(), name, token: lease.token })
}
