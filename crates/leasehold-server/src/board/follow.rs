//! Draws one pool again and again, as it changes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Clock, Moment, SystemClock};
use leasehold::ledger::{Entry, Event};
use leasehold::plan::Plan;
use leasehold::store::{Hints, Store, StoreError};
use leasehold::view::View;
use leasehold::{MemberId, MemberName, Pool};
use tokio::sync::watch as signal;

use super::bars::Bars;
use super::picture::{FeedRow, Picture, Sight};
use crate::levels::moves::{Kind, Moves};

/// How long after a hint it is looked once more: a row of the ledger follows the change that gives the hint. What is hinted at until then
/// waits for that, and for as long as the look before took.
const GATHER: Duration = Duration::from_millis(40);
/// Without a hint the pool is looked at this often.
const PERIOD: Duration = Duration::from_millis(500);
/// How many rows of the ledger one read brings, and how many of them are kept to be shown.
const ROWS: usize = 1000;
const FEED_MAX: usize = 300;
/// How many names of members are remembered, who may be gone.
const NAMES_MAX: usize = 100_000;
/// Of how many moves the longest is told.
const TOOK_MAX: usize = 100;
/// How long a board is drawn after the last one looked: whoever loads the page again has it at once.
const KEPT: Duration = Duration::from_secs(30);
/// A plan takes its time where there is much to share out: no more than this part of it is spent on plans.
const PLAN_SHARE: u32 = 8;

/// All that is known of a pool between two looks.
struct Artist {
    pool: Pool,
    store: Arc<dyn Store>,
    call: Duration,
    view: View,
    plan: Option<Plan>,
    /// When the next plan may be computed.
    plan_at: Moment,
    /// Whether something changed since the last one.
    stale: bool,
    bars: Bars,
    /// The last beat of each member, and when it was first seen by this machine's wall clock; of the first beat that is not known.
    heard: HashMap<MemberId, (u64, Option<u64>)>,
    names: HashMap<MemberId, MemberName>,
    moves: Moves,
    /// How long the last handoffs and failovers took.
    took: [VecDeque<u64>; 2],
    feed: VecDeque<Arc<FeedRow>>,
    /// The last row of the ledger that was read, and whether those before were all.
    after: u64,
    history: bool,
}

/// Draws until nobody has looked for a while.
pub(super) async fn draw(
    pool: Pool,
    store: Arc<dyn Store>,
    call: Duration,
    told: signal::Sender<Arc<Picture>>,
) {
    let mut hints = Some(store.changes(&pool));
    let mut artist = Artist {
        view: View::new(pool.clone()),
        pool,
        store,
        call,
        plan: None,
        plan_at: Moment::default(),
        stale: true,
        bars: Bars::default(),
        heard: HashMap::new(),
        names: HashMap::new(),
        moves: Moves::default(),
        took: Default::default(),
        feed: VecDeque::new(),
        after: 0,
        history: false,
    };
    let mut looked_at = clock::now();
    let mut hinted = false;
    loop {
        // The board itself has one, for those who come.
        if told.receiver_count() > 1 {
            looked_at = clock::now();
        } else if clock::now().since(looked_at) > KEPT {
            return;
        }
        let before = Arc::clone(&told.borrow());
        let began = clock::now();
        let (picture, more) = match artist.look(&before).await {
            Ok((picture, more)) => (picture, more),
            Err(error) if before.head.trouble.is_none() => {
                (Some(Picture::troubled(&before, error.to_string())), false)
            }
            Err(_) => (None, false),
        };
        if let Some(picture) = picture {
            told.send_replace(Arc::new(picture));
        }
        if hinted && !more {
            // What changed is shown already; this brings what the ledger says about it.
            tokio::time::sleep(GATHER.max(clock::now().since(began))).await;
            hinted = false;
        } else if !more {
            hinted = wait(&mut hints).await;
        }
    }
}

/// Waits for a hint, but not for ever; says whether there was one.
async fn wait(hints: &mut Option<Hints>) -> bool {
    let hinted = async {
        match hints {
            Some(hints) => std::future::poll_fn(|context| hints.as_mut().poll_next(context)).await.is_some(),
            None => std::future::pending().await,
        }
    };
    match tokio::time::timeout(PERIOD, hinted).await {
        Ok(true) => return true,
        // Hints end with the store only; what is left is to look now and then.
        Ok(false) => *hints = None,
        Err(_) => {}
    }
    false
}

