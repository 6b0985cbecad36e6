//! What it takes to run commands under leases: a supervisor, and a socket to ask.
//!
//! Invariant: every confirmed heartbeat moves the children's deadline on, and nothing else does.

mod command;

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::clock::{self, Moment};
use leasehold::participant::{OnUncertain, Settings, State};
use leasehold::{Lease, Pool, ResourceId};
use leasehold_manager::{Exit, Output, Program, Question, Reply, Running, Socket, Spec, Supervisor};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) use self::command::check;
use crate::failure::Failure;

/// How long before trust ends the children are killed, so that they are gone when it does.
const KILL_BEFORE: Duration = Duration::from_millis(20);
/// How long what children said may take to be written after they have ended.
const OUTPUT_MAX: Duration = Duration::from_secs(2);

/// Where children are run.
pub(crate) struct Home {
    supervisor: Arc<Supervisor>,
    leases: Leases,
    socket: Socket,
    settings: Settings,
    /// How often children were to look at everything again.
    hangup: watch::Sender<u64>,
}

/// What becomes of a child.
pub(crate) enum Fate {
    /// It ended by itself.
    Ended(Exit),
    /// It was stopped, and is gone.
    Stopped,
}

impl Home {
    pub(crate) async fn open(settings: Settings) -> Result<Self, Failure> {
        let supervisor = Arc::new(supervisor().await?);
        let leases = Leases::default();
        let socket = {
            let leases = leases.clone();
            Socket::open(move |question| leases.answer(question))
                .map_err(|error| Failure::system("the socket for children cannot be opened", &error))?
        };
        Ok(Self { supervisor, leases, socket, settings, hangup: watch::Sender::new(0) })
    }

    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Moves the deadline on for as long as the task lives.
    pub(crate) fn extending(&self, trust: watch::Receiver<Option<Moment>>) -> JoinHandle<()> {
        tokio::spawn(extend(trust, Arc::clone(&self.supervisor), self.settings.clone()))
    }

    /// Lets children ask about a lease, until what is answered is dropped.
    pub(crate) fn admit(&self, lease: &Lease) -> Admitted {
        self.leases.insert(lease);
        Admitted { leases: self.leases.clone(), lease: lease.clone() }
    }

    /// A command that runs under no lease, as those that stand by do.
    pub(crate) fn spec_without_lease(
        &self,
        command: &[OsString],
        pool: &Pool,
        resource: &ResourceId,
    ) -> Spec {
        of_words(command).pool(pool.as_str()).resource(resource.as_str()).socket(self.socket.path())
    }

    /// A command under a lease, with the lease's own values in it.
    pub(crate) fn spec(&self, command: &[OsString], lease: &Lease) -> Spec {
        of_words(&command::fill(command, lease))
            .pool(lease.pool().as_str())
            .resource(lease.resource().as_str())
            .token(lease.token().0)
            .member(lease.member().as_str())
            .socket(self.socket.path())
    }

    /// Starts a child and watches it until it ends or must end.
    ///
    /// # Errors
    /// It could not be started.
    pub(crate) async fn run(&self, lease: &Lease, spec: Spec) -> Result<Fate, leasehold_manager::RunError> {
        self.extend_for(lease);
        let hangups = self.hangups();
        let child = self.supervisor.run(spec).await?;
        Ok(self.live(lease, &child, hangups).await)
    }

    /// Moves the deadline to where a lease has it: what begins under the lease needs one.
    pub(crate) fn extend_for(&self, lease: &Lease) {
        if let Some(until) = lease.common_deadline() {
            extend_to(&self.supervisor, &self.settings, until);
        }
    }

    /// Has the children that run under leases look at everything again.
    pub(crate) fn hang_up(&self) {
        self.hangup.send_modify(|count| *count += 1);
    }

    /// Changes whenever they should.
    pub(crate) fn hangups(&self) -> watch::Receiver<u64> {
        self.hangup.subscribe()
    }

    /// Watches a child until it ends or must end; pauses it while the lease is uncertain, if the pool says so.
    async fn live(&self, lease: &Lease, child: &Running, mut hangups: watch::Receiver<u64>) -> Fate {
        let pauses = self.settings.on_uncertain == OnUncertain::Pause;
        let mut state = State::Held;
        loop {
            tokio::select! {
                exit = child.exited() => return Fate::Ended(exit),
                Ok(()) = hangups.changed() => hang_up_on(child),
                _ = lease.lost() => {
                    child.stop(self.kill_at(lease)).await;
                    return Fate::Stopped;
                }
                () = lease.changed(state), if pauses => {
                    state = lease.state();
                    match state {
                        State::Held => child.resume(),
                        State::Uncertain => child.pause(),
                        State::Lost => {}
                    }
                }
            }
        }
    }

    /// When a child that was told to stop is killed.
    pub(crate) fn kill_at(&self, lease: &Lease) -> Moment {
        clock::now().after(self.settings.grace).min(lease.trusted_until().before(KILL_BEFORE))
    }

    /// How long a child gets to stop by itself.
    pub(crate) fn grace(&self) -> Duration {
        self.settings.grace
    }

    /// Ends the supervisor, when what the children said has been written. All of them are gone.
    pub(crate) async fn close(self) {
        drop(self.socket);
        if let Ok(supervisor) = Arc::try_unwrap(self.supervisor) {
            supervisor.finish(OUTPUT_MAX).await;
        }
    }
}

fn of_words(words: &[OsString]) -> Spec {
    let (program, args) = words.split_first().map_or((OsString::new(), &[][..]), |(p, a)| (p.clone(), a));
    Spec::new(program, args.iter().cloned())
}

/// Has a child look at everything again, if it knows how to.
pub(crate) fn hang_up_on(child: &Running) {
    if !child.signal_hangup() {
        tracing::warn!(
            pid = child.pid(),
            "the command has no handler for SIGHUP, so it was not told to reconcile"
        );
    }
}

/// A lease that children may ask about.
pub(crate) struct Admitted {
    leases: Leases,
    lease: Lease,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.leases.remove(&self.lease);
    }
}

async fn supervisor() -> Result<Supervisor, Failure> {
    let program = Program::this().map_err(|error| Failure::system("this program cannot be found", &error))?;
    let output = Output::standard()
        .map_err(|error| Failure::system("children's output cannot be passed on", &error))?;
    Supervisor::start(program, output)
        .await
        .map_err(|error| Failure::system("no children can be run", &error))
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
