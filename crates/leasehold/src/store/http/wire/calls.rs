//! The calls by their names: what each carries and what it is answered with.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::records::{
    Acquired, Answer, Changed, Checkup, Claimed, EndSilent, Freed, LeaseRecord, Mark, Marked, Nothing, Pulse,
    Reasserted, Release, Released, Reply, Revoked, Row, Session, SessionRecord, Thawed, Wanted,
};
use super::{Hex, Position};
use crate::lease::{BeatNumber, MemberId, Pool, ResourceId, Term};
use crate::ledger::Entry;
use crate::store::{Declared, ListingId, MarkKind, Profile, Version};

/// One call of the contract.
pub trait Call: Serialize + DeserializeOwned + Send + Sync {
    /// Its name, which is the last part of its path.
    const NAME: &'static str;
    /// What it is answered with.
    type Answer: Serialize + DeserializeOwned + Send;
}

macro_rules! calls {
    ($($(#[$doc:meta])* $call:ident $name:literal -> $answer:ty { $($(#[$of:meta])* $field:ident: $kind:ty),* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
            #[serde(deny_unknown_fields)]
            pub struct $call {
                $($(#[$of])* pub $field: $kind,)*
            }

            impl Call for $call {
                const NAME: &'static str = $name;
                type Answer = $answer;
            }
        )*

        /// The names of all calls.
        pub const NAMES: &[&str] = &[$($name),*];
    };
}

calls! {
    /// Opens a session.
    OpenCall "open" -> Answer<Hex> {
        /// The session to open.
        session: Session
    }
    /// Raises a session's beat.
    BeatCall "beat" -> Answer<Vec<Term>> {
        /// Whose.
        session: MemberId,
        /// What every call of a session carries.
        pulse: Pulse
    }
    /// Replaces what a session publishes about itself.
    DescribeCall "describe" -> Answer<Nothing> {
        /// Whose.
        session: MemberId,
        /// What every call of a session carries.
        pulse: Pulse,
        /// What it publishes from now on.
        profile: Profile
    }
    /// Ends the caller's own session.
    CloseCall "close" -> Reply<Nothing> {
        /// Which.
        session: MemberId
    }
    /// Ends a session that fell silent.
    EndSilentCall "end_silent" -> Reply<EndSilent> {
        /// Which.
        session: MemberId,
        /// The beat that was heard for the session's whole TTL.
        heard: BeatNumber,
        /// The era it was heard in.
        era: Hex
    }
    /// Takes what is free.
    AcquireCall "acquire" -> Answer<Vec<Acquired>> {
        /// For whom.
        session: MemberId,
        /// What every call of a session carries.
        pulse: Pulse,
        /// What.
        wanted: Vec<Wanted>
    }
    /// Opens a session and takes one resource with it, or opens nothing because somebody has it.
    ClaimCall "claim" -> Answer<Claimed> {
        /// The session to open.
        session: Session,
        /// What.
        wanted: Wanted
    }
    /// Gives back exactly the named terms.
    ReleaseCall "release" -> Answer<Vec<Released>> {
        /// Whose.
        session: MemberId,
        /// What every call of a session carries.
        pulse: Pulse,
        /// Which.
        terms: Vec<Release>
    }
    /// Marks a term as revoked.
    RevokeCall "revoke" -> Reply<Revoked> {
        /// The pool of the resource.
        pool: Pool,
        /// The term.
        term: Term
    }
    /// Frees a revoked term.
    FreeRevokedCall "free_revoked" -> Reply<Freed> {
        /// The pool of the resource.
        pool: Pool,
        /// The term.
        term: Term,
        /// The era that was read before it was revoked.
        era: Hex
    }
    /// Frees a lease whose holder's session is absent.
    FreeOrphanCall "free_orphan" -> Reply<Freed> {
        /// The pool of the resource.
        pool: Pool,
        /// The absent holder.
        holder: MemberId,
        /// The term.
        term: Term,
        /// The era in which it was heard unchanged.
        era: Hex
    }
    /// Says again, after a freeze, what a session holds.
    ReassertCall "reassert" -> Answer<Vec<Reasserted>> {
        /// The session.
        session: Session,
        /// What every call of a session carries.
        pulse: Pulse,
        /// What it holds.
        terms: Vec<Term>
    }
    /// Ends a freeze.
    ThawCall "thaw" -> Reply<Thawed> {
        /// The nonce that was heard for the longest TTL.
        nonce: Hex
    }
    /// Forgets an ended session.
    CollectCall "collect" -> Reply<Nothing> {
        /// Which.
        session: MemberId
    }
    /// Who is there.
    SessionsCall "sessions" -> Reply<Changed<SessionRecord>> {
        /// In which pool.
        pool: Pool,
        /// What changed since this cursor.
        since: Position
    }
    /// Who holds what.
    LeasesCall "leases" -> Reply<Changed<LeaseRecord>> {
        /// In which pool.
        pool: Pool,
        /// What changed since this cursor.
        since: Position
    }
    /// Every pool that the caller may see.
    PoolsCall "pools" -> Reply<Vec<Pool>> {}
    /// Operators' marks.
    MarksCall "marks" -> Reply<Changed<Mark>> {
        /// In which pool.
        pool: Pool,
        /// What changed since this cursor.
        since: Position
    }
    /// Sets or, with no value, removes a mark.
    SetMarkCall "set_mark" -> Reply<Marked> {
        /// In which pool.
        pool: Pool,
        /// What it says.
        kind: MarkKind,
        /// A member's name or a resource's id.
        subject: String,
        /// The pinned member's name or a remark; none removes the mark.
        value: Option<String>,
        /// The version it must still have; 0 is absent.
        expected: Version
    }
    /// Declared resources.
    ResourcesCall "resources" -> Reply<Changed<Declared>> {
        /// In which pool.
        pool: Pool,
        /// What changed since this cursor.
        since: Position
    }
    /// Declares, changes or removes a resource.
    DeclareCall "declare" -> Reply<Marked> {
        /// In which pool.
        pool: Pool,
        /// The resource, with the version that it must still have.
        declared: Declared
    }
    /// Keeps a listing under the id of its content.
    PublishCall "publish" -> Reply<Nothing> {
        /// In which pool.
        pool: Pool,
        /// The id of its content.
        id: ListingId,
        /// The ids that are listed, each once.
        listing: Vec<ResourceId>
    }
    /// The listing with an id.
    ListingCall "listing" -> Reply<Option<Vec<ResourceId>>> {
        /// In which pool.
        pool: Pool,
        /// The id of its content.
        id: ListingId
    }
    /// Forgets listings that nobody publishes.
    CollectListingsCall "collect_listings" -> Reply<Nothing> {
        /// In which pool.
        pool: Pool
    }
    /// Appends rows to the ledger.
    AppendCall "append" -> Reply<Nothing> {
        /// To the ledger of which pool.
        pool: Pool,
        /// The rows.
        entries: Vec<Entry>
    }
    /// Rows of the ledger, oldest first.
    LedgerCall "ledger" -> Reply<Vec<Row>> {
        /// Of which pool.
        pool: Pool,
        /// Of which resource; none is all.
        resource: Option<ResourceId>,
        /// Only rows after this number.
        after: u64,
        /// The most rows.
        limit: usize
    }
    /// How well the server's store keeps its word with its present settings.
    CheckupCall "checkup" -> Reply<Checkup> {}
}
