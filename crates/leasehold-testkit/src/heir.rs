//! What is left to clear up when a process of tests ends without doing so itself.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Clears up after us if we end without doing so, as a process does with what it keeps for ever: it ends the server and
/// removes the directory when the pipe to it closes.
#[derive(Debug)]
pub(crate) struct Heir(Child);

impl Heir {
    pub(crate) fn of(server: Option<u32>, directory: &Path) -> Self {
        let ends = "read -r never; [ -z \"$0\" ] || kill -QUIT \"$0\"; sleep 1; rm -rf \"$1\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", ends, &server.map_or_else(String::new, |id| id.to_string())]).arg(directory);
        // A group of its own: what interrupts us does not interrupt it.
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self(shell.spawn().expect("a shell"))
    }
}

impl Drop for Heir {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}
