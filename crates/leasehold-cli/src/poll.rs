//! `poll`: asks every endpoint that this member owns, and passes on what it says.
//!
//! Invariant: not a byte goes to an endpoint but under a term that is trusted at that moment, and nothing that was found out is
//! passed on but under a term that still stands.

mod book;
mod client;
mod gather;
mod headers;
mod poller;
mod result;
mod schedule;
mod sink;
mod target;
mod tell;

use std::process::ExitCode;
use std::sync::Arc;

use leasehold::Participant;
use leasehold::participant::{OnUncertain, Running, Settings};
use leasehold::store::open;
use leasehold_server::events::trust;
use tokio::sync::Semaphore;

use self::book::Book;
use self::client::Manner;
use self::poller::Pollers;
use self::sink::Sinks;
use self::target::Rules;
use self::tell::Telling;
use crate::args::PollArgs;
use crate::failure::{Failure, chain};
use crate::health::Health;
use crate::signals::{Signals, was_told};
use crate::{doctor, log, source};

/// How many connections with endpoints are kept from one request to the next.
const KEPT_MAX: usize = 256;

pub(crate) async fn poll(args: PollArgs) -> Result<ExitCode, Failure> {
    let _log = log::start(&args.log)?;
    let settings = settings(&args)?;
    let manner = manner(&args)?;
    let rules = Rules::of(&args)?;
    let sinks = Sinks::of(&args)?;
    let targets = source::targets(&args.from, &args.store.store, &args.sessions).await?.ok_or_else(|| {
        Failure::usage(format!(
            "--from {:?} lists no endpoints; use redis-sessions, redis-set:KEY or redis-hash:KEY",
            args.from
        ))
    })?;
    let health = Health::open(&args.health).await?;
    let (targets, first) = source::begun_targets(targets).await?;
    tracing::info!(endpoints = first, from = args.from, "endpoints found");
    let store = open(&args.store.store).await?;
    doctor::at_start(&*store, args.require_grade).await?;
    let sinks = sinks.open(&args.store.store, &args.pool).await?;
    let book = Book::open(Arc::clone(&targets), rules);
    let pollers = Arc::new(Pollers::new(manner, args.jitter, args.concurrency, book, sinks));
    let mut participant =
        Participant::join(Arc::clone(&store), args.pool.clone()).settings(settings).source(targets);
    if let Some(name) = &args.name {
        participant = participant.name(name)?;
    }
    if let Some(capacity) = args.capacity {
        participant = participant.capacity(capacity);
    }
    let participant = args.labels.iter().fold(participant, |member, (key, value)| member.label(key, value));
    let mut signals = Signals::receive()?;
    let telling =
        |member: &Running| Telling::of(member.status(), Arc::clone(&store), args.pool.clone(), &pollers);
    let work = {
        let pollers = Arc::clone(&pollers);
        move |lease| Arc::clone(&pollers).keep(lease)
    };
    let member = participant.start(work).await?;
    pollers.follow(member.status());
    let serving = health.map(|health| health.serve_routes(tell::routes(telling(&member))));
    signals.next().await;
    was_told(signals);
    member.leave().await;
    if let Some(serving) = serving {
        serving.finish().await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Durations as for any member. Work here rests while it is not certain: that is what it is for.
fn settings(args: &PollArgs) -> Result<Settings, Failure> {
    let mut settings = args.times.applied(Settings::for_pool(&args.pool));
    settings.budget = args.budget.unwrap_or(settings.budget);
    settings.on_uncertain = OnUncertain::Pause;
    settings.check().map_err(|error| Failure::usage(error.to_string()))?;
    Ok(settings)
}

/// How endpoints and webhooks are spoken to.
fn manner(args: &PollArgs) -> Result<Manner, Failure> {
    let tls = trust::client(args.ca.as_deref()).map_err(|error| Failure::usage(chain(&error)))?;
    let headers = args.header_file.as_deref().map(headers::read).transpose()?.unwrap_or_default();
    let webhook_headers =
        args.webhook_header_file.as_deref().map(headers::read).transpose()?.unwrap_or_default();
    let body_max = usize::try_from(args.body_max).unwrap_or(usize::MAX);
    let kept = Arc::new(Semaphore::new(KEPT_MAX));
    Ok(Manner { tls: Arc::new(tls), headers, webhook_headers, body_max, kept })
}
