//! What children print: whole lines, each with the name of its work in front, passed on to our own output.
//!
//! Invariant: one thread writes, so lines never mix. An output of ours that is closed costs the lines, never the
//! supervisor or a child; one that is slow slows the children down and nobody else.

use std::fmt;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{mpsc, oneshot};

/// A line longer than this is passed on in parts.
pub const LINE_MAX: usize = 64 * 1024;
/// How much is read from a child at once.
const READ_MAX: usize = 8 * 1024;
/// How many reads may wait to be written.
const WAITING_MAX: usize = 32;
/// How long to wait for an output of ours that is full and does not block.
const FULL_WAIT: Duration = Duration::from_millis(5);

/// Which output of a child, and so of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

struct Piece {
    stream: Stream,
    bytes: Vec<u8>,
}

/// Where children's lines go.
pub struct Output {
    printer: Printer,
    written: oneshot::Receiver<()>,
}

/// What a child needs of an output.
#[derive(Clone)]
pub(crate) struct Printer {
    pieces: mpsc::Sender<Piece>,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

impl Output {
    /// Passes lines on to the standard output and the standard error of this process.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn standard() -> io::Result<Self> {
        Self::to(io::stdout(), io::stderr())
    }

    /// Passes lines on to `out` and `err`.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn to(out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> io::Result<Self> {
        let (pieces, queue) = mpsc::channel(WAITING_MAX);
        let (done, written) = oneshot::channel();
        thread::Builder::new().name("leasehold-output".to_owned()).spawn(move || {
            write_all(queue, out, err);
            let _ = done.send(());
        })?;
        Ok(Self { printer: Printer { pieces }, written })
    }

    pub(crate) fn printer(&self) -> Printer {
        self.printer.clone()
    }

    /// Waits until everything that children said has been written, at most for `limit`.
    pub async fn finish(self, limit: Duration) {
        drop(self.printer);
        let _ = tokio::time::timeout(limit, self.written).await;
    }
}

impl Printer {
    /// Passes on what `from` says, until it ends.
    pub(crate) fn pass_on(&self, from: impl AsyncRead + Send + Unpin + 'static, stream: Stream, label: &str) {
        tokio::spawn(read_all(from, stream, Lines::new(label), self.pieces.clone()));
    }
}

async fn read_all(
    mut from: impl AsyncRead + Unpin,
    stream: Stream,
    mut lines: Lines,
    pieces: mpsc::Sender<Piece>,
) {
    let mut buffer = vec![0; READ_MAX];
    loop {
        let (bytes, ended) = match from.read(&mut buffer).await {
            Ok(count) if count > 0 => (lines.push(&buffer[..count]), false),
            _ => (lines.end(), true),
        };
        if !bytes.is_empty() {
            // The thread that writes outlives every reader.
            let _ = pieces.send(Piece { stream, bytes }).await;
        }
        if ended {
            return;
        }
    }
}

fn write_all(mut queue: mpsc::Receiver<Piece>, mut out: impl Write, mut err: impl Write) {
    // Where a program has undone Rust's default, a closed pipe would otherwise end the process.
    let _ = SigSet::from(Signal::SIGPIPE).thread_block();
    let (mut out_open, mut err_open) = (true, true);
    while let Some(Piece { stream, bytes }) = queue.blocking_recv() {
        match stream {
            Stream::Out => out_open = out_open && write(&mut out, &bytes),
            Stream::Err => err_open = err_open && write(&mut err, &bytes),
        }
    }
}

/// Whether `to` took all `bytes`; if not, it is of no use any more.
fn write(to: &mut impl Write, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return false,
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_passing(&error) => thread::sleep(FULL_WAIT),
            Err(_) => return false,
        }
    }
    loop {
        match to.flush() {
            Ok(()) => return true,
            Err(error) if is_passing(&error) => thread::sleep(FULL_WAIT),
            Err(_) => return false,
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Cuts bytes into lines and puts a label in front of each.
#[derive(Debug)]
struct Lines {
    prefix: Vec<u8>,
    unfinished: Vec<u8>,
}

impl Lines {
    fn new(label: &str) -> Self {
        let prefix = if label.is_empty() { Vec::new() } else { format!("[{label}] ").into_bytes() };
        Self { prefix, unfinished: Vec::new() }
    }

    /// The lines that `bytes` complete.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut whole = Vec::with_capacity(bytes.len() + self.prefix.len());
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut part = part;
            while self.unfinished.len() + part.len() > LINE_MAX {
                let (head, tail) = part.split_at(LINE_MAX - self.unfinished.len());
                // The line's own end is not worth a line of its own.
                if tail == b"\n" {
                    break;
                }
                self.unfinished.extend_from_slice(head);
                self.complete(&mut whole);
                part = tail;
            }
            self.unfinished.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.unfinished.pop();
                self.complete(&mut whole);
            }
        }
        whole
    }

    /// The last line, if it did not end.
    fn end(&mut self) -> Vec<u8> {
        let mut whole = Vec::new();
        if !self.unfinished.is_empty() {
            self.complete(&mut whole);
        }
        whole
    }

    fn complete(&mut self, whole: &mut Vec<u8>) {
        whole.extend_from_slice(&self.prefix);
        whole.append(&mut self.unfinished);
        whole.push(b'\n');
    }
}

#[cfg(test)]
mod tests;
