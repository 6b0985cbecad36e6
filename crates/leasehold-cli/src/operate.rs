//! What operators do, on any store: drain, cordon, pin, pause, revoke, resign, and back.
//!
//! On a terminal what would move is shown first, and a word is asked for. Without one it is done at once, so that scripts go on;
//! `--plan` only shows.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use leasehold::clock::SystemClock;
use leasehold::ledger::{Event, Recorder};
use leasehold::operate::{Act, Outcome, Preview, Word, perform};
use leasehold::store::{MarkKind, Store};
use leasehold::{MemberName, Pool, ResourceId, Token};
use serde::Serialize;

pub(crate) use leasehold::operate::put_mark;

use crate::args::{ActArgs, MemberActArgs, MemberMarkArgs, PauseArgs, PinArgs, PoolArgs, ResourceActArgs};
use crate::failure::{Failure, code};
use crate::inspect::shifts;
use crate::progress::Progress;
use crate::{inspect, print};

/// What was done, as JSON.
#[derive(Serialize)]
struct Done<'a> {
    pool: &'a Pool,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What<'a> {
    Mark { mark: MarkKind, subject: &'a str, value: Option<&'a str> },
    Act { act: Word, resource: Option<&'a ResourceId> },
}

/// `drain` and `cordon`, and with `--undo` the way back.
pub(crate) async fn mark_member(word: Word, back: Word, args: MemberMarkArgs) -> Result<ExitCode, Failure> {
    let word = if args.undo { back } else { word };
    run(&args.pool, &args.act, act(word, Some(args.member), None)?).await
}

/// `undrain` and `uncordon`.
pub(crate) async fn on_member(word: Word, args: MemberActArgs) -> Result<ExitCode, Failure> {
    run(&args.pool, &args.act, act(word, Some(args.member), None)?).await
}

/// `unpin`, `resume` and `revoke`.
pub(crate) async fn on_resource(word: Word, args: ResourceActArgs) -> Result<ExitCode, Failure> {
    run(&args.pool, &args.act, act(word, None, Some(args.resource))?).await
}

/// `resign`.
pub(crate) async fn resign(args: crate::args::ResignArgs) -> Result<ExitCode, Failure> {
    run(&args.pool, &args.act, Act::Resign).await
}

pub(crate) async fn pin(args: PinArgs) -> Result<ExitCode, Failure> {
    let word = if args.undo { Word::Unpin } else { Word::Pin };
    let member = args.member.filter(|_| !args.undo);
    run(&args.pool, &args.act, act(word, member, Some(args.resource))?).await
}

pub(crate) async fn pause(args: PauseArgs) -> Result<ExitCode, Failure> {
    let word = if args.undo { Word::Resume } else { Word::Pause };
    run(&args.pool, &args.act, act(word, None, Some(args.resource))?).await
}

fn act(word: Word, member: Option<MemberName>, resource: Option<ResourceId>) -> Result<Act, Failure> {
    Act::new(word, member, resource).map_err(|error| Failure::usage(error.to_string()))
}

async fn run(args: &PoolArgs, how: &ActArgs, act: Act) -> Result<ExitCode, Failure> {
    let store = inspect::open_existing(&args.store).await?;
    let view = inspect::view(&store, &args.pool).await?;
    let progress = Progress::begin("planning");
    let preview = Preview::of(&args.pool, &view, &act);
    drop(progress);
    if how.plan {
        if args.json {
            print::json(&preview)?;
        } else {
            print::sheet(&lines(&preview))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let asks = !how.yes && !args.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if asks {
        print::sheet(&lines(&preview))?;
        if !confirmed(&act)? {
            return Err(Failure::new(code::NO, "nothing was done"));
        }
    }
    done(&store, &args.pool, &act, asks.then_some(preview.basis)).await?;
    if args.json {
        let what = match act.mark() {
            Some((mark, subject, value)) => What::Mark { mark, subject, value },
            None => What::Act { act: act.word(), resource: act.resource() },
        };
        print::json(&Done { pool: &args.pool, what })?;
    } else {
        let note = preview.note.map(|note| format!("note: {note}\n")).unwrap_or_default();
        print::text(&format!("{}\n{note}", act.sentence()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Does it and writes it down. What was so already is left as it is.
pub(crate) async fn done(
    store: &Arc<dyn Store>,
    pool: &Pool,
    act: &Act,
    basis: Option<u64>,
) -> Result<(), Failure> {
    match perform(&**store, pool, act, basis).await? {
        Outcome::Done => {
            record(store, pool, act).await;
            Ok(())
        }
        Outcome::Already => Ok(()),
        Outcome::Changed => {
            let said = "somebody else changed this in the meantime, and nothing was done; look and try again";
            Err(Failure::new(code::TEMPORARY, said))
        }
        Outcome::Refused(said) => Err(Failure::new(code::NO, said)),
    }
}

/// What would happen, for people.
pub(crate) fn lines(preview: &Preview) -> print::Sheet {
    let already = if preview.already { "it is so already\n" } else { "" };
    let note = preview.note.as_ref().map(|note| format!("note: {note}\n")).unwrap_or_default();
    let mut sheet = print::Sheet::default();
    sheet.text(&format!("{}\n{already}{note}\n", preview.sentence));
    sheet.add(shifts(&preview.shifts));
    sheet
}

fn confirmed(act: &Act) -> Result<bool, Failure> {
    let unheard = |error| Failure::system("no answer can be read", &error);
    let mut out = std::io::stdout().lock();
    write!(out, "\n{}? [y/N] ", act.word()).and_then(|()| out.flush()).map_err(unheard)?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(unheard)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
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
async fn record(store: &Arc<dyn Store>, pool: &Pool, act: &Act) {
    let name = MemberName::of_host();
    let user = ["USER", "LOGNAME"].iter().find_map(|variable| std::env::var(variable).ok());
    let user: String = user.unwrap_or_default().chars().filter(|c| !c.is_control()).take(64).collect();
    let who = if user.is_empty() { format!("somebody at {name}") } else { format!("{user} at {name}") };
    let operator = leasehold::MemberId::generate();
    let (recorder, written) = Recorder::new(pool.clone(), name, Arc::new(SystemClock), Arc::clone(store));
    let note = recorder.note(&operator, Event::Marked).detail(&act.detail(&who));
    match act.resource() {
        Some(resource) => note.resource(resource).write(),
        None => note.write(),
    }
    drop(recorder);
    let _ = written.await;
}
