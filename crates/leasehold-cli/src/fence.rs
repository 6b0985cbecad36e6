//! `fence`: what a stale holder still sends is refused, whatever it writes to.

mod report;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{Clock, SystemClock};
use leasehold::fence::{Gate, PoolAuthority, Rules, guard};
use leasehold::store::{Store, StoreErrorKind, StoreUrl, open};
use leasehold_server::events::settings::{Kind, SinkSettings};
use leasehold_server::fence::http::{HttpFence, HttpLimits, HttpSettings};
use leasehold_server::fence::mqtt::{MqttFence, MqttSettings};
use leasehold_server::fence::{Route, Tally};
use leasehold_server::{StartError, TlsSettings};

use self::report::Told;
use crate::args::{AuthorityArgs, FenceArgs, FenceCommand, FenceHttpArgs, FenceMqttArgs, GuardKind};
use crate::failure::{Failure, chain, code};
use crate::health::{Health, Serving};
use crate::signals::Signals;
use crate::{log, print};

/// How long is waited before a store that did not answer is tried again.
const WAIT: Duration = Duration::from_secs(1);
/// The shortest time for which an answer can count.
const LIFETIME_MIN: Duration = Duration::from_millis(100);

pub(crate) async fn fence(args: FenceArgs) -> Result<ExitCode, Failure> {
    match args.what {
        FenceCommand::Mqtt(args) => mqtt(*args).await,
        FenceCommand::Http(args) => http(*args).await,
        FenceCommand::Guard { what } => {
            let script = match what {
                GuardKind::Postgres => guard::POSTGRES,
                GuardKind::Redis => guard::REDIS,
            };
            print::as_it_is(script).map(|()| ExitCode::SUCCESS)
        }
    }
}

async fn mqtt(args: FenceMqttArgs) -> Result<ExitCode, Failure> {
    let _log = log::start(&args.authority.log)?;
    let signals = Signals::receive()?;
    let route =
        Route::new(&args.from, args.names, &args.to).map_err(|error| Failure::usage(error.to_string()))?;
    let client_id = args.client_id;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if client_id.is_empty() || client_id.len() > 64 || !client_id.chars().all(fits) {
        return Err(Failure::usage(
            "--client-id cannot be used; give 1 to 64 letters, digits, '.', '_' and '-'",
        ));
    }
    let payload_max = usize::try_from(args.max_payload).unwrap_or(usize::MAX);
    let settings = MqttSettings { broker: broker(&args.broker)?, route, client_id, payload_max };
    settings.check()?;
    let prepared = Prepared::of(&args.authority, signals).await?;
    let Some(Prepared { gate, health, mut signals }) = prepared else { return Ok(ExitCode::SUCCESS) };
    let fence = MqttFence::new(settings, Arc::clone(&gate));
    let serving = serve(health, &gate, &fence.tally());
    tokio::select! {
        () = fence.run() => {}
        () = gate.follow() => {}
        () = signals.next() => tracing::info!("told to stop: what was not passed on stays with the broker"),
    }
    finish(serving).await
}

/// The broker's address. A password may be in the environment, and not where everybody on the machine sees it.
fn broker(url: &str) -> Result<SinkSettings, Failure> {
    let is_seen = std::env::args().any(|arg| arg.contains(url));
    let broker = if is_seen { SinkSettings::parse_argument(url) } else { SinkSettings::parse(url) }?;
    if broker.url.kind() != Kind::Mqtt {
        return Err(Failure::usage(format!(
            "--broker {} is no broker; give mqtt:// or mqtts://",
            broker.url
        )));
    }
    Ok(broker)
}

async fn http(args: FenceHttpArgs) -> Result<ExitCode, Failure> {
    let _log = log::start(&args.authority.log)?;
    let signals = Signals::receive()?;
    let service = args.service.parse().map_err(|error| {
        Failure::usage(format!("--service is no address: {error}; give one as in http://127.0.0.1:8080"))
    })?;
    let limits = HttpLimits {
        body: args.max_body,
        whole: args.max_time,
        connections: usize::try_from(args.max_connections).unwrap_or(usize::MAX),
        ..HttpLimits::default()
    };
    let tls = args.tls_cert.zip(args.tls_key).map(|(cert, key)| TlsSettings { cert, key, clients: None });
    let settings = HttpSettings {
        listen: args.listen,
        tls,
        service,
        service_ca: args.service_ca,
        guard_reads: args.guard_reads,
        limits,
    };
    let prepared = Prepared::of(&args.authority, signals).await?;
    let Some(Prepared { gate, health, mut signals }) = prepared else { return Ok(ExitCode::SUCCESS) };
    let fence = HttpFence::start(settings, Arc::clone(&gate)).map_err(refused)?;
    tracing::info!("requests pass at {}", fence.address());
    let serving = serve(health, &gate, &fence.tally());
    tokio::select! {
        () = gate.follow() => {}
        () = signals.next() => tracing::info!("told to stop: requests that are under way are finished"),
    }
    fence.stop().await;
    finish(serving).await
}

/// Why a gateway does not start.
fn refused(error: StartError) -> Failure {
    let code = if matches!(error, StartError::Address { .. }) { code::SYSTEM } else { code::USAGE };
    Failure::new(code, error.to_string())
}

/// What both need before anything passes.
struct Prepared {
    gate: Arc<Gate>,
    health: Option<Health>,
    signals: Signals,
}

impl Prepared {
    /// Opens the store, however long that takes: until then nothing passes. `None` if told to stop before.
    async fn of(args: &AuthorityArgs, mut signals: Signals) -> Result<Option<Self>, Failure> {
        if args.lifetime < LIFETIME_MIN {
            return Err(Failure::usage(format!(
                "--lifetime is shorter than {LIFETIME_MIN:?}; give a longer one"
            )));
        }
        let health = Health::open(&args.health).await?;
        let store = tokio::select! {
            store = reach(&args.store) => store?,
            () = signals.next() => return Ok(None),
        };
        let authority = PoolAuthority::new(store, args.pool.clone());
        let rules = Rules { lifetime: Some(args.lifetime), allow_unversioned: args.allow_unversioned };
        let gate = Arc::new(Gate::with(Arc::new(authority), rules));
        Ok(Some(Self { gate, health, signals }))
    }
}

async fn reach(url: &StoreUrl) -> Result<Arc<dyn Store>, Failure> {
    loop {
        match open(url).await {
            Ok(store) => return Ok(store),
            Err(error) if error.kind() == StoreErrorKind::Misconfigured => return Err(error.into()),
            Err(error) => {
                tracing::warn!(error = chain(&error), again_in = ?WAIT, "the store does not answer; nothing passes");
            }
        }
        SystemClock.sleep(WAIT).await;
    }
}

fn serve(health: Option<Health>, gate: &Arc<Gate>, tally: &Arc<Tally>) -> Option<Serving> {
    let told = Told { gate: Arc::clone(gate), tally: Arc::clone(tally) };
    health.map(|health| health.serve_routes(report::routes(told)))
}

async fn finish(serving: Option<Serving>) -> Result<ExitCode, Failure> {
    if let Some(serving) = serving {
        serving.finish().await;
    }
    Ok(ExitCode::SUCCESS)
}
