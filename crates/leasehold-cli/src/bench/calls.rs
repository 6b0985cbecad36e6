//! Calls that a member makes, as fast as the store answers them.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::Pool;
use leasehold::clock::{self, Moment};
use tokio::task::JoinSet;

use super::caller::Caller;
use super::figure::Figure;
use super::ground::{Ground, names};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::progress::Progress;

/// How many send whole batches at once: more would only wait for each other.
const BATCH_CALLERS: usize = 4;
/// How many resources are fought for.
const CONTENDED: usize = 8;
/// The sizes at which heartbeats are timed, as far as they are asked for.
const SIZES: [usize; 4] = [1, 1000, 100_000, 1_000_000];

/// What one caller did: how often, and how long each time.
#[derive(Debug, Default)]
struct Done {
    count: u64,
    took: Vec<Duration>,
}

impl Done {
    /// Times one call that did so many things.
    async fn call(&mut self, call: impl Future<Output = Result<usize, Failure>>) -> Result<(), Failure> {
        let began = clock::now();
        let count = call.await?;
        self.took.push(clock::now().since(began));
        self.count += count as u64;
        Ok(())
    }
}

/// Until when a case goes on, and how many resources it may still use up.
#[derive(Debug, Clone)]
struct Bounds {
    ends: Moment,
    left: Arc<AtomicUsize>,
}

impl Bounds {
    fn new(args: &BenchArgs) -> Self {
        let left = Arc::new(AtomicUsize::new(args.leases as usize));
        Self { ends: clock::now().after(args.round), left }
    }

    fn time_is_up(&self) -> bool {
        clock::now() >= self.ends
    }

    /// So many resources, or fewer, or none.
    fn take(&self, count: usize) -> usize {
        let less = |left: usize| Some(left.saturating_sub(count));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or_default().min(count)
    }
}

/// Has all callers do the same at once, and puts together what they did.
async fn all<F, W>(
    case: &str,
    ground: &Ground,
    callers: Vec<Caller>,
    work: F,
) -> Result<(Figure, Vec<Caller>), Failure>
where
    F: Fn(usize, Caller) -> W,
    W: Future<Output = Result<(Done, Caller), Failure>> + Send + 'static,
{
    let (before, began) = (ground.tally.calls(), clock::now());
    let mut tasks: JoinSet<_> =
        callers.into_iter().enumerate().map(|(number, caller)| work(number, caller)).collect();
    let (mut sum, mut back) = (Done::default(), Vec::new());
    while let Some(ended) = tasks.join_next().await {
        let (done, caller) = ended.map_err(|error| Failure::system("a caller ended", &error))??;
        sum.count += done.count;
        sum.took.extend(done.took);
        back.push(caller);
    }
    let (took, calls) = (clock::now().since(began), ground.tally.calls() - before);
    Ok((Figure::whole(case, sum.count, took, calls).each(sum.took), back))
}

async fn callers(ground: &Ground, pool: &Pool, count: usize) -> Result<Vec<Caller>, Failure> {
    let mut callers = Vec::new();
    for _ in 0..count {
        callers.push(Caller::open(&ground.store, pool).await?);
    }
    Ok(callers)
}

async fn leave(ground: &Ground, callers: Vec<Caller>) -> Result<(), Failure> {
    for caller in callers {
        caller.leave(ground.batch()).await?;
    }
    Ok(())
}

/// Fresh resources, so many in each call.
async fn fresh(
    (case, count, batch): (&str, usize, usize),
    args: &BenchArgs,
    ground: &Ground,
) -> Result<Figure, Failure> {
    let pool = ground.pool(case)?;
    let callers = callers(ground, &pool, count).await?;
    let bounds = Bounds::new(args);
    let what = match batch {
        1 => format!("acquire, one a call, {count} callers"),
        batch => format!("acquire, {batch} a call, {count} callers"),
    };
    let work = |number: usize, mut caller: Caller| {
        let bounds = bounds.clone();
        async move {
            let (mut done, mut from) = (Done::default(), 0);
            while !bounds.time_is_up() {
                let count = bounds.take(batch);
                if count == 0 {
                    break;
                }
                let wanted = names(&format!("r{number:03}-"), from, count)?;
                from += count;
                done.call(caller.acquire(wanted)).await?;
            }
            Ok((done, caller))
        }
    };
    let (figure, callers) = all(&what, ground, callers, work).await?;
    leave(ground, callers).await?;
    Ok(figure)
}

