//! `deploy`: which version of the runners is to have the cameras, directly in the control plane's database.

use std::process::ExitCode;

use leasehold::store::Begin;
use leasehold_server::deploy::{DeployError, Group, Phase, Status};

use crate::args::{DeployArgs, DeployCommand};
use crate::failure::{Failure, code};
use crate::{print, serve};

pub(crate) async fn deploy(args: DeployArgs) -> Result<ExitCode, Failure> {
    let store = serve::opened(&serve::database(args.plane.database)?, Begin::Frozen).await?;
    let group = Group::new(&*store, &args.tenant, &args.group)?;
    let status = match &args.command {
        DeployCommand::Start { version } => group.start(version).await?,
        DeployCommand::Status => group.status().await?,
        DeployCommand::Promote => group.promote().await?,
        DeployCommand::Abort => group.abort().await?,
    };
    if args.plane.json {
        print::json(&status)?;
    } else {
        print::sheet(&said(&status))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn said(status: &Status) -> print::Sheet {
    let mut sheet = print::Sheet::default();
    let first = match &status.deployment {
        None => format!("nothing was ever deployed in the group {}\n", status.group),
        Some(deployment) => {
            let what = match deployment.phase {
                Phase::Warming => "warms up: its runners get nothing yet; promote it when they are there",
                Phase::Promoting => "takes over, camera by camera",
                Phase::Promoted => "has everything",
                Phase::Aborted => "was aborted: the others have everything, or get it back",
                _ => "is in a phase that this version does not know",
            };
            let reason = deployment.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("{} {what}{reason}\n", deployment.version)
        }
    };
    sheet.text(&first);
    let rows = status.runners.iter().map(|runner| {
        let [name, cameras] = [runner.runner_id.to_string(), runner.cameras.to_string()];
        vec![runner.version.clone(), name, runner.status.to_owned(), cameras]
    });
    sheet.table(&["VERSION", "RUNNER", "STATUS", "CAMERAS"], rows);
    sheet
}

impl From<DeployError> for Failure {
    fn from(error: DeployError) -> Self {
        match error {
            DeployError::Store(error) => error.into(),
            error => Self::new(code::NO, error.to_string()),
        }
    }
}
