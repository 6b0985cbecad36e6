//! Where a benchmark takes place: pools with a random name of their own, and the lines to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use leasehold::lease::{MemberId, Nonce};
use leasehold::store::around::Around;
use leasehold::store::{Cursor, LeaseStore, Store, StoreUrl, open};
use leasehold::{Pool, ResourceId};

use super::caller::frozen;
use super::line::{Line, Tally};
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::inspect::open_existing;

/// More members than this share connections, so that no server is asked for more than it usually lets in.
const HANDLES_MAX: usize = 16;

/// The store and what was done to it.
pub(super) struct Ground {
    url: StoreUrl,
    /// What all pools of this run begin with.
    pub(super) name: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) tally: Tally,
    pools: Mutex<Vec<Pool>>,
}

impl Ground {
    pub(super) async fn open(args: &StoreArgs) -> Result<Self, Failure> {
        let (inner, tally) = (open_existing(args).await?, Tally::default());
        let store = Arc::new(Around::with(inner, Line::new(&tally)));
        let name = format!("bench-{}", Nonce::generate());
        // Members would wait for a thaw, and that would be measured.
        if store.sessions(&named(&name)?, Cursor::START).await?.era.frozen {
            return Err(frozen());
        }
        Ok(Self { url: args.store.clone(), name, store, tally, pools: Mutex::default() })
    }

    /// A pool for one case.
    pub(super) fn pool(&self, case: &str) -> Result<Pool, Failure> {
        let pool = named(&format!("{}-{case}", self.name))?;
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).push(pool.clone());
        Ok(pool)
    }

    /// The most that one call may carry.
    pub(super) fn batch(&self) -> usize {
        self.store.capabilities().batch_max
    }

    /// Lines for so many members, each with connections of its own as far as that is reasonable.
    pub(super) async fn lines(&self, members: usize) -> Result<Vec<(Arc<dyn Store>, Line)>, Failure> {
        let mut handles = Vec::new();
        for _ in 0..members.min(HANDLES_MAX) {
            handles.push(open(&self.url).await?);
        }
        let line = |number: usize| {
            let line = Line::new(&self.tally);
            let store: Arc<dyn Store> =
                Arc::new(Around::with(Arc::clone(&handles[number % handles.len()]), line.clone()));
            (store, line)
        };
        Ok((0..members).map(line).collect())
    }

    /// Takes away what can be taken away. Answers how many records stay: of resources, with their last tokens, because a
    /// token must never be given out again.
    pub(super) async fn clear(&self) -> Result<usize, Failure> {
        let pools = std::mem::take(&mut *self.pools.lock().unwrap_or_else(PoisonError::into_inner));
        let mut stay = 0;
        for pool in pools {
            let sessions = self.store.sessions(&pool, Cursor::START).await?.items;
            for session in &sessions {
                self.store.close(&session.id).await?;
            }
            let leases = self.store.leases(&pool, Cursor::START).await?.items;
            let mut held: BTreeMap<MemberId, Vec<ResourceId>> = BTreeMap::new();
            stay += leases.len();
            for lease in leases {
                if let Some(holder) = lease.holder {
                    held.entry(holder).or_default().push(lease.resource);
                }
            }
            for session in &sessions {
                let held = held.remove(&session.id).unwrap_or_default();
                self.store.collect_known(&session.id, &held).await?;
            }
            self.store.collect_listings(&pool).await?;
        }
        Ok(stay)
    }
}

fn named(pool: &str) -> Result<Pool, Failure> {
    Pool::new(pool).map_err(|error| Failure::usage(error.to_string()))
}

/// Names that nobody has used before in the pool, `beginning` with something of the caller's own.
pub(super) fn names(beginning: &str, from: usize, count: usize) -> Result<Vec<ResourceId>, Failure> {
    let name = |number| ResourceId::new(format!("{beginning}{number:07}"));
    let names: Result<Vec<ResourceId>, _> = (from..from + count).map(name).collect();
    names.map_err(|error| Failure::usage(error.to_string()))
}
