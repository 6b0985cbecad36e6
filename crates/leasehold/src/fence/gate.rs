//! A fence with an authority behind it.
//!
//! Most writes are judged at once, from memory. The authority is asked for the rest: once for all that wait, and not again for a
//! moment after it failed. Meanwhile [`Gate::follow`] keeps what is known current.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use super::{Admission, Authority, Counts, Fence, Judgement, Offered, Rules};
use crate::clock::{Clock, Moment, SystemClock};
use crate::lease::ResourceId;
use crate::store::StoreError;

/// How long one question may take.
const QUESTION_MAX: Duration = Duration::from_secs(2);
/// How long nothing is asked after a question that was not answered.
const PAUSE: Duration = Duration::from_millis(250);
/// How often a write whose token is higher than any known may make us ask: others wait for it.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// The shortest lifetime of what an authority said.
const LIFETIME_MIN: Duration = Duration::from_millis(100);

/// A fence with an authority behind it.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use leasehold::fence::{Gate, Offered, PoolAuthority};
/// use leasehold::store::memory::MemoryStore;
/// use leasehold::{Pool, ResourceId, Token};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let authority = PoolAuthority::new(Arc::new(MemoryStore::new()), Pool::new("scenes")?);
/// let gate = Gate::new(Arc::new(authority), Duration::from_secs(10));
/// // Nobody was ever granted this scene, whatever a message says.
/// let scene = ResourceId::new("scene-01")?;
/// assert!(!gate.admit(&scene, Offered::Token(Token(7))).await.is_admitted());
/// assert_eq!(gate.counts().future_token, 1);
/// # Ok::<(), leasehold::lease::IdError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Gate {
    fence: Fence,
    authority: Arc<dyn Authority>,
    clock: Arc<dyn Clock>,
    lifetime: Duration,
    /// How many questions have begun.
    begun: AtomicU64,
    line: Mutex<Line>,
    failures: AtomicU64,
}

/// What became of the last question.
#[derive(Debug, Default)]
struct Line {
    number: u64,
    /// Nothing is asked before.
    not_before: Moment,
    /// Whether the authority answered, to tell when that changes.
    answers: Option<bool>,
}

impl Gate {
    /// A gate that asks `authority`, and believes what it said for `lifetime`.
    #[must_use]
    pub fn new(authority: Arc<dyn Authority>, lifetime: Duration) -> Self {
        Self::with(authority, Rules { lifetime: Some(lifetime), allow_unversioned: false })
    }

    /// The same with other rules. Without a lifetime it is ten seconds: a gate has an authority.
    #[must_use]
    pub fn with(authority: Arc<dyn Authority>, rules: Rules) -> Self {
        let lifetime = rules.lifetime.unwrap_or(Duration::from_secs(10)).max(LIFETIME_MIN);
        Self {
            fence: Fence::new(Rules { lifetime: Some(lifetime), ..rules }),
            authority,
            clock: Arc::new(SystemClock),
            lifetime,
            begun: AtomicU64::new(0),
            line: Mutex::default(),
            failures: AtomicU64::new(0),
        }
    }

    /// What can be said at once.
    pub fn check(&self, resource: &ResourceId, offered: Offered) -> Judgement {
        self.fence.judge(resource, offered, self.clock.now())
    }

    /// The last word, when [`refresh`](Self::refresh) was called since the write came.
    pub fn settle(&self, resource: &ResourceId, offered: Offered) -> Admission {
        self.fence.settle(resource, offered, self.clock.now())
    }

    /// The verdict, for which the authority is asked where it has to be. It takes as long as one question.
    pub async fn admit(&self, resource: &ResourceId, offered: Offered) -> Admission {
        match self.check(resource, offered) {
            Judgement::Now(admission) => admission,
            Judgement::Ask => {
                // Whether it answers or not: what is known then decides.
                let _ = self.refresh().await;
                self.settle(resource, offered)
            }
        }
    }

    /// Keeps what is known current, for as long as it is polled: by what the authority tells of changes, and by asking it well
    /// before what it said is too old.
    pub async fn follow(&self) {
        let mut changes = self.authority.changes();
        loop {
            let _ = self.refresh().await;
            let lifetime = self.fence.lifetime().unwrap_or(self.lifetime).max(LIFETIME_MIN);
            let due = self.clock.now().after(lifetime / 3);
            let next = std::future::poll_fn(|context| changes.as_mut().poll_next(context));
            tokio::select! {
                hint = next => if hint.is_none() {
                    // Hints end with the store only.
                    self.clock.sleep_until(due).await;
                    changes = self.authority.changes();
                },
                () = self.clock.sleep_until(due) => {}
            }
        }
    }

    /// Asks the authority, unless somebody has since this was called or it failed a moment ago.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let asked = self.begun.load(Ordering::SeqCst);
        let mut line = self.line.lock().await;
        if line.number > asked {
            return answered(line.answers);
        }
        if self.clock.now() < line.not_before {
            if line.answers == Some(false) {
                return answered(line.answers);
            }
            self.clock.sleep_until(line.not_before).await;
        }
        line.number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let began = self.clock.now();
        let said = match tokio::time::timeout(QUESTION_MAX, self.authority.newest()).await {
            Ok(said) => said,
            Err(_) => Err(StoreError::unavailable(format!("it gave no answer within {QUESTION_MAX:?}"))),
        };
        let pause = if said.is_ok() { ASK_EVERY } else { PAUSE };
        line.not_before = self.clock.now().after(pause);
        let answers = Some(said.is_ok());
        match &said {
            Ok(_) if line.answers == Some(false) => {
                tracing::info!("the authority of the fence answers again")
            }
            Err(error) if line.answers != Some(false) => {
                tracing::warn!(%error, "the authority of the fence does not answer; what it said counts for {:?}", self.lifetime);
            }
            _ => {}
        }
        line.answers = answers;
        let said = match said {
            Ok(said) => said,
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                return Err(error);
            }
        };
        let forgotten = self.fence.learn(&said, began);
        drop(line);
        for (resource, floor) in forgotten {
            tracing::warn!(%resource, token = %floor, "the authority has forgotten a token; telling it so");
            if let Err(error) = self.authority.raise(&resource, floor).await {
                tracing::warn!(%resource, %error, "it was not told");
            }
        }
        Ok(())
    }

    /// Whether the authority answered the last question.
    pub async fn is_current(&self) -> bool {
        self.line.lock().await.answers == Some(true)
    }

    /// How often it said what.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.fence.counts()
    }

    /// How many questions the authority did not answer.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

fn answered(answers: Option<bool>) -> Result<(), StoreError> {
    match answers {
        Some(true) => Ok(()),
        _ => Err(StoreError::unavailable("it did not answer a moment ago")),
    }
}
