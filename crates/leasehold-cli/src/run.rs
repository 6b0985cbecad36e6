//! `run`: one child process for every resource this member owns.
//!
//! The participant decides what is owned, the supervisor runs children; this file joins the two.

mod child;

use std::process::ExitCode;
use std::sync::Arc;

use leasehold::Participant;
use leasehold::clock::SystemClock;
use leasehold::ledger::Recorder;
use leasehold::participant::{OnUncertain, Settings};
use leasehold::store::{Store, open};

use self::child::Children;
use crate::args::{RunArgs, Uncertain};
use crate::children::{self, Home};
use crate::failure::Failure;
use crate::signals::{Signals, told_to_stop};
use crate::{doctor, log, source};

pub(crate) async fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let _log = log::start(&args.log)?;
    let settings = settings(&args)?;
    children::check(&args.command)?;
    let source = source::of(&args).await?;
    let store = open(&args.store.store).await?;
    doctor::at_start(&*store, args.require_grade).await?;
    let home = Arc::new(Home::open(settings.clone()).await?);
    let participant = participant(&args, Arc::clone(&store), settings.clone())?;
    let participant = match source {
        Some(source) => participant.source(source),
        None => {
            tracing::info!(
                "without --resources and --from, this member takes what programs declare in the store"
            );
            participant
        }
    };
    let children = Arc::new(Children {
        home: Arc::clone(&home),
        store: Arc::clone(&store),
        recorder: recorder(&args, store),
        command: args.command.clone(),
        restart: args.restart,
        settings,
    });
    let work = move |lease| Arc::clone(&children).keep(lease);
    let signals = Signals::receive()?;
    // Children that are being stopped have a deadline of their own, before trust ends, and their leases must not
    // go back before they are gone.
    let member = participant.without_abort().start(work).await?;
    let extending = home.extending(member.trusted_until());
    let failed = told_to_stop(home.supervisor(), signals, args.while_stdin).await;
    member.leave().await;
    extending.abort();
    let _ = extending.await;
    if let Some(home) = Arc::into_inner(home) {
        home.close().await;
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn settings(args: &RunArgs) -> Result<Settings, Failure> {
    let mut settings = args.times.applied(Settings::for_pool(&args.pool));
    settings.budget = args.budget.unwrap_or(settings.budget);
    settings.on_uncertain = match (args.on_uncertain, args.uncertain_budget) {
        (None, None) => settings.on_uncertain,
        (Some(Uncertain::Pause), None) => OnUncertain::Pause,
        (Some(Uncertain::Stop), None) => OnUncertain::Stop,
        (Some(Uncertain::Continue), None) => OnUncertain::Continue(settings.ttl),
        (None | Some(Uncertain::Continue), Some(budget)) => OnUncertain::Continue(budget),
        (Some(_), Some(_)) => {
            return Err(Failure::usage(
                "--uncertain-budget goes with --on-uncertain continue; leave one out",
            ));
        }
    };
    settings.check().map_err(|error| Failure::usage(error.to_string()))?;
    Ok(settings)
}

fn participant(args: &RunArgs, store: Arc<dyn Store>, settings: Settings) -> Result<Participant, Failure> {
    let mut participant = Participant::join(store, args.pool.clone()).settings(settings);
    if let Some(name) = &args.name {
        participant = participant.name(name)?;
    }
    if let Some(capacity) = args.capacity {
        participant = participant.capacity(capacity);
    }
    Ok(args.labels.iter().fold(participant, |member, (key, value)| member.label(key, value)))
}

/// Where quarantines are recorded; the participant writes the rest of the ledger itself.
fn recorder(args: &RunArgs, store: Arc<dyn Store>) -> Recorder {
    let name = args.name.clone().unwrap_or_else(leasehold::lease::MemberName::of_host);
    Recorder::new(args.pool.clone(), name, Arc::new(SystemClock), store).0
}
