//! `events`: the ledger, oldest first, and what is added to it.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold::ledger::Entry;
use leasehold::store::Store;

use super::open_existing;
use crate::args::EventsArgs;
use crate::failure::Failure;
use crate::print;

/// How many rows one read brings.
const PAGE: usize = 1000;
/// How often to look for more.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

pub(crate) async fn events(args: EventsArgs) -> Result<ExitCode, Failure> {
    let store = open_existing(&args.pool.store).await?;
    let newest = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut rows: VecDeque<(u64, Entry)> = VecDeque::new();
    let mut after = 0;
    loop {
        let page = read(&store, &args, after).await?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        rows.extend(page);
        rows.drain(..rows.len().saturating_sub(newest));
    }
    print_all(&args, rows)?;
    while args.follow {
        let page = read(&store, &args, after).await?;
        match page.last() {
            Some((last, _)) => after = *last,
            None => tokio::time::sleep(LOOK_AGAIN).await,
        }
        print_all(&args, page)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn read(store: &Arc<dyn Store>, args: &EventsArgs, after: u64) -> Result<Vec<(u64, Entry)>, Failure> {
    Ok(store.ledger(&args.pool.pool, args.resource.as_ref(), after, PAGE).await?)
}

/// With `--json`, one object a line, so that following works with any tool.
fn print_all(args: &EventsArgs, rows: impl IntoIterator<Item = (u64, Entry)>) -> Result<(), Failure> {
    let mut text = String::new();
    for (_, entry) in rows {
        if args.pool.json {
            text +=
                &serde_json::to_string(&entry).map_err(|error| Failure::system("cannot print", &error))?;
        } else {
            text += &line(&entry);
        }
        text.push('\n');
    }
    print::text(&text)
}

fn line(entry: &Entry) -> String {
    let nanos = i128::from(entry.wall_nanos);
    let time =
        jiff::Timestamp::from_nanosecond(nanos).map_or_else(|_| nanos.to_string(), |at| format!("{at:.3}"));
    let mut line = format!("{time}  {:<14}  {:<12}", entry.event.as_str(), entry.name.as_str());
    let mut add = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            line += &format!("  {what}{value}");
        }
    };
    add("", entry.resource.as_ref().map(ToString::to_string));
    add("token=", entry.token.map(|token| token.to_string()));
    add("reason=", entry.reason.map(|reason| reason.to_string()));
    add("other=", entry.other.as_ref().map(ToString::to_string));
    add("", entry.detail.clone());
    add("error=", entry.error.as_ref().map(|error| format!("{error:?}")));
    line
}
