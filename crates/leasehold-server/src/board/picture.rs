//! One look at a pool, as rows. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use leasehold::MemberId;
use leasehold::plan::{Facts, Plan};
use leasehold::store::{Mark, MarkKind};
use leasehold::view::View;
use serde::Serialize;
use utoipa::ToSchema;

use super::bars::{Bar, Bars};
use crate::holders::Holder;

/// One look at a pool.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    /// Counts pictures; 0 is before the first.
    pub(crate) number: u64,
    pub(crate) head: Head,
    pub(crate) members: Rows<MemberRow>,
    pub(crate) resources: Rows<ResourceRow>,
    /// The newest events, the oldest first.
    pub(crate) feed: Vec<Arc<FeedRow>>,
}

/// What is true of the pool as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Head {
    /// Whether the store is frozen.
    pub(crate) frozen: bool,
    /// Why nothing new is known of the store; null while it answers.
    pub(crate) trouble: Option<String>,
    /// How many resources there are.
    pub(crate) total: usize,
    /// How many of them somebody owns.
    pub(crate) owned: usize,
    /// How many nobody owns though somebody should.
    pub(crate) unowned: usize,
    /// How far the fullest or emptiest member is from its share.
    pub(crate) imbalance: u64,
    /// The longest of the last handoffs, in milliseconds: from the end of work to the next grant.
    pub(crate) handoff_ms: Option<u64>,
    /// The longest of the last failovers, in milliseconds: from the last sign of life to the next grant.
    pub(crate) failover_ms: Option<u64>,
    /// Whether all tenures that the ledger tells of have been read.
    pub(crate) history: bool,
}

/// Rows by their id; each is shared by all pictures in which it is the same.
pub(crate) type Rows<T> = BTreeMap<String, Arc<Row<T>>>;

/// A row, and how it is written, once.
#[derive(Debug)]
pub(crate) struct Row<T> {
    pub(crate) is: T,
    json: OnceLock<String>,
}

impl<T: Serialize> Row<T> {
    pub(crate) fn json(&self) -> &str {
        self.json.get_or_init(|| serde_json::to_string(&self.is).unwrap_or_default())
    }
}

/// A member, or whoever holds leases over REST under one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct MemberRow {
    /// Its id; of REST holders, their name.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: String,
    /// `member` or `rest`.
    pub(crate) kind: &'static str,
    /// What it holds, by weight.
    pub(crate) held: u64,
    /// The least and the most of its fair share; null until that was computed.
    pub(crate) share: Option<[u64; 2]>,
    /// The most weight it takes.
    pub(crate) capacity: Option<u64>,
    /// The version of the program it runs.
    pub(crate) version: Option<String>,
    /// What is special: `drained`, `cordoned`, `leaving`, `settling`, `not ready`.
    pub(crate) state: Vec<&'static str>,
    /// How long it may be silent, in milliseconds.
    pub(crate) ttl_ms: u64,
    /// When its last beat was heard, in milliseconds since 1970 by this server's clock; null until one was.
    pub(crate) heard: Option<u64>,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
}

/// A resource and its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ResourceRow {
    /// Its id.
    pub(crate) id: String,
    /// What people call it, where its label `name` says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// `owned`, `free`, `paused`, `revoked` or `moving`.
    pub(crate) state: &'static str,
    /// Who owns it, by name.
    pub(crate) owner: Option<String>,
    /// The same by id.
    pub(crate) member: Option<String>,
    /// The newest token.
    pub(crate) token: Option<u64>,
    /// Since when it is as it is, in milliseconds since 1970, as far as the ledger tells.
    pub(crate) since: Option<u64>,
    /// To whom it is about to go, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    /// Why nobody owns it, or what is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// The member it is pinned to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pinned: Option<String>,
    /// How much of a member's capacity it takes.
    pub(crate) weight: u32,
    /// Its labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    /// Its tenures.
    #[schema(value_type = Vec<Bar>)]
    pub(crate) bars: Arc<Vec<Bar>>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FeedRow {
    /// The row of the ledger.
    pub(crate) row: u64,
    /// When, in milliseconds since 1970, by the writer's clock.
    pub(crate) at: u64,
    /// What.
    pub(crate) event: &'static str,
    /// Who wrote it, by name.
    pub(crate) name: String,
    /// To what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<String>,
    /// Under which token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    /// The other member concerned, by name if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) other: Option<String>,
    /// Why, and anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
}

