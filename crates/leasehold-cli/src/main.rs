//! The one binary, `leasehold`. See `leasehold --help`.
//!
//! What needs the supervisor is Linux only. Elsewhere its options are still known, to the help and to
//! configuration files that serve several commands, but the command says that it cannot be had.

#![cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux reads the options of `run`"))]

mod args;
mod bench;
#[cfg(target_os = "linux")]
mod check;
#[cfg(target_os = "linux")]
mod children;
mod config;
#[cfg(target_os = "linux")]
mod demo;
mod deploy;
mod doctor;
#[cfg(target_os = "linux")]
mod elect;
mod failure;
mod fence;
mod health;
mod inspect;
mod keys;
mod log;
#[cfg(target_os = "linux")]
mod manager;
mod manual;
mod migrate;
mod operate;
#[cfg(target_os = "linux")]
mod poll;
mod print;
mod progress;
#[cfg(target_os = "linux")]
mod run;
mod serve;
mod signals;
#[cfg(target_os = "linux")]
mod source;
mod terminal;
mod top;
mod usage;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use leasehold::operate::Word;

use crate::args::{Cli, Command};
use crate::failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Children and the deadman are this program under hidden names; they come before everything else.
    #[cfg(target_os = "linux")]
    if let Some(code) = leasehold_manager::hidden_command(std::env::args_os()) {
        return code;
    }
    let cli = match asked_for() {
        Ok(Asked::Command(cli)) => cli,
        Ok(Asked::Help(asked)) => {
            let _ = asked.print();
            return ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(failure::code::USAGE));
        }
        Err(failure) => return failure.report(),
    };
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// What the command line asks for.
enum Asked {
    Command(Box<Cli>),
    Help(clap::Error),
}

/// Reads the command line, the environment and the file of options, as they are now.
fn asked_for() -> Result<Asked, Failure> {
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = usage::subcommand(&args, &Cli::command());
    let command = config::apply(&args, name, Cli::command())?;
    let matches = command.try_get_matches_from(&args);
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Ok(Asked::Command(Box::new(cli))),
        Err(error)
            if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            Err(usage::failure(&error, name))
        }
        Err(asked) => Ok(Asked::Help(asked)),
    }
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        #[cfg(target_os = "linux")]
        Command::Check(args) => check::check(&args),
        #[cfg(target_os = "linux")]
        Command::DemoWork { journal } => demo::work(&journal),
        #[cfg(target_os = "linux")]
        Command::Demo(args) => demo::demo(&args),
        #[cfg(target_os = "linux")]
        Command::Elect(args) => runtime()?.block_on(elect::elect(*args)),
        #[cfg(target_os = "linux")]
        Command::Manager(args) => runtime()?.block_on(manager::manager(*args)),
        #[cfg(target_os = "linux")]
        Command::Poll(args) => runtime()?.block_on(poll::poll(*args)),
        #[cfg(target_os = "linux")]
        Command::Run(args) => runtime()?.block_on(run::run(*args)),
        #[cfg(not(target_os = "linux"))]
        Command::Check(_)
        | Command::DemoWork { .. }
        | Command::Demo(_)
        | Command::Elect(_)
        | Command::Manager(_)
        | Command::Poll(_)
        | Command::Run(_) => Err(Failure::new(
            failure::code::SYSTEM,
            "this command is Linux only: children are run nowhere else",
        )),
        Command::Serve(args) => runtime()?.block_on(serve::serve(*args)),
        Command::Fence(args) => runtime()?.block_on(fence::fence(args)),
        Command::Keys(args) => runtime()?.block_on(keys::keys(args)),
        Command::Deploy(args) => runtime()?.block_on(deploy::deploy(args)),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { directory } => manual::pages(&directory),
        Command::Status(args) => runtime()?.block_on(inspect::status(args)),
        Command::Show(args) => runtime()?.block_on(inspect::show(args)),
        Command::Plan(args) => runtime()?.block_on(inspect::plan(args)),
        Command::Explain(args) => runtime()?.block_on(inspect::explain(args)),
        Command::Events(args) => runtime()?.block_on(inspect::events(args)),
        Command::Verify(args) => runtime()?.block_on(verify::verify(args)),
        Command::Migrate(args) => runtime()?.block_on(migrate::migrate(args)),
        Command::Doctor(args) => runtime()?.block_on(doctor::doctor(args)),
        Command::Bench(args) => runtime()?.block_on(bench::bench(args)),
        Command::Drain(args) => runtime()?.block_on(operate::mark_member(Word::Drain, Word::Undrain, args)),
        Command::Undrain(args) => runtime()?.block_on(operate::on_member(Word::Undrain, args)),
        Command::Cordon(args) => {
            runtime()?.block_on(operate::mark_member(Word::Cordon, Word::Uncordon, args))
        }
        Command::Uncordon(args) => runtime()?.block_on(operate::on_member(Word::Uncordon, args)),
        Command::Unpin(args) => runtime()?.block_on(operate::on_resource(Word::Unpin, args)),
        Command::Resume(args) => runtime()?.block_on(operate::on_resource(Word::Resume, args)),
        Command::Revoke(args) => runtime()?.block_on(operate::on_resource(Word::Revoke, args)),
        Command::Resign(args) => runtime()?.block_on(operate::resign(args)),
        Command::Top(args) => runtime()?.block_on(top::top(args)),
        Command::Pin(args) => runtime()?.block_on(operate::pin(args)),
        Command::Pause(args) => runtime()?.block_on(operate::pause(args)),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("no threads can be started", &error))
}
