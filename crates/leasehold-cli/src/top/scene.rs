//! What `top` knows: a pool, looked at again and again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Moment, SystemClock};
use leasehold::ledger::{Entry, Event};
use leasehold::operate::Act;
use leasehold::plan::Plan;
use leasehold::store::{MarkKind, SERVER_POOL, Store};
use leasehold::view::View;
use leasehold::{MemberId, MemberName, Pool, ResourceId};

use crate::failure::{Failure, code};

/// How many rows of the ledger are read at once, and how many are kept.
const ROWS: usize = 1000;
const FEED_MAX: usize = 200;

/// Which list the keys move in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Focus {
    Members,
    Resources,
}

/// What resources are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Id,
    Owner,
    State,
}

#[derive(Debug, Clone)]
pub(crate) struct MemberRow {
    pub(crate) id: MemberId,
    pub(crate) name: MemberName,
    pub(crate) held: u64,
    pub(crate) share: String,
    pub(crate) silent: Option<Duration>,
    pub(crate) ttl: Duration,
    pub(crate) version: String,
    pub(crate) state: Vec<&'static str>,
}

#[derive(Debug, Clone)]
pub(crate) struct ResourceRow {
    pub(crate) id: ResourceId,
    pub(crate) owner: Option<String>,
    pub(crate) token: Option<u64>,
    pub(crate) state: &'static str,
    pub(crate) why: String,
}

/// A pool as it is shown.
pub(crate) struct Scene {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) url: String,
    pub(crate) pool: Pool,
    pub(crate) pools: Vec<Pool>,
    view: View,
    /// The beat of each member and since when it has been that, by our own clock.
    heard: HashMap<MemberId, (u64, Option<Moment>)>,
    names: HashMap<MemberId, MemberName>,
    pub(crate) feed: VecDeque<Entry>,
    after: u64,
    pub(crate) members: Vec<MemberRow>,
    resources: Vec<ResourceRow>,
    pub(crate) frozen: bool,
    pub(crate) focus: Focus,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    pub(crate) at: [usize; 2],
    pub(crate) said: String,
    pub(crate) answered: Moment,
    /// Why nothing new is known.
    pub(crate) trouble: Option<String>,
}

impl Scene {
    pub(crate) async fn new(store: Arc<dyn Store>, url: String, pool: Option<Pool>) -> Result<Self, Failure> {
        let mut pools = store.pools().await?;
        pools.retain(|pool| pool.as_str() != SERVER_POOL);
        let nothing = || {
            let said = "the store has no pool yet; name the one to wait for with --pool, or start a member";
            Failure::new(code::NO, said)
        };
        let pool = pool.or_else(|| pools.first().cloned()).ok_or_else(nothing)?;
        if pool.as_str() == SERVER_POOL {
            return Err(Failure::usage(format!("{pool} holds the control plane's own records and no work")));
        }
        Ok(Self {
            view: View::new(pool.clone()),
            store,
            url,
            pool,
            pools,
            heard: HashMap::new(),
            names: HashMap::new(),
            feed: VecDeque::new(),
            after: 0,
            members: Vec::new(),
            resources: Vec::new(),
            frozen: false,
            focus: Focus::Members,
            sort: Sort::Id,
            filter: String::new(),
            at: [0, 0],
            said: String::new(),
            answered: clock::now(),
            trouble: None,
        })
    }

    /// Looks at everything.
    pub(crate) async fn look(&mut self) {
        match self.read().await {
            Ok(()) => {
                self.answered = clock::now();
                self.trouble = None;
            }
            Err(failure) => self.trouble = Some(failure.to_string()),
        }
    }

