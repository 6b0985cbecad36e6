//! `events`: the ledger, oldest first, and what is added to it.

use std::collections::{HashMap, VecDeque};
use std::process::ExitCode;
use std::time::Duration;

use leasehold::ledger::{Entry, Event};
use leasehold::{MemberId, MemberName};

use super::{check_pool, open_existing, read_ledger};
use crate::args::EventsArgs;
use crate::failure::Failure;
use crate::print::{self, Sheet, Tone};

/// How often to look for more.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The names of members by their ids, as far as the ledger has told them.
type Names = HashMap<MemberId, MemberName>;

pub(crate) async fn events(args: EventsArgs) -> Result<ExitCode, Failure> {
    let store = open_existing(&args.pool.store).await?;
    let newest = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let which = (&args.pool.pool, args.resource.as_ref());
    let mut rows: VecDeque<Entry> = VecDeque::new();
    let mut names = Names::new();
    let keep = |page: Vec<Entry>| {
        learn(&mut names, &page);
        rows.extend(page.into_iter().filter(is_shown));
        rows.drain(..rows.len().saturating_sub(newest));
        Ok(())
    };
    let mut after = read_ledger(&store, which, 0, keep).await?;
    if rows.is_empty() && !args.follow {
        check_pool(&store, &args.pool.pool).await?;
    }
    print_all(&args, &names, rows)?;
    if !args.follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        let show = |page: Vec<Entry>| {
            learn(&mut names, &page);
            print_all(&args, &names, page.into_iter().filter(is_shown))
        };
        after = read_ledger(&store, which, after, show).await?;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// A heartbeat stands where its member's first one stood, which is no place for people to find it.
fn is_shown(entry: &Entry) -> bool {
    entry.event != Event::Renewed
}

fn learn(names: &mut Names, page: &[Entry]) {
    names.extend(page.iter().map(|entry| (entry.member.clone(), entry.name.clone())));
}

/// With `--json`, one object a line, so that following works with any tool.
fn print_all(args: &EventsArgs, names: &Names, rows: impl IntoIterator<Item = Entry>) -> Result<(), Failure> {
    let rows = rows.into_iter();
    if args.pool.json {
        return print::json_lines(rows);
    }
    let mut sheet = Sheet::default();
    rows.for_each(|entry| line(&entry, names, &mut sheet));
    print::sheet(&sheet)
}

/// What went another way than it should is seen from afar.
fn tone(event: Event) -> Tone {
    match event {
        Event::Lost
        | Event::Expired
        | Event::TakenOver
        | Event::Revoked
        | Event::AcquireFailed
        | Event::RenewFailed
        | Event::Refused
        | Event::Frozen
        | Event::Quarantined => Tone::Warn,
        Event::Marked => Tone::Strong,
        _ => Tone::Plain,
    }
}

fn line(entry: &Entry, names: &Names, sheet: &mut Sheet) {
    let time = print::time(entry.wall_nanos);
    let subject = match (&entry.resource, entry.token) {
        (Some(resource), Some(token)) => format!("{resource}#{token}"),
        (Some(resource), None) => resource.to_string(),
        _ => "-".to_owned(),
    };
    let name = |id: &MemberId| names.get(id).map_or_else(|| id.to_string(), ToString::to_string);
    let other = entry.other.as_ref().map(|other| match entry.event {
        Event::Released => format!("to {}", name(other)),
        Event::TakenOver => format!("from {}", name(other)),
        _ => name(other),
    });
    let reason = entry.reason.map(|reason| reason.to_string());
    let error = entry.error.as_ref().map(|error| format!("{error:?}"));
    let rest: Vec<String> = [reason, other, entry.detail.clone(), error].into_iter().flatten().collect();
    let (event, member) = (entry.event.as_str(), entry.name.as_str());
    let line = format!(
        "{:<2$}  {member:<8}  {subject:<8}  {}",
        "",
        rest.join(", "),
        11_usize.saturating_sub(event.len())
    );
    sheet.line(26, [format!("{time}  ").into(), tone(entry.event).of(event), line.trim_end().into()]);
}
