//! `plan` and `explain`: what should move, what would move, and why something is where it is.

use std::process::ExitCode;

use leasehold::operate::Shifts;
use leasehold::plan::{self, Facts, Member, NAME_LABEL};
use leasehold::view::View;
use leasehold::{MemberId, MemberName, Pool, ResourceId};

use super::{count, open_existing, view};
use crate::args::{ExplainArgs, PlanArgs};
use crate::failure::{Failure, code};
use crate::print::{self, Sheet, Span, Tone};
use crate::progress::Progress;

/// The most members that a "what if" lets join.
const JOIN_MAX: usize = 10_000;

pub(crate) async fn plan(args: PlanArgs) -> Result<ExitCode, Failure> {
    if args.join > JOIN_MAX {
        return Err(Failure::usage(format!("--join {} is too many; give at most {JOIN_MAX}", args.join)));
    }
    let store = open_existing(&args.pool.store).await?;
    let view = view(&store, &args.pool.pool).await?;
    let facts = what_if(&view, &args)?;
    let progress = Progress::begin(format!("planning for {}", count(facts.resources.len(), "resource")));
    let planned = Shifts::of(args.pool.pool.clone(), &facts);
    drop(progress);
    if args.pool.json {
        print::json(&planned)?;
    } else {
        print::sheet(&shifts(&planned))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The facts, changed as the options ask.
fn what_if(view: &View, args: &PlanArgs) -> Result<Facts, Failure> {
    let mut facts = view.facts(usize::MAX);
    for name in args.drain.iter().chain(&args.without) {
        if !facts.members.iter().any(|member| member.name == *name) {
            let said =
                format!("pool {} has no member named {name}; `leasehold status` lists them", args.pool.pool);
            return Err(Failure::new(code::NO, said));
        }
    }
    for member in &mut facts.members {
        member.drained |= args.drain.contains(&member.name);
    }
    let gone: Vec<MemberId> =
        facts.members.iter().filter(|m| args.without.contains(&m.name)).map(|m| m.id.clone()).collect();
    facts.members.retain(|member| !gone.contains(&member.id));
    for resource in &mut facts.resources {
        if resource.holder.as_ref().is_some_and(|holder| gone.contains(holder)) {
            resource.holder = None;
        }
    }
    let like = facts.members.first().cloned();
    for number in 1..=args.join {
        facts.members.push(newcomer(number, like.as_ref())?);
    }
    Ok(facts)
}

/// A member that is not there yet, as able as the others.
fn newcomer(number: usize, like: Option<&Member>) -> Result<Member, Failure> {
    let name = format!("newcomer-{number}");
    let refused = |error: leasehold::lease::IdError| Failure::usage(error.to_string());
    let mut labels = like.map(|member| member.labels.clone()).unwrap_or_default();
    labels.insert(NAME_LABEL.to_owned(), name.clone());
    Ok(Member {
        id: MemberId::new(&name).map_err(refused)?,
        name: MemberName::new(&name).map_err(refused)?,
        capacity: like.and_then(|member| member.capacity),
        labels,
        ready: true,
        settled: true,
        leaving: false,
        drained: false,
        cordoned: false,
        listing: like.and_then(|member| member.listing),
    })
}

/// What a plan would change, for people.
pub(crate) fn shifts(planned: &Shifts) -> Sheet {
    let Shifts { moves, taken, dropped, unowned, .. } = planned;
    let mut text = String::new();
    let show = |name: &Option<String>| name.clone().unwrap_or_default();
    for step in moves {
        text += &format!(
            "{} moves from {} to {} ({})\n",
            step.resource,
            show(&step.from),
            show(&step.to),
            show(&step.why)
        );
    }
    for step in taken {
        text += &format!("{} is taken by {}\n", step.resource, show(&step.to));
    }
    for step in dropped {
        text += &format!("{} is let go by {} ({})\n", step.resource, show(&step.from), show(&step.why));
    }
    let mut sheet = Sheet::default();
    sheet.text(&text);
    for step in unowned {
        let nobody = [format!("{} would be owned by ", step.resource).into(), Tone::Bad.of("nobody")];
        let why = Span::from(format!(" ({})", show(&step.why)));
        sheet.line(2, nobody.into_iter().chain([why]));
    }
    sheet.text(&match planned.total() {
        0 => "nothing moves".to_owned(),
        total => format!("{total} of {} would change hands", count(planned.resources, "resource")),
    });
    sheet.text("\n");
    let rows =
        planned.members.iter().map(|m| vec![m.name.clone(), m.holds.to_string(), m.would_hold.to_string()]);
    sheet.table(&["MEMBER", "HOLDS", "WOULD HOLD"], rows);
    sheet
}

pub(crate) async fn explain(args: ExplainArgs) -> Result<ExitCode, Failure> {
    let (pool, resource) = subject(&args)?;
    let store = open_existing(&args.store).await?;
    let view = view(&store, &pool).await?;
    let Some(explanation) = plan::explain(&view.facts(usize::MAX), &resource) else {
        let said =
            format!("pool {pool} has no resource {resource}; `leasehold status --pool {pool}` lists them");
        return Err(Failure::new(code::NO, said));
    };
    if args.json {
        print::json(&explanation)?;
    } else {
        print::text(&explanation.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn subject(args: &ExplainArgs) -> Result<(Pool, ResourceId), Failure> {
    let refused = |error: leasehold::lease::IdError| Failure::usage(error.to_string());
    match (args.resource.split_once('/'), &args.pool) {
        (Some((pool, resource)), _) => {
            Ok((Pool::new(pool).map_err(refused)?, ResourceId::new(resource).map_err(refused)?))
        }
        (None, Some(pool)) => Ok((pool.clone(), ResourceId::new(&args.resource).map_err(refused)?)),
        (None, None) => Err(Failure::usage("name the pool too, as in `leasehold explain jobs/a`")),
    }
}
