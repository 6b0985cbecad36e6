//! `elect`: one command, run by whoever leads.
//!
//! A candidate that cannot reach the store is a standby: it never leads on a guess. The command is gone before another can
//! be elected, as the children of `run` are.

mod environment;
mod lead;
mod observe;
mod report;
mod standby;

use std::ffi::OsString;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold::MemberName;
use leasehold::clock::{Clock, SystemClock};
use leasehold::election::{Candidate, Election, Key, Seat};
use leasehold::participant::Settings;
use leasehold::store::{Store, StoreErrorKind, StoreUrl, open};

use self::lead::{Ending, Leader};
use self::report::{Elections, Told};
use self::standby::HotStandby;
use crate::args::ElectArgs;
use crate::children::{self, Home};
use crate::failure::{Failure, chain};
use crate::health::{Health, HealthArgs};
use crate::signals::{Signals, told_to_stop};
use crate::{doctor, log};

/// The first wait before a store that did not answer is tried again; each further one is twice as long.
const WAIT_MIN: Duration = Duration::from_millis(500);
/// The longest.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long an election may take with `--no-wait`.
const ELECTION_MAX: Duration = Duration::from_secs(5);

/// What is to be done, from the command line and the environment.
struct Order {
    url: StoreUrl,
    key: Key,
    name: Option<String>,
    settings: Settings,
    health: HealthArgs,
}

impl Order {
    fn of(args: &ElectArgs) -> Result<Self, Failure> {
        let url = match &args.store {
            Some(url) => url.clone(),
            None => environment::store()?.ok_or_else(|| {
                Failure::usage("there is no store; give --store URL, LEASEHOLD_STORE or ETCD_ENDPOINTS")
            })?,
        };
        let key = match &args.key {
            Some(key) => key.clone(),
            None => environment::key()?.ok_or_else(|| {
                Failure::usage("there is no key; give --key, as in --key /ccm/scheduler/leader")
            })?,
        };
        let name = args.name.as_ref().map(ToString::to_string).or_else(environment::name);
        let mut times = args.times.clone();
        times.ttl = times.ttl.map_or_else(environment::ttl, |ttl| Ok(Some(ttl)))?;
        let settings = times.applied(Settings::for_election());
        settings.check().map_err(|error| Failure::usage(error.to_string()))?;
        let mut health = args.health.clone();
        health.health = health.health.map_or_else(environment::health, |address| Ok(Some(address)))?;
        Ok(Self { url, key, name, settings, health })
    }
}

pub(crate) async fn elect(args: ElectArgs) -> Result<ExitCode, Failure> {
    let _log = log::start(&args.log)?;
    let order = Order::of(&args)?;
    let mut signals = Signals::receive()?;
    if args.observe {
        return observe::observe(&order.url, &order.key, args.json, signals).await;
    }
    let command = command(&args)?;
    children::check(&command)?;
    let health = Health::open(&order.health).await?;
    let store = tokio::select! {
        store = reach(&order, args.no_wait) => store?,
        () = signals.next() => return Ok(ExitCode::SUCCESS),
    };
    doctor::at_start(&*store, args.require_grade).await?;
    let home = Arc::new(Home::open(order.settings.clone()).await?);
    let candidate = Arc::new(candidate(&order, &store).await?);
    let extending = home.extending(candidate.trusted_until());
    let elections = Arc::new(Elections::default());
    let serving = health.map(|health| {
        let told = Told {
            candidate: Arc::clone(&candidate),
            home: Arc::clone(&home),
            elections: Arc::clone(&elections),
            name: order.name.as_ref().map_or_else(|| MemberName::of_host().to_string(), Clone::clone),
            ttl: order.settings.ttl,
        };
        health.serve(Arc::new(told))
    });
    let (failed, ending) = if args.standby.is_some() {
        let standby = HotStandby::new(&home, &*store, &command, &elections);
        let campaign = async {
            standby.campaign(&candidate).await;
            Ending::Lost
        };
        let outcome = take_part(&candidate, &home, campaign, signals).await;
        standby.stop(home.grace()).await;
        outcome
    } else {
        let leader =
            Leader { home: &home, store: &*store, key: &order.key, command: &command, once: args.once };
        take_part(&candidate, &home, campaign(&candidate, &leader, &elections, args.no_wait), signals).await
    };
    if let Some(serving) = serving {
        serving.finish().await;
    }
    extending.abort();
    let _ = extending.await;
    if let Some(home) = Arc::into_inner(home) {
        home.close().await;
    }
    match (failed, ending) {
        (Some(failed), _) => Err(failed),
        (None, Some(ending)) => ending.report(&order.key),
        (None, None) => Ok(ExitCode::SUCCESS),
    }
}

