//! Looking: status, show, plan, explain, events. Nothing here changes anything.

mod events;
pub(crate) mod nodes;
mod plan;
mod show;
mod status;

use std::sync::Arc;

use leasehold::clock::SystemClock;
use leasehold::lease::MemberId;
use leasehold::ledger::Entry;
use leasehold::store::{SERVER_POOL, Store, StoreUrl, open};
use leasehold::view::View;
use leasehold::{Pool, ResourceId};

pub(crate) use events::events;
pub(crate) use plan::{explain, plan, shifts};
pub(crate) use show::show;
pub(crate) use status::status;

use crate::args::StoreArgs;
use crate::failure::{Failure, code};
use crate::progress::Progress;

/// How many rows of the ledger one read brings.
const PAGE: usize = 1000;

/// Opens a store that is already there: a mistyped path must not create one.
pub(crate) async fn open_existing(args: &StoreArgs) -> Result<Arc<dyn Store>, Failure> {
    open_url(&args.store).await
}

/// The same, by its URL.
pub(crate) async fn open_url(url: &StoreUrl) -> Result<Arc<dyn Store>, Failure> {
    match url {
        StoreUrl::Sqlite(path) if !path.exists() => {
            let said = format!(
                "there is no store at {}; check the path, or start a member, which creates it",
                path.display()
            );
            Err(Failure::new(code::NO, said))
        }
        StoreUrl::Memory => Err(Failure::usage(
            "memory: lives within one process; name a store that others share, as in sqlite:work.db",
        )),
        url => {
            let _progress = Progress::begin("opening the store");
            Ok(open(url).await?)
        }
    }
}

/// Reads a pool.
pub(crate) async fn view(store: &Arc<dyn Store>, pool: &Pool) -> Result<View, Failure> {
    refuse_own(pool)?;
    let _progress = Progress::begin(format!("reading the pool {pool}"));
    let mut view = View::new(pool.clone());
    view.refresh(&**store, &SystemClock).await?;
    Ok(view)
}

/// Reads the ledger of a pool, or of one resource in it, page by page to its end. Answers where that is: a later read
/// goes on after it.
pub(crate) async fn read_ledger(
    store: &Arc<dyn Store>,
    (pool, resource): (&Pool, Option<&ResourceId>),
    mut after: u64,
    mut each: impl FnMut(Vec<Entry>) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    refuse_own(pool)?;
    let progress = Progress::begin(format!("reading the ledger of {pool}, row"));
    loop {
        let page = store.ledger(pool, resource, after, PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(after) };
        after = *last;
        progress.more(page.len());
        each(page.into_iter().map(|(_, entry)| entry).collect())?;
    }
}

/// Refuses the control plane's own pool: what is in it, hashes of keys among others, is not for eyes.
fn refuse_own(pool: &Pool) -> Result<(), Failure> {
    if pool.as_str() != SERVER_POOL {
        return Ok(());
    }
    let said = format!(
        "{pool} holds the control plane's own records and no work; `leasehold keys list` shows its keys, and `leasehold \
         status` the pools that there are"
    );
    Err(Failure::usage(said))
}

/// Refuses a pool that the store has never heard of.
async fn check_pool(store: &Arc<dyn Store>, pool: &Pool) -> Result<(), Failure> {
    refuse_own(pool)?;
    let pools = store.pools().await?;
    if pools.contains(pool) {
        return Ok(());
    }
    let known: Vec<&str> = pools.iter().map(Pool::as_str).collect();
    let known =
        if known.is_empty() { "it has none yet".to_owned() } else { format!("it has {}", known.join(", ")) };
    Err(Failure::new(code::NO, format!("the store has no pool {pool}; {known}")))
}

/// How many of something there are.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A member's name for people, or its id if it is gone.
fn name_of(view: &View, member: &MemberId) -> String {
    view.sessions().get(member).map_or_else(|| member.to_string(), |session| session.profile.name.to_string())
}
