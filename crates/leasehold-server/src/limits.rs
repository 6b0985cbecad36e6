//! How much one caller may ask for: requests a second by key, and streams that are open at once.
//!
//! Invariant: whoever is refused has cost no call of the store.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use axum::http::StatusCode;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use leasehold::clock;

use crate::access::Identity;
use crate::app::App;
use crate::problem::{Answer, Problem};
use crate::settings::Limits;

/// The machine's own clock, as the limiter wants it.
#[derive(Debug, Clone)]
struct Ticks;

impl Clock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_nanos(clock::now().0)
    }
}

type Limiter = RateLimiter<String, HashMapStateStore<String>, Ticks, NoOpMiddleware<Duration>>;

/// How often each key may ask.
#[derive(Debug)]
pub(crate) struct Rates(RwLock<Arc<Limiter>>);

fn limiter(limits: &Limits) -> Arc<Limiter> {
    let rate = NonZeroU32::new(limits.rate).unwrap_or(NonZeroU32::MIN);
    let burst = NonZeroU32::new(limits.burst).unwrap_or(NonZeroU32::MIN);
    Arc::new(RateLimiter::hashmap_with_clock(Quota::per_second(rate).allow_burst(burst), Ticks))
}

impl Rates {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self(RwLock::new(limiter(limits)))
    }

    /// Other limits from now on; what was spent is forgotten.
    pub(crate) fn set(&self, limits: &Limits) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = limiter(limits);
    }

    /// Counts one request. Where no key is asked for nothing is counted.
    pub(crate) fn spend(&self, identity: &Identity) -> Answer<()> {
        let Some(key) = identity.key() else { return Ok(()) };
        let limiter = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let Err(until) = limiter.check_key(&key.to_owned()) else { return Ok(()) };
        let wait = until.wait_time_from(Ticks.now());
        metrics::counter!("leasehold_rate_limited_total").increment(1);
        let said = "your key asks more often than is allowed; the header Retry-After says when to go on";
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", said);
        Err(problem.retry_after(wait.as_secs() + 1))
    }
}

/// The streams that are open.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    all: usize,
    /// By key; streams without one are counted together.
    by_key: HashMap<Option<String>, usize>,
}

/// The right to keep one stream open, for as long as it lives.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    app: App,
    identity: Identity,
}

impl Streams {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamPermit {
    /// Takes one of the places for streams.
    pub(crate) fn take(app: &App, identity: &Identity) -> Answer<Self> {
        let limits = app.limits();
        let mut open = app.streams().open();
        let key = identity.key().map(str::to_owned);
        let own = open.by_key.get(&key).copied().unwrap_or(0);
        // Where nobody has a key, nobody can be told from anybody.
        let own_max = if key.is_some() { limits.streams_per_key } else { limits.streams };
        if open.all >= limits.streams || own >= own_max {
            let said = "too many streams are open; close some, or try again later";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", said);
            return Err(problem.retry_after(5));
        }
        open.all += 1;
        *open.by_key.entry(key).or_default() += 1;
        Ok(Self { app: app.clone(), identity: identity.clone() })
    }

    /// When the stream must end because its key is not good any more.
    pub(crate) async fn ended(&self) {
        while self.app.access().stands(&self.identity) {
            self.app.access().read_again().await;
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.app.streams().open();
        let key = self.identity.key().map(str::to_owned);
        open.all = open.all.saturating_sub(1);
        if let Some(own) = open.by_key.get_mut(&key) {
            *own -= 1;
            if *own == 0 {
                open.by_key.remove(&key);
            }
        }
    }
}
