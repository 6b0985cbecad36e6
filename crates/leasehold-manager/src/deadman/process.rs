//! The deadman's own process: single-threaded and synchronous, so that nothing can keep it from its one duty.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::clock::{self, Moment};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd;

use super::watch::{Due, Line, Watch};

/// The longest line that is still listened to.
const LINE_MAX: usize = 256;
/// The longest wait while something is watched.
const NAP_MAX: Duration = Duration::from_millis(100);

/// Runs the deadman until its input ends.
///
/// # Guarantees
///
/// Ends only after every group it watched has been killed.
#[must_use]
pub fn deadman_main() -> ExitCode {
    // A name for `ps`; the deadman works without it.
    let _ = prctl::set_name(c"leasehold-dead");
    let mut deadman = Deadman::default();
    let result = detach().and_then(|()| deadman.serve());
    for group in deadman.watch.groups() {
        group.signal(Signal::SIGKILL);
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be left to read it.
            let _ =
                writeln!(io::stderr(), "leasehold: the deadman failed and killed what it watched: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Out of reach of a terminal, and deaf to every signal that can be blocked: what ends the supervisor must not
/// end the deadman first.
fn detach() -> io::Result<()> {
    SigSet::all().thread_block()?;
    unistd::setsid()?;
    Ok(())
}

#[derive(Debug, Default)]
struct Deadman {
    watch: Watch,
    unread: Vec<u8>,
}

impl Deadman {
    /// Returns when the input has ended.
    fn serve(&mut self) -> io::Result<()> {
        // This clock's timer fires at once after a suspend that hid the deadline; a timeout of `poll` stands still.
        let timer =
            TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        let input = io::stdin();
        loop {
            self.set(&timer)?;
            let mut fds = [
                PollFd::new(input.as_fd(), PollFlags::POLLIN),
                PollFd::new(timer.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            // What was said before the deadline counts, even if it is heard after it.
            if fds[0].any() == Some(true) && !self.listen()? {
                return Ok(());
            }
            self.act(clock::now());
        }
    }

    /// Reads once and answers each whole line. `false` at the end of the input.
    fn listen(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let count = match unistd::read(io::stdin(), &mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        };
        self.unread.extend_from_slice(&buffer[..count]);
        let mut answers = String::new();
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            match std::str::from_utf8(&line[..end]).map_err(|_| ()).and_then(str::parse::<Line>) {
                Ok(line) => {
                    self.watch.hear(line);
                    answers.push_str("ok\n");
                }
                Err(()) => answers.push_str("no\n"),
            }
        }
        if self.unread.len() > LINE_MAX {
            return Err(io::Error::other("a line without an end"));
        }
        // Cannot block: the supervisor leaves fewer answers unread than a pipe holds. If it is gone, the input says so.
        let mut output = io::stdout();
        let _ = output.write_all(answers.as_bytes()).and_then(|()| output.flush());
        Ok(true)
    }

    /// Sets the timer to what is due next. No nap is long, so that a clock that jumps is noticed.
    fn set(&self, timer: &TimerFd) -> io::Result<()> {
        let now = clock::now();
        match self.watch.next(now) {
            // A wait of nothing would disarm the timer.
            Some(next) => {
                let wait = next.since(now).clamp(Duration::from_nanos(1), NAP_MAX);
                timer.set(Expiration::OneShot(wait.into()), TimerSetTimeFlags::empty())?;
            }
            None => timer.unset()?,
        }
        Ok(())
    }

    fn act(&mut self, now: Moment) {
        for (group, due) in self.watch.due(now) {
            match due {
                Due::AskToEnd => group.ask_to_end(),
                Due::Kill => group.signal(Signal::SIGKILL),
            }
        }
    }
}