pub(super) async fn acquire(args: &BenchArgs, ground: &Ground) -> Result<Vec<Figure>, Failure> {
    Ok(vec![fresh(("acquire", args.callers as usize, 1), args, ground).await?])
}

pub(super) async fn batch(args: &BenchArgs, ground: &Ground) -> Result<Vec<Figure>, Failure> {
    let callers = BATCH_CALLERS.min(args.callers as usize);
    Ok(vec![fresh(("batch", callers, ground.batch()), args, ground).await?])
}

/// All want the same few; whoever gets one gives it back at once.
pub(super) async fn contended(args: &BenchArgs, ground: &Ground) -> Result<Vec<Figure>, Failure> {
    let pool = ground.pool("contended")?;
    let callers = callers(ground, &pool, args.callers as usize).await?;
    let bounds = Bounds::new(args);
    let what = format!("acquire, contended, {} callers for {CONTENDED} resources", args.callers);
    let work = |number: usize, mut caller: Caller| {
        let bounds = bounds.clone();
        async move {
            let (mut done, mut turn) = (Done::default(), number);
            while !bounds.time_is_up() {
                // Asked is counted, granted or not.
                done.call(async { caller.acquire(names("r", turn % CONTENDED, 1)?).await.map(|_| 1) })
                    .await?;
                if !caller.held.is_empty() {
                    caller.release(1).await?;
                }
                turn += 1;
            }
            Ok((done, caller))
        }
    };
    let (figure, callers) = all(&what, ground, callers, work).await?;
    leave(ground, callers).await?;
    Ok(vec![figure])
}

/// Has a caller hold so many.
async fn fill(caller: &mut Caller, count: usize, batch: usize, progress: &Progress) -> Result<(), Failure> {
    progress.now("taking leases");
    progress.of(count);
    progress.more(caller.held.len());
    while caller.held.len() < count {
        let wanted = names("r", caller.held.len(), batch.min(count - caller.held.len()))?;
        progress.more(caller.acquire(wanted).await?);
    }
    Ok(())
}

/// One heartbeat after the other, by a session that holds more and more.
pub(super) async fn heartbeat(
    args: &BenchArgs,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    let mut caller = Caller::open(&ground.store, &ground.pool("heartbeat")?).await?;
    let most = args.leases as usize;
    let mut sizes: Vec<usize> = SIZES.into_iter().filter(|size| *size < most).collect();
    sizes.push(most);
    let mut figures = Vec::new();
    for size in sizes {
        fill(&mut caller, size, ground.batch(), progress).await?;
        progress.now(format!("heartbeats with {size} leases"));
        let (bounds, what) = (Bounds::new(args), format!("heartbeat, {size} held"));
        let (figure, mut back) = all(&what, ground, vec![caller], |_, mut caller| {
            let bounds = bounds.clone();
            async move {
                let mut done = Done::default();
                while !bounds.time_is_up() {
                    done.call(async { caller.beat().await.map(|()| 1) }).await?;
                }
                Ok((done, caller))
            }
        })
        .await?;
        figures.push(figure);
        let Some(same) = back.pop() else { return Ok(figures) };
        caller = same;
    }
    leave(ground, vec![caller]).await?;
    Ok(figures)
}

/// First one a call for half of the round, then the rest in batches.
pub(super) async fn release(
    args: &BenchArgs,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    let mut callers = callers(ground, &ground.pool("release")?, 1).await?;
    for caller in &mut callers {
        fill(caller, args.leases as usize, ground.batch(), progress).await?;
    }
    progress.now("giving leases back");
    let most = args.leases as usize / 2;
    let mut figures = Vec::new();
    for (batch, least) in [(1, args.leases as usize - most), (ground.batch(), 0)] {
        let what = match batch {
            1 => "release, one a call".to_owned(),
            batch => format!("release, {batch} a call"),
        };
        let bounds = Bounds::new(args);
        let work = |_, mut caller: Caller| {
            let bounds = bounds.clone();
            async move {
                let mut done = Done::default();
                while caller.held.len() > least && !(batch == 1 && bounds.time_is_up()) {
                    done.call(caller.release(batch)).await?;
                }
                Ok((done, caller))
            }
        };
        let figure;
        (figure, callers) = all(&what, ground, callers, work).await?;
        figures.push(figure);
    }
    leave(ground, callers).await?;
    Ok(figures)
}
