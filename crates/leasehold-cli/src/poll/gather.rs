//! Answers that are told together.
//!
//! A call costs Redis more than an answer in it does. Where many instances share the work, each has a few answers a second, and a call
//! for each of them would be most of what Redis does. So whoever is one of many lets a moment pass between two calls.
//!
//! Redis compares the term of each answer when it is told, so that nothing becomes stale by waiting without being noticed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::Pool;
use leasehold::clock::{self, Clock, SystemClock};
use leasehold::participant::Status;
use leasehold::store::redis::{EMISSIONS_MAX, Emission, Emitted, RedisLine};
use tokio::sync::{mpsc, oneshot, watch};

use crate::failure::chain;

/// How many members tell every answer at once.
const FEW: usize = 25;
/// How far apart two calls are for each member of a pool that has more; together they make about a hundred a second.
const APART_EACH: Duration = Duration::from_millis(10);
const APART_MAX: Duration = Duration::from_secs(1);
/// How many answers wait at most. Whoever has more waits with them.
const WAITING_MAX: usize = 1024;

type Outcome = Result<Emitted, String>;
type Waiting = (Emission, oneshot::Sender<Outcome>);

/// Who takes answers and tells them.
#[derive(Debug)]
pub(super) struct Gatherer {
    queue: mpsc::Sender<Waiting>,
    member: Arc<OnceLock<watch::Receiver<Status>>>,
}

impl Gatherer {
    pub(super) fn start(line: RedisLine, pool: Pool) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let member = Arc::new(OnceLock::new());
        tokio::spawn(tell_all(line, pool, waiting, Arc::clone(&member)));
        Self { queue, member }
    }

    /// From now on this member's status says how many share the work.
    pub(super) fn follow(&self, member: watch::Receiver<Status>) {
        let _ = self.member.set(member);
    }

    /// Tells an answer together with others, soon.
    pub(super) async fn tell(&self, emission: Emission) -> Outcome {
        let (tell, told) = oneshot::channel();
        let gone = || "this program is about to end".to_owned();
        self.queue.send((emission, tell)).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }
}

async fn tell_all(
    line: RedisLine,
    pool: Pool,
    mut waiting: mpsc::Receiver<Waiting>,
    member: Arc<OnceLock<watch::Receiver<Status>>>,
) {
    let mut last = clock::now();
    loop {
        let Some(first) = waiting.recv().await else { return };
        let members = member.get().map_or(1, |status| status.borrow().members);
        SystemClock.sleep_until(last.after(apart(members))).await;
        last = clock::now();
        let mut all = vec![first];
        while all.len() < EMISSIONS_MAX
            && let Ok(next) = waiting.try_recv()
        {
            all.push(next);
        }
        // Nobody waits any more for what was found out under a lease that has ended.
        all.retain(|(_, tell)| !tell.is_closed());
        tell_these(&line, &pool, all).await;
    }
}

async fn tell_these(line: &RedisLine, pool: &Pool, all: Vec<Waiting>) {
    if all.is_empty() {
        return;
    }
    let (emissions, tells): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let outcomes: Vec<Outcome> = match line.emit(pool, &emissions).await {
        Ok(emitted) => emitted.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(chain(&error)); tells.len()],
    };
    for (tell, outcome) in tells.into_iter().zip(outcomes) {
        let _ = tell.send(outcome);
    }
}

/// How much time lies between two calls of one of so many members.
fn apart(members: usize) -> Duration {
    if members <= FEW {
        return Duration::ZERO;
    }
    APART_EACH.saturating_mul(u32::try_from(members).unwrap_or(u32::MAX)).min(APART_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_of_many_lets_time_pass() {
        let millis = [1, 25, 26, 50, 100, 100_000].map(|members| apart(members).as_millis());
        assert_eq!(millis, [0, 0, 260, 500, 1000, 1000]);
    }
}
