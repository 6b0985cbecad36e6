//! The one thread that writes: callers that come together share a commit.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Shared;
use super::company::Company;
use super::connect::Attached;
use super::era::Remembered;
use super::failure::{Failure, Stop};
use super::files::Identity;
use super::queue::CloseOnExit;
use super::transaction::{Committed, Transaction};
use crate::clock;

/// The most calls that share a commit.
const BATCH_MAX: usize = 64;
/// From how many calls in a commit on those who were answered are expected back at once.
const CROWD: usize = 8;
/// How long they are given to come: a commit that they share costs less than another.
const GATHER: Duration = Duration::from_micros(150);

/// How a call is treated on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A heartbeat: first in line, and not worth a wait for the disk. If the machine dies, so does its member.
    Beat,
    /// Worth a wait for the disk: when it is answered it is durable.
    Durable,
    /// Of many items, and durable.
    Bulk,
    /// Neither urgent nor worth a wait for the disk.
    Lazy,
}

/// One call on its way to the writer and its answer on the way back.
pub(super) struct Work {
    class: Class,
    job: Box<dyn Job>,
}

trait Job: Send {
    fn run(&mut self, txn: &mut Transaction<'_>) -> Result<(), Stop>;
    fn answer(self: Box<Self>, outcome: Result<(), Failure>);
}

struct Call<T, F> {
    call: F,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, Failure>>,
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnMut(&mut Transaction<'_>) -> Result<T, Stop> + Send,
{
    fn run(&mut self, txn: &mut Transaction<'_>) -> Result<(), Stop> {
        self.result = None;
        self.result = Some((self.call)(txn)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), Failure>) {
        let answer = match (outcome, self.result) {
            (Err(failure), _) => Err(failure),
            (Ok(()), Some(result)) => Ok(result),
            (Ok(()), None) => Err(Failure::unavailable("the call was not run; try again")),
        };
        // Whoever stopped waiting has already decided that the answer is unknown.
        let _ = self.reply.send(answer);
    }
}

impl Shared {
    /// Sends a call to the writer. It is run whether or not anybody waits for the answer, and again if what it did was
    /// rolled back because of another call.
    pub(super) fn send<T: Send + 'static>(
        &self,
        class: Class,
        call: impl FnMut(&mut Transaction<'_>) -> Result<T, Stop> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, Failure>>, Failure> {
        let (reply, answer) = oneshot::channel();
        let work = Work { class, job: Box::new(Call { call, result: None, reply }) };
        if self.writes.push(work, class == Class::Beat) { Ok(answer) } else { Err(self.overrun()) }
    }

    /// Has the writer look at the file, which freezes it if it has forgotten something, and waits for it. Not for
    /// asynchronous callers.
    pub(super) fn nudge(&self) -> Result<(), Failure> {
        let answer = self.send(Class::Durable, |_| Ok(()))?;
        answer.blocking_recv().unwrap_or_else(|_| Err(self.stopped()))
    }
}

/// What the writer's thread owns.
pub(super) struct Writer {
    shared: Arc<Shared>,
    attached: Option<Attached>,
    /// Whether the connection can be used again. One that cannot is kept until there is another: with it this
    /// handle's presence beside the file would end.
    sound: bool,
    waits_for_disk: bool,
    company: Company,
    /// How long the lock is left alone now.
    breath: Duration,
}

impl Writer {
    /// A writer on the file that the store's path names.
    pub(super) fn attach(shared: Arc<Shared>) -> Result<Self, Failure> {
        let mut writer = Self {
            shared,
            attached: None,
            sound: true,
            waits_for_disk: true,
            company: Company::default(),
            breath: Duration::ZERO,
        };
        writer.stand_on_path()?;
        writer.commit(&mut [])?;
        Ok(writer)
    }

    /// Runs until the queue is closed.
    pub(super) fn serve(mut self) {
        let shared = Arc::clone(&self.shared);
        let _close = CloseOnExit(&shared.writes);
        let mut last = 0;
        while let Some(waiting) = shared.writes.wait() {
            if last >= CROWD && waiting < last {
                std::thread::sleep(GATHER);
            }
            let Some(mut batch) = shared.writes.take(BATCH_MAX) else { break };
            last = batch.len();
            match self.commit(&mut batch) {
                Ok(outcomes) => {
                    for (work, outcome) in batch.into_iter().zip(outcomes) {
                        work.job.answer(outcome);
                    }
                }
                Err(failure) => {
                    for work in batch {
                        work.job.answer(Err(failure.clone()));
                    }
                }
            }
            if !self.breath.is_zero() && shared.writes.has_more() {
                std::thread::sleep(self.breath);
            }
        }
    }

    /// Runs a batch in one transaction and gives back the outcome of each call in it, or why all of it failed.
    fn commit(&mut self, batch: &mut [Work]) -> Result<Vec<Result<(), Failure>>, Failure> {
        self.stand_on_path()?;
        let outcome = self.transact(batch);
        self.sound = outcome.is_ok();
        outcome
    }

    fn transact(&mut self, batch: &mut [Work]) -> Result<Vec<Result<(), Failure>>, Failure> {
        let durable = batch.iter().any(|work| matches!(work.class, Class::Durable | Class::Bulk));
        let Some(attached) = &self.attached else { return Err(self.shared.stopped()) };
        let path: PathBuf = attached.path.clone();
        let at = |stop: Stop| stop.at(&path);
        if durable != self.waits_for_disk {
            let level = if durable { "full" } else { "normal" };
            let set = attached.connection.pragma_update(None, "synchronous", level);
            set.map_err(|error| Failure::of_sqlite(&path, &error))?;
            self.waits_for_disk = durable;
        }
        let begin = || {
            Transaction::begin(&attached.connection, &attached.identity, self.shared.remembered()).map_err(at)
        };
        let mut txn = begin()?;
        let mut outcomes = vec![Ok(()); batch.len()];
        if batch.iter_mut().any(|work| work.job.run(&mut txn).is_err()) {
            // One that fails must leave nothing behind: the same again, each on its own ground.
            drop(txn);
            txn = begin()?;
            for (work, outcome) in batch.iter_mut().zip(&mut outcomes) {
                *outcome = txn.attempt(|txn| work.job.run(txn)).map_err(at);
                match outcome {
                    Err(failure) if !txn.is_open() => return Err(failure.clone()),
                    _ => {}
                }
            }
        }
        let others = txn.others().map_err(at)?;
        let committed = txn.commit().map_err(at)?;
        self.publish(committed, durable)?;
        let long = batch.iter().any(|work| work.class == Class::Bulk);
        self.breath = self.company.breath(others, long, clock::now());
        Ok(outcomes)
    }

    fn publish(&self, committed: Committed, durable: bool) -> Result<(), Failure> {
        // A file that was put in this one's place meanwhile does not know what was just written.
        let present = Identity::of(&self.shared.path).ok().flatten();
        if present.as_ref() != self.attached.as_ref().map(|attached| &attached.identity) {
            let shown = self.shared.path.display();
            return Err(Failure::unavailable(format!(
                "{shown} was replaced while it was written; try again"
            )));
        }
        let reached = Remembered::of(&committed.era);
        self.shared.remember(reached);
        if let Some(attached) = self.attached.as_ref().filter(|_| durable) {
            // What was committed stands; the record is for a day on which nobody is left to remember it.
            let _ = attached.record(&reached);
        }
        if committed.era_is_new {
            self.shared.watch.tell_everybody();
        } else {
            self.shared.watch.tell(&committed.news, committed.era.seq);
        }
        Ok(())
    }

    /// Makes sure that the connection is on the file that the path names now.
    fn stand_on_path(&mut self) -> Result<(), Failure> {
        let path = &self.shared.path;
        let present = Identity::of(path).map_err(|error| Failure::of_io(path, &error))?;
        if let Some(attached) = &self.attached
            && self.sound
            && present.as_ref() == Some(&attached.identity)
        {
            return Ok(());
        }
        let attached = Attached::to(path, self.shared.remembered())?;
        self.shared.stand_on(&attached.identity);
        if let (None, Some(reached)) = (self.shared.remembered(), attached.reached) {
            self.shared.remember(reached);
        }
        self.attached = Some(attached);
        self.sound = true;
        self.waits_for_disk = true;
        Ok(())
    }
}
