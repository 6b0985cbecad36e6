//! `status`: who is there and who owns what.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use leasehold::Pool;
use leasehold::plan::{Plan, Resource};
use leasehold::store::{Grade, Mark, MarkKind, SERVER_POOL, SessionRecord, Store};
use leasehold::view::View;
use serde::Serialize;

use super::nodes::{History, Nodes};
use super::{check_pool, count, name_of, open_existing, view};
use crate::args::StatusArgs;
use crate::failure::Failure;
use crate::operate::is_quarantined_under;
use crate::print::{self, Sheet, Span, Tone};
use crate::progress::Progress;

#[derive(Serialize)]
struct Report {
    store: String,
    grade: Grade,
    pools: Vec<PoolReport>,
}

#[derive(Serialize)]
struct PoolReport {
    pool: Pool,
    era: Option<String>,
    frozen: bool,
    members: Vec<MemberReport>,
    resources: Vec<ResourceReport>,
    marks: Vec<Mark>,
}

#[derive(Serialize)]
struct MemberReport {
    name: String,
    member: String,
    held: u64,
    share: String,
    beat: u64,
    ttl_ms: u64,
    state: Vec<&'static str>,
}

#[derive(Serialize)]
struct ResourceReport {
    resource: String,
    owner: Option<String>,
    member: Option<String>,
    token: Option<u64>,
    why: Option<String>,
}

