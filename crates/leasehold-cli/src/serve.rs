//! `serve`: leases over HTTP.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use leasehold::store::around::Split;
use leasehold::store::{self, Begin, Store, StoreUrl};
use leasehold_server::events::settings::{EventsError, EventsSettings, SinkSettings, WebhookRules};
#[cfg(feature = "otlp")]
use leasehold_server::otlp::Traces;
use leasehold_server::{ClientCertificates, Limits, Running, Settings, StartError, TlsSettings};

use crate::args::{ClientAuth, ServeArgs};
use crate::failure::{Failure, code};
use crate::log::{self, Log};

pub(crate) async fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    #[cfg(feature = "otlp")]
    let traces = args.otlp_endpoint.as_deref().map(Traces::start).transpose();
    #[cfg(feature = "otlp")]
    let traces = traces.map_err(|error| Failure::usage(error.to_string()))?;
    #[cfg(feature = "otlp")]
    let other = traces.as_ref().map(Traces::layer);
    #[cfg(not(feature = "otlp"))]
    let other = None;
    let log = log::start_with(&args.log, other)?;
    let told = Told::receive()?;
    let begin = if args.fresh { Begin::Live } else { Begin::Frozen };
    let database = database(args.database.clone())?;
    let mut store = opened(&database, begin).await?;
    if let Some(leases) = &args.store {
        store = Arc::new(Split::new(opened(leases, begin).await?, store));
    }
    store.keep_rows(args.keep_events);
    let mut settings = Settings::at(args.listen);
    if let Some(name) = &args.name {
        settings.name = name.clone();
    }
    settings.events = events(&args)?;
    settings.limits = limits(&args);
    settings.outage_grace = args.outage_grace;
    #[cfg(unix)]
    allow_connections(settings.limits.connections);
    settings.tls = tls(&args);
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let running =
        leasehold_server::start(settings, store).await.map_err(|error| refused(error, &database))?;
    let leases = args.store.as_ref().map(|url| format!(", leases in {url}")).unwrap_or_default();
    tracing::info!("serving {database}{leases} at {scheme}://{}", running.address());
    told.until_stop(&running, &log).await?;
    tracing::info!("told to stop: requests that are under way are finished");
    running.stop().await;
    #[cfg(feature = "otlp")]
    if let Some(traces) = traces {
        let _ = tokio::task::spawn_blocking(|| traces.stop()).await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Every connection is an open file: takes as many of those as the system allows, and says so if they do not suffice.
#[cfg(unix)]
fn allow_connections(wanted: usize) {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let raised = soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    let allowed = if raised { hard } else { soft };
    if u64::try_from(wanted).is_ok_and(|wanted| allowed < wanted) {
        tracing::warn!(
            "this process may open {allowed} files, which is less than the {wanted} connections that are allowed; raise \
             the limit (LimitNOFILE, ulimit -n) or give --max-connections"
        );
    }
}

/// Where everything is kept.
pub(crate) fn database(given: Option<StoreUrl>) -> Result<StoreUrl, Failure> {
    match given {
        Some(url @ (StoreUrl::Memory | StoreUrl::Sqlite(_) | StoreUrl::Postgres(_))) => Ok(url),
        Some(other) => Err(Failure::usage(format!(
            "{other} cannot be the database; use sqlite:PATH or postgres://…, and give this one to serve as --store"
        ))),
        None => Ok(StoreUrl::Sqlite(default_file()?)),
    }
}

fn limits(args: &ServeArgs) -> Limits {
    let (given, defaults) = (&args.limits, Limits::default());
    let size = |given: Option<u64>, otherwise: usize| {
        given.map_or(otherwise, |given| usize::try_from(given).unwrap_or(usize::MAX))
    };
    let rate = given.rate.unwrap_or(defaults.rate);
    let streams = size(given.max_streams, defaults.streams);
    Limits {
        body: size(given.max_body, defaults.body),
        document: size(given.max_document, defaults.document),
        streams,
        streams_per_key: streams.div_ceil(4),
        connections: size(given.max_connections, defaults.connections),
        session: given.log_in_lasts.unwrap_or(defaults.session),
        rate,
        burst: given.burst.unwrap_or(rate.saturating_mul(2)),
        ..defaults
    }
}

fn tls(args: &ServeArgs) -> Option<TlsSettings> {
    let given = &args.tls;
    let (cert, key) = (given.tls_cert.clone()?, given.tls_key.clone()?);
    let optional = given.tls_client_auth == ClientAuth::Optional;
    let clients = given.tls_client_ca.clone().map(|ca| ClientCertificates { ca, optional });
    Some(TlsSettings { cert, key, clients })
}

/// Where events go. A password may be in the environment or a file, and not where everybody on the machine sees it.
fn events(args: &ServeArgs) -> Result<EventsSettings, EventsError> {
    let seen: Vec<String> = std::env::args().collect();
    let sink = |url: &String| {
        let is_seen = seen.iter().any(|arg| arg.contains(url));
        if is_seen { SinkSettings::parse_argument(url) } else { SinkSettings::parse(url) }
    };
    let sinks = args.events.iter().map(sink).collect::<Result<_, _>>()?;
    let (allow, private_hosts) = (args.webhook_allow.clone(), args.webhook_private_host.clone());
    Ok(EventsSettings { sinks, webhooks: WebhookRules { allow, private_hosts } })
}

/// Why the control plane does not start, and which commands help.
fn refused(error: StartError, database: &StoreUrl) -> Failure {
    let mut said = error.to_string();
    let code = match error {
        StartError::Store(_) => code::UNAVAILABLE,
        StartError::Tls(_) | StartError::Events(_) => code::USAGE,
        StartError::Exposed { keys, tls, .. } => {
            if keys {
                said +=
                    &format!("; make a key with `leasehold keys create --role admin --database {database}`");
            }
            if tls {
                said += "; give a certificate with --tls-cert FILE --tls-key FILE";
            }
            said += "; or listen at 127.0.0.1";
            code::USAGE
        }
        _ => code::SYSTEM,
    };
    Failure::new(code, said)
}

/// Reads again what may change while it runs: the log's level, the limits, the certificate and the keys.
#[cfg(unix)]
async fn reload(running: &Running, log: &Log) {
    let options = match crate::asked_for() {
        Ok(crate::Asked::Command(cli)) => match cli.command {
            crate::args::Command::Serve(args) => Ok(args),
            _ => return,
        },
        Ok(crate::Asked::Help(_)) => return,
        Err(failure) => Err(failure),
    };
    match options.and_then(|args| log.set(&args.log).map(|()| args)) {
        Ok(args) => {
            running.set_limits(limits(&args));
            tracing::info!("told to read its options again: the log's level and the limits are as they say");
        }
        Err(failure) => tracing::error!("the options stay as they were: {failure}"),
    }
    running.reload().await;
}

/// Opens a store, and creates or upgrades what it needs.
pub(crate) async fn opened(url: &StoreUrl, begin: Begin) -> Result<Arc<dyn Store>, Failure> {
    if !matches!(url, StoreUrl::Memory | StoreUrl::Sqlite(_)) {
        store::prepare(url, begin).await?;
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

/// What it may be told while it runs, from before it begins.
#[cfg(unix)]
struct Told {
    stop: [tokio::signal::unix::Signal; 2],
    reload: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Told {
    fn receive() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};

        let receive =
            |kind| signal(kind).map_err(|error| Failure::system("signals cannot be received", &error));
        let stop = [receive(SignalKind::terminate())?, receive(SignalKind::interrupt())?];
        Ok(Self { stop, reload: receive(SignalKind::hangup())? })
    }

    /// Waits for the word to stop, and does what else it is told.
    async fn until_stop(self, running: &Running, log: &Log) -> Result<(), Failure> {
        let Self { stop: [mut term, mut interrupt], reload: mut hangup } = self;
        loop {
            tokio::select! {
                _ = term.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                _ = hangup.recv() => reload(running, log).await,
            }
        }
    }
}

#[cfg(not(unix))]
struct Told;

#[cfg(not(unix))]
impl Told {
    fn receive() -> Result<Self, Failure> {
        Ok(Self)
    }

    async fn until_stop(self, _: &Running, _: &Log) -> Result<(), Failure> {
        tokio::signal::ctrl_c().await.map_err(|error| Failure::system("signals cannot be received", &error))
    }
}

impl From<EventsError> for Failure {
    fn from(error: EventsError) -> Self {
        Self::usage(error.to_string())
    }
}
