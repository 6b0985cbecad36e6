//! `run`: one child process for every resource this member owns.
//!
//! The participant decides what is owned, the supervisor runs children; this file joins the two. Every confirmed
//! heartbeat moves the children's deadline on, and nothing else does.

mod child;
mod command;
mod source;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::clock::{Moment, SystemClock};
use leasehold::ledger::Recorder;
use leasehold::participant::{OnUncertain, Settings, State};
use leasehold::store::{Store, open};
use leasehold::{Lease, Participant};
use leasehold_manager::{Output, Program, Question, Reply, Socket, Supervisor};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use self::child::Children;
use crate::args::{RunArgs, Uncertain};
use crate::doctor;
use crate::failure::Failure;
use crate::log;

/// How long before trust ends the children are killed, so that they are gone when it does.
const KILL_BEFORE: Duration = Duration::from_millis(20);
/// How long what children said may take to be written after they have ended.
const OUTPUT_MAX: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let _log = log::start(&args.log)?;
    let settings = settings(&args)?;
    command::check(&args.command)?;
    let source = source::of(&args).await?;
    let store = open(&args.store.store).await?;
    doctor::at_start(&*store, args.require_grade).await?;
    let supervisor = Arc::new(supervisor().await?);
    let leases = Leases::default();
    let socket = {
        let leases = leases.clone();
        Socket::open(move |question| leases.answer(question))
            .map_err(|error| Failure::system("the socket for children cannot be opened", &error))?
    };
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
        supervisor: Arc::clone(&supervisor),
        leases,
        store: Arc::clone(&store),
        recorder: recorder(&args, store),
        command: args.command.clone(),
        socket: socket.path().to_owned(),
        restart: args.restart,
        settings: settings.clone(),
    });
    let work = {
        let children = Arc::clone(&children);
        move |lease| Arc::clone(&children).keep(lease)
    };
    // Children that are being stopped have a deadline of their own, before trust ends, and their leases must not
    // go back before they are gone.
    let signals =
        Signals::receive().map_err(|error| Failure::system("signals cannot be received", &error))?;
    let member = participant.without_abort().start(work).await?;
    let extending = tokio::spawn(extend(member.trusted_until(), Arc::clone(&supervisor), settings));
    let failed = told_to_stop(&supervisor, signals, args.while_stdin).await;
    member.leave().await;
    extending.abort();
    let _ = extending.await;
    drop(children);
    drop(socket);
    if let Ok(supervisor) = Arc::try_unwrap(supervisor) {
        supervisor.finish(OUTPUT_MAX).await;
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

async fn supervisor() -> Result<Supervisor, Failure> {
    let program = Program::this().map_err(|error| Failure::system("this program cannot be found", &error))?;
    let output = Output::standard()
        .map_err(|error| Failure::system("children's output cannot be passed on", &error))?;
    Supervisor::start(program, output)
        .await
        .map_err(|error| Failure::system("no children can be run", &error))
}

fn settings(args: &RunArgs) -> Result<Settings, Failure> {
    let of_pool = Settings::for_pool(&args.pool);
    let mut settings = match args.ttl {
        Some(ttl) => Settings { on_uncertain: of_pool.on_uncertain, ..Settings::with_ttl(ttl) },
        None => of_pool,
    };
    if let Some(heartbeat) = args.heartbeat {
        settings.heartbeat = heartbeat;
        settings.call_timeout = settings.call_timeout.min(heartbeat / 2);
    }
    settings.call_timeout = args.call_timeout.unwrap_or(settings.call_timeout);
    settings.margin = args.margin.unwrap_or(settings.margin);
    settings.grace = args.grace.unwrap_or(settings.grace);
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

/// Moves the children's deadline on with every confirmed heartbeat.
async fn extend(mut trust: watch::Receiver<Option<Moment>>, supervisor: Arc<Supervisor>, settings: Settings) {
    loop {
        let trusted_until = *trust.borrow_and_update();
        if let Some(until) = trusted_until {
            extend_to(&supervisor, &settings, until);
        }
        if trust.changed().await.is_err() {
            return;
        }
    }
}

fn extend_to(supervisor: &Supervisor, settings: &Settings, trusted_until: Moment) {
    supervisor.extend(trusted_until.before(settings.grace), trusted_until.before(KILL_BEFORE));
}

/// What tells this program to stop, from the moment it takes part: one that ended without a word would keep its
/// leases from others for a whole TTL.
struct Signals {
    term: Signal,
    interrupt: Signal,
}

impl Signals {
    fn receive() -> std::io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Waits for a signal, or for the day on which children can no longer be watched. A second signal ends the
/// program at once; the deadman then ends the children.
async fn told_to_stop(supervisor: &Supervisor, mut signals: Signals, while_stdin: bool) -> Option<Failure> {
    tokio::select! {
        () = signals.next() => {}
        () = end_of_stdin(), if while_stdin => {}
        error = supervisor.failed() => {
            return Some(Failure::system("children can no longer be watched, so none may run", &error));
        }
    }
    tracing::info!("told to stop: work is stopped and handed over; a second signal ends everything at once");
    tokio::spawn(async move {
        signals.next().await;
        std::process::exit(crate::failure::code::INTERRUPTED.into());
    });
    None
}

/// Ends when whoever started this program has closed its standard input, or is no more.
async fn end_of_stdin() {
    let (ended, end) = tokio::sync::oneshot::channel();
    // A thread of its own, because a read that nothing ends would keep the runtime from shutting down.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _: Result<(), ()> = ended.send(());
    });
    let _ = end.await;
}

/// The leases children ask about.
#[derive(Debug, Clone, Default)]
struct Leases(Arc<Mutex<HashMap<String, Lease>>>);

impl Leases {
    fn insert(&self, lease: &Lease) {
        let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        leases.insert(lease.resource().to_string(), lease.clone());
    }

    fn remove(&self, lease: &Lease) {
        let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if leases.get(lease.resource().as_str()).is_some_and(|known| known.token() == lease.token()) {
            leases.remove(lease.resource().as_str());
        }
    }

    fn answer(&self, question: &Question) -> Reply {
        let leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lease) = leases.get(&question.resource) else {
            return Reply::refused(question, None, "this member does not hold it");
        };
        let token = lease.token().0;
        if question.token.is_some_and(|asked| asked != token) {
            return Reply::refused(question, Some(token), "it is held under another token");
        }
        match lease.state() {
            State::Lost => Reply::refused(question, Some(token), "the lease is lost or being given back"),
            State::Held | State::Uncertain => Reply::trusted(question, token, lease.remaining()),
        }
    }
}
