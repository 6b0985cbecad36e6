//! `demo`: real members with real work on an embedded store; one joins, one is killed, one is frozen, one is
//! drained, before the viewer's eyes, and what the work itself wrote decides whether anything ran twice.
//!
//! `stage.rs` is what there is, `script.rs` what happens to it. With a terminal `screen.rs` shows it as a live
//! picture, and the viewer may steer; otherwise `lines.rs` tells it once.

mod act;
mod cast;
mod draw;
mod feed;
mod journal;
mod lines;
mod picture;
mod screen;
mod script;
mod stage;
mod verdict;

use std::process::ExitCode;

use leasehold::participant::Settings;

pub(crate) use self::journal::work;
use self::stage::Stage;
use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::terminal;

const POOL: &str = "harbour";
const RESOURCES: [&str; 12] = [
    "crane-1", "crane-2", "crane-3", "crane-4", "gate-1", "gate-2", "gate-3", "gate-4", "pump-1", "pump-2",
    "pump-3", "pump-4",
];

pub(crate) fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    Settings::with_ttl(args.ttl).check().map_err(|error| Failure::usage(error.to_string()))?;
    let plain = args.plain || !terminal::is_there();
    crate::runtime()?.block_on(async {
        let directory =
            tempfile::tempdir().map_err(|error| Failure::system("no temporary directory", &error))?;
        let mut stage = Stage::set(directory.path(), args.ttl, args.page).await?;
        if plain {
            lines::play(&mut stage).await?;
        } else {
            screen::show(&mut stage).await?;
        }
        verdict::give(&stage).await
    })
}