impl Artist {
    /// Looks; answers the picture, if it is another, and whether there is more of the ledger to read at once.
    async fn look(&mut self, before: &Picture) -> Result<(Option<Picture>, bool), StoreError> {
        let late = |_| StoreError::unavailable(format!("the store gave no answer within {:?}", self.call));
        let reading = self.view.refresh(&*self.store, &SystemClock);
        let seen = tokio::time::timeout(self.call, reading).await.map_err(late)??;
        let news = seen.news.any();
        self.stale |= news;
        let beats = self.hear();
        // The first picture waits neither for the ledger, which may be long, nor for a plan.
        let first = before.number == 0;
        let rows = if first { 0 } else { self.read().await? };
        let more = first || rows == ROWS;
        let history = self.history;
        self.history |= !first && !more;
        let facts = self.view.facts(usize::MAX);
        let now = clock::now();
        let planned = !first && self.stale && now >= self.plan_at;
        if planned {
            self.plan = Some(Plan::compute(&facts));
            let after = clock::now();
            self.plan_at = after.after(after.since(now) * PLAN_SHARE);
            self.stale = false;
        }
        let healed = before.head.trouble.is_some();
        let changed = first || news || planned || beats || rows > 0 || healed || history != self.history;
        if !changed {
            return Ok((None, more));
        }
        let sight = Sight {
            view: &self.view,
            facts: &facts,
            plan: self.plan.as_ref(),
            bars: &self.bars,
            heard: &self.heard,
            worst: [0, 1].map(|kind: usize| self.took[kind].iter().copied().max()),
            history: self.history,
        };
        Ok((Some(Picture::after(before, &sight, self.feed.iter().cloned().collect())), more))
    }

    /// Notes new beats; says whether there were any.
    fn hear(&mut self) -> bool {
        let now = SystemClock.wall_nanos() / 1_000_000;
        let mut any = false;
        self.heard.retain(|id, _| self.view.sessions().contains_key(id));
        for (id, session) in self.view.sessions().iter().filter(|(_, session)| !session.ended) {
            let beat = session.beat.0;
            match self.heard.get_mut(id) {
                Some((known, _)) if *known == beat => {}
                Some(heard) => {
                    *heard = (beat, Some(now));
                    any = true;
                }
                None => {
                    self.heard.insert(id.clone(), (beat, None));
                }
            }
        }
        any
    }

    /// Reads on in the ledger; answers how many rows there were.
    async fn read(&mut self) -> Result<usize, StoreError> {
        let late = |_| StoreError::unavailable(format!("the store gave no answer within {:?}", self.call));
        let reading = self.store.ledger(&self.pool, None, self.after, ROWS);
        let rows = tokio::time::timeout(self.call, reading).await.map_err(late)??;
        for (row, entry) in &rows {
            self.after = *row;
            if self.names.len() > NAMES_MAX {
                self.names.clear();
            }
            self.names.insert(entry.member.clone(), entry.name.clone());
            self.bars.take(entry);
            if let Some(moved) = self.moves.take(entry) {
                let took = &mut self.took[usize::from(moved.kind == Kind::Failover)];
                took.push_back(u64::try_from(moved.took.as_millis()).unwrap_or(u64::MAX));
                let surplus = took.len().saturating_sub(TOOK_MAX);
                took.drain(..surplus);
            }
            if let Some(told) = self.told(*row, entry) {
                self.feed.push_back(Arc::new(told));
            }
        }
        let surplus = self.feed.len().saturating_sub(FEED_MAX);
        self.feed.drain(..surplus);
        Ok(rows.len())
    }

    /// A row for people; none of heartbeats, which are too many.
    fn told(&self, row: u64, entry: &Entry) -> Option<FeedRow> {
        if matches!(entry.event, Event::Renewed | Event::Accepted) {
            return None;
        }
        let name = |id: &MemberId| self.names.get(id).map_or_else(|| id.to_string(), ToString::to_string);
        let reason = entry.reason.map(|reason| reason.to_string());
        let parts = [reason, entry.detail.clone(), entry.error.clone()];
        let detail: Vec<String> = parts.into_iter().flatten().collect();
        Some(FeedRow {
            row,
            at: entry.wall_nanos / 1_000_000,
            event: entry.event.as_str(),
            name: entry.name.to_string(),
            resource: entry.resource.as_ref().map(ToString::to_string),
            token: entry.token.map(|token| token.0),
            other: entry.other.as_ref().map(name),
            detail: (!detail.is_empty()).then(|| detail.join(", ")),
        })
    }
}
