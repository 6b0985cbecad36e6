//! What happened in a run, as somebody sees it who sees everything: in true time and from outside.

use std::fmt;
use std::time::Duration;

use leasehold::ledger::Entry;
use leasehold::{MemberId, Term};

/// Somebody who works on a resource, or believes that it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Under which term.
    pub term: Term,
    /// As which member.
    pub member: MemberId,
    /// On which machine.
    pub machine: usize,
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} under token {}", self.member, self.term.token)
    }
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum What {
    /// A fault began or ended.
    Fault(String),
    /// Work began, while these others believed that the same resource was theirs.
    Began(Worker, Vec<Worker>),
    /// Work did something to its resource, while these others believed that it was theirs.
    Acted(Worker, Vec<Worker>),
    /// Work ended.
    Ended(Worker),
    /// A member wrote a line of the ledger. Its moments are true time, in nanoseconds since the run began.
    Wrote(Box<Entry>),
    /// The store shows a session alive that it has shown as ended, though it has forgotten nothing since.
    Returned(MemberId),
    /// No call of this machine reaches the store from now on, or every answer is lost.
    CutOff(usize),
    /// The machine is heard again.
    Reconnected(usize),
    /// The store answers nobody from now on.
    StoreDown,
    /// The store answers again.
    StoreUp,
    /// From here on nothing goes wrong any more.
    Healing,
    /// Every resource has one worker, and the loads are even.
    Converged,
    /// The run would go on for ever: its processes were woken more often than in any run that ends.
    Endless,
    /// The run is over; the pool as it was then, if it was not as it should be.
    Over(Option<String>),
}

/// One thing and when it happened.
#[derive(Debug, Clone)]
pub struct Happened {
    /// In true time since the run began.
    pub at: Duration,
    /// What it was.
    pub what: What,
}

/// Everything that happened in a run, in order, and the TTL that its members used.
#[derive(Debug, Clone)]
pub struct History {
    /// The TTL of every member.
    pub ttl: Duration,
    /// What happened.
    pub events: Vec<Happened>,
}

impl History {
    /// How long it took from the last fault until all was well and stayed so.
    #[must_use]
    pub fn time_to_rest(&self) -> Option<Duration> {
        let at = |what: fn(&What) -> bool| {
            self.events.iter().find(|event| what(&event.what)).map(|event| event.at)
        };
        Some(at(|what| matches!(what, What::Converged))? - at(|what| matches!(what, What::Healing))?)
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  ", self.at.as_secs_f64())?;
        match &self.what {
            What::Fault(fault) => write!(f, "fault      {fault}"),
            What::Began(worker, others) => {
                write!(f, "begins     {}: {worker}{}", worker.term.resource, Others(others))
            }
            What::Acted(worker, others) => {
                write!(f, "acts       {}: {worker}{}", worker.term.resource, Others(others))
            }
            What::Ended(worker) => write!(f, "ends       {}: {worker}", worker.term.resource),
            What::Wrote(entry) => write_entry(f, entry),
            What::Returned(member) => write!(f, "store      {member} is alive again"),
            What::CutOff(machine) => write!(f, "fault      machine {machine} is cut off"),
            What::Reconnected(machine) => write!(f, "fault      machine {machine} is heard again"),
            What::StoreDown => f.write_str("fault      the store does not answer"),
            What::StoreUp => f.write_str("fault      the store answers again"),
            What::Healing => f.write_str("           nothing goes wrong from here on"),
            What::Converged => {
                f.write_str("           every resource has one worker, and the loads are even")
            }
            What::Endless => f.write_str("           the run does not end"),
            What::Over(None) => f.write_str("           the run is over"),
            What::Over(Some(state)) => write!(f, "           the run is over: {state}"),
        }
    }
}

struct Others<'a>(&'a [Worker]);

impl fmt::Display for Others<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for other in self.0 {
            write!(f, ", while {other} believes that it may work on it")?;
        }
        Ok(())
    }
}

fn write_entry(f: &mut fmt::Formatter<'_>, entry: &Entry) -> fmt::Result {
    write!(f, "ledger     {}: {}", entry.member, entry.event)?;
    if let Some(resource) = &entry.resource {
        write!(f, " {resource}")?;
    }
    if let Some(token) = entry.token {
        write!(f, " token {token}")?;
    }
    if let Some(until) = entry.trusted_until {
        write!(f, " until {:.3} s", Duration::from_nanos(until.0).as_secs_f64())?;
    }
    if let Some(reason) = entry.reason {
        write!(f, " ({reason})")?;
    }
    let texts = [entry.other.as_ref().map(MemberId::as_str), entry.error.as_deref(), entry.detail.as_deref()];
    for text in texts.into_iter().flatten() {
        write!(f, " [{text}]")?;
    }
    Ok(())
}
