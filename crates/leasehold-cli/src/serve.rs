//! `serve`: leases over HTTP.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use leasehold::store::around::Split;
use leasehold::store::{self, Begin, Store, StoreUrl};
use leasehold_server::events::settings::{EventsError, EventsSettings, SinkSettings, WebhookRules};
use leasehold_server::{Settings, StartError};

use crate::args::ServeArgs;
use crate::failure::{Failure, code};
use crate::log;

pub(crate) async fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    let _log = log::start(&args.log)?;
    let begin = if args.fresh { Begin::Live } else { Begin::Frozen };
    let database = match args.database {
        Some(url @ (StoreUrl::Memory | StoreUrl::Sqlite(_) | StoreUrl::Postgres(_))) => url,
        Some(other) => {
            return Err(Failure::usage(format!(
                "{other} cannot be the database; use sqlite:PATH or postgres://…, and give this one as --store"
            )));
        }
        None => StoreUrl::Sqlite(default_file()?),
    };
    let mut store = opened(&database, begin).await?;
    if let Some(leases) = &args.store {
        store = Arc::new(Split::new(opened(leases, begin).await?, store));
    }
    let mut settings = Settings::at(args.listen);
    if let Some(name) = args.name {
        settings.name = name;
    }
    settings.events = events(args.events, args.webhook_allow, args.webhook_private_host)?;
    let running = leasehold_server::start(settings, store).await?;
    let leases = args.store.as_ref().map(|url| format!(", leases in {url}")).unwrap_or_default();
    tracing::info!("serving {database}{leases} at http://{}", running.address());
    told_to_stop().await?;
    tracing::info!("told to stop: requests that are under way are finished");
    running.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Where events go. A password may be in the environment or a file, and not where everybody on the machine sees it.
fn events(
    urls: Vec<String>,
    allow: Vec<String>,
    private_hosts: Vec<String>,
) -> Result<EventsSettings, EventsError> {
    let seen: Vec<String> = std::env::args().collect();
    let sink = |url: &String| {
        let is_seen = seen.iter().any(|arg| arg.contains(url));
        if is_seen { SinkSettings::parse_argument(url) } else { SinkSettings::parse(url) }
    };
    let sinks = urls.iter().map(sink).collect::<Result<_, _>>()?;
    Ok(EventsSettings { sinks, webhooks: WebhookRules { allow, private_hosts } })
}

/// Opens a store, and creates or upgrades what it needs.
async fn opened(url: &StoreUrl, begin: Begin) -> Result<Arc<dyn Store>, Failure> {
    if !matches!(url, StoreUrl::Memory | StoreUrl::Sqlite(_)) {
        store::migrate(url, begin).await?;
    }
    Ok(store::open(url).await?)
}

/// The file in the directory where this platform keeps a user's data.
fn default_file() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("HOME");
    let data = if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library/Application Support"))
    } else {
        absolute("XDG_DATA_HOME").or_else(|| home.map(|home| home.join(".local/share")))
    };
    let Some(directory) = data.map(|data| data.join("leasehold")) else {
        return Err(Failure::usage(
            "there is no home directory to keep a file in; say where with --database sqlite:PATH",
        ));
    };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.create(&directory);
    let what = format!(
        "{} cannot be made; say where to keep the file with --database sqlite:PATH",
        directory.display()
    );
    made.map_err(|error| Failure::system(&what, &error))?;
    Ok(directory.join("leasehold.db"))
}

async fn told_to_stop() -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    {
        crate::signals::Signals::receive()?.next().await;
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    tokio::signal::ctrl_c().await.map_err(|error| Failure::system("signals cannot be received", &error))
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let code = match error {
            StartError::Store(_) => code::UNAVAILABLE,
            StartError::Events(_) => code::USAGE,
            _ => code::SYSTEM,
        };
        Self::new(code, error.to_string())
    }
}

impl From<EventsError> for Failure {
    fn from(error: EventsError) -> Self {
        Self::usage(error.to_string())
    }
}
