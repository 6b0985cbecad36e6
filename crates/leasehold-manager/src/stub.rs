//! A child's first stage: waits for the word to go, then becomes the command.
//!
//! Invariant: the command never runs unless the supervisor lives, has said `go`, and the deadline it named lies
//! ahead. The supervisor says `go` only after the deadman has confirmed that it watches this process group. What leads
//! nothing may begin at any time: its deadline is the last moment there is.
//!
//! Doing this after `exec` and not between `fork` and `exec` needs no unsafe code.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use leasehold::clock::{self, Moment};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd;

/// The exit code of a stub that did not start its command because it was not told to, or too late.
pub const NOT_STARTED: u8 = 125;
/// The exit code of a stub whose command exists but cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The exit code of a stub whose command was not found.
pub const NOT_FOUND: u8 = 127;

/// The longest line a stub reads: `go` and a number.
const LINE_MAX: u64 = 64;

/// The line that lets a stub go if it is read before `deadline`.
pub(crate) fn go(deadline: Moment) -> String {
    format!("go {}\n", deadline.0)
}

/// Runs a stub: `args` are `PARENT-PID -- COMMAND ARGUMENTS…`. Returns only if the command was not started.
pub fn stub_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some((parent, command)) = parse(args) else {
        eprintln!("leasehold: the hidden command for children was called by hand; use `leasehold run`");
        return ExitCode::from(NOT_STARTED);
    };
    if let Err(problem) = wait_for_go(parent) {
        if let Some(problem) = problem {
            eprintln!("leasehold: {} was not started: {problem}", command[0].to_string_lossy());
        }
        return ExitCode::from(NOT_STARTED);
    }
    become_command(&command)
}

fn parse(mut args: impl Iterator<Item = OsString>) -> Option<(i32, Vec<OsString>)> {
    let parent = args.next()?.to_str()?.parse().ok()?;
    let dashes = args.next()?;
    let command: Vec<_> = args.collect();
    (dashes == "--" && !command.is_empty()).then_some((parent, command))
}

/// `Err(None)` where the supervisor is gone and nobody is left to tell.
fn wait_for_go(parent: i32) -> Result<(), Option<String>> {
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|errno| Some(format!("no parent-death signal: {errno}")))?;
    // The parent may have died before the signal was set, which then never comes.
    if unistd::getppid().as_raw() != parent {
        return Err(None);
    }
    let mut line = String::new();
    io::stdin()
        .lock()
        .take(LINE_MAX)
        .read_line(&mut line)
        .map_err(|error| Some(format!("its supervisor could not be heard: {error}")))?;
    if line.is_empty() {
        return Err(None);
    }
    let deadline = line
        .strip_suffix('\n')
        .and_then(|line| line.strip_prefix("go "))
        .and_then(|number| number.parse().ok())
        .map(Moment)
        .ok_or_else(|| Some(format!("its supervisor said {line:?} and not to go")))?;
    if clock::now() >= deadline {
        return Err(Some("its deadline had passed before it began".to_owned()));
    }
    Ok(())
}

fn become_command(command: &[OsString]) -> ExitCode {
    let name = command[0].to_string_lossy();
    if let Err(error) = File::open("/dev/null").and_then(|null| Ok(unistd::dup2_stdin(null)?)) {
        eprintln!("leasehold: {name} was not started: /dev/null cannot be its input: {error}");
        return ExitCode::from(NOT_STARTED);
    }
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    if error.kind() == io::ErrorKind::NotFound {
        eprintln!(
            "leasehold: cannot start {name}: {error}; check its spelling, and that it is installed and in PATH"
        );
        ExitCode::from(NOT_FOUND)
    } else {
        eprintln!(
            "leasehold: cannot start {name}: {error}; check that it is a program that this user may execute"
        );
        ExitCode::from(NOT_EXECUTABLE)
    }
}
