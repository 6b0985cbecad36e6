//! A supervisor of one hot standby in a few lines: `standby TTL_MS COMMAND ARGUMENTS…`
//!
//! Each line of its standard input elects it or ends that: `promote TOKEN` and `demote MS`. While it is elected it moves
//! the deadline on five times in each TTL. It says what it does on its standard output; kill or freeze it and see what
//! becomes of the child.

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
    use std::fmt;
    use std::io::{self, BufRead, Write};
    use std::process::ExitCode;
    use std::time::Duration;

    use leasehold::clock;
    use leasehold_manager::{Demoted, Exit, Output, Program, Spec, Supervisor};
    use tokio::sync::mpsc;

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
        let ttl =
            args.next().and_then(|arg| arg.into_string().ok()).ok_or("usage: standby TTL_MS COMMAND…")?;
        let ttl = Duration::from_millis(ttl.parse()?);
        let command = args.next().ok_or("no command")?;

        let supervisor = Supervisor::start(Program::this()?, Output::standard()?).await?;
        let mut standby = supervisor.run_standby(Spec::new(command, args).resource("work")).await?;
        let deadman = supervisor.deadman_pid().ok_or("no deadman")?;
        say(format_args!("deadman {deadman}"));
        say(format_args!("child {}", standby.child().pid()));

        let mut orders = orders();
        let mut heartbeat = tokio::time::interval(ttl / 5);
        let mut elected = false;
        loop {
            tokio::select! {
                exit = standby.child().exited() => return Ok(exit),
                error = supervisor.failed() => return Err(error.into()),
                _ = heartbeat.tick(), if elected => extend(&supervisor, ttl),
                Some(order) = orders.recv() => match order {
                    Order::Promote(token) => {
                        extend(&supervisor, ttl);
                        standby.promote(token, &[]).await?;
                        elected = true;
                        say(format_args!("promoted {token}"));
                    }
                    Order::Demote(within) => {
                        let by = clock::now().after(within);
                        say(format_args!("demote-by {}", by.0));
                        elected = false;
                        if let Demoted::Exited(exit) = standby.demote(by).await {
                            return Ok(exit);
                        }
                        say(format_args!("demoted"));
                    }
                },
            }
        }
    }

    enum Order {
        Promote(u64),
        Demote(Duration),
    }

    /// What the standard input says. Lines that say nothing are left out.
    fn orders() -> mpsc::Receiver<Order> {
        let (orders, queue) = mpsc::channel(1);
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                let order = match line.split_once(' ').map(|(word, number)| (word, number.parse())) {
                    Some(("promote", Ok(token))) => Order::Promote(token),
                    Some(("demote", Ok(ms))) => Order::Demote(Duration::from_millis(ms)),
                    _ => continue,
                };
                if orders.blocking_send(order).is_err() {
                    return;
                }
            }
        });
        queue
    }

    fn extend(supervisor: &Supervisor, ttl: Duration) {
        let kill_at = clock::now().after(ttl);
        say(format_args!("until {}", kill_at.0));
        supervisor.extend(kill_at.before(ttl / 3), kill_at);
    }

    /// Nobody may be listening, which is no reason to end.
    fn say(what: fmt::Arguments<'_>) {
        let _ = writeln!(io::stdout(), "{what}");
    }
}
