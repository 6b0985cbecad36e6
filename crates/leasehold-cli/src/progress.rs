//! What takes longer than a second says so on a terminal: what is being done, how far it is, and for how long already.
//!
//! It goes to standard error, on one line that is gone when it is done. Without a terminal nothing is said. There is one line: what is
//! a part of something else is not told by itself.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::clock::{self, Moment};

use crate::print;

/// Nothing is said of what is done sooner.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is said anew.
const EVERY: Duration = Duration::from_millis(120);
/// How many signs wide a bar is.
const BAR: usize = 20;

/// Whether somebody has the line.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Something that may take a while. It is over when this is dropped.
pub(crate) struct Progress {
    state: Arc<Mutex<State>>,
    has_line: bool,
}

struct State {
    what: String,
    done: u64,
    of: Option<u64>,
    began: Moment,
    drawn: bool,
    over: bool,
}

impl Progress {
    /// Begins; `what` is said as in "reading the ledger". Needs the runtime of the command.
    pub(crate) fn begin(what: impl Into<String>) -> Self {
        let what = print::visible(&what.into()).into_owned();
        let began = clock::now();
        let state = State { what, done: 0, of: None, began, drawn: false, over: false };
        let progress = Self { state: Arc::new(Mutex::new(state)), has_line: Self::takes_line() };
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if progress.has_line && io::stderr().is_terminal() && !dumb {
            tokio::spawn(tell(Arc::clone(&progress.state)));
        }
        progress
    }

    /// Nothing is said from now on: the terminal is drawn on by somebody else.
    pub(crate) fn silence() {
        Self::takes_line();
    }

    fn takes_line() -> bool {
        !TAKEN.swap(true, Ordering::SeqCst)
    }

    /// What is being done from now on.
    pub(crate) fn now(&self, what: impl Into<String>) {
        let what = print::visible(&what.into()).into_owned();
        let mut state = locked(&self.state);
        (state.what, state.done, state.of) = (what, 0, None);
    }

    /// So much more is done.
    pub(crate) fn more(&self, count: usize) {
        let mut state = locked(&self.state);
        state.done = state.done.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// So much there is to do, of which nothing is done yet.
    pub(crate) fn of(&self, total: usize) {
        let mut state = locked(&self.state);
        (state.done, state.of) = (0, u64::try_from(total).ok());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut state = locked(&self.state);
        state.over = true;
        if state.drawn {
            write("\r\u{1b}[2K");
        }
        if self.has_line {
            TAKEN.store(false, Ordering::SeqCst);
        }
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A terminal that takes nothing is not complained about.
fn write(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

async fn tell(state: Arc<Mutex<State>>) {
    tokio::time::sleep(PATIENCE).await;
    for turn in 0.. {
        {
            // Whoever ends it waits for this line, and takes it away.
            let mut state = locked(&state);
            if state.over {
                return;
            }
            state.drawn = true;
            let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
            write(&format!("\r\u{1b}[2K{}", line(&state, turn, width, clock::now())));
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// One line that fits, so that it can be taken away again.
fn line(state: &State, turn: usize, width: usize, now: Moment) -> String {
    let sign = ['|', '/', '-', '\\'][turn % 4];
    let far = match state.of {
        Some(of) => {
            let full = usize::try_from(state.done.min(of) * BAR as u64 / of.max(1)).unwrap_or(BAR);
            format!(" [{}{}] {} of {of}", "#".repeat(full), " ".repeat(BAR - full), state.done)
        }
        None if state.done > 0 => format!(" {}", state.done),
        None => String::new(),
    };
    let line = format!("{sign} {}{far}, {} s", state.what, now.since(state.began).as_secs());
    line.chars().take(width.saturating_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_fits() {
        let began = Moment::default();
        let mut state =
            State { what: "reading".to_owned(), done: 0, of: None, began, drawn: false, over: false };
        let now = began.after(Duration::from_millis(3900));
        assert_eq!(line(&state, 0, 80, now), "| reading, 3 s");
        state.done = 7;
        assert_eq!(line(&state, 1, 80, now), "/ reading 7, 3 s");
        state.of = Some(10);
        assert_eq!(line(&state, 2, 80, now), "- reading [##############      ] 7 of 10, 3 s");
        assert_eq!(line(&state, 3, 9, now), "\\ readin");
        (state.done, state.of) = (0, Some(0));
        assert!(line(&state, 0, 80, now).contains("] 0 of 0"));
    }
}