pub(crate) async fn status(args: StatusArgs) -> Result<ExitCode, Failure> {
    let store = open_existing(&args.store).await?;
    let pools = match args.pool {
        Some(pool) => {
            check_pool(&store, &pool).await?;
            vec![pool]
        }
        None => store.pools().await?.into_iter().filter(|pool| pool.as_str() != SERVER_POOL).collect(),
    };
    if args.nodes {
        return nodes(&store, pools, args.json).await;
    }
    let progress = Progress::begin("looking at pools");
    progress.of(pools.len());
    let mut reports = Vec::new();
    for pool in pools {
        reports.push(report(pool.clone(), &view(&store, &pool).await?));
        progress.more(1);
    }
    drop(progress);
    let report =
        Report { store: args.store.store.to_string(), grade: store.capabilities().grade, pools: reports };
    if args.json {
        print::json(&report)?;
    } else {
        print::sheet(&lines(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The members of each pool with what each of them owns.
async fn nodes(store: &Arc<dyn Store>, pools: Vec<Pool>, json: bool) -> Result<ExitCode, Failure> {
    let (mut all, mut sheet) = (BTreeMap::new(), Sheet::default());
    for pool in pools {
        let mut history = History::default();
        history.read(store, &pool).await?;
        let nodes = Nodes::of(&view(store, &pool).await?, &history, None);
        sheet.text(&format!("pool {pool}"));
        sheet.add(nodes.sheet());
        all.insert(pool.to_string(), nodes);
    }
    if json {
        print::json(&all)?
    } else {
        print::sheet(&sheet)?
    }
    Ok(ExitCode::SUCCESS)
}

fn report(pool: Pool, view: &View) -> PoolReport {
    let facts = view.facts(usize::MAX);
    let plan = Plan::compute(&facts);
    let living = view.sessions().values().filter(|session| !session.ended);
    let mut members: Vec<MemberReport> = living.map(|session| member_report(view, &plan, session)).collect();
    members.sort_by(|one, two| (&one.name, &one.member).cmp(&(&two.name, &two.member)));
    let mut resources: Vec<&Resource> = facts.resources.iter().collect();
    resources.sort_by(|one, two| one.id.cmp(&two.id));
    PoolReport {
        pool,
        era: view.era().map(|era| era.nonce.to_string()),
        frozen: view.era().is_some_and(|era| era.frozen),
        members,
        resources: resources.into_iter().map(|resource| resource_report(view, &plan, resource)).collect(),
        marks: view.marks().cloned().collect(),
    }
}

fn member_report(view: &View, plan: &Plan, session: &SessionRecord) -> MemberReport {
    let profile = &session.profile;
    let marked = |kind| view.mark(kind, profile.name.as_str()).is_some();
    let state = [
        (!profile.ready, "not ready"),
        (!profile.settled, "settling"),
        (profile.leaving, "leaving"),
        (view.is_drained(profile.name.as_str()), "drained"),
        (marked(MarkKind::Cordon), "cordoned"),
    ];
    let quota = plan.quota(&session.id);
    let share = if quota.floor == quota.ceiling {
        quota.floor.to_string()
    } else {
        format!("{}-{}", quota.floor, quota.ceiling)
    };
    MemberReport {
        name: profile.name.to_string(),
        member: session.id.to_string(),
        held: plan.load(&session.id),
        share,
        beat: session.beat.0,
        ttl_ms: u64::try_from(session.ttl.as_millis()).unwrap_or(u64::MAX),
        state: state.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect(),
    }
}

fn resource_report(view: &View, plan: &Plan, resource: &Resource) -> ResourceReport {
    let id = &resource.id;
    let token = view.leases().get(id).map(|lease| lease.token);
    let quarantine = view.mark(MarkKind::Quarantine, id.as_str()).and_then(|mark| mark.value.clone());
    let quarantine = quarantine.filter(|note| token.is_some_and(|token| is_quarantined_under(note, token)));
    let unowned = || {
        let nobody = plan.unplaceable().iter().find(|unplaceable| unplaceable.resource == *id);
        let taker = plan.placements().iter().find(|placed| placed.resource == *id);
        match (nobody, taker) {
            (Some(nobody), _) => nobody.reason.to_string(),
            (None, Some(taker)) => format!("{} is to take it", name_of(view, &taker.to)),
            (None, None) => "nobody wants it".to_owned(),
        }
    };
    ResourceReport {
        resource: id.to_string(),
        owner: resource.holder.as_ref().map(|holder| name_of(view, holder)),
        member: resource.holder.as_ref().map(ToString::to_string),
        token: token.map(|token| token.0),
        why: if resource.holder.is_none() { Some(unowned()) } else { quarantine },
    }
}

fn lines(report: &Report) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.text(&format!("{}, {}", report.store, report.grade));
    if report.pools.is_empty() {
        sheet.text("no pools yet");
    }
    for pool in &report.pools {
        add_pool(pool, &mut sheet);
    }
    sheet
}

fn add_pool(pool: &PoolReport, sheet: &mut Sheet) {
    let owned = pool.resources.iter().filter(|resource| resource.owner.is_some()).count();
    let members = count(pool.members.len(), "member");
    let resources = count(pool.resources.len(), "resource");
    sheet.text(&format!("\npool {}: {members}, {owned} of {resources} owned", pool.pool));
    if pool.frozen {
        let rest = ": the store may have forgotten something; nothing changes hands until it is thawed";
        sheet.line(2, [Tone::Bad.of("frozen"), rest.into()]);
    }
    if !pool.members.is_empty() {
        sheet.text("\n");
        sheet.table(&["MEMBER", "HELD", "SHARE", "STATE", "ID"], pool.members.iter().map(member_row));
    }
    if !pool.resources.is_empty() {
        sheet.text("\n");
        let of_pause = pool.marks.iter().filter(|mark| mark.kind == MarkKind::Pause);
        let paused: BTreeSet<&str> = of_pause.map(|mark| mark.subject.as_str()).collect();
        let rows = pool.resources.iter().map(|resource| resource_row(pool, &paused, resource));
        sheet.table(&["RESOURCE", "OWNER", "TOKEN", "WHY"], rows);
    }
    // A quarantine is told beside its resource.
    let marks: Vec<&Mark> = pool.marks.iter().filter(|mark| mark.kind != MarkKind::Quarantine).collect();
    if !marks.is_empty() {
        sheet.text("\n");
        sheet.table(&["MARK", "ON", "TO"], marks.into_iter().map(mark_row));
    }
}

fn member_row(member: &MemberReport) -> Vec<Span> {
    let state =
        if member.state.is_empty() { Tone::Good.of("ok") } else { Tone::Warn.of(member.state.join(", ")) };
    let [held, share] = [member.held.to_string().into(), member.share.clone().into()];
    vec![member.name.clone().into(), held, share, state, member.member.clone().into()]
}

fn resource_row(pool: &PoolReport, paused: &BTreeSet<&str>, resource: &ResourceReport) -> Vec<Span> {
    let owner = match (&resource.owner, &resource.member) {
        (Some(name), Some(member)) => unmistakable(pool, name, member).into(),
        // That is what was asked for.
        _ if paused.contains(resource.resource.as_str()) => "nobody".into(),
        _ => Tone::Bad.of("nobody"),
    };
    let token = resource.token.map_or_else(|| "-".to_owned(), |token| token.to_string());
    let why = resource.why.clone().unwrap_or_default();
    vec![resource.resource.clone().into(), owner, token.into(), why.into()]
}

/// A name, with the end of the member's id where several members go by it.
fn unmistakable(pool: &PoolReport, name: &str, member: &str) -> String {
    let same = pool.members.iter().filter(|other| other.name == name).count();
    match member.rsplit_once('-') {
        Some((_, end)) if same > 1 => format!("{name} ...{end}"),
        _ => name.to_owned(),
    }
}

fn mark_row(mark: &Mark) -> Vec<String> {
    vec![mark.kind.as_str().to_owned(), mark.subject.clone(), mark.value.clone().unwrap_or_default()]
}
