//! One replica: a candidate for the scheduler's seat, another for the controller's, and a cache for both.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold::Election;
use leasehold::election::{Candidate, Key};
use leasehold::store::{Store, StoreErrorKind, StoreUrl};
use leasehold_example_scheduler::cache::Cache;
use leasehold_example_scheduler::config::Config;
use leasehold_example_scheduler::etcd::Etcd;
use leasehold_example_scheduler::lead::{Plan, Task};
use leasehold_example_scheduler::{control, schedule};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// The controller's election.
const CONTROLLER: &str = "/ccm/controller/leader";
/// How long is waited for etcd at the start: longer each time.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr).init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = &*error, "cannot run");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let config = Config::read(|name| std::env::var(name).ok())?;
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut stop = std::pin::pin!(async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    });
    let cache = Arc::new(Cache::of(Etcd::new(&config.endpoints)?));
    let following = {
        let cache = Arc::clone(&cache);
        tokio::spawn(async move { cache.follow().await })
    };
    let store = tokio::select! {
        store = open(&config.store) => store?,
        () = &mut stop => return Ok(()),
    };
    let controller_key = Key::new(CONTROLLER)?;
    let scheduler = stand(&store, &config, &cache, &config.leader_key, schedule::assignments).await?;
    let controller = stand(&store, &config, &cache, &controller_key, control::returns).await?;
    stop.await;
    tracing::info!("leaves");
    tokio::join!(scheduler.leave(), controller.leave());
    following.abort();
    Ok(())
}

/// Opens the store of the leases. One that cannot be reached is waited for; nobody leads meanwhile.
async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, Box<dyn Error>> {
    let mut pause = PAUSE;
    loop {
        match leasehold::store::open(url).await {
            Ok(store) => return Ok(store),
            Err(error) if error.kind() == StoreErrorKind::Misconfigured => return Err(error.into()),
            Err(error) => tracing::warn!(error = &error as &dyn Error, "stands by until etcd answers"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Stands for an election, and does what the plan says whenever elected.
async fn stand(
    store: &Arc<dyn Store>,
    config: &Config,
    cache: &Arc<Cache>,
    key: &Key,
    plan: Plan,
) -> Result<Candidate, Box<dyn Error>> {
    let task =
        Task { cache: Arc::clone(cache), key: key.as_str().to_owned(), plan, every: config.reconcile_every };
    let demoted = key.clone();
    let mut election = Election::new(Arc::clone(store), key.clone())
        .ttl(config.ttl)
        .on_elected(move |leadership| task.clone().lead(leadership))
        .on_demoted(move |reason| {
            tracing::info!(key = demoted.as_str(), reason = reason.as_str(), "stands by");
            std::future::ready(())
        });
    if let Some(name) = &config.name {
        election = election.name(name)?;
    }
    Ok(election.start().await?)
}