/// What a picture is drawn of.
pub(crate) struct Sight<'a> {
    pub(crate) view: &'a View,
    pub(crate) facts: &'a Facts,
    /// Perhaps of a moment before, or none yet.
    pub(crate) plan: Option<&'a Plan>,
    pub(crate) bars: &'a Bars,
    pub(crate) heard: &'a HashMap<MemberId, (u64, Option<u64>)>,
    /// The longest of the last handoffs and failovers.
    pub(crate) worst: [Option<u64>; 2],
    pub(crate) history: bool,
}

impl Picture {
    /// The picture after another one, of what is seen now.
    pub(crate) fn after(before: &Self, sight: &Sight<'_>, feed: Vec<Arc<FeedRow>>) -> Self {
        let resources = same(&before.resources, resource_rows(sight));
        let members = same(&before.members, member_rows(sight));
        let owned = resources.values().filter(|row| row.is.owner.is_some()).count();
        let unowned = |row: &&Arc<Row<ResourceRow>>| row.is.owner.is_none() && row.is.state != "paused";
        let distance = |member: &leasehold::plan::Member| {
            let Some(plan) = sight.plan else { return 0 };
            let (load, quota) = (plan.load(&member.id), plan.quota(&member.id));
            load.saturating_sub(quota.ceiling).max(quota.floor.saturating_sub(load))
        };
        let head = Head {
            frozen: sight.view.era().is_some_and(|era| era.frozen),
            trouble: None,
            total: resources.len(),
            owned,
            unowned: resources.values().filter(unowned).count(),
            imbalance: sight.facts.members.iter().map(distance).max().unwrap_or(0),
            handoff_ms: sight.worst[0],
            failover_ms: sight.worst[1],
            history: sight.history,
        };
        Self { number: before.number + 1, head, members, resources, feed }
    }

    /// The same picture, and why there is no newer one.
    pub(crate) fn troubled(before: &Self, trouble: String) -> Self {
        Self {
            number: before.number + 1,
            head: Head { trouble: Some(trouble), ..before.head.clone() },
            members: before.members.clone(),
            resources: before.resources.clone(),
            feed: before.feed.clone(),
        }
    }
}

/// Takes the rows of before where they are the same.
fn same<T: PartialEq>(before: &Rows<T>, now: impl Iterator<Item = (String, T)>) -> Rows<T> {
    now.map(|(id, row)| {
        let row = match before.get(&id) {
            Some(old) if old.is == row => Arc::clone(old),
            _ => Arc::new(Row { is: row, json: OnceLock::new() }),
        };
        (id, row)
    })
    .collect()
}

fn name_of(view: &View, member: &MemberId) -> String {
    let session = view.sessions().get(member);
    session.map_or_else(|| member.to_string(), |session| session.profile.name.to_string())
}

