//! What the server tells of keys, where it is set to: hints which to read again, and nothing to rely on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::PubSub;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::store::redis::RedisLine;

/// How many keys may wait to be read again; of more, everything is.
const WAITING_MAX: usize = 10_000;
/// How long keys that change together are waited for.
const TOGETHER: Duration = Duration::from_millis(20);
/// How long to wait before listening again after the server broke off.
const AGAIN: Duration = Duration::from_secs(5);

/// The keys that changed. Dropping it ends the listening.
#[derive(Debug)]
pub(super) struct Events {
    waiting: Arc<Waiting>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    keys: Mutex<BTreeSet<String>>,
    some: Notify,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Events {
    /// Listens to what happens to the keys that fit these patterns.
    pub(super) fn of(line: RedisLine, patterns: &[String]) -> Self {
        let waiting = Arc::new(Waiting::default());
        let patterns: Vec<String> = patterns.iter().map(|pattern| line.events_of(pattern)).collect();
        let task = tokio::spawn(listen(line, patterns, Arc::clone(&waiting)));
        Self { waiting, task }
    }

    /// A key is to be read again.
    pub(super) fn add(&self, key: String) {
        self.waiting.add(key);
    }

    /// Ends when there are some.
    pub(super) async fn some(&self) {
        self.waiting.some.notified().await;
        tokio::time::sleep(TOGETHER).await;
    }

    /// The keys that changed since this was asked last; `None` if they are too many to name.
    pub(super) fn take(&self) -> Option<BTreeSet<String>> {
        let keys = std::mem::take(&mut *self.waiting.keys.lock().unwrap_or_else(PoisonError::into_inner));
        (keys.len() < WAITING_MAX).then_some(keys)
    }
}

impl Waiting {
    fn add(&self, key: String) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() < WAITING_MAX {
            keys.insert(key);
        }
        drop(keys);
        self.some.notify_one();
    }
}

async fn listen(line: RedisLine, patterns: Vec<String>, waiting: Arc<Waiting>) {
    loop {
        match line.listen(&patterns).await {
            Ok(subscription) => hear(subscription, &waiting).await,
            // A user may not be permitted to.
            Err(error) => tracing::debug!(%error, "cannot listen for changed keys; they are read instead"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn hear(mut subscription: PubSub, waiting: &Waiting) {
    let mut messages = std::pin::pin!(subscription.on_message());
    while let Some(message) = std::future::poll_fn(|context| {
        use futures_core::Stream;
        messages.as_mut().poll_next(context)
    })
    .await
    {
        if let Some((_, key)) = message.get_channel_name().split_once("__:") {
            waiting.add(key.to_owned());
        }
    }
}
