//! One deadman process and the two pipes to it.

use std::io;
use std::process::{Child, Stdio};
use std::time::Duration;

use leasehold::clock::Moment;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::{SILENCE_MAX, UNANSWERED_MAX};
use crate::deadman::watch::{Deadline, Line};
use crate::program::{DEADMAN, Program};
use crate::spawner::Spawner;
use crate::spec::withhold_secrets;

/// How long a deadman may take to end after its input has ended.
const FAREWELL_MAX: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Wire {
    process: Child,
    input: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Wire {
    /// Starts a deadman and returns when it listens.
    pub(super) async fn open(spawner: &Spawner, program: &Program) -> io::Result<Self> {
        let mut command = program.command(DEADMAN);
        withhold_secrets(&mut command);
        // It should not keep a directory from being unmounted.
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = spawner.spawn(command).await?;
        let pipes = || io::Error::other("the deadman has no pipes");
        let input = process.stdin.take().ok_or_else(pipes).and_then(ChildStdin::from_std);
        let output = process.stdout.take().ok_or_else(pipes).and_then(ChildStdout::from_std);
        let (input, output) = match (input, output) {
            (Ok(input), Ok(output)) => (input, output),
            (Err(error), _) | (_, Err(error)) => {
                end(&mut process);
                return Err(error);
            }
        };
        let mut wire = Self { process, input, answers: BufReader::new(output).lines() };
        // A deadline that has passed changes nothing, and its answer shows that this is a deadman.
        let greeting = Line::Until(Deadline { term_at: Moment(0), kill_at: Moment(0) });
        match wire.introduce(&[greeting]).await {
            Ok(()) => Ok(wire),
            Err(error) => {
                wire.discard().await;
                Err(error)
            }
        }
    }

    /// Returns when the deadman has heard all `lines`. An error means that it is of no use.
    pub(super) async fn introduce(&mut self, lines: &[Line]) -> io::Result<()> {
        for some in lines.chunks(UNANSWERED_MAX) {
            self.say(some).await?;
            for _ in some {
                timeout(SILENCE_MAX, self.answer()).await??;
            }
        }
        Ok(())
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Writes `lines`. An error means that the deadman is of no use any more.
    pub(super) async fn say(&mut self, lines: &[Line]) -> io::Result<()> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        timeout(SILENCE_MAX, self.input.write_all(text.as_bytes())).await?
    }

    /// Waits for the answer to one line. May be cancelled without losing any.
    pub(super) async fn answer(&mut self) -> io::Result<()> {
        match self.answers.next_line().await?.as_deref() {
            Some("ok") => Ok(()),
            Some(other) => Err(io::Error::other(format!("it answered {other:?}"))),
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended")),
        }
    }

    /// Ends a deadman that is to be replaced. It is killed before its input ends: it must not take that for our
    /// death and kill the children.
    pub(super) async fn discard(mut self) {
        end(&mut self.process);
    }

    /// Lets the deadman end by itself, and ends it if it does not.
    pub(super) async fn close(self) {
        let Self { mut process, input, mut answers } = self;
        drop(input);
        // Its output ends with it.
        let _ = timeout(FAREWELL_MAX, answers.next_line()).await;
        end(&mut process);
    }
}

fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}
