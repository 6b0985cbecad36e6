//! `plan` and `explain`: what should move, what would move, and why something is where it is.

use std::collections::BTreeMap;
use std::process::ExitCode;

use leasehold::plan::{self, Facts, Member, NAME_LABEL, Plan};
use leasehold::view::View;
use leasehold::{MemberId, MemberName, Pool, ResourceId};
use serde::Serialize;

use super::{count, open_existing, view};
use crate::args::{ExplainArgs, PlanArgs};
use crate::failure::{Failure, code};
use crate::print;

/// The most members that a "what if" lets join.
const JOIN_MAX: usize = 10_000;

#[derive(Serialize)]
struct Planned {
    pool: Pool,
    resources: usize,
    moves: Vec<Step>,
    taken: Vec<Step>,
    dropped: Vec<Step>,
    unowned: Vec<Step>,
    members: Vec<Load>,
}

#[derive(Serialize)]
struct Step {
    resource: ResourceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Serialize)]
struct Load {
    name: String,
    member: String,
    holds: u64,
    would_hold: u64,
}

pub(crate) async fn plan(args: PlanArgs) -> Result<ExitCode, Failure> {
    if args.join > JOIN_MAX {
        return Err(Failure::usage(format!("--join {} is too many; give at most {JOIN_MAX}", args.join)));
    }
    let store = open_existing(&args.pool.store).await?;
    let view = view(&store, &args.pool.pool).await?;
    let facts = what_if(&view, &args)?;
    let planned = planned(args.pool.pool.clone(), &facts);
    if args.pool.json {
        print::json(&planned)?;
    } else {
        print::text(&lines(&planned))?;
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

fn planned(pool: Pool, facts: &Facts) -> Planned {
    let plan = Plan::compute(facts);
    let names: BTreeMap<&MemberId, &MemberName> = facts.members.iter().map(|m| (&m.id, &m.name)).collect();
    let name = |id: &MemberId| names.get(id).map_or_else(|| id.to_string(), ToString::to_string);
    let step =
        |resource: &ResourceId, from: Option<&MemberId>, to: Option<&MemberId>, why: Option<String>| Step {
            resource: resource.clone(),
            from: from.map(name),
            to: to.map(name),
            why,
        };
    let moves = plan
        .moves()
        .iter()
        .map(|m| step(&m.resource, Some(&m.from), Some(&m.to), Some(m.reason.to_string())));
    let taken = plan.placements().iter().map(|p| step(&p.resource, None, Some(&p.to), None));
    let dropped =
        plan.drops().iter().map(|d| step(&d.resource, Some(&d.from), None, Some(d.reason.to_string())));
    let unowned =
        plan.unplaceable().iter().map(|u| step(&u.resource, None, None, Some(u.reason.to_string())));
    let members = facts.members.iter().map(|member| Load {
        name: member.name.to_string(),
        member: member.id.to_string(),
        holds: plan.load(&member.id),
        would_hold: plan.planned(&member.id),
    });
    let mut members: Vec<Load> = members.collect();
    members.sort_by(|one, two| (&one.name, &one.member).cmp(&(&two.name, &two.member)));
    Planned {
        pool,
        resources: facts.resources.len(),
        moves: sorted(moves),
        taken: sorted(taken),
        dropped: sorted(dropped),
        unowned: sorted(unowned),
        members,
    }
}

fn sorted(steps: impl Iterator<Item = Step>) -> Vec<Step> {
    let mut steps: Vec<Step> = steps.collect();
    steps.sort_by(|one, two| one.resource.cmp(&two.resource));
    steps
}

fn lines(planned: &Planned) -> String {
    let Planned { moves, taken, dropped, unowned, .. } = planned;
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
    for step in unowned {
        text += &format!("{} would be owned by nobody ({})\n", step.resource, show(&step.why));
    }
    match moves.len() + taken.len() + dropped.len() {
        0 => text.push_str("nothing moves\n"),
        total => text += &format!("{total} of {} would change hands\n", count(planned.resources, "resource")),
    }
    let rows =
        planned.members.iter().map(|m| vec![m.name.clone(), m.holds.to_string(), m.would_hold.to_string()]);
    text + "\n" + &print::columns(&["MEMBER", "HOLDS", "WOULD HOLD"], &rows.collect::<Vec<_>>())
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
