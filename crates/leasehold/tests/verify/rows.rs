//! Rows made by hand. Moments are milliseconds of one machine's clock.

use leasehold::clock::Moment;
use leasehold::ledger::{Entry, Event, Reason};
use leasehold::{MemberId, MemberName, ResourceId, Token};

const MS: u64 = 1_000_000;
/// What the wall clocks of all machines say when their own clocks say nothing.
const WALL: u64 = 1_700_000_000_000_000_000;

pub(crate) fn row(member: &str, event: Event, at: u64) -> Entry {
    Entry {
        wall_nanos: WALL + at * MS,
        at: Moment(at * MS),
        boot: "boot".to_owned(),
        number: None,
        member: MemberId::new(format!("{member}-1")).unwrap(),
        name: MemberName::new(member).unwrap(),
        event,
        resource: None,
        token: None,
        trusted_until: None,
        ttl_ms: None,
        reason: None,
        error: None,
        other: None,
        detail: None,
    }
}

/// A row in the making.
pub(crate) trait Make {
    fn of(self, token: u64) -> Entry;
    fn on(self, resource: &str) -> Entry;
    fn until(self, trusted_until: u64) -> Entry;
    fn why(self, reason: Reason) -> Entry;
    fn other(self, member: &str) -> Entry;
    fn numbered(self, number: u64) -> Entry;
    fn elsewhere(self, boot: &str, started_at: u64) -> Entry;
}

impl Make for Entry {
    /// About a term of the resource `a`.
    fn of(self, token: u64) -> Entry {
        Entry { token: Some(Token(token)), ..self.on("a") }
    }

    fn on(self, resource: &str) -> Entry {
        Entry { resource: Some(ResourceId::new(resource).unwrap()), ..self }
    }

    fn until(self, trusted_until: u64) -> Entry {
        Entry { trusted_until: Some(Moment(trusted_until * MS)), ..self }
    }

    fn why(self, reason: Reason) -> Entry {
        Entry { reason: Some(reason), ..self }
    }

    fn other(self, member: &str) -> Entry {
        Entry { other: Some(MemberId::new(format!("{member}-1")).unwrap()), ..self }
    }

    fn numbered(self, number: u64) -> Entry {
        Entry { number: Some(number), ..self }
    }

    /// On a machine that was started at this moment of the first one's clock.
    fn elsewhere(self, boot: &str, started_at: u64) -> Entry {
        let own = |moment: Moment| Moment(moment.0 - started_at * MS);
        Entry { boot: boot.to_owned(), at: own(self.at), trusted_until: self.trusted_until.map(own), ..self }
    }
}

/// The whole life of a term, from its grant to its release.
pub(crate) fn term(member: &str, token: u64, from: u64, to: u64, why: Reason) -> Vec<Entry> {
    vec![
        row(member, Event::Acquired, from).of(token).until(to + 5000),
        row(member, Event::Started, from).of(token).until(to + 5000),
        row(member, Event::Stopped, to).of(token).until(to + 5000).why(why),
        row(member, Event::Released, to + 1).of(token).why(why),
    ]
}
