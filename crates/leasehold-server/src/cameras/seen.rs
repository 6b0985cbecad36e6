//! Runners as the database has them, for whoever looks without a control plane.

use std::collections::{HashMap, HashSet};

use leasehold::store::{LeaseRecord, SessionRecord};
use leasehold::{MemberId, MemberName, Pool};
use serde::Serialize;

use super::assign::INCARNATION;
use super::runner::{Runner, RunnerStatus};
use super::tenant::{CAMERAS, RUNNERS};
use crate::holders::label_of;

/// A runner that is heard of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunnerSeen {
    /// Its name.
    pub runner_id: MemberName,
    /// Its version.
    pub version: String,
    /// What it is up to, in one word.
    pub status: &'static str,
    /// How many cameras it has.
    pub cameras: usize,
}

/// The pools of a tenant's cameras and runners.
pub(crate) fn pools_of(tenant: &str) -> Option<(Pool, Pool)> {
    Some((Pool::new(format!("{tenant}.{CAMERAS}")).ok()?, Pool::new(format!("{RUNNERS}{tenant}")).ok()?))
}

/// The runners of a group, by what was read of their sessions and of the leases of cameras.
pub(crate) fn runners_seen(
    sessions: &[SessionRecord],
    held: &[LeaseRecord],
    holders: &[SessionRecord],
    group: &str,
) -> Vec<RunnerSeen> {
    let label = label_of(INCARNATION);
    let holding: HashSet<&MemberId> = held.iter().filter_map(|lease| lease.holder.as_ref()).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for holder in holders.iter().filter(|holder| !holder.ended && holding.contains(&holder.id)) {
        if let Some(incarnation) = holder.profile.labels.get(&label) {
            *counts.entry(incarnation).or_default() += 1;
        }
    }
    let living = sessions.iter().filter_map(Runner::of);
    let living = living.filter(|runner| !runner.ended && runner.record.deployment_group == group);
    let mut seen: Vec<RunnerSeen> = living
        .map(|runner| RunnerSeen {
            cameras: counts.get(runner.record.incarnation.as_str()).copied().unwrap_or(0),
            runner_id: runner.name,
            version: runner.record.deployment_version,
            status: RunnerStatus::as_str(runner.record.status),
        })
        .collect();
    seen.sort_by(|one, two| (&one.version, &one.runner_id).cmp(&(&two.version, &two.runner_id)));
    seen
}
