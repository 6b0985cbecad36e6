//! Everything the plan knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::lease::{MemberId, MemberName, ResourceId};
use crate::store::Offer;

/// The label that every member has: its stable name, unless it publishes another value for it. So a resource can require
/// one member by name.
pub const NAME_LABEL: &str = "name";

/// What every member reads from the store before it plans. The order of members and resources means nothing;
/// each id appears once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Everybody whose session is alive.
    pub members: Vec<Member>,
    /// Everything there is to share out.
    pub resources: Vec<Resource>,
    /// The most handoffs in flight at a time in the whole pool; `usize::MAX` asks "what if".
    pub budget: usize,
}

/// A member as the others know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its session.
    pub id: MemberId,
    /// Its stable name. Several live members may have the same one.
    pub name: MemberName,
    /// The most weight it takes; `None` is no limit.
    pub capacity: Option<u64>,
    /// Labels that resources may require.
    pub labels: BTreeMap<String, String>,
    /// Whether it can work at all.
    pub ready: bool,
    /// Whether it has been here long enough for work to be moved to it.
    pub settled: bool,
    /// Whether it is on its way out and wants to hold nothing.
    pub leaving: bool,
    /// Whether an operator wants it to hold nothing.
    pub drained: bool,
    /// Whether an operator wants it to get nothing new.
    pub cordoned: bool,
    /// The index of the listing it publishes. It may hold a listed resource only if its own listing has it.
    pub listing: Option<usize>,
}

/// A resource as the members know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Which one.
    pub id: ResourceId,
    /// How much of a member's capacity it takes; nothing counts as 1.
    pub weight: u32,
    /// Labels a member must have.
    pub requires: Arc<BTreeMap<String, String>>,
    /// Whether it was declared in the store, so that any member may hold it.
    pub declared: bool,
    /// The indexes of the listings that contain it.
    pub listed_by: Arc<[usize]>,
    /// Whether nobody is to hold it.
    pub paused: bool,
    /// The name of the member it belongs to.
    pub pinned: Option<MemberName>,
    /// The live session that holds it; `None` if it is free.
    pub holder: Option<MemberId>,
    /// Whom its last holder named as successor; only while it is free.
    pub offer: Option<Offer>,
}

impl Resource {
    /// What it counts for. A weight of nothing would let a member take any number of them.
    pub(super) fn load(&self) -> u64 {
        u64::from(self.weight.max(1))
    }
}
