//! From the store's own types to those on the line, and back.

use std::time::Duration;

use super::records as wire;
use super::{Hex, Position, millis};
use crate::store::{
    Acquired, Answer, Changed, Checkup, Claimed, EndSilent, Era, Finding, Freed, Grade, LeaseRecord, Mark,
    Marked, OpenSession, Pulse, Reasserted, Release, Released, Revoked, SessionRecord, Thawed, Wanted,
};

/// Structs whose fields are the same on both sides.
macro_rules! same_fields {
    ($($name:ident { $($field:ident),* })*) => {
        $(
            impl From<$name> for wire::$name {
                fn from(own: $name) -> Self {
                    let $name { $($field),* } = own;
                    Self { $($field),* }
                }
            }

            impl From<wire::$name> for $name {
                fn from(read: wire::$name) -> Self {
                    let wire::$name { $($field),* } = read;
                    Self { $($field),* }
                }
            }
        )*
    };
}

same_fields! {
    Wanted { resource, floor }
    Release { term, offer }
    Mark { kind, subject, value, version }
    Finding { weak, what, advice }
}

impl From<Acquired> for wire::Acquired {
    fn from(own: Acquired) -> Self {
        match own {
            Acquired::Granted(term) => Self::Granted { term },
            Acquired::Held { by, token } => Self::Held { by, token },
        }
    }
}

impl From<wire::Acquired> for Acquired {
    fn from(read: wire::Acquired) -> Self {
        match read {
            wire::Acquired::Granted { term } => Self::Granted(term),
            wire::Acquired::Held { by, token } => Self::Held { by, token },
        }
    }
}

impl From<Claimed> for wire::Claimed {
    fn from(own: Claimed) -> Self {
        match own {
            Claimed::Granted { term, era } => Self::Granted { term, era: Hex(era) },
            Claimed::Held { by, token } => Self::Held { by, token },
        }
    }
}

impl From<wire::Claimed> for Claimed {
    fn from(read: wire::Claimed) -> Self {
        match read {
            wire::Claimed::Granted { term, era } => Self::Granted { term, era: era.0 },
            wire::Claimed::Held { by, token } => Self::Held { by, token },
        }
    }
}

impl From<Released> for wire::Released {
    fn from(own: Released) -> Self {
        match own {
            Released::Freed => Self::Freed,
            Released::NotHeld => Self::NotHeld,
        }
    }
}

impl From<wire::Released> for Released {
    fn from(read: wire::Released) -> Self {
        match read {
            wire::Released::Freed => Self::Freed,
            wire::Released::NotHeld => Self::NotHeld,
        }
    }
}

impl From<EndSilent> for wire::EndSilent {
    fn from(own: EndSilent) -> Self {
        match own {
            EndSilent::Ended => Self::Ended,
            EndSilent::Alive(beat) => Self::Alive { beat },
            EndSilent::Absent => Self::Absent,
            EndSilent::Frozen(nonce) => Self::Frozen { nonce: Hex(nonce) },
        }
    }
}

impl From<wire::EndSilent> for EndSilent {
    fn from(read: wire::EndSilent) -> Self {
        match read {
            wire::EndSilent::Ended => Self::Ended,
            wire::EndSilent::Alive { beat } => Self::Alive(beat),
            wire::EndSilent::Absent => Self::Absent,
            wire::EndSilent::Frozen { nonce } => Self::Frozen(nonce.0),
        }
    }
}

impl From<Reasserted> for wire::Reasserted {
    fn from(own: Reasserted) -> Self {
        match own {
            Reasserted::Kept => Self::Kept,
            Reasserted::Lost => Self::Lost,
        }
    }
}

impl From<wire::Reasserted> for Reasserted {
    fn from(read: wire::Reasserted) -> Self {
        match read {
            wire::Reasserted::Kept => Self::Kept,
            wire::Reasserted::Lost => Self::Lost,
        }
    }
}

impl From<Thawed> for wire::Thawed {
    fn from(own: Thawed) -> Self {
        match own {
            Thawed::Thawed => Self::Thawed,
            Thawed::Changed => Self::Changed,
        }
    }
}

impl From<wire::Thawed> for Thawed {
    fn from(read: wire::Thawed) -> Self {
        match read {
            wire::Thawed::Thawed => Self::Thawed,
            wire::Thawed::Changed => Self::Changed,
        }
    }
}

impl From<Revoked> for wire::Revoked {
    fn from(own: Revoked) -> Self {
        match own {
            Revoked::Marked => Self::Marked,
            Revoked::NotHeld => Self::NotHeld,
            Revoked::Frozen(nonce) => Self::Frozen { nonce: Hex(nonce) },
        }
    }
}

impl From<wire::Revoked> for Revoked {
    fn from(read: wire::Revoked) -> Self {
        match read {
            wire::Revoked::Marked => Self::Marked,
            wire::Revoked::NotHeld => Self::NotHeld,
            wire::Revoked::Frozen { nonce } => Self::Frozen(nonce.0),
        }
    }
}

impl From<Freed> for wire::Freed {
    fn from(own: Freed) -> Self {
        match own {
            Freed::Freed => Self::Freed,
            Freed::Changed => Self::Changed,
            Freed::Frozen(nonce) => Self::Frozen { nonce: Hex(nonce) },
        }
    }
}