fn resource_rows<'a>(sight: &'a Sight<'_>) -> impl Iterator<Item = (String, ResourceRow)> + 'a {
    let Sight { view, facts, plan, bars, .. } = sight;
    let (mut moves, mut placed, mut nobody) = (HashMap::new(), HashMap::new(), HashMap::new());
    if let Some(plan) = plan {
        moves.extend(plan.moves().iter().map(|step| (&step.resource, &step.to)));
        placed.extend(plan.placements().iter().map(|step| (&step.resource, &step.to)));
        nobody.extend(plan.unplaceable().iter().map(|step| (&step.resource, step.reason.to_string())));
    }
    facts.resources.iter().map(move |resource| {
        let id = &resource.id;
        let lease = view.leases().get(id);
        let owner = resource.holder.as_ref();
        let goes_to = if owner.is_some() { moves.get(id) } else { placed.get(id) };
        let bars = bars.of(id).cloned().unwrap_or_default();
        let last = bars.last().filter(|bar| lease.is_some_and(|lease| lease.token.0 == bar.token));
        let state = match owner {
            _ if resource.paused => "paused",
            None => "free",
            Some(_) if lease.is_some_and(|lease| lease.revoked) => "revoked",
            Some(_) if goes_to.is_some() => "moving",
            Some(_) => "owned",
        };
        let declared = view.declared().get(id).filter(|declared| !declared.removed);
        let labels = declared.map(|declared| declared.labels.clone()).unwrap_or_default();
        let quarantine = view.mark(MarkKind::Quarantine, id.as_str()).and_then(|mark| mark.value.clone());
        let under = |note: &String| {
            lease.is_some_and(|lease| note.starts_with(&format!("under token {} ", lease.token)))
        };
        let row = ResourceRow {
            id: id.to_string(),
            name: labels.get("name").cloned(),
            state,
            owner: owner.map(|owner| name_of(view, owner)),
            member: owner.map(ToString::to_string),
            token: lease.map(|lease| lease.token.0),
            since: last.and_then(|bar| if owner.is_some() { Some(bar.from) } else { bar.until }),
            to: goes_to.map(|to| name_of(view, to)),
            why: if owner.is_none() { nobody.get(id).cloned() } else { quarantine.filter(under) },
            pinned: resource.pinned.as_ref().map(ToString::to_string),
            weight: resource.weight,
            labels,
            bars,
        };
        (id.to_string(), row)
    })
}

fn member_rows<'a>(sight: &'a Sight<'_>) -> impl Iterator<Item = (String, MemberRow)> + 'a {
    let Sight { view, plan, heard, facts, .. } = sight;
    let (planned, nothing) = (plan.is_some(), Plan::default());
    let plan = plan.unwrap_or(&nothing);
    let mut held: HashMap<&MemberId, u64> = HashMap::new();
    for resource in &facts.resources {
        if let Some(holder) = &resource.holder {
            *held.entry(holder).or_default() += u64::from(resource.weight.max(1));
        }
    }
    let mut rows: BTreeMap<String, MemberRow> = BTreeMap::new();
    for session in view.sessions().values().filter(|session| !session.ended) {
        let profile = &session.profile;
        let name = profile.name.as_str();
        let held = held.get(&session.id).copied().unwrap_or(0);
        let heard = heard.get(&session.id).and_then(|(_, at)| *at);
        let is_rest = Holder::of(profile).is_some();
        let id = if is_rest { name.to_owned() } else { session.id.to_string() };
        if let Some(row) = rows.get_mut(&id) {
            row.held += held;
            row.heard = row.heard.max(heard);
            continue;
        }
        let marked = |kind| view.mark(kind, name).is_some_and(|mark: &Mark| mark.value.is_some());
        let states = [
            (view.is_drained(name), "drained"),
            (marked(MarkKind::Cordon), "cordoned"),
            (profile.leaving, "leaving"),
            (!profile.ready, "not ready"),
            (!profile.settled && !is_rest, "settling"),
        ];
        let quota = plan.quota(&session.id);
        let own = |label: &&String| !label.starts_with("leasehold.");
        let labels = profile.labels.iter().filter(|(label, _)| own(label));
        let row = MemberRow {
            id: id.clone(),
            name: name.to_owned(),
            kind: if is_rest { "rest" } else { "member" },
            held,
            share: planned.then_some([quota.floor, quota.ceiling]),
            capacity: profile.capacity.filter(|_| !is_rest),
            version: profile.version.clone(),
            state: states.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect(),
            ttl_ms: u64::try_from(session.ttl.as_millis()).unwrap_or(u64::MAX),
            heard,
            labels: labels.map(|(label, value)| (label.clone(), value.clone())).collect(),
        };
        rows.insert(id, row);
    }
    rows.into_iter()
}
