//! One pool as this replica knows it.

use std::collections::HashMap;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::clock::{Clock, Moment};
use leasehold::lease::{BeatNumber, Term};
use leasehold::ledger::Event;
use leasehold::listen::Listener;
use leasehold::operate::Act;
use leasehold::store::{Declared, MarkKind, Store, StoreError};
use leasehold::view::{self, News, Place, View};
use leasehold::{MemberId, MemberName, Pool, ResourceId};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncGuard};

use super::Shared;
use super::kept::Memory;
use super::outage::Outage;
use crate::cameras::is_of_cameras;
use crate::ledger::Rows;

/// How long there is no read after one, in times that it took, for each of those who waited for it, and at most: where they are many, or
/// the store is busy, more of them share the next one. Beyond so many it is not worth more of everybody's time.
const RESTS: u32 = 3;
const SHARERS: u32 = 2;
const REST_MAX: Duration = Duration::from_millis(15);

/// One pool as this replica knows it.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(super) pool: Pool,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) rows: Rows,
    pub(super) me: MemberId,
    pub(super) name: MemberName,
    /// The control plane's own absences, where they matter.
    outage: Option<Arc<Outage>>,
    /// How long one call of the store may take.
    pub(super) call: Duration,
    /// How many reads have begun.
    begun: AtomicU64,
    /// How many wait for one.
    waiting: AtomicU32,
    /// When the next may begin.
    rests_until: Mutex<Moment>,
    /// Held by whoever reads. What was read before is there for the others meanwhile.
    reading: AsyncMutex<()>,
    /// Nobody waits for the store with it in hand.
    known: AsyncMutex<Known>,
    memory: Mutex<Memory>,
}

/// What is known, for whoever reads.
struct Reader<'a>(&'a Desk);

impl Place for Reader<'_> {
    async fn view(&mut self) -> impl DerefMut<Target = View> + Send {
        AsyncGuard::map(self.0.known.lock().await, |known| &mut known.view)
    }
}

/// Counts one that waits for a read, until it does not.
struct Waits<'a>(&'a AtomicU32);

impl<'a> Waits<'a> {
    fn one_more(waiting: &'a AtomicU32) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) view: View,
    pub(super) listener: Listener,
    /// The number of the last read, and why it failed.
    last: (u64, Option<String>),
    /// When it began and when it was there.
    pub(super) read: Option<(Moment, Moment)>,
    /// What is new since the listener heard.
    pub(super) news: News,
    /// By label: who says what, and what they hold. Made when it is asked for, out of what was read last.
    holdings: Mutex<HashMap<String, Arc<Holdings>>>,
}

/// What is held by those who say the same under a label.
type Holdings = HashMap<String, Vec<ResourceId>>;

impl Known {
    /// The resource, if it is declared.
    pub(crate) fn declared(&self, resource: &ResourceId) -> Option<&Declared> {
        self.view.declared().get(resource).filter(|declared| !declared.removed)
    }

    /// The least part of its TTL that anybody had left when it was last heard.
    pub(crate) fn margin(&self) -> Option<f64> {
        self.read.and_then(|(_, at)| self.listener.margin(at))
    }

    /// What the session that holds a resource says under a label.
    pub(crate) fn label_of_holder(&self, resource: &ResourceId, label: &str) -> Option<&str> {
        let session = self.view.sessions().get(self.view.holder(resource)?)?;
        session.profile.labels.get(label).map(String::as_str)
    }

    /// What is held, by what the sessions that hold it say under a label.
    pub(crate) fn held_by(&self, label: &str) -> Arc<Holdings> {
        let mut holdings = self.holdings.lock().unwrap_or_else(PoisonError::into_inner);
        let made = holdings.entry(label.to_owned()).or_insert_with(|| {
            let mut held = Holdings::new();
            for resource in self.view.leases().keys() {
                if let Some(said) = self.label_of_holder(resource, label) {
                    held.entry(said.to_owned()).or_default().push(resource.clone());
                }
            }
            Arc::new(held)
        });
        Arc::clone(made)
    }

    /// Whether an operator wants nobody to hold it.
    pub(crate) fn is_paused(&self, resource: &ResourceId) -> bool {
        self.view.mark(MarkKind::Pause, resource.as_str()).is_some()
    }
}

impl Desk {
    pub(super) fn new(shared: &Shared, pool: Pool) -> Self {
        Self {
            reading: AsyncMutex::default(),
            known: AsyncMutex::new(Known {
                view: View::new(pool.clone()),
                listener: Listener::default(),
                last: (0, None),
                read: None,
                news: News::Nothing,
                holdings: Mutex::default(),
            }),
            outage: is_of_cameras(&pool).then(|| Arc::clone(&shared.outage)),
            pool,
            store: Arc::clone(&shared.store),
            clock: Arc::clone(&shared.clock),
            rows: shared.rows.clone(),
            me: shared.me.clone(),
            name: shared.name.clone(),
            call: shared.limits.call,
            begun: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            rests_until: Mutex::default(),
            memory: Mutex::default(),
        }
    }