impl From<wire::Freed> for Freed {
    fn from(read: wire::Freed) -> Self {
        match read {
            wire::Freed::Freed => Self::Freed,
            wire::Freed::Changed => Self::Changed,
            wire::Freed::Frozen { nonce } => Self::Frozen(nonce.0),
        }
    }
}

impl From<Marked> for wire::Marked {
    fn from(own: Marked) -> Self {
        match own {
            Marked::Set(version) => Self::Set { version },
            Marked::Conflict(version) => Self::Conflict { version },
        }
    }
}

impl From<wire::Marked> for Marked {
    fn from(read: wire::Marked) -> Self {
        match read {
            wire::Marked::Set { version } => Self::Set(version),
            wire::Marked::Conflict { version } => Self::Conflict(version),
        }
    }
}

impl<T> wire::Answer<T> {
    /// A store's answer, with what was done made into what crosses the line.
    pub fn of<S>(own: Answer<S>, done: impl FnOnce(S) -> T) -> Self {
        match own {
            Answer::Done(value) => Self::Done { value: done(value) },
            Answer::Gone => Self::Gone,
            Answer::Frozen(nonce) => Self::Frozen { nonce: Hex(nonce) },
        }
    }

    /// The same the other way.
    pub fn read<S>(self, done: impl FnOnce(T) -> S) -> Answer<S> {
        match self {
            Self::Done { value } => Answer::Done(done(value)),
            Self::Gone => Answer::Gone,
            Self::Frozen { nonce } => Answer::Frozen(nonce.0),
        }
    }
}

impl<T> wire::Changed<T> {
    /// What a store has read, with each item made into what crosses the line.
    pub fn of<S>(own: Changed<S>, item: impl FnMut(S) -> T) -> Self {
        let Changed { era, items, cursor } = own;
        let items = items.into_iter().map(item).collect();
        Self { era: era.into(), items, cursor: Position(cursor) }
    }

    /// The same the other way.
    pub fn read<S>(self, item: impl FnMut(T) -> S) -> Changed<S> {
        let items = self.items.into_iter().map(item).collect();
        Changed { era: self.era.into(), items, cursor: self.cursor.0 }
    }
}

impl From<Era> for wire::Era {
    fn from(Era { nonce, frozen, ttl_max }: Era) -> Self {
        Self { nonce: Hex(nonce), frozen, ttl_max_ms: millis(ttl_max) }
    }
}

impl From<wire::Era> for Era {
    fn from(wire::Era { nonce, frozen, ttl_max_ms }: wire::Era) -> Self {
        Self { nonce: nonce.0, frozen, ttl_max: Duration::from_millis(ttl_max_ms) }
    }
}

impl From<Pulse> for wire::Pulse {
    fn from(Pulse { era, number, confirmed }: Pulse) -> Self {
        Self { era: Hex(era), number, confirmed }
    }
}

impl From<wire::Pulse> for Pulse {
    fn from(wire::Pulse { era, number, confirmed }: wire::Pulse) -> Self {
        Self { era: era.0, number, confirmed }
    }
}

impl From<OpenSession> for wire::Session {
    fn from(OpenSession { pool, id, ttl, profile }: OpenSession) -> Self {
        Self { pool, id, ttl_ms: millis(ttl), profile }
    }
}

impl From<wire::Session> for OpenSession {
    fn from(wire::Session { pool, id, ttl_ms, profile }: wire::Session) -> Self {
        Self { pool, id, ttl: Duration::from_millis(ttl_ms), profile }
    }
}

impl From<SessionRecord> for wire::SessionRecord {
    fn from(SessionRecord { id, ttl, beat, ended, profile }: SessionRecord) -> Self {
        Self { id, ttl_ms: millis(ttl), beat, ended, profile }
    }
}

impl From<wire::SessionRecord> for SessionRecord {
    fn from(wire::SessionRecord { id, ttl_ms, beat, ended, profile }: wire::SessionRecord) -> Self {
        Self { id, ttl: Duration::from_millis(ttl_ms), beat, ended, profile }
    }
}

impl From<LeaseRecord> for wire::LeaseRecord {
    fn from(LeaseRecord { resource, token, holder, ttl, revoked, offer }: LeaseRecord) -> Self {
        Self { resource, token, holder, ttl_ms: millis(ttl), revoked, offer }
    }
}

impl From<wire::LeaseRecord> for LeaseRecord {
    fn from(
        wire::LeaseRecord { resource, token, holder, ttl_ms, revoked, offer }: wire::LeaseRecord,
    ) -> Self {
        Self { resource, token, holder, ttl: Duration::from_millis(ttl_ms), revoked, offer }
    }
}

impl From<Checkup> for wire::Checkup {
    fn from(Checkup { server, grade, findings }: Checkup) -> Self {
        let findings = findings.into_iter().map(Into::into).collect();
        Self { server, grade: grade.as_str().to_owned(), findings }
    }
}

impl From<wire::Checkup> for Checkup {
    fn from(wire::Checkup { server, grade, findings }: wire::Checkup) -> Self {
        let grade = Grade::parse(&grade).unwrap_or(Grade::Volatile);
        Self { server, grade, findings: findings.into_iter().map(Into::into).collect() }
    }
}
