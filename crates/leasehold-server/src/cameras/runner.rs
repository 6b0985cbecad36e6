//! A runner: a member of its tenant's pool of runners, whose session the control plane keeps.
//!
//! Its id is a stable name. Each time it registers it is a new *incarnation*, unless it says that it is still the same: what
//! an earlier one held runs out, and is not renewed any more.

use std::collections::BTreeMap;

use leasehold::store::{Profile, SessionRecord};
use leasehold::{MemberId, MemberName, plan};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::holders::{KEY, Known, wall_time};

/// The label with what is known of a runner.
const RUNNER: &str = "leasehold.runner";
/// The site of a runner that works for all of them.
pub(super) const ANY_SITE: &str = "*";

/// What a runner is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunnerStatus {
    /// It works, and takes cameras.
    #[default]
    Active,
    /// It does not work: it said so, or was not heard of for too long.
    Inactive,
    /// It hands over what it has, and takes nothing.
    Draining,
    /// It keeps what it has, and takes nothing new.
    Maintenance,
}

impl RunnerStatus {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Inactive => "inactive",
            Self::Draining => "draining",
            Self::Maintenance => "maintenance",
        }
    }
}

/// What is written down of a runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) site_id: String,
    pub(super) deployment_group: String,
    pub(super) deployment_version: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) metrics_port: Option<u16>,
    pub(super) capacity: u32,
    pub(super) capabilities: Vec<String>,
    pub(super) status: RunnerStatus,
    pub(super) incarnation: String,
    /// Wall time, for people.
    pub(super) registered_nanos: u64,
    pub(super) heard_nanos: u64,
    pub(super) metrics: Map<String, Value>,
}

/// A runner as its session has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Runner {
    pub(super) session: MemberId,
    pub(super) name: MemberName,
    pub(super) record: Record,
    pub(super) key: Option<String>,
    pub(super) ended: bool,
}

impl Record {
    /// What a runner's session publishes.
    pub(super) fn profile(&self, name: &MemberName, key: Option<&str>) -> Profile {
        let record = serde_json::to_string(self).unwrap_or_default();
        let mut labels = BTreeMap::from([(RUNNER.to_owned(), record)]);
        labels.extend(key.map(|key| (KEY.to_owned(), key.to_owned())));
        Profile {
            name: name.clone(),
            capacity: Some(self.capacity.into()),
            labels,
            ready: self.status == RunnerStatus::Active,
            settled: true,
            leaving: false,
            listing: None,
            plan_version: plan::VERSION,
            flaps: 0,
            version: Some(self.deployment_version.clone()),
        }
    }
}

impl Runner {
    pub(super) fn of(session: &SessionRecord) -> Option<Self> {
        let labels = &session.profile.labels;
        Some(Self {
            session: session.id.clone(),
            name: session.profile.name.clone(),
            record: serde_json::from_str(labels.get(RUNNER)?).ok()?,
            key: labels.get(KEY).cloned(),
            ended: session.ended,
        })
    }

    /// The newest incarnation of every runner, those that have ended for good only where there is no other.
    pub(super) fn all(known: &Known) -> BTreeMap<MemberName, Self> {
        let mut newest: BTreeMap<MemberName, Self> = BTreeMap::new();
        // Sessions are in the order in which they were opened.
        for runner in known.view.sessions().values().filter_map(Self::of) {
            if !runner.ended || newest.get(&runner.name).is_none_or(|before| before.ended) {
                newest.insert(runner.name.clone(), runner);
            }
        }
        newest
    }

    /// The newest incarnation of one runner.
    pub(super) fn named(known: &Known, name: &MemberName) -> Option<Self> {
        let of_name = known.view.sessions().values().filter(|session| session.profile.name == *name);
        let mut all: Vec<Self> = of_name.filter_map(Self::of).collect();
        all.sort_by(|one, two| (!one.ended, &one.session).cmp(&(!two.ended, &two.session)));
        all.pop()
    }

    /// What it is up to: one that is not heard of any more does not work.
    pub(super) fn status(&self) -> RunnerStatus {
        if self.ended { RunnerStatus::Inactive } else { self.record.status }
    }

