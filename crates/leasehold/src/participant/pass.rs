//! The pass: reads everything again, plans, and does this member's part.
//!
//! It takes no input. Woken by a hint, by the next silence that falls due or by a period, it does the same
//! thing each time; there is no second code path for "what just changed". What the view has news of only saves it from
//! looking at the rest again, and the outcome is the same. Leaving is a pass too, in which this member wants to hold nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::member::Member;
use super::pace::reads_every;
use super::renew::Notice;
use super::session::{Session, Standing};
use super::work::State;
use super::{Status, within};
use crate::clock::Moment;
use crate::discover::with_causes;
use crate::lease::MemberId;
use crate::ledger::Reason;
use crate::mistakes::{Mistake, made};
use crate::plan;
use crate::plan::rendezvous::hash_id;
use crate::store::{Hint, Hints, StoreError};
use crate::view::News;

/// How long reading a pool may take; nothing that is trusted waits for it.
const READ_TIMEOUT_MIN: Duration = Duration::from_secs(1);
const READ_TIMEOUT_MAX: Duration = Duration::from_secs(5);
/// How soon it is looked again at what is overdue and waits for others.
const OVERDUE: Duration = Duration::from_millis(25);

impl Member {
    /// Takes part until told to leave, then leaves in order: stop, drain, release, leave.
    pub(super) async fn run(mut self, mut leave: watch::Receiver<bool>) {
        let mut hints = self.store.changes(&self.pool);
        loop {
            // A closed channel means that nobody is left to tell us: that is leaving, too.
            if !self.leaving && (*leave.borrow_and_update() || leave.has_changed().is_err()) {
                self.leaving = true;
                self.planned = None;
            }
            let began = self.clock.now();
            let passed = self.pass().await;
            self.pace.passed(began, self.clock.now(), self.settings.ttl);
            let again = match passed {
                Ok(again) => {
                    self.trouble.clear();
                    again
                }
                Err(error) => {
                    self.report(&error);
                    if self.leaving {
                        // Leaving waits for no answer: what we hold is stopped, with nobody to name for it.
                        self.stop_everything(|_| None);
                    }
                    false
                }
            };
            self.publish_status();
            if self.has_left() {
                self.close().await;
                self.publish_status();
                return;
            }
            if !again {
                self.wait(&mut hints, &mut leave).await;
            }
            self.take_ended();
        }
    }

    /// Whether everything has stopped and gone back, or the store has had its time to answer.
    fn has_left(&mut self) -> bool {
        if !self.leaving || !self.tenures.is_empty() {
            return false;
        }
        let now = self.clock.now();
        let stopped_at = *self.stopped_at.get_or_insert(now);
        self.session.is_none()
            || self.returning.is_empty()
            || now >= stopped_at.after(self.settings.call_timeout * 2)
    }

    pub(super) fn report(&mut self, error: &StoreError) {
        let said = with_causes(error);
        if said != self.trouble {
            tracing::warn!(pool = %self.pool, error = said, "the store does not answer; trying again");
            self.trouble = said;
        }
    }

    /// One pass. Answers whether there is more to do at once.
    pub(super) async fn pass(&mut self) -> Result<bool, StoreError> {
        self.take_notices();
        self.leave_what_is_over();
        let store = Arc::clone(&self.store);
        let clock = Arc::clone(&self.clock);
        let began = clock.now();
        let refreshed = within(&*clock, self.read_timeout(), self.view.refresh(&*store, &*clock)).await?;
        let heard_at = if made(Mistake::SilenceFromBeforeTheRead) { began } else { refreshed.at };
        self.listener.hear(&self.view, heard_at, &refreshed.news);
        self.awaited = self.listener.lately(heard_at).map(|id| hash_id(id.as_str())).collect();
        self.check_era();
        if refreshed.news.any() || self.planned.is_none() {
            self.note_members(refreshed.at);
            self.learn(&refreshed.news);
            self.planned = Some(self.planner.plan());
        }
        // Verdicts on others come first, but what fails there holds up nothing of our own.
        let judged = self.judge_others().await;
        let again = self.do_my_part().await?;
        judged?;
        Ok(again)
    }

    async fn judge_others(&mut self) -> Result<(), StoreError> {
        self.end_the_silent().await?;
        self.thaw_if_due().await
    }

    async fn do_my_part(&mut self) -> Result<bool, StoreError> {
        if self.session.is_none() && !self.leaving {
            return self.join().await;
        }
        self.tell_about_myself().await?;
        self.compare_with_view();
        self.obey_plan();
        self.give_back().await?;
        self.take_free().await
    }

    /// Reading takes longer than a call, but who reads for too long is deaf.
    fn read_timeout(&self) -> Duration {
        (self.settings.ttl / 3).clamp(READ_TIMEOUT_MIN, READ_TIMEOUT_MAX)
    }

    /// Takes in the facts as the view has them now. What is new says only what need not be looked at again.
    pub(super) fn learn(&mut self, news: &News) {
        self.doubts.add(news);
        let members = self.members();
        self.view.inform(&mut self.planner, news, members);
    }

