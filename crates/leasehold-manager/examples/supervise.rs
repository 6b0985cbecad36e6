//! A supervisor of one child in a few lines: `supervise TTL_MS GRACE_MS COMMAND ARGUMENTS…`
//!
//! It trusts itself for ever, and so moves the deadline on five times in each TTL. It says what it does on its
//! standard output; kill or freeze it and see what becomes of the child. `SIGTERM` makes it stop the child.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    if let Some(code) = leasehold_manager::hidden_command(std::env::args_os()) {
        return code;
    }
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::ffi::OsString;
    use std::fmt;
    use std::io::{self, Write};
    use std::process::ExitCode;
    use std::time::Duration;

    use leasehold::clock;
    use leasehold_manager::{Exit, Output, Program, Running, Spec, Supervisor};
    use tokio::signal::unix::{self, SignalKind};

    #[tokio::main]
    pub(crate) async fn main() -> ExitCode {
        match supervise().await {
            Ok(exit) => {
                say(format_args!("exit {}", exit.how));
                ExitCode::SUCCESS
            }
            Err(error) => {
                say(format_args!("error {error}"));
                ExitCode::FAILURE
            }
        }
    }

    async fn supervise() -> Result<Exit, Box<dyn Error>> {
        let mut args = std::env::args_os().skip(1);
        let ttl = millis(args.next())?;
        let grace = millis(args.next())?;
        let command = args.next().ok_or("no command")?;

        let supervisor = Supervisor::start(Program::this()?, Output::standard()?).await?;
        extend(&supervisor, ttl, grace);
        let child = supervisor.run(Spec::new(command, args).resource("work")).await?;
        let deadman = supervisor.deadman_pid().ok_or("no deadman")?;
        say(format_args!("deadman {deadman}"));
        say(format_args!("child {}", child.pid()));

        let mut end = unix::signal(SignalKind::terminate())?;
        let mut heartbeat = tokio::time::interval(ttl / 5);
        let exit = loop {
            tokio::select! {
                exit = child.exited() => break exit,
                error = supervisor.failed() => return Err(error.into()),
                _ = heartbeat.tick() => extend(&supervisor, ttl, grace),
                _ = end.recv() => break stop(&child, grace).await,
            }
        };
        supervisor.finish(Duration::from_secs(1)).await;
        Ok(exit)
    }

    async fn stop(child: &Running, grace: Duration) -> Exit {
        let kill_at = clock::now().after(grace);
        say(format_args!("stop-by {}", kill_at.0));
        child.stop(kill_at).await
    }

    fn extend(supervisor: &Supervisor, ttl: Duration, grace: Duration) {
        let kill_at = clock::now().after(ttl);
        say(format_args!("until {}", kill_at.0));
        supervisor.extend(kill_at.before(grace), kill_at);
    }

    /// Nobody may be listening, which is no reason to end.
    fn say(what: fmt::Arguments<'_>) {
        let _ = writeln!(io::stdout(), "{what}");
    }

    fn millis(arg: Option<OsString>) -> Result<Duration, Box<dyn Error>> {
        let text =
            arg.and_then(|arg| arg.into_string().ok()).ok_or("usage: supervise TTL_MS GRACE_MS COMMAND…")?;
        Ok(Duration::from_millis(text.parse()?))
    }
}
