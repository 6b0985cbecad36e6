//! `manager`: document 004's manager. Leases cameras from a control plane, spreads them over workers, and sees to it that no
//! worker outlives its leases.
//!
//! Who does what: the [`keeper`] owns everything and decides; [`settings`] is what it is told; a [`shard`] is one worker with its
//! file and its process; [`held`] is one lease; the [`witness`] hears of other owners; [`report`] tells.

mod cache;
mod figures;
mod held;
mod keeper;
mod probe;
mod report;
mod settings;
mod shard;
mod status;
mod witness;

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use leasehold_manager::{Output, Program, Supervisor};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use self::keeper::{Ask, Keeper, News};
use self::report::Snapshot;
use self::settings::Settings;
use crate::args::{ManagerArgs, ManagerCommand};
use crate::failure::{Failure, code};
use crate::health::{Health, HealthArgs};
use crate::signals::{Signals, was_told};
use crate::{children, log};

/// How often is looked whether the configuration has changed.
const LOOK: Duration = Duration::from_secs(1);
/// How long what workers said may take to be written after they have ended.
const OUTPUT_MAX: Duration = Duration::from_secs(2);

pub(crate) async fn manager(args: ManagerArgs) -> Result<ExitCode, Failure> {
    let path = args.file.clone().ok_or_else(|| {
        Failure::usage("there is no configuration; give --config FILE, as in --config manager.toml")
    })?;
    let settings = Settings::read(&path).map_err(|said| {
        Failure::usage(format!("the configuration {} cannot be used: {said}", path.display()))
    })?;
    if let Some(ManagerCommand::Status { json }) = args.command {
        return status::status(&settings, json).await;
    }
    check(&settings)?;
    if args.check {
        crate::print::text(&format!(
            "{} can be used: {} workers with {} cameras each\n",
            path.display(),
            settings.shards(),
            settings.max_cameras_per_worker
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let _log = log::start(&args.log)?;
    run(settings, path).await
}

/// Refuses what cannot work, before anything is leased.
fn check(settings: &Settings) -> Result<(), Failure> {
    let command: Vec<OsString> = settings.worker_command.iter().map(OsString::from).collect();
    children::check(&command)?;
    for (name, base) in [
        ("worker_http_port", settings.worker_http_port),
        ("worker_metrics_port", settings.worker_metrics_port),
    ] {
        let last = u16::try_from(settings.shards() - 1).unwrap_or(u16::MAX);
        for port in (base..=base.saturating_add(last)).filter(|_| base != 0) {
            if let Err(error) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                return Err(Failure::new(
                    code::SYSTEM,
                    format!(
                        "port {port} is not free for a worker ({error}); give `{name}` another number, or 0"
                    ),
                ));
            }
        }
    }
    lock(&settings.config_dir).map(drop)
}

/// The directory of this manager, and of no other at the same time.
fn lock(directory: &Path) -> Result<File, Failure> {
    let shown = directory.display();
    let refused = |error: std::io::Error| {
        Failure::new(
            code::SYSTEM,
            format!("`config_dir` {shown} cannot be written: {error}; make it writable, or give another"),
        )
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(refused)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join("lock"))
        .map_err(refused)?;
    shard::replace(&directory.join("probe"), b"written").map_err(refused)?;
    std::fs::remove_file(directory.join("probe")).map_err(refused)?;
    file.try_lock().map_err(|_| {
        Failure::new(code::SYSTEM, format!("another manager uses `config_dir` {shown}; give each its own"))
    })?;
    Ok(file)
}

async fn run(settings: Settings, path: PathBuf) -> Result<ExitCode, Failure> {
    let _locked = lock(&settings.config_dir)?;
    let signals = Signals::receive()?;
    let listen = HealthArgs { health: settings.listen, health_key_file: settings.listen_key_file.clone() };
    let health = Health::open(&listen).await?;
    let supervisor = supervisor().await?;
    if settings.has_database_url {
        tracing::info!(
            "`database_url` is of no use to a manager: only the control plane touches the database"
        );
    }
    let (snapshot, shown) = watch::channel(Snapshot::default());
    let events = settings.events.clone();
    let keeper = Keeper::new(settings.clone(), path.clone(), supervisor, snapshot)?;
    let news = keeper.ear();
    let serving = health.map(|health| health.serve_routes(report::routes(shown, news.clone())));
    let hearing = events.map(|events| tokio::spawn(witness::listen(settings, events, news.clone())));
    let reading = tokio::spawn(follow_file(path, news.clone())?);
    tokio::spawn(end_on(signals, news));
    let ended = keeper.keep().await;
    reading.abort();
    if let Some(hearing) = hearing {
        hearing.abort();
    }
    if let Some(serving) = serving {
        serving.finish().await;
    }
    let (exit, supervisor) = ended?;
    supervisor.finish(OUTPUT_MAX).await;
    Ok(ExitCode::from(exit))
}

async fn supervisor() -> Result<Supervisor, Failure> {
    let program = Program::this().map_err(|error| Failure::system("this program cannot be found", &error))?;
    let output = Output::standard()
        .map_err(|error| Failure::system("the output of workers cannot be passed on", &error))?;
    Supervisor::start(program, output).await.map_err(|error| Failure::system("no workers can be run", &error))
}

/// Has the keeper end when this program is told to.
async fn end_on(mut signals: Signals, news: mpsc::Sender<News>) {
    signals.next().await;
    let _ = news.send(News::Asked(Ask::Terminate)).await;
    was_told(signals);
}

/// When a file was last changed, and how long it is.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}

/// Reads the configuration again whenever it changes, and on `SIGHUP`.
fn follow_file(path: PathBuf, news: mpsc::Sender<News>) -> Result<impl Future<Output = ()>, Failure> {
    let mut hangup = signal(SignalKind::hangup())
        .map_err(|error| Failure::system("signals cannot be received", &error))?;
    let mut last = stamp(&path);
    Ok(async move {
        loop {
            tokio::select! {
                _ = hangup.recv() => {}
                () = tokio::time::sleep(LOOK) => {
                    let now = stamp(&path);
                    if now == last {
                        continue;
                    }
                    last = now;
                }
            }
            if news.send(News::Read(Settings::read(&path).map(Box::new))).await.is_err() {
                return;
            }
        }
    })
}