    /// The members as the view has them, with what we know better about ourselves.
    fn members(&self) -> Vec<plan::Member> {
        let mut members = self.view.members();
        let me = self.session.as_ref().map(|session| session.id());
        if let Some(member) = members.iter_mut().find(|member| Some(&member.id) == me) {
            member.leaving = self.leaving;
        }
        members
    }

    /// An era we do not know means that the store may have forgotten us: the heartbeat finds out at once.
    fn check_era(&self) {
        if let (Some(session), Some(era)) = (&self.session, self.view.era())
            && session.era() != era.nonce
        {
            session.hurry();
        }
    }

    fn note_members(&mut self, at: Moment) {
        let living = self.view.sessions().values().filter(|session| !session.ended);
        let ids: Vec<MemberId> = living.map(|session| session.id.clone()).collect();
        if ids != self.member_ids {
            self.member_ids = ids;
            self.members_changed_at = at;
        }
    }

    /// The session, if it may still be acted upon.
    pub(super) fn live_session(&self) -> Option<Arc<Session>> {
        self.session.clone().filter(|session| session.is_trusted())
    }

    fn take_notices(&mut self) {
        while let Ok(notice) = self.notices.1.try_recv() {
            self.take_notice(notice);
        }
    }

    fn take_notice(&mut self, notice: Notice) {
        let (terms, reason) = match notice {
            Notice::Revoked(terms) => (terms, Reason::Revoked),
            Notice::Lost(terms) => (terms, Reason::Superseded),
        };
        for term in terms {
            self.stop_term(&term, reason);
        }
    }

    /// Waits for a reason to pass again.
    async fn wait(&mut self, hints: &mut Hints, leave: &mut watch::Receiver<bool>) {
        let rests_until = self.pace.rests_until();
        let until = self.next_wake().max(rests_until);
        let clock = Arc::clone(&self.clock);
        let hinted = async {
            clock.sleep_until(rests_until).await;
            next_hint(hints).await
        };
        let session = self.session.clone().filter(|session| !session.is_over());
        let over = async {
            match session {
                Some(session) => {
                    let mut standing = session.standing();
                    let _ = standing.wait_for(|standing| matches!(standing, Standing::Over(_))).await;
                }
                None => std::future::pending().await,
            }
        };
        let listed = async {
            match &mut self.listing {
                Some(listing) if !self.listing_is_final => listing.changed().await.is_err(),
                _ => std::future::pending().await,
            }
        };
        let mut ended = None;
        let mut notice = None;
        let mut doubted = false;
        let mut listing_is_final = self.listing_is_final;
        let mut ready_is_final = self.ready_is_final;
        tokio::select! {
            biased;
            () = self.clock.sleep_until(until) => {}
            hint = hinted => doubted = hint == Hint::Doubted,
            work = self.ended.1.recv() => ended = work,
            told = self.notices.1.recv() => notice = told,
            _ = leave.changed(), if !self.leaving => {}
            changed = self.identity.ready.changed(), if !self.ready_is_final => ready_is_final = changed.is_err(),
            () = over => {}
            last = listed => listing_is_final = last,
        }
        self.listing_is_final = listing_is_final;
        self.ready_is_final = ready_is_final;
        if let (true, Some(session)) = (doubted, &self.session) {
            session.hurry();
        }
        if let Some(ended) = ended {
            self.end_tenure(&ended);
        }
        if let Some(notice) = notice {
            self.take_notice(notice);
        }
    }

    fn next_wake(&self) -> Moment {
        let now = self.clock.now();
        let me = self.session.as_ref().map(|session| session.id());
        // What is overdue waits for its rank, not for a moment that has passed.
        let due = self.listener.next_due(self.settings.ttl, me).map(|due| due.max(now.after(OVERDUE)));
        let settled = Some(self.joined_at.after(self.settle())).filter(|at| *at > now);
        let fallback = self.next_fallback(now);
        let period = reads_every(self.member_ids.len(), self.settings.ttl);
        [due, settled, fallback].into_iter().flatten().fold(now.after(period), Moment::min)
    }

    fn publish_status(&mut self) {
        let state = match &self.session {
            None => State::Lost,
            Some(session) => match *session.standing().borrow() {
                Standing::Sure => State::Held,
                Standing::Uncertain(_) => State::Uncertain,
                Standing::Over(_) => State::Lost,
            },
        };
        let member = self.session.as_ref().map(|session| session.id());
        let frozen = self.view.era().is_some_and(|era| era.frozen);
        self.status.send_if_modified(|status| {
            // Nothing is copied for nothing: most passes change nothing, and there may be many leases.
            let same = self.told
                && status.member.as_ref() == member
                && (status.state, status.members, status.frozen) == (state, self.member_ids.len(), frozen);
            if !same {
                *status = Status {
                    member: member.cloned(),
                    state,
                    held: self
                        .tenures
                        .iter()
                        .map(|(id, tenure)| (id.clone(), tenure.lease.token()))
                        .collect(),
                    members: self.member_ids.len(),
                    frozen,
                };
            }
            !same
        });
        self.told = true;
    }
}

async fn next_hint(hints: &mut Hints) -> Hint {
    match std::future::poll_fn(|context| hints.as_mut().poll_next(context)).await {
        Some(hint) => hint,
        None => std::future::pending().await,
    }
}
