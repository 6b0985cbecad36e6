//! From rows to terms: who believed itself the owner, from when and until when.
//!
//! Invariant: a belief never reaches further than the rows show. What is missing shortens it.

use std::collections::BTreeMap;

use super::timeline::{Place, Row, Timeline};
use super::{LateStop, Tenure};
use crate::lease::{MemberId, Token};
use crate::ledger::{Entry, Event, Reason};

/// One member's time with a resource under one token.
#[derive(Debug)]
pub(super) struct Term<'e> {
    pub(super) token: Token,
    pub(super) member: &'e MemberId,
    /// The row it is first heard of in.
    pub(super) first: &'e Entry,
    pub(super) from: Place,
    pub(super) until: Place,
    /// When it was granted, if that was written down while it was trusted.
    pub(super) granted: Option<Place>,
    /// The same token was granted to the same member once more.
    pub(super) granted_again: bool,
    /// Its end is known only from a row that was written after the next one may have begun.
    pub(super) ends_late: bool,
    pub(super) stopped: Option<Place>,
    /// The last row of its member that shows it without a hole: what came after may have gone missing, also that
    /// the work had stopped.
    pub(super) heard: Place,
    /// Why it ended, as its holder says.
    pub(super) reason: Option<Reason>,
    pub(super) revoked: bool,
    /// It was granted though its last holder had not released it.
    pub(super) taken_over: bool,
    /// From whom it was taken over.
    pub(super) taken_from: Option<&'e MemberId>,
    held: bool,
}

/// The terms of one resource, in the order in which they began.
pub(super) fn terms<'e>(rows: &[Row<'e>], timeline: &Timeline<'e>) -> Vec<Term<'e>> {
    let mut by_term: BTreeMap<(Token, &MemberId), Vec<Row<'e>>> = BTreeMap::new();
    for row in rows {
        if let Some(token) = row.entry.token.filter(|_| row.entry.event.is_of_term()) {
            by_term.entry((token, &row.entry.member)).or_default().push(*row);
        }
    }
    let mut terms: Vec<Term<'e>> =
        by_term.into_iter().filter_map(|((token, _), rows)| Term::of(token, &rows, timeline)).collect();
    terms.sort_by_key(|term| (term.from, term.token));
    terms
}

impl<'e> Term<'e> {
    /// The rows are those of one term, in order.
    fn of(token: Token, rows: &[Row<'e>], timeline: &Timeline<'e>) -> Option<Self> {
        let first = rows.first()?;
        let member = &first.entry.member;
        let last_of = |event: Event| rows.iter().rfind(|row| row.entry.event == event);
        let is_grant = |row: &&Row<'e>| matches!(row.entry.event, Event::Acquired | Event::TakenOver);
        let grant = rows.iter().find(is_grant);
        let (stopped, revoked) = (last_of(Event::Stopped), last_of(Event::Revoked));
        let lost = rows.iter().find(|row| row.entry.event == Event::Lost);
        let released = last_of(Event::Released);
        let from = first.at;

        let bounds = [timeline.trust_of(first.entry), until(revoked), until(stopped)];
        let trust = bounds.into_iter().flatten().min();
        // That it is lost its holder writes when it learns of it, when the work may go on for a moment.
        let told = stopped.or(lost).map(|row| row.at);
        // Both are written once the store has answered, when another may long have begun.
        let after_the_fact = [released.map(|row| row.at), timeline.left(member)].into_iter().flatten().min();
        let said = told.or(after_the_fact);
        let end = match (said, trust) {
            (Some(said), Some(trust)) => said.min(trust),
            (said, trust) => said.or(trust).or(rows.last().map(|row| row.at))?,
        };
        let ends_late = told.is_none() && after_the_fact == Some(end);

        let why = [released, stopped, lost].into_iter().flatten().find_map(|row| row.entry.reason);
        let unused = |row: &Row<'e>| row.entry.reason == Some(Reason::Unconfirmed);
        let trusted_when_written = |row: &&Row<'e>| row.until.is_none_or(|until| row.at < until);
        Some(Self {
            token,
            member,
            first: first.entry,
            from,
            until: end.max(from),
            granted: grant.filter(trusted_when_written).map(|row| row.at),
            granted_again: rows.iter().filter(is_grant).count() > 1,
            ends_late,
            stopped: stopped.map(|row| row.at),
            heard: timeline.heard_after(first.entry).unwrap_or(from),
            reason: why,
            revoked: revoked.is_some(),
            taken_over: grant.is_some_and(|row| row.entry.event == Event::TakenOver),
            taken_from: grant.and_then(|row| row.entry.other.as_ref()),
            held: !rows.iter().all(unused),
        })
    }

    /// Whether it was ever believed: a grant that came too late goes back unused.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Until when it was believed whatever rows are missing.
    pub(super) fn believed_for_sure(&self) -> Place {
        match self.stopped {
            _ if self.ends_late => self.from,
            Some(_) => self.until,
            None => self.until.min(self.heard),
        }
    }

    pub(super) fn tenure(&self, timeline: &Timeline<'_>) -> Tenure {
        Tenure {
            token: self.token,
            member: self.member.clone(),
            name: self.first.name.clone(),
            from: timeline.when(self.from),
            until: timeline.when(self.until),
        }
    }

    pub(super) fn late_stop(&self, timeline: &Timeline<'_>) -> Option<LateStop> {
        let late = timeline.between(self.until, self.stopped?);
        (!late.is_zero()).then(|| LateStop { tenure: self.tenure(timeline), late })
    }
}

fn until(row: Option<&Row<'_>>) -> Option<Place> {
    row.and_then(|row| row.until)
}
