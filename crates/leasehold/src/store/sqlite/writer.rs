//! The one thread that writes: callers that come together share a commit.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Shared;
use super::company::Company;
use super::connect::Attached;
use super::draft::Draft;
use super::era::Remembered;
use super::failure::{Failure, Stop};
use super::files::Identity;
use super::queue::CloseOnExit;
use super::transaction::{Committed, Transaction};
use crate::clock;
use crate::lease::MemberId;

/// The most calls that share a commit.
const BATCH_MAX: usize = 64;
/// The longest that a commit is put off so that more share it.
const PATIENCE_MAX: Duration = Duration::from_millis(1);

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

/// What a call decides by and changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ground {
    /// The rows of sessions and leases: what is noted becomes rows before.
    Rows,
    /// The row of this session, and leases whose rows name it.
    Own(MemberId),
    /// What is noted, or the rows, as the call itself sees fit.
    Notes,
    /// Nothing of either.
    Aside,
}

/// One call on its way to the writer and its answer on the way back.
pub(super) struct Work {
    class: Class,
    ground: Ground,
    job: Box<dyn Job>,
}

impl Work {
    fn run(&mut self, txn: &mut Transaction<'_>) -> Result<(), Stop> {
        match &self.ground {
            Ground::Rows => txn.settle()?,
            Ground::Own(id) => txn.settle_for(id)?,
            Ground::Notes | Ground::Aside => {}
        }
        self.job.run(txn)
    }
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
        (class, ground): (Class, Ground),
        call: impl FnMut(&mut Transaction<'_>) -> Result<T, Stop> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, Failure>>, Failure> {
        let (reply, answer) = oneshot::channel();
        let work = Work { class, ground, job: Box::new(Call { call, result: None, reply }) };
        if self.writes.push(work, class == Class::Beat) { Ok(answer) } else { Err(self.overrun()) }
    }

    /// Has the writer look at the file, which freezes it if it has forgotten something, and waits for it. Not for
    /// asynchronous callers.
    pub(super) fn nudge(&self) -> Result<(), Failure> {
        self.wait_for(Class::Durable)
    }

    /// Has the writer settle what is noted, and waits for it. What is settled is durable as a note.
    pub(super) fn settle(&self) -> Result<(), Failure> {
        self.wait_for(Class::Lazy)
    }

    fn wait_for(&self, class: Class) -> Result<(), Failure> {
        let answer = self.send((class, Ground::Rows), |_| Ok(()))?;
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
    /// What is noted, as far as this handle knows.
    draft: Draft,
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
            draft: Draft::default(),
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
        let (mut wanted, mut patience) = (1, Duration::ZERO);
        let mut ended = clock::now();
        while let Some(mut batch) = shared.writes.take_together(BATCH_MAX, wanted, patience) {
            let began = clock::now();
            self.company.was_idle(began.since(ended));
            let outcome = self.commit(&mut batch);
            // Callers come again when they are answered. With half of them in every commit the others are served meanwhile: fewer
            // would be more commits, and while all wait for the disk nobody works.
            wanted = (batch.len() + shared.writes.len()) / 2;
            patience = clock::now().since(began).min(PATIENCE_MAX);
            match outcome {
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
            if !self.breath.is_zero() && shared.writes.len() > 0 {
                std::thread::sleep(self.breath);
            }
            ended = clock::now();
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
        let witnesses = [self.shared.remembered(), attached.reached];
        let begin = |draft| {
            Transaction::begin(&attached.connection, &attached.identity, &witnesses, draft).map_err(at)
        };
        // Where others write, or wait to read, what is noted would only have to be settled again and again.
        let noting = !self.company.is_expected(clock::now()) && self.shared.nobody_waits_to_read();
        let mut txn = begin((std::mem::take(&mut self.draft), noting))?;
        if txn.draft().is_full() {
            txn.settle().map_err(at)?;
        }
        let mut outcomes = vec![Ok(()); batch.len()];
        if batch.iter_mut().any(|work| work.run(&mut txn).is_err()) {
            // One that fails must leave nothing behind: the same again, each by itself, and by the rows.
            drop(txn);
            txn = begin((Draft::default(), false))?;
            for (work, outcome) in batch.iter_mut().zip(&mut outcomes) {
                *outcome = txn.attempt(|txn| work.run(txn)).map_err(at);
                match outcome {
                    Err(failure) if !txn.is_open() => return Err(failure.clone()),
                    _ => {}
                }
            }
        }
        let others = txn.version();
        let mut committed = txn.commit().map_err(at)?;
        self.draft = std::mem::take(&mut committed.draft);
        self.publish(committed, durable)?;
        let long = batch.iter().any(|work| work.class == Class::Bulk);
        self.breath = self.company.breath(others, long, clock::now());
        Ok(outcomes)
    }

    fn publish(&mut self, committed: Committed, durable: bool) -> Result<(), Failure> {
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
        if let Some(attached) = &mut self.attached {
            attached.committed(&reached, durable || committed.era_is_new);
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
        self.attached = Some(attached);
        // What was known of notes was known of another connection, and perhaps of another file.
        self.draft = Draft::default();
        self.sound = true;
        self.waits_for_disk = true;
        Ok(())
    }
}
