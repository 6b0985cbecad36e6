//! The members of a pool as nodes, with what each of them owns: in the words of pollers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use leasehold::clock::{self, Clock, SystemClock};
use leasehold::ledger::{Entry, Event};
use leasehold::participant::State;
use leasehold::plan::Plan;
use leasehold::store::Store;
use leasehold::view::View;
use leasehold::{Lease, MemberId, Pool, ResourceId, Token};
use serde::Serialize;

use super::read_ledger;
use crate::failure::Failure;
use crate::print;

/// Who is there, and who owns what.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Nodes {
    this_instance_id: Option<MemberId>,
    live_nodes: Vec<Node>,
    timestamp: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    instance_id: MemberId,
    is_this_instance: bool,
    status: &'static str,
    owned_sessions: Vec<Owned>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Owned {
    session_id: ResourceId,
    owner_id: MemberId,
    preferred_owner_id: Option<MemberId>,
    state: &'static str,
    acquired_at: Option<String>,
    last_renewed_at: Option<String>,
    uncertain_since: Option<String>,
}

/// When things happened, by wall clocks, as the ledger tells it.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The row that was read last.
    after: u64,
    acquired: HashMap<ResourceId, (Token, u64)>,
    renewed: HashMap<MemberId, u64>,
    uncertain: HashMap<MemberId, u64>,
}

impl History {
    /// Reads what was added since the last time.
    pub(crate) async fn read(&mut self, store: &Arc<dyn Store>, pool: &Pool) -> Result<(), Failure> {
        let mut rows = Vec::new();
        self.after = read_ledger(store, (pool, None), self.after, |page| {
            rows.extend(page);
            Ok(())
        })
        .await?;
        rows.iter().for_each(|row| self.take(row));
        Ok(())
    }

    fn owned(
        &self,
        (holder, resource, token): (&MemberId, &ResourceId, Token),
        goes_to: &MemberId,
        (state, since): (&'static str, Option<u64>),
    ) -> Owned {
        let acquired = self.acquired.get(resource).filter(|(under, _)| *under == token);
        Owned {
            session_id: resource.clone(),
            owner_id: holder.clone(),
            preferred_owner_id: Some(goes_to.clone()),
            state,
            acquired_at: acquired.map(|(_, at)| print::time(*at)),
            last_renewed_at: self.renewed.get(holder).map(|at| print::time(*at)),
            uncertain_since: since.map(print::time),
        }
    }

    fn take(&mut self, row: &Entry) {
        let (member, at) = (&row.member, row.wall_nanos);
        match row.event {
            Event::Acquired | Event::TakenOver => {
                if let (Some(resource), Some(token)) = (&row.resource, row.token) {
                    self.acquired.insert(resource.clone(), (token, at));
                }
            }
            Event::Joined | Event::Renewed | Event::Reasserted => {
                self.renewed.insert(member.clone(), at);
                self.uncertain.remove(member);
            }
            Event::RenewFailed => {
                self.uncertain.entry(member.clone()).or_insert(at);
            }
            Event::Left => {
                self.renewed.remove(member);
                self.uncertain.remove(member);
            }
            _ => {}
        }
    }
}

/// What the one who tells knows of itself, which is newer than what the store knows of it.
#[derive(Debug)]
pub(crate) struct Myself {
    pub(crate) id: Option<MemberId>,
    pub(crate) leases: Vec<Lease>,
}

/// How sure a holder is, and since when it has not been, by its wall clock.
fn certainty(lease: &Lease) -> (&'static str, Option<u64>) {
    let since = lease.uncertain_since().map(|since| clock::now().since(since).as_nanos());
    let since =
        since.and_then(|ago| u64::try_from(ago).ok()).map(|ago| SystemClock.wall_nanos().saturating_sub(ago));
    match lease.state() {
        State::Held => ("owned", None),
        State::Uncertain => ("uncertain", since),
        State::Lost => ("lost", since),
    }
}

impl Nodes {
    pub(crate) fn of(view: &View, history: &History, me: Option<&Myself>) -> Self {
        let plan = Plan::compute(&view.facts(usize::MAX));
        let moves = plan.moves().iter().map(|step| (&step.resource, &step.to));
        let goes_to: BTreeMap<&ResourceId, &MemberId> = moves.collect();
        let my_id = me.and_then(|me| me.id.as_ref());
        let mut nodes: BTreeMap<&MemberId, Node> = BTreeMap::new();
        let living = view.sessions().values().filter(|session| !session.ended);
        for session in living {
            let status = match &session.profile {
                profile if profile.leaving => "leaving",
                profile if !profile.ready => "notReady",
                profile if !profile.settled => "joining",
                _ => "live",
            };
            nodes.insert(&session.id, node(&session.id, status, my_id));
        }
        if let Some(id) = my_id {
            nodes.entry(id).or_insert_with(|| node(id, "live", my_id));
        }
        let held = view.leases().iter().filter_map(|(id, lease)| Some((view.holder(id)?, id, lease.token)));
        for (holder, resource, token) in held.filter(|(holder, ..)| Some(*holder) != my_id) {
            let since = history.uncertain.get(holder).copied();
            let certainty = (if since.is_some() { "uncertain" } else { "owned" }, since);
            let goes_to = goes_to.get(resource).unwrap_or(&holder);
            let owned = history.owned((holder, resource, token), goes_to, certainty);
            nodes.entry(holder).and_modify(|node| node.owned_sessions.push(owned));
        }
        for lease in me.iter().flat_map(|me| &me.leases) {
            let (holder, resource) = (lease.member(), lease.resource());
            let goes_to = goes_to.get(resource).unwrap_or(&holder);
            let owned = history.owned((holder, resource, lease.token()), goes_to, certainty(lease));
            nodes.entry(holder).and_modify(|node| node.owned_sessions.push(owned));
        }
        Self {
            this_instance_id: my_id.cloned(),
            live_nodes: nodes.into_values().collect(),
            timestamp: print::time(SystemClock.wall_nanos()),
        }
    }

    /// The same for people.
    pub(crate) fn sheet(&self) -> print::Sheet {
        let mut rows = Vec::new();
        for node in &self.live_nodes {
            let first = [node.instance_id.to_string(), node.status.to_owned()];
            if node.owned_sessions.is_empty() {
                rows.push(first.to_vec());
            }
            for owned in &node.owned_sessions {
                let text = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
                let preferred = owned.preferred_owner_id.as_ref().filter(|other| **other != owned.owner_id);
                let more = [
                    owned.session_id.to_string(),
                    owned.state.to_owned(),
                    text(&owned.acquired_at),
                    text(&owned.last_renewed_at),
                    text(&owned.uncertain_since),
                    preferred.map_or_else(|| "-".to_owned(), ToString::to_string),
                ];
                rows.push(first.iter().cloned().chain(more).collect());
            }
        }
        let headings =
            ["NODE", "STATUS", "SESSION", "STATE", "ACQUIRED", "RENEWED", "UNCERTAIN SINCE", "GOES TO"];
        let mut sheet = print::Sheet::default();
        sheet.table(&headings, rows);
        sheet
    }
}

fn node(id: &MemberId, status: &'static str, me: Option<&MemberId>) -> Node {
    Node { instance_id: id.clone(), is_this_instance: Some(id) == me, status, owned_sessions: Vec::new() }
}
