//! Hints: what scripts publish, and where the server tells of it, what foreigners let go of.
//!
//! A subscription is a connection of its own that is made again whenever it breaks; every beginning gives one hint,
//! because nobody knows what was missed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use redis::Msg;
use redis::aio::PubSub;
use tokio::sync::watch;

use super::call::{self, Shared};
use super::connect;
use crate::lease::Pool;
use crate::store::{Hint, Hints, StoreError};

/// After so long without a word the server is asked whether it is still there.
const QUIET_MAX: Duration = Duration::from_secs(10);

/// Who listens, to what.
struct Listening {
    shared: Arc<Shared>,
    pool: Pool,
    /// Closed when the store is dropped.
    alive: watch::Receiver<()>,
    subscription: Option<PubSub>,
    failed: u32,
}

/// The hints of one pool.
struct PoolHints {
    next: Pin<Box<dyn Future<Output = Option<Listening>> + Send>>,
}

/// Hints about a pool, until the store is dropped.
pub(super) fn listen(shared: Arc<Shared>, pool: Pool, alive: watch::Receiver<()>) -> Hints {
    let listening = Listening { shared, pool, alive, subscription: None, failed: 0 };
    Box::pin(PoolHints { next: Box::pin(listening.next()) })
}

impl Stream for PoolHints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        match self.next.as_mut().poll(context) {
            Poll::Ready(Some(listening)) => {
                self.next = Box::pin(listening.next());
                Poll::Ready(Some(Hint::Changed))
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
    async fn next(mut self) -> Option<Self> {
        let mut alive = self.alive.clone();
        let gone = async move { while alive.changed().await.is_ok() {} };
        tokio::select! {
            () = gone => return None,
            () = self.hint() => {}
        }
        Some(self)
    }

    async fn hint(&mut self) {
        while let Some(mut subscription) = self.subscription.take() {
            match tokio::time::timeout(QUIET_MAX, message(&mut subscription)).await {
                Ok(Some(first)) => {
                    let mut worth = self.is_worth_a_hint(&first);
                    // What has arrived together is one hint.
                    while let Ok(Some(more)) =
                        tokio::time::timeout(Duration::ZERO, message(&mut subscription)).await
                    {
                        worth |= self.is_worth_a_hint(&more);
                    }
                    self.subscription = Some(subscription);
                    if worth {
                        return;
                    }
                }
                // It broke: begin anew.
                Ok(None) => {}
                Err(_) => {
                    let asking = tokio::time::timeout(super::CALL_MAX, subscription.ping::<redis::Value>());
                    if matches!(asking.await, Ok(Ok(_))) {
                        self.subscription = Some(subscription);
                    }
                }
            }
        }
        self.begin().await;
    }

    /// Subscribes, however long it takes.
    async fn begin(&mut self) {
        loop {
            match call::bounded(&self.shared.address.place, self.subscribe()).await {
                Ok(subscription) => {
                    self.subscription = Some(subscription);
                    self.failed = 0;
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot listen for changes; members read instead");
                    tokio::time::sleep(call::pause(self.failed)).await;
                    self.failed = self.failed.saturating_add(1);
                }
            }
        }
    }

    async fn subscribe(&self) -> Result<PubSub, StoreError> {
        let address = &self.shared.address;
        let host = connect::primary(address).await?;
        let told = |error| super::failure::told(&address.place, error);
        let mut subscription = address.client(&host)?.get_async_pubsub().await.map_err(told)?;
        let of_all = address.channel();
        let of_pool = format!("{of_all}:{}", self.pool);
        subscription.subscribe(&[of_all, of_pool]).await.map_err(told)?;
        if self.pool == address.mirrored {
            // Heard only where the server is set to tell of keys; a user may not be permitted to listen.
            let events = format!("__keyspace@{}__:{}*", address.database, self.lease_key());
            if let Err(error) = subscription.psubscribe(events).await {
                tracing::debug!(%error, "cannot listen for others' leases; members read instead");
            }
        }
        Ok(subscription)
    }

    fn lease_key(&self) -> String {
        format!("{}:lease:", self.shared.address.poll)
    }

    /// What scripts publish is. Of what happens to others' leases, only that one was let go of or ran out is.
    fn is_worth_a_hint(&self, message: &Msg) -> bool {
        if !message.from_pattern() {
            return true;
        }
        let channel = message.get_channel_name();
        let resource = channel.split_once("__:").and_then(|(_, key)| key.strip_prefix(&self.lease_key()));
        match (message.get_payload_bytes(), resource) {
            (b"del", Some(resource)) => {
                // A lease that was deleted was let go of; one that ran out did so by the server's clock.
                self.shared.foreign.let_go(resource);
                true
            }
            (b"expired", Some(_)) => true,
            _ => false,
        }
    }
}

/// The next message; `None` if the connection broke.
async fn message(subscription: &mut PubSub) -> Option<Msg> {
    let mut messages = std::pin::pin!(subscription.on_message());
    std::future::poll_fn(|context| messages.as_mut().poll_next(context)).await
}
