//! Real members that share a pool: how long it takes until somebody else works, or until all know.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Moment};
use leasehold::participant::{Running, Settings};
use leasehold::store::Store;
use leasehold::{Participant, Pool, ResourceId};
use tokio::task::JoinSet;

use super::caller::Caller;
use super::figure::Figure;
use super::ground::{Ground, names};
use super::journal::{Change, Journal};
use super::line::Line;
use crate::args::BenchArgs;
use crate::failure::{Failure, code};
use crate::progress::Progress;

/// How long anything that members do may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same where many members share out many resources.
const PATIENCE_COLD: Duration = Duration::from_secs(900);
/// The TTL where nothing is to wait for it.
const TTL: Duration = Duration::from_secs(30);
/// How many fall silent at once in a failover, and how many are left at least.
const VICTIMS: usize = 8;
const SURVIVORS: usize = 2;

/// Members with their lines and what they do.
struct Crew {
    members: Vec<(Running, Line)>,
    journal: Journal,
}

impl Crew {
    async fn start(
        ground: &Ground,
        pool: &Pool,
        (members, ttl): (usize, Duration),
        resources: &[ResourceId],
    ) -> Result<Self, Failure> {
        let mut crew = Self { members: Vec::new(), journal: Journal::new() };
        for (who, (store, line)) in ground.lines(members).await?.into_iter().enumerate() {
            let member = member(store, pool, ttl, resources, (who, &crew.journal)).await?;
            crew.members.push((member, line));
        }
        Ok(crew)
    }

    async fn leave(self) {
        let mut leaving: JoinSet<()> = self.members.into_iter().map(|(member, _)| member.leave()).collect();
        while leaving.join_next().await.is_some() {}
    }
}

/// A member that moves work at once, so that only the move itself is timed.
async fn member(
    store: Arc<dyn Store>,
    pool: &Pool,
    ttl: Duration,
    resources: &[ResourceId],
    (who, journal): (usize, &Journal),
) -> Result<Running, Failure> {
    let settings = Settings { hold_min: Duration::ZERO, settle: Duration::ZERO, ..Settings::with_ttl(ttl) };
    let journal = journal.clone();
    let member = Participant::join(store, pool.clone())
        .name(format!("bench-{who}"))?
        .settings(settings)
        .resources(resources.iter().map(ResourceId::as_str))?
        .start(move |lease| journal.clone().work(who, lease));
    Ok(member.await?)
}

async fn patiently(what: &str, patience: Duration, waited: impl Future<Output = ()>) -> Result<(), Failure> {
    tokio::time::timeout(patience, waited).await.map_err(|_| {
        let said =
            format!("{what} did not happen within {patience:?}; is the store or this machine overloaded?");
        Failure::new(code::TEMPORARY, said)
    })
}

/// Two members hand one resource to and fro. Timed from the end of the one's work to the first step of the other's.
pub(super) async fn handoff(
    args: &BenchArgs,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    let (pool, resources) = (ground.pool("handoff")?, names("r", 0, 1)?);
    let crew = Crew::start(ground, &pool, (2, TTL), &resources).await?;
    let journal = &crew.journal;
    patiently("the first grant", PATIENCE, journal.until(|journal| journal.owned() == 1)).await?;
    // Both know each other before it begins.
    for (member, _) in &crew.members {
        let mut status = member.status();
        let known = async { drop(status.wait_for(|status| status.members == 2).await) };
        patiently("two members", PATIENCE, known).await?;
    }
    progress.now("handoffs");
    progress.of(args.turns as usize);
    let (before, began) = (ground.tally.calls(), clock::now());
    for turn in 0..args.turns as usize {
        let giver = journal.owner(&resources[0]).unwrap_or_default();
        crew.members[giver].0.set_ready(false);
        patiently("a handoff", PATIENCE, journal.until(|journal| journal.changes().len() > turn)).await?;
        crew.members[giver].0.set_ready(true);
        progress.more(1);
    }
    let (took, calls) = (clock::now().since(began), ground.tally.calls() - before);
    let gap = |change: Change| change.began.since(change.ended.unwrap_or(change.began));
    let gaps: Vec<Duration> = journal.changes().into_iter().map(gap).collect();
    let figure = Figure::whole("handoff, last step to first step", gaps.len() as u64, took, calls).each(gaps);
    crew.leave().await;
    Ok(vec![figure])
}