/// The command after `--`, or the one that `--standby` names.
fn command(args: &ElectArgs) -> Result<Vec<OsString>, Failure> {
    match (&args.standby, args.command.is_empty()) {
        (Some(Some(line)), true) => {
            // Signals go to the process itself, so the shell makes way for it.
            Ok(["sh", "-c"].map(OsString::from).into_iter().chain([format!("exec {line}").into()]).collect())
        }
        (Some(Some(_)), false) => {
            Err(Failure::usage("--standby names a command, and there is one after --; leave one of them out"))
        }
        (Some(None), true) => Err(Failure::usage(
            "--standby needs a command; give it as --standby './scheduler --fast' or after --",
        )),
        _ => Ok(args.command.clone()),
    }
}

/// Campaigns and leads until there is nothing more to do or somebody says so.
async fn take_part(
    candidate: &Candidate,
    home: &Home,
    campaign: impl Future<Output = Ending>,
    signals: Signals,
) -> (Option<Failure>, Option<Ending>) {
    let mut campaign = pin!(campaign);
    let (mut ending, failed) = tokio::select! {
        ending = &mut campaign => (Some(ending), None),
        failed = told_to_stop(home.supervisor(), signals, false) => (None, failed),
    };
    // The seat goes back when the command has stopped, so the campaign goes on until it has.
    let mut leaving = pin!(candidate.leave());
    while tokio::select! {
        () = &mut leaving => false,
        last = &mut campaign, if ending.is_none() => {
            ending = Some(last);
            true
        }
    } {}
    (failed, ending)
}

async fn candidate(order: &Order, store: &Arc<dyn Store>) -> Result<Candidate, Failure> {
    let mut election = Election::new(Arc::clone(store), order.key.clone()).settings(order.settings.clone());
    if let Some(name) = &order.name {
        election = election.name(name)?;
    }
    Ok(election.start().await?)
}

/// Opens the store, however long that takes: until then this is a standby.
async fn reach(order: &Order, no_wait: bool) -> Result<Arc<dyn Store>, Failure> {
    let mut wait = WAIT_MIN;
    loop {
        match open(&order.url).await {
            Ok(store) => return Ok(store),
            Err(error) if no_wait || error.kind() == StoreErrorKind::Misconfigured => {
                return Err(error.into());
            }
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(key = %order.key, error, again_in = ?wait, "the store does not answer; standing by, not leading");
            }
        }
        SystemClock.sleep(wait).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// Leads whenever elected, until there is nothing more to do.
async fn campaign(
    candidate: &Candidate,
    leader: &Leader<'_>,
    elections: &Elections,
    no_wait: bool,
) -> Ending {
    loop {
        let leadership = if no_wait {
            tokio::select! {
                biased;
                leadership = candidate.campaign() => leadership,
                other = somebody_else(candidate) => return Ending::Taken(other),
            }
        } else {
            candidate.campaign().await
        };
        elections.won(candidate.key(), &leadership);
        let ending = leader.lead(leadership.lease()).await;
        elections.over(candidate.key(), &leadership).await;
        if let Some(ending) = ending {
            return ending;
        }
    }
}

/// Waits until it is known that somebody else leads, or has been long enough that nobody elected us.
async fn somebody_else(candidate: &Candidate) -> Option<String> {
    let mut leaders = candidate.observe();
    let me = || candidate.status().borrow().member.clone();
    let other = async {
        loop {
            match leaders.next().await {
                Some(Seat::Taken(leader)) if Some(&leader.member) != me().as_ref() => {
                    return leader.member.to_string();
                }
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    };
    tokio::select! {
        other = other => Some(other),
        () = SystemClock.sleep(ELECTION_MAX) => None,
    }
}