    /// The pool.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Writes down that an operator did something, and who it was.
    pub(crate) fn note_act(&self, act: &Act, who: &str) {
        let mut row = self.rows.row(&self.me, &self.name, Event::Marked);
        row.resource = act.resource().cloned();
        row.detail = Some(act.detail(who));
        self.rows.write(&self.pool, row);
    }

    /// What is known, from a read that began after this was called. Those who ask at the same time share one.
    pub(crate) async fn fresh(&self) -> Result<AsyncGuard<'_, Known>, StoreError> {
        let asked = self.begun.load(Ordering::SeqCst);
        let waits = Waits::one_more(&self.waiting);
        let rests_until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        self.clock.sleep_until(rests_until).await;
        let reading = self.reading.lock().await;
        if self.known.lock().await.last.0 <= asked {
            // Boxed, as what is asked of a store and answered by it: every request has room for it otherwise, and few read.
            Box::pin(self.read()).await;
        }
        drop(waits);
        let known = self.known.lock().await;
        // Not sooner: it is what this read brought that is answered, and not why the next one failed.
        drop(reading);
        match &known.last.1 {
            None => Ok(known),
            Some(why) => Err(StoreError::unavailable(why.clone())),
        }
    }

    /// What is known, from whenever it was read last, if it ever was.
    pub(crate) async fn lately(&self) -> Result<AsyncGuard<'_, Known>, StoreError> {
        let known = self.known.lock().await;
        if known.read.is_some() {
            return Ok(known);
        }
        drop(known);
        self.fresh().await
    }

    /// The store has these sessions no more. None of them is in what is being read.
    pub(super) async fn lose(&self, sessions: impl Iterator<Item = &MemberId>) {
        let _reading = self.reading.lock().await;
        let mut known = self.known.lock().await;
        sessions.for_each(|session| known.view.lose_session(session));
    }

    async fn read(&self) {
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let began = self.clock.now();
        let reading = view::refresh(Reader(self), &*self.store, &*self.clock);
        let read = tokio::time::timeout(self.call, reading).await;
        let known = &mut *self.known.lock().await;
        let failed = match read {
            Ok(Ok(refreshed)) => {
                known.read = Some((began, refreshed.at));
                let waiting = self.waiting.load(Ordering::Relaxed).clamp(1, SHARERS);
                let rest =
                    refreshed.at.since(began).saturating_mul(waiting.saturating_mul(RESTS)).min(REST_MAX);
                *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = refreshed.at.after(rest);
                known.news.add(&refreshed.news);
                if refreshed.news.any() {
                    known.holdings.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
                }
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("the store gave no answer within {:?}", self.call)),
        };
        known.last = (number, failed);
    }

    /// Who is to be ended, with the beat that was heard last: who has been silent for its whole TTL, and is owed no patience.
    pub(super) fn silent(&self, known: &Known, now: Moment) -> Vec<(MemberId, BeatNumber)> {
        let mut silent = known.listener.silent(now);
        if let Some(outage) = &self.outage {
            let memory = self.memory();
            silent.retain(|(id, ..)| !outage.keeps(memory.kept.get(id), now));
        }
        silent.into_iter().map(|(id, beat, _)| (id, beat)).collect()
    }

    /// Revoked terms that nobody trusts any more. Whoever is owed patience may not have heard that its term was revoked.
    pub(super) fn revoked(&self, known: &Known, now: Moment) -> Vec<Term> {
        let mut revoked = known.listener.revoked(now);
        if let Some(outage) = &self.outage {
            let memory = self.memory();
            revoked.retain(|(id, ..)| !outage.keeps(memory.kept.get(id), now));
        }
        revoked.into_iter().map(|(_, term, _)| term).collect()
    }

    /// Gives a call of the store its deadline.
    pub(super) async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        within(&*self.clock, self.call, call).await
    }

    /// Waits until the store has every row that was written so far: what is answered then can be told to others, whatever
    /// happens to this process.
    pub(crate) async fn recorded(&self) -> Result<(), StoreError> {
        let taken = async {
            self.rows.taken().await;
            Ok(())
        };
        self.call(taken).await
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a call answers in time. An answer that is there when its time is up is late all the same: this process may have been
/// stopped meanwhile, and a holder that counts from our answer would count too long.
async fn within<T>(
    clock: &dyn Clock,
    limit: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let began = clock.now();
    match tokio::time::timeout(limit, call).await {
        Ok(answer) if clock.now().since(began) <= limit => answer,
        _ => Err(StoreError::unavailable(format!("the store gave no answer within {limit:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use leasehold::clock::SystemClock;

    use super::*;

    #[tokio::test]
    async fn an_answer_that_was_slept_through_is_late() {
        let limit = Duration::from_millis(20);
        let in_time = within(&SystemClock, Duration::from_secs(60), async { Ok(1) }).await;
        assert_eq!(in_time.ok(), Some(1));
        // The runtime does not get to its timers, as in a process that is stopped: the answer is there when it looks.
        let slept_through = async {
            std::thread::sleep(limit * 3);
            Ok(1)
        };
        assert!(within(&SystemClock, limit, slept_through).await.is_err());
    }
}
