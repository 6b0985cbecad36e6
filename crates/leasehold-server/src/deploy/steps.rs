//! What operators do: start, look, promote, abort. Directly in the database, whether a control plane runs or not.

use std::collections::BTreeMap;

use leasehold::Pool;
use leasehold::store::{Cursor, Store};
use serde::Serialize;

use super::{DeployError, Deployment, read, write};
use crate::cameras::{RunnerSeen, runners_seen};
use crate::keys;

/// How a deployment stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Whose cameras.
    pub tenant: String,
    /// What is deployed together.
    pub group: String,
    /// What was started last, if anything was.
    pub deployment: Option<Deployment>,
    /// The runners of the group that are heard of.
    pub runners: Vec<RunnerSeen>,
    /// How many cameras each version has.
    pub cameras: BTreeMap<String, usize>,
}

/// A group of one tenant.
#[derive(Debug)]
pub struct Group<'a> {
    store: &'a dyn Store,
    tenant: String,
    group: String,
    cameras: Pool,
    runners: Pool,
}

impl<'a> Group<'a> {
    /// The group of that name.
    ///
    /// # Errors
    /// There can be no such tenant or group.
    pub fn new(store: &'a dyn Store, tenant: &str, group: &str) -> Result<Self, DeployError> {
        let refused = |said: String| DeployError::Refused(said);
        keys::check_tenant(tenant).map_err(|error| refused(error.to_string()))?;
        leasehold::MemberName::new(group)
            .map_err(|error| refused(error.to_string().replacen("member name", "group", 1)))?;
        let (cameras, runners) =
            crate::cameras::pools_of(tenant).ok_or_else(|| refused(format!("{tenant:?} is no tenant")))?;
        Ok(Self { store, tenant: tenant.to_owned(), group: group.to_owned(), cameras, runners })
    }

    /// How it stands.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn status(&self) -> Result<Status, DeployError> {
        let (deployment, _) = read(self.store, &self.cameras, &self.group).await?;
        let runners = self.seen().await?;
        let mut cameras = BTreeMap::new();
        for runner in &runners {
            *cameras.entry(runner.version.clone()).or_insert(0) += runner.cameras;
        }
        let (tenant, group) = (self.tenant.clone(), self.group.clone());
        Ok(Status { tenant, group, deployment, runners, cameras })
    }

    async fn seen(&self) -> Result<Vec<RunnerSeen>, DeployError> {
        let sessions = self.store.sessions(&self.runners, Cursor::START).await?.items;
        let held = self.store.leases(&self.cameras, Cursor::START).await?.items;
        let holders = self.store.sessions(&self.cameras, Cursor::START).await?.items;
        Ok(runners_seen(&sessions, &held, &holders, &self.group))
    }

    /// Begins to deploy a version.
    ///
    /// # Errors
    /// Another is being deployed, or the store does not answer.
    pub async fn start(&self, version: &str) -> Result<Status, DeployError> {
        let (before, expected) = read(self.store, &self.cameras, &self.group).await?;
        let next = Deployment::start(before.as_ref(), version)?;
        self.step(&next, expected).await
    }

    /// Has the version that is warming up take over.
    ///
    /// # Errors
    /// None is, nobody is there to take over, or the store does not answer.
    pub async fn promote(&self) -> Result<Status, DeployError> {
        let (before, expected) = self.under_way().await?;
        let new = self.seen().await?.into_iter().filter(|runner| runner.version == before.version);
        let next = before.promote(new.map(|runner| runner.runner_id).collect())?;
        self.step(&next, expected).await
    }

    /// Gives everything back.
    ///
    /// # Errors
    /// Nothing is being deployed, or the store does not answer.
    pub async fn abort(&self) -> Result<Status, DeployError> {
        let (before, expected) = self.under_way().await?;
        self.step(&before.abort("an operator aborted it")?, expected).await
    }

    async fn under_way(&self) -> Result<(Deployment, leasehold::store::Version), DeployError> {
        let (before, expected) = read(self.store, &self.cameras, &self.group).await?;
        let nothing =
            || DeployError::Refused(format!("nothing was ever deployed in the group {}", self.group));
        before.map(|before| (before, expected)).ok_or_else(nothing)
    }

    async fn step(
        &self,
        next: &Deployment,
        expected: leasehold::store::Version,
    ) -> Result<Status, DeployError> {
        write(self.store, &self.cameras, &self.group, next, expected).await?;
        self.status().await
    }
}