    async fn read(&mut self) -> Result<(), Failure> {
        let seen = self.view.refresh(&*self.store, &SystemClock).await?;
        let rows = self.store.ledger(&self.pool, None, self.after, ROWS).await?;
        for (row, entry) in rows {
            self.after = row;
            self.names.insert(entry.member.clone(), entry.name.clone());
            if !matches!(entry.event, Event::Renewed | Event::Accepted) {
                self.feed.push_back(entry);
            }
        }
        let surplus = self.feed.len().saturating_sub(FEED_MAX);
        self.feed.drain(..surplus);
        self.hear(seen.at);
        self.frozen = self.view.era().is_some_and(|era| era.frozen);
        let facts = self.view.facts(usize::MAX);
        let plan = Plan::compute(&facts);
        self.members = self.member_rows(&plan);
        self.resources = self.resource_rows(&facts.resources, &plan);
        for (at, length) in self.at.iter_mut().zip([self.members.len(), self.resources.len()]) {
            *at = (*at).min(length.saturating_sub(1));
        }
        Ok(())
    }

    fn hear(&mut self, at: Moment) {
        for (id, session) in self.view.sessions() {
            match self.heard.get_mut(id) {
                Some((beat, _)) if *beat == session.beat.0 => {}
                Some(heard) => *heard = (session.beat.0, Some(at)),
                None => drop(self.heard.insert(id.clone(), (session.beat.0, None))),
            }
        }
        self.heard.retain(|id, _| self.view.sessions().contains_key(id));
    }

    fn member_rows(&self, plan: &Plan) -> Vec<MemberRow> {
        let living = self.view.sessions().values().filter(|session| !session.ended);
        let mut rows: Vec<MemberRow> = living
            .map(|session| {
                let profile = &session.profile;
                let marked = |kind| self.view.mark(kind, profile.name.as_str()).is_some();
                let states = [
                    (self.view.is_drained(profile.name.as_str()), "drained"),
                    (marked(MarkKind::Cordon), "cordoned"),
                    (profile.leaving, "leaving"),
                    (!profile.ready, "not ready"),
                    (!profile.settled, "settling"),
                ];
                let quota = plan.quota(&session.id);
                let heard = self.heard.get(&session.id).and_then(|(_, since)| *since);
                MemberRow {
                    id: session.id.clone(),
                    name: profile.name.clone(),
                    held: plan.load(&session.id),
                    share: match quota.floor == quota.ceiling {
                        true => quota.floor.to_string(),
                        false => format!("{}-{}", quota.floor, quota.ceiling),
                    },
                    silent: heard.map(|since| clock::now().since(since)),
                    ttl: session.ttl,
                    version: profile.version.clone().unwrap_or_default(),
                    state: states.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect(),
                }
            })
            .collect();
        rows.sort_by(|one, two| (&one.name, &one.id).cmp(&(&two.name, &two.id)));
        rows
    }

    fn resource_rows(&self, resources: &[leasehold::plan::Resource], plan: &Plan) -> Vec<ResourceRow> {
        let goes: HashMap<&ResourceId, &MemberId> = plan
            .moves()
            .iter()
            .map(|step| (&step.resource, &step.to))
            .chain(plan.placements().iter().map(|step| (&step.resource, &step.to)))
            .collect();
        let nobody: HashMap<&ResourceId, String> =
            plan.unplaceable().iter().map(|step| (&step.resource, step.reason.to_string())).collect();
        let row = |resource: &leasehold::plan::Resource| {
            let lease = self.view.leases().get(&resource.id);
            let to = goes.get(&resource.id).map(|to| format!("goes to {}", self.name_of(to)));
            let pinned = resource.pinned.as_ref().map(|name| format!("pinned to {name}"));
            let state = match &resource.holder {
                _ if resource.paused => "paused",
                None => "free",
                Some(_) if lease.is_some_and(|lease| lease.revoked) => "revoked",
                Some(_) if to.is_some() => "moving",
                Some(_) => "owned",
            };
            let why: Vec<String> =
                [to, nobody.get(&resource.id).cloned(), pinned].into_iter().flatten().collect();
            ResourceRow {
                id: resource.id.clone(),
                owner: resource.holder.as_ref().map(|holder| self.name_of(holder)),
                token: lease.map(|lease| lease.token.0),
                state,
                why: why.join(", "),
            }
        };
        resources.iter().map(row).collect()
    }

