//! What a leader does from its election to its end: whatever its plan says is to be done, again and again.
//!
//! Invariant: at most one step is under way, and one that was not answered is decided before another is planned. So what a
//! plan counts as free is free: nothing of ours is still on its way, and nothing of a former leader's can arrive.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Token;
use leasehold::election::Leadership;
use leasehold::store::Guard;

use crate::cache::Cache;
use crate::step::Step;
use crate::world::World;

/// How long is waited when a step was refused or not answered.
const PAUSE: Duration = Duration::from_millis(100);

/// What is to be done in a world by the leader with this token.
pub type Plan = fn(&World, Token) -> Vec<Step>;

/// What came of the steps of a plan.
enum Pass {
    /// There were none.
    Nothing,
    /// All are done, the last at this revision.
    Written(i64),
    /// One was refused or not answered, and those after it were not made.
    Broken,
}

/// A leader's task.
#[derive(Debug, Clone)]
pub struct Task {
    /// What it knows.
    pub cache: Arc<Cache>,
    /// The key of its election.
    pub key: String,
    /// What it does.
    pub plan: Plan,
    /// How often it looks at everything, whether or not something was heard.
    pub every: Duration,
}

impl Task {
    /// Leads until the leadership ends.
    pub async fn lead(self, leadership: Leadership) {
        tracing::info!(key = self.key, token = %leadership.token(), "leads");
        let Some(guard) = leadership.guard() else {
            tracing::error!(
                key = self.key,
                "cannot lead: the store has no guard for what is written to etcd"
            );
            return;
        };
        tokio::select! {
            _ = leadership.lost() => {}
            () = self.reconcile(&leadership, &guard) => {}
        }
    }

    async fn reconcile(&self, leadership: &Leadership, guard: &Guard) {
        self.catch_up().await;
        let mut world = self.cache.world();
        let mut whole = tokio::time::interval(self.every);
        whole.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        whole.tick().await;
        loop {
            let steps = (self.plan)(&world.borrow_and_update(), leadership.token());
            match self.carry_out(steps, leadership, guard).await {
                Pass::Nothing => tokio::select! {
                    _ = world.changed() => {}
                    _ = whole.tick() => self.cache.read_all().await,
                },
                Pass::Written(revision) => self.cache.reach(revision).await,
                Pass::Broken => {
                    tokio::time::sleep(PAUSE).await;
                    self.cache.read_all().await;
                }
            }
        }
    }

    /// Makes one step after the other until all are done or one is not.
    async fn carry_out(&self, steps: Vec<Step>, leadership: &Leadership, guard: &Guard) -> Pass {
        let mut pass = Pass::Nothing;
        for step in steps {
            // The guard is there for trust that ends from here on; who knows that it has ended does not ask.
            let (Ok(_), Some(conditions)) = (leadership.term(), step.conditions(guard)) else {
                return Pass::Broken;
            };
            match self.cache.etcd().write(&conditions, &step.writes).await {
                Ok(Some(revision)) => {
                    tracing::info!("{}", step.what);
                    pass = Pass::Written(revision);
                }
                Ok(None) => {
                    tracing::warn!("refused, for something has changed: {}", step.what);
                    return Pass::Broken;
                }
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "not known whether {}",
                        step.what
                    );
                    return Pass::Broken;
                }
            }
        }
        pass
    }

    /// Brings the cache up to our election. Whatever former leaders wrote comes before it in etcd's history.
    async fn catch_up(&self) {
        loop {
            match self.cache.etcd().read(&self.key).await {
                Ok((now, kvs)) => {
                    let elected = kvs.iter().find(|kv| kv.key == self.key).map_or(now, |kv| kv.mod_revision);
                    return self.cache.reach(elected).await;
                }
                Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "cannot read"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
