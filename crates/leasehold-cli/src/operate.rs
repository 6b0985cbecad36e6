//! Operators' marks: drain, cordon, pin, pause. They work on any store.

use std::process::ExitCode;
use std::sync::Arc;

use leasehold::clock::SystemClock;
use leasehold::ledger::{Event, Recorder};
use leasehold::store::{Cursor, MarkKind, Marked, Store, StoreError, Version};
use leasehold::view::View;
use leasehold::{Pool, Token};
use serde::Serialize;

use crate::args::{MemberMarkArgs, PauseArgs, PinArgs, PoolArgs};
use crate::failure::Failure;
use crate::{inspect, print};

/// How often a mark is tried again because somebody else changed it at the same moment.
const TRIES_MAX: usize = 16;

/// What was done, as JSON.
#[derive(Serialize)]
struct Done<'a> {
    pool: &'a Pool,
    mark: MarkKind,
    subject: &'a str,
    value: Option<&'a str>,
}

pub(crate) async fn drain(args: MemberMarkArgs) -> Result<ExitCode, Failure> {
    mark_member(&args, MarkKind::Drain, "hands off what it holds and gets nothing", "takes part again").await
}

pub(crate) async fn cordon(args: MemberMarkArgs) -> Result<ExitCode, Failure> {
    mark_member(&args, MarkKind::Cordon, "keeps what it holds and gets nothing new", "gets new work again")
        .await
}

async fn mark_member(
    args: &MemberMarkArgs,
    kind: MarkKind,
    done: &str,
    undone: &str,
) -> Result<ExitCode, Failure> {
    let sentence = format!("{} {}", args.member, if args.undo { undone } else { done });
    let value = (!args.undo).then_some("");
    set(&args.pool, kind, args.member.as_str(), value, &sentence).await
}

pub(crate) async fn pin(args: PinArgs) -> Result<ExitCode, Failure> {
    let value = args.member.as_ref().filter(|_| !args.undo).map(|member| member.as_str());
    let sentence = match value {
        Some(member) => format!("{} belongs to {member} whenever that member is there", args.resource),
        None => format!("{} may be anywhere", args.resource),
    };
    set(&args.pool, MarkKind::Pin, args.resource.as_str(), value, &sentence).await
}

pub(crate) async fn pause(args: PauseArgs) -> Result<ExitCode, Failure> {
    let what = if args.undo { "is shared out again" } else { "is given to nobody" };
    let sentence = format!("{} {what}", args.resource);
    set(&args.pool, MarkKind::Pause, args.resource.as_str(), (!args.undo).then_some(""), &sentence).await
}

async fn set(
    args: &PoolArgs,
    kind: MarkKind,
    subject: &str,
    value: Option<&str>,
    sentence: &str,
) -> Result<ExitCode, Failure> {
    let store = inspect::open_existing(&args.store).await?;
    let note = absent(&inspect::view(&store, &args.pool).await?, kind, subject, value);
    put_mark(&*store, &args.pool, kind, subject, value).await?;
    record(&store, &args.pool, kind, subject, value).await;
    if args.json {
        print::json(&Done { pool: &args.pool, mark: kind, subject, value })?;
    } else {
        print::text(&format!("{sentence}\n{note}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A mark on somebody or something that is not there stays for when it comes. It may also be a slip of the hand.
fn absent(view: &View, kind: MarkKind, subject: &str, value: Option<&str>) -> String {
    let member = |name: &str| {
        let mut living = view.sessions().values().filter(|session| !session.ended);
        living.any(|session| session.profile.name.as_str() == name)
    };
    let resource = |id: &str| view.resources().iter().any(|resource| resource.id.as_str() == id);
    let note =
        |what: &str, name: &str| format!("note: no {what} {name} is there now; the mark waits for it\n");
    match (kind, value) {
        (_, None) => String::new(),
        (MarkKind::Drain | MarkKind::Cordon, _) if !member(subject) => note("member", subject),
        (MarkKind::Pin | MarkKind::Pause, _) if !resource(subject) => note("resource", subject),
        (MarkKind::Pin, Some(name)) if !member(name) => note("member", name),
        _ => String::new(),
    }
}

/// What a quarantine's mark says. It holds for one token: the next holder may do better.
pub(crate) fn quarantine_note(token: Token, why: &str) -> String {
    format!("under token {token} the command keeps failing: {why}")
}

/// Whether a quarantine's mark is about this token.
pub(crate) fn is_quarantined_under(note: &str, token: Token) -> bool {
    note.starts_with(&quarantine_note(token, ""))
}

/// The operator's act in the ledger.
async fn record(store: &Arc<dyn Store>, pool: &Pool, kind: MarkKind, subject: &str, value: Option<&str>) {
    let name = leasehold::lease::MemberName::of_host();
    let operator = leasehold::MemberId::generate();
    let (recorder, written) = Recorder::new(pool.clone(), name, Arc::new(SystemClock), Arc::clone(store));
    let act = if value.is_some() { kind.as_str().to_owned() } else { format!("{} undone", kind.as_str()) };
    let to = value.filter(|value| !value.is_empty()).map(|value| format!(" to {value}")).unwrap_or_default();
    let note = recorder.note(&operator, Event::Marked).detail(&format!("{act}: {subject}{to}"));
    match subject.parse() {
        Ok(resource) if matches!(kind, MarkKind::Pin | MarkKind::Pause) => note.resource(&resource).write(),
        _ => note.write(),
    }
    drop(recorder);
    let _ = written.await;
}

/// Sets or removes a mark, whatever its version.
pub(crate) async fn put_mark(
    store: &dyn Store,
    pool: &Pool,
    kind: MarkKind,
    subject: &str,
    value: Option<&str>,
) -> Result<(), StoreError> {
    let marks = store.marks(pool, Cursor::START).await?.items;
    let found = marks.iter().find(|mark| mark.kind == kind && mark.subject == subject);
    let mut version = found.map_or(Version(0), |mark| mark.version);
    if found.is_none_or(|mark| mark.value.is_none()) && value.is_none() {
        return Ok(());
    }
    for _ in 0..TRIES_MAX {
        match store.set_mark(pool, kind, subject, value, version).await? {
            Marked::Set(_) => return Ok(()),
            Marked::Conflict(now) => version = now,
        }
    }
    Err(StoreError::unavailable(format!("the mark on {subject} keeps being changed by others; try again")))
}