    /// A member's name, or its id if it is not known.
    pub(crate) fn name_of(&self, member: &MemberId) -> String {
        let known = self.view.sessions().get(member).map(|session| &session.profile.name);
        known.or_else(|| self.names.get(member)).map_or_else(|| member.to_string(), ToString::to_string)
    }

    /// The resources that the filter lets through, in order, and how many there are in all.
    pub(crate) fn resources(&self) -> (Vec<&ResourceRow>, usize) {
        let wanted = self.filter.to_lowercase();
        let found = |row: &&ResourceRow| {
            let owner = row.owner.as_deref().unwrap_or("nobody");
            let texts = [row.id.as_str(), owner, row.state, &row.why];
            texts.iter().any(|text| text.to_lowercase().contains(&wanted))
        };
        let mut rows: Vec<&ResourceRow> = self.resources.iter().filter(found).collect();
        rows.sort_by(|one, two| {
            let by = match self.sort {
                Sort::Id => std::cmp::Ordering::Equal,
                Sort::Owner => one.owner.cmp(&two.owner),
                Sort::State => (one.owner.is_some(), one.state).cmp(&(two.owner.is_some(), two.state)),
            };
            by.then_with(|| one.id.cmp(&two.id))
        });
        (rows, self.resources.len())
    }

    /// How many resources somebody owns.
    pub(crate) fn owned(&self) -> usize {
        self.resources.iter().filter(|row| row.owner.is_some()).count()
    }

    /// Moves the selection.
    pub(crate) fn go(&mut self, places: isize) {
        let length = match self.focus {
            Focus::Members => self.members.len(),
            Focus::Resources => self.resources().0.len(),
        };
        let at = &mut self.at[self.focus as usize];
        *at = at.saturating_add_signed(places).min(length.saturating_sub(1));
    }

    pub(crate) fn member(&self) -> Option<&MemberRow> {
        self.members.get(self.at[Focus::Members as usize])
    }

    pub(crate) fn resource(&self) -> Option<&ResourceRow> {
        self.resources().0.get(self.at[Focus::Resources as usize]).copied()
    }

    /// The act that a letter stands for, on what is selected.
    pub(crate) fn act(&self, letter: char) -> Result<Act, &'static str> {
        let member = self.member().filter(|_| self.focus == Focus::Members);
        let resource = self.resource().filter(|_| self.focus == Focus::Resources);
        match (letter, member, resource) {
            ('d', Some(MemberRow { name, state, .. }), _) => Ok(match state.contains(&"drained") {
                true => Act::Undrain { member: name.clone() },
                false => Act::Drain { member: name.clone() },
            }),
            ('c', Some(MemberRow { name, state, .. }), _) => Ok(match state.contains(&"cordoned") {
                true => Act::Uncordon { member: name.clone() },
                false => Act::Cordon { member: name.clone() },
            }),
            ('d' | 'c', None, _) => Err("select a member first (tab)"),
            ('P', _, Some(ResourceRow { id, state, .. })) => Ok(match *state {
                "paused" => Act::Resume { resource: id.clone() },
                _ => Act::Pause { resource: id.clone() },
            }),
            ('u', _, Some(row)) => Ok(Act::Unpin { resource: row.id.clone() }),
            ('v', _, Some(row)) => Ok(Act::Revoke { resource: row.id.clone() }),
            ('r', ..) => Ok(Act::Resign),
            _ => Err("select a resource first (tab)"),
        }
    }

    /// Goes on to the next pool.
    pub(crate) async fn next_pool(&mut self) -> Result<(), Failure> {
        self.pools = self.store.pools().await?;
        self.pools.retain(|pool| pool.as_str() != SERVER_POOL);
        let here = self.pools.iter().position(|pool| *pool == self.pool);
        let next = here.map_or(0, |here| (here + 1) % self.pools.len().max(1));
        if let Some(pool) = self.pools.get(next).cloned() {
            self.view = View::new(pool.clone());
            self.pool = pool;
            self.feed.clear();
            self.heard.clear();
            (self.after, self.at) = (0, [0, 0]);
            self.look().await;
        }
        Ok(())
    }
}
