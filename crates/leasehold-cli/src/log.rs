//! Logs, to standard error.
//!
//! Invariant: nobody who logs ever waits for whoever reads the log. A thread of its own writes; where the reader
//! has stopped reading, as a pager does, lines are dropped and counted.

mod json;

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::args::{LogArgs, LogFormat};
use crate::failure::Failure;

/// How many lines may wait to be written.
const WAITING_MAX: usize = 4096;
/// How long the last lines may take to be written.
const FINISH_MAX: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    Finish(SyncSender<()>),
}

/// Where lines go. Dropping the one that [`start`] gave waits for them to be written, for a while.
#[must_use]
pub(crate) struct Log {
    lines: Lines,
    filter: reload::Handle<EnvFilter, Registry>,
}

#[derive(Clone)]
struct Lines {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

/// Something else that hears of what happens.
pub(crate) type Ear = Box<dyn Layer<Registry> + Send + Sync>;

pub(crate) fn start(args: &LogArgs) -> Result<Log, Failure> {
    start_with(args, None)
}

/// The same with somebody else who hears.
pub(crate) fn start_with(args: &LogArgs, other: Option<Ear>) -> Result<Log, Failure> {
    let (filter, handle) = reload::Layer::new(filter(args)?);
    let lines = Lines::start().map_err(|error| Failure::system("logs cannot be written", &error))?;
    let writer = lines.clone();
    let logs = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
    let logs = match args.log_format {
        LogFormat::Text => {
            logs.with_target(false).with_ansi(io::stderr().is_terminal()).with_filter(filter).boxed()
        }
        LogFormat::Json => logs.event_format(json::Json).with_filter(filter).boxed(),
    };
    let ears: Vec<Ear> = other.into_iter().chain([logs]).collect();
    let started = tracing_subscriber::registry().with(ears).try_init();
    started.map_err(|error| Failure::usage(format!("logs cannot be written: {error}")))?;
    Ok(Log { lines, filter: handle })
}

fn filter(args: &LogArgs) -> Result<EnvFilter, Failure> {
    EnvFilter::try_new(&args.log)
        .map_err(|error| Failure::usage(format!("--log {:?} is no filter: {error}", args.log)))
}

impl Log {
    /// Logs what these options say from now on.
    pub(crate) fn set(&self, args: &LogArgs) -> Result<(), Failure> {
        let set = self.filter.reload(filter(args)?);
        set.map_err(|error| Failure::system("the log's filter stays as it is", &error))
    }
}

impl Lines {
    fn start() -> io::Result<Self> {
        let (queue, waiting) = sync_channel(WAITING_MAX);
        let lines = Self { queue, dropped: Arc::default() };
        let dropped = Arc::clone(&lines.dropped);
        std::thread::Builder::new()
            .name("leasehold-log".to_owned())
            .spawn(move || write_all(&waiting, &dropped))?;
        Ok(lines)
    }
}

/// Writes what comes. A closed standard error costs the lines.
fn write_all(waiting: &Receiver<Message>, dropped: &AtomicU64) {
    for message in waiting {
        match message {
            Message::Line(line) => {
                let _ = io::stderr().write_all(&line);
            }
            Message::Finish(done) => {
                let _ = done.send(());
            }
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(io::stderr(), "{lost} lines of the log were dropped: nobody read them");
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Message::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (done, finished) = sync_channel(1);
        if self.lines.queue.try_send(Message::Finish(done)).is_ok() {
            let _ = finished.recv_timeout(FINISH_MAX);
        }
    }
}
