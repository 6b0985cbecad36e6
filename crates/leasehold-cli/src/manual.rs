//! Completion scripts and manual pages, from the command line's own description.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Cli;
use crate::failure::Failure;
use crate::print;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "leasehold", &mut script);
    print::as_it_is(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn pages(directory: &Path) -> Result<ExitCode, Failure> {
    let written =
        std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    written.map_err(|error| {
        Failure::system(&format!("cannot write the manual pages into {}", directory.display()), &error)
    })?;
    Ok(ExitCode::SUCCESS)
}
