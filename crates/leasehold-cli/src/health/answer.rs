//! What is said of a candidate, as JSON.

use leasehold::election::Seat;
use leasehold::participant::{State, Status};
use leasehold::{MemberId, Token};
use serde_json::{Value, json};

use super::Report;
use super::page::state_name;
use crate::args::VERSION;

/// A candidate at one moment.
pub(super) struct Standing<'a> {
    report: &'a dyn Report,
    status: Status,
    seat: Seat,
    leads: Option<Token>,
}

impl<'a> Standing<'a> {
    pub(super) fn of(report: &'a dyn Report) -> Self {
        Self { report, status: report.status(), seat: report.seat(), leads: report.is_leader() }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.status.member.is_some() && self.status.state != State::Lost
    }

    pub(super) fn leads(&self) -> bool {
        self.leads.is_some()
    }

    /// A leader knows that it leads before it has read so in the store.
    fn leader(&self) -> Option<&MemberId> {
        let named = self.seat.leader().map(|leader| &leader.member);
        if self.leads() { self.status.member.as_ref().or(named) } else { named }
    }

    /// What is not as it should be, if anything.
    fn trouble(&self) -> Option<&'static str> {
        if self.status.member.is_none() || self.status.state == State::Lost {
            Some("there is no session with the store")
        } else if self.status.state == State::Uncertain {
            Some("the store has not confirmed the last heartbeat")
        } else if self.status.frozen {
            Some("the store is frozen, so nobody is elected")
        } else if self.seat == Seat::Unknown {
            Some("the store has not said who leads")
        } else {
            None
        }
    }

    pub(super) fn health(&self) -> Value {
        let trouble = self.trouble();
        json!({
            "status": if trouble.is_none() { "healthy" } else { "degraded" },
            "why": trouble,
            "session": state_name(self.status.state),
            "is_leader": self.leads(),
        })
    }

    pub(super) fn ready(&self) -> Value {
        json!({
            "ready": self.is_ready(),
            "is_leader": self.leads(),
            "current_leader_id": self.leader(),
            "instance_id": self.status.member,
            "token": self.leads,
        })
    }

    pub(super) fn info(&self) -> Value {
        json!({
            "name": self.report.name(),
            "version": VERSION,
            "key": self.report.key().as_str(),
            "pool": self.report.key().pool(),
            "instance_id": self.status.member,
            "ttl_seconds": self.report.ttl().as_secs_f64(),
        })
    }

    pub(super) fn leader_status(&self) -> Value {
        let seat = match self.seat {
            _ if self.leads() => "taken",
            Seat::Taken(_) => "taken",
            Seat::Vacant => "vacant",
            _ => "unknown",
        };
        let other = self.seat.leader().filter(|_| !self.leads());
        json!({
            "key": self.report.key().as_str(),
            "seat": seat,
            "is_leader": self.leads(),
            "instance_id": self.status.member,
            "current_leader_id": self.leader(),
            "current_leader_name": match other {
                Some(other) => other.name.as_ref().map(ToString::to_string),
                None => self.leads().then(|| self.report.name()),
            },
            "token": self.leads.or(other.map(|other| other.token)),
        })
    }

    pub(super) fn stats(&self) -> Value {
        json!({
            "elections_won": self.report.leadership_changes(),
            "members": self.status.members,
            "session": state_name(self.status.state),
            "store_frozen": self.status.frozen,
        })
    }

    /// Why something that only the leader can do was not done.
    pub(super) fn does_not_lead(&self) -> Value {
        json!({
            "error": "this candidate does not lead; ask the one that does",
            "current_leader_id": self.leader(),
        })
    }
}