    /// Whether it may work at this site, with these capabilities asked of it, for this deployment group.
    pub(super) fn fits(
        &self,
        site: &str,
        capabilities: &[String],
        group: Option<&str>,
    ) -> Result<(), String> {
        let Record { site_id, deployment_group, capabilities: has, .. } = &self.record;
        if site_id != ANY_SITE && site_id != site {
            return Err(format!("it is at site {site}, and the runner is for site {site_id}"));
        }
        if let Some(lacks) = capabilities.iter().find(|wanted| !has.contains(wanted)) {
            return Err(format!("it needs the capability {lacks}, which the runner has not"));
        }
        if let Some(group) = group.filter(|group| group != deployment_group) {
            return Err(format!(
                "it is for the deployment group {group}, and the runner is of {deployment_group}"
            ));
        }
        Ok(())
    }

    /// As it is answered.
    pub(super) fn form(&self, tenant: &str, cameras: Vec<String>) -> RunnerForm {
        let Record { registered_nanos, heard_nanos, .. } = self.record;
        let record = self.record.clone();
        RunnerForm {
            runner_id: self.name.to_string(),
            tenant_id: tenant.to_owned(),
            site_id: record.site_id,
            registered_at: wall_time(registered_nanos),
            last_heartbeat: wall_time(heard_nanos),
            deployment_group: record.deployment_group,
            deployment_version: record.deployment_version,
            host: record.host,
            port: record.port,
            metrics_port: record.metrics_port,
            status: self.status(),
            capacity: record.capacity,
            current_load: cameras.len(),
            capabilities: record.capabilities,
            metrics: record.metrics,
            incarnation: record.incarnation,
            assigned_cameras: cameras,
        }
    }
}

/// A runner as it is answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunnerForm {
    /// Its name, the same after a restart.
    #[schema(example = "runner-abc123")]
    runner_id: String,
    /// Whose cameras it works for.
    tenant_id: String,
    /// At which site; `*` for all.
    site_id: String,
    /// When this incarnation registered.
    registered_at: String,
    /// When it was last heard of.
    last_heartbeat: String,
    /// What is deployed together.
    deployment_group: String,
    /// Which version of that.
    deployment_version: String,
    /// Where it runs.
    host: String,
    /// Where it answers.
    port: u16,
    /// Where its figures are.
    metrics_port: Option<u16>,
    /// What it is up to.
    status: RunnerStatus,
    /// How many cameras it takes.
    capacity: u32,
    /// How many it has, by its leases.
    current_load: usize,
    /// What it can do.
    capabilities: Vec<String>,
    /// What it said of itself last.
    metrics: Map<String, Value>,
    /// Which of its lives this is; sent with another registration, it goes on.
    incarnation: String,
    /// The cameras that this incarnation has leases of.
    assigned_cameras: Vec<String>,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn runner(name: &str, site: &str, capacity: u32) -> Runner {
        let name = MemberName::new(name).unwrap();
        let record = Record {
            site_id: site.to_owned(),
            deployment_group: "production".to_owned(),
            deployment_version: "v1".to_owned(),
            host: "h".to_owned(),
            port: 8080,
            metrics_port: None,
            capacity,
            capabilities: vec!["rtsp".to_owned()],
            status: RunnerStatus::Active,
            incarnation: format!("{name}-1"),
            registered_nanos: 0,
            heard_nanos: 0,
            metrics: Map::new(),
        };
        Runner { session: MemberId::new(format!("{name}-1")).unwrap(), name, record, key: None, ended: false }
    }

    // proves R179
    #[test]
    fn a_runner_is_read_back_from_what_its_session_says() {
        let runner = runner("r", "*", 4);
        let profile = runner.record.profile(&runner.name, Some("k"));
        let session = SessionRecord {
            id: runner.session.clone(),
            ttl: std::time::Duration::from_secs(1),
            beat: leasehold::lease::BeatNumber(1),
            ended: true,
            profile,
        };
        let read = Runner::of(&session).unwrap();
        assert_eq!(read, Runner { key: Some("k".to_owned()), ended: true, ..runner });
        assert_eq!(read.status(), RunnerStatus::Inactive, "whoever is not heard of does not work");
    }

    #[test]
    fn a_runner_fits_by_site_capabilities_and_group() {
        let (everywhere, here) = (runner("a", "*", 1), runner("b", "s", 1));
        let needs = |what: &str| vec![what.to_owned()];
        assert!(everywhere.fits("x", &[], None).is_ok() && here.fits("s", &needs("rtsp"), None).is_ok());
        assert!(here.fits("x", &[], None).unwrap_err().contains("site s"));
        assert!(here.fits("s", &needs("gpu"), None).unwrap_err().contains("gpu"));
        assert!(here.fits("s", &[], Some("canary")).unwrap_err().contains("canary"));
        assert!(here.fits("s", &[], Some("production")).is_ok());
    }
}