/// Members fall silent right after a heartbeat. Timed from then to the first step of whoever takes over, less the TTL.
pub(super) async fn failover(
    args: &BenchArgs,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    let (mut late, mut spent, mut calls) = (Vec::new(), Duration::ZERO, 0);
    progress.now("failovers");
    progress.of(args.turns as usize);
    while late.len() < args.turns as usize {
        let (before, began) = (ground.tally.calls(), clock::now());
        let round = fall_silent(args, ground, &format!("failover-{}", late.len())).await?;
        progress.more(round.len());
        spent += clock::now().since(began);
        calls += ground.tally.calls() - before;
        late.extend(round);
    }
    let what = format!("failover, beyond the TTL of {:?}", args.ttl);
    Ok(vec![Figure::whole(what, late.len() as u64, spent, calls).each(late)])
}

/// One group, of which most fall silent.
async fn fall_silent(args: &BenchArgs, ground: &Ground, case: &str) -> Result<Vec<Duration>, Failure> {
    let count = VICTIMS + SURVIVORS;
    let (pool, resources) = (ground.pool(case)?, names("r", 0, count)?);
    let crew = Crew::start(ground, &pool, (count, args.ttl), &resources).await?;
    let everyone_works = |journal: &Journal| {
        journal.owned() == count && journal.owners().into_iter().collect::<BTreeSet<_>>().len() == count
    };
    patiently("one resource for everybody", PATIENCE, crew.journal.until(everyone_works)).await?;
    let before = crew.journal.changes().len();
    crew.members[..VICTIMS].iter().for_each(|(_, line)| line.cut());
    let is_over = |journal: &Journal| journal.owners().into_iter().all(|owner| owner >= VICTIMS);
    let taken = patiently("the takeover", PATIENCE + args.ttl, crew.journal.until(is_over)).await;
    let late = |change: &Change| {
        let cut_at = crew.members[change.from].1.cut_at().filter(|cut_at| *cut_at < change.began)?;
        Some(change.began.since(cut_at.after(args.ttl)))
    };
    let late = crew.journal.changes()[before..].iter().filter_map(late).collect();
    crew.members.iter().for_each(|(_, line)| line.mend());
    taken?;
    crew.leave().await;
    Ok(late)
}

/// Somebody comes, and goes. Timed from the store's answer until the last of the members knows.
pub(super) async fn fan_out(
    args: &BenchArgs,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    let members = args.members as usize;
    let pool = ground.pool("fan-out")?;
    progress.now(format!("{members} members join"));
    let crew = Crew::start(ground, &pool, (members, TTL), &names("r", 0, 1)?).await?;
    all_know(&crew, members).await?;
    progress.now("changes");
    progress.of(args.turns as usize);
    let (mut took, before, began) = (Vec::new(), ground.tally.calls(), clock::now());
    while took.len() < args.turns as usize {
        let guest = Caller::open_idle(&ground.store, &pool).await?;
        let came = clock::now();
        took.push(all_know(&crew, members + 1).await?.since(came));
        guest.close().await?;
        let went = clock::now();
        took.push(all_know(&crew, members).await?.since(went));
        progress.more(2);
    }
    let (spent, calls) = (clock::now().since(began), ground.tally.calls() - before);
    crew.leave().await;
    let what = format!("fan-out of a change to {members} members");
    Ok(vec![Figure::whole(what, took.len() as u64, spent, calls).each(took)])
}

/// When the last member knew that so many are there.
async fn all_know(crew: &Crew, count: usize) -> Result<Moment, Failure> {
    for (member, _) in &crew.members {
        let mut status = member.status();
        let knows = async { drop(status.wait_for(|status| status.members == count).await) };
        patiently("that all know of a change", PATIENCE, knows).await?;
    }
    Ok(clock::now())
}

/// All come at once to a pool that nobody has been in.
pub(super) async fn cold_start(
    args: &BenchArgs,
    ground: &Ground,
    progress: &Progress,
) -> Result<Vec<Figure>, Failure> {
    let (members, count) = (args.members as usize, args.resources as usize);
    let (pool, resources) = (ground.pool("cold-start")?, names("r", 0, count)?);
    progress.now("a cold start");
    progress.of(count);
    let (before, began) = (ground.tally.calls(), clock::now());
    let crew = Crew::start(ground, &pool, (members, TTL), &resources).await?;
    let owned = crew.journal.until(|journal| journal.owned() == count);
    patiently("that everything is owned", PATIENCE_COLD, owned).await?;
    let (took, calls) = (clock::now().since(began), ground.tally.calls() - before);
    progress.now("members leave");
    crew.leave().await;
    let what = format!("cold start, {members} members on {count} resources");
    Ok(vec![Figure::whole(what, count as u64, took, calls)])
}
