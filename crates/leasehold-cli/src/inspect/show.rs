//! `show`: one resource or one member, whole.

use std::process::ExitCode;

use leasehold::store::{LeaseRecord, Mark, Profile, SessionRecord};
use leasehold::view::View;
use serde::Serialize;

use super::{name_of, open_existing, view};
use crate::args::ShowArgs;
use crate::failure::{Failure, code};
use crate::print;

#[derive(Serialize)]
struct ResourceShown {
    resource: String,
    token: Option<u64>,
    owner: Option<String>,
    member: Option<String>,
    revoked: bool,
    offered_to: Option<String>,
    marks: Vec<Mark>,
}

#[derive(Serialize)]
struct MemberShown {
    member: String,
    ended: bool,
    beat: u64,
    ttl_ms: u64,
    profile: Profile,
    holds: Vec<String>,
    marks: Vec<Mark>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Shown {
    Resource(ResourceShown),
    Members(Vec<MemberShown>),
}

pub(crate) async fn show(args: ShowArgs) -> Result<ExitCode, Failure> {
    let store = open_existing(&args.pool.store).await?;
    let view = view(&store, &args.pool.pool).await?;
    let subject = args.subject.as_str();
    let named =
        |session: &&SessionRecord| session.id.as_str() == subject || session.profile.name.as_str() == subject;
    let members: Vec<MemberShown> =
        view.sessions().values().filter(named).map(|s| member(&view, s)).collect();
    let is_resource = view.resources().iter().any(|resource| resource.id.as_str() == subject)
        || view.leases().contains_key(subject);
    let shown = match (is_resource, members.is_empty()) {
        (true, _) => Shown::Resource(resource(&view, subject)),
        (false, false) => Shown::Members(members),
        (false, true) => {
            let said = format!(
                "pool {} has no resource or member {subject:?}; `leasehold status` lists them",
                args.pool.pool
            );
            return Err(Failure::new(code::NO, said));
        }
    };
    if args.pool.json {
        print::json(&shown)?;
    } else {
        print::text(&lines(&shown))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn marks_on(view: &View, subject: &str) -> Vec<Mark> {
    view.marks().filter(|mark| mark.subject == subject).cloned().collect()
}

fn resource(view: &View, subject: &str) -> ResourceShown {
    let lease: Option<&LeaseRecord> = view.leases().get(subject);
    let holder = lease.and_then(|lease| view.holder(&lease.resource));
    ResourceShown {
        resource: subject.to_owned(),
        token: lease.map(|lease| lease.token.0),
        owner: holder.map(|holder| name_of(view, holder)),
        member: holder.map(ToString::to_string),
        revoked: lease.is_some_and(|lease| lease.revoked),
        offered_to: lease.and_then(|lease| lease.offer.as_ref()).map(|offer| name_of(view, &offer.to)),
        marks: marks_on(view, subject),
    }
}

fn member(view: &View, session: &SessionRecord) -> MemberShown {
    let holds = view.leases().keys().filter(|resource| view.holder(resource) == Some(&session.id));
    MemberShown {
        member: session.id.to_string(),
        ended: session.ended,
        beat: session.beat.0,
        ttl_ms: u64::try_from(session.ttl.as_millis()).unwrap_or(u64::MAX),
        profile: session.profile.clone(),
        holds: holds.map(ToString::to_string).collect(),
        marks: marks_on(view, session.profile.name.as_str()),
    }
}

fn lines(shown: &Shown) -> String {
    match shown {
        Shown::Resource(resource) => resource_lines(resource),
        Shown::Members(members) => members.iter().map(member_lines).collect::<Vec<_>>().join("\n"),
    }
}

fn pairs(pairs: &[(&str, String)], marks: &[Mark]) -> String {
    let yes = |value: &String| if value.is_empty() { "yes".to_owned() } else { value.clone() };
    let marks =
        marks.iter().map(|mark| (mark.kind.as_str(), mark.value.as_ref().map_or_else(String::new, yes)));
    let all = pairs.iter().cloned().chain(marks);
    all.map(|(key, value)| format!("{key:<10} {value}").trim_end().to_owned() + "\n").collect()
}

fn or_none(words: &[String], none: &str) -> String {
    if words.is_empty() { none.to_owned() } else { words.join(", ") }
}

fn resource_lines(shown: &ResourceShown) -> String {
    let owner = match (&shown.owner, &shown.member) {
        (Some(name), Some(member)) => format!("{name} ({member})"),
        _ => "nobody".to_owned(),
    };
    let token = shown.token.map_or_else(|| "none yet".to_owned(), |token| token.to_string());
    let mut rows = vec![("resource", shown.resource.clone()), ("owner", owner), ("token", token)];
    rows.extend(shown.offered_to.as_ref().map(|to| ("offered to", to.clone())));
    rows.extend(shown.revoked.then(|| ("revoked", "yes".to_owned())));
    pairs(&rows, &shown.marks)
}

fn member_lines(shown: &MemberShown) -> String {
    let profile = &shown.profile;
    let labels: Vec<String> = profile.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let capacity = profile.capacity.map_or_else(|| "no limit".to_owned(), |capacity| capacity.to_string());
    let rows = [
        ("member", shown.member.clone()),
        ("name", profile.name.to_string()),
        ("session", if shown.ended { "ended" } else { "open" }.to_owned()),
        ("beat", shown.beat.to_string()),
        ("TTL", format!("{:?}", std::time::Duration::from_millis(shown.ttl_ms))),
        ("ready", if profile.ready { "yes" } else { "no" }.to_owned()),
        ("capacity", capacity),
        ("labels", or_none(&labels, "none")),
        ("version", profile.version.clone().unwrap_or_else(|| "not known".to_owned())),
        ("holds", or_none(&shown.holds, "nothing")),
    ];
    pairs(&rows, &shown.marks)
}
