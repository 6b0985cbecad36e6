//! `migrate`: creates what a store needs, or brings it up to date.

use std::process::ExitCode;

use leasehold::store::{self, Begin, Migrated};

use crate::args::MigrateArgs;
use crate::failure::Failure;
use crate::print;
use crate::progress::Progress;

pub(crate) async fn migrate(args: MigrateArgs) -> Result<ExitCode, Failure> {
    let begin = if args.fresh { Begin::Live } else { Begin::Frozen };
    let url = &args.store.store;
    let progress = Progress::begin(format!("migrating {url}"));
    let Migrated { before, now } = store::migrate(url, begin).await?;
    drop(progress);
    print::text(&match before {
        Some(before) if before == now => format!("{url} is up to date: version {now}\n"),
        Some(before) => format!("{url} was brought from version {before} to {now}\n"),
        None if args.fresh => format!("{url} is ready: version {now}\n"),
        None => format!(
            "{url} is ready: version {now}; it grants nothing for a minute after a member has come, so that members of \
             an earlier store can say what they hold\n"
        ),
    })?;
    Ok(ExitCode::SUCCESS)
}
