//! The program that children and the deadman are started from: this one, under hidden names.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::{deadman, stub};

/// The hidden name under which the program is a child's first stage.
pub const STUB: &str = "__stub";
/// The hidden name under which the program is the deadman.
pub const DEADMAN: &str = "__deadman";

/// A program whose `main` begins with [`hidden_command`].
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// The running program itself, even after an upgrade has replaced its file.
    ///
    /// # Errors
    ///
    /// If `/proc` is not mounted and the system does not say where the program lies.
    pub fn this() -> std::io::Result<Self> {
        let image = Path::new("/proc/self/exe");
        let path = if image.exists() { image.to_owned() } else { std::env::current_exe()? };
        Ok(Self { path })
    }

    /// The program at `path`.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where the program lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn command(&self, hidden: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0("leasehold").arg(hidden);
        command
    }
}

/// Runs the hidden command that `args` (with the program's name in front) ask for, or says that they ask for none.
///
/// Call it first in `main`: before a runtime, threads, logging or the parsing of options, because the deadman
/// must be single-threaded and a child's first stage quick.
#[must_use]
pub fn hidden_command(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    let name = args.next()?;
    if name == STUB {
        Some(stub::stub_main(args))
    } else if name == DEADMAN {
        Some(deadman::deadman_main())
    } else {
        None
    }
}
