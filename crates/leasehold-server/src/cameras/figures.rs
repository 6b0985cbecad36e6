//! Figures of cameras and runners for Prometheus, under the names of document 004.
//!
//! Every replica measures the same: whoever adds replicas up counts everything several times, and takes the greatest instead.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use leasehold::store::StoreError;
use leasehold::{ResourceId, clock};

use super::camera::Kept;
use super::lease::SHARD;
use super::runner::{Runner, RunnerStatus};
use super::tenant::{id_of, runners_of};
use crate::app::App;
use crate::holders::{Desk, label_of};

/// What is remembered between two looks.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// The runners of each tenant that were told of: what is not there any more is nought.
    told: HashMap<String, HashSet<String>>,
    /// Who had which camera last.
    owners: HashMap<String, HashMap<ResourceId, String>>,
}

/// What a runner has.
#[derive(Debug, Default)]
struct Share<'a> {
    cameras: usize,
    shards: BTreeSet<&'a str>,
    draining: bool,
}

impl Figures {
    /// Looks at the cameras of a tenant.
    pub(super) async fn measure(&mut self, app: &App, desk: &Desk) -> Result<(), StoreError> {
        let Some(tenant) = id_of(desk.pool()) else { return Ok(()) };
        let of_runners = runners_of(desk.pool()).and_then(|pool| app.holders().known(&pool));
        let runners = match of_runners {
            Some(runners) => Runner::all(&*runners.lately().await?),
            None => BTreeMap::new(),
        };
        let known = desk.lately().await?;
        let label = label_of(SHARD);
        let (mut desired, mut pending, mut least) = (0_u32, 0_u32, None);
        let mut shares: BTreeMap<String, Share<'_>> = BTreeMap::new();
        for runner in runners.values().filter(|runner| !runner.ended) {
            let draining = runner.status() == RunnerStatus::Draining;
            shares.insert(runner.name.to_string(), Share { draining, ..Share::default() });
        }
        let owners = self.owners.entry(tenant.to_owned()).or_default();
        for kept in known.view.declared().values().filter_map(Kept::of) {
            let wanted = !kept.is_deleting() && !known.is_paused(kept.id());
            desired += u32::from(wanted);
            let Some(standing) = desk.standing(&known, kept.id()) else {
                pending += u32::from(wanted);
                continue;
            };
            let left = standing.expires_nanos.saturating_sub(clock::unix_nanos());
            least = Some(least.map_or(left, |least: u64| least.min(left)));
            let share = shares.entry(standing.holder_id.clone()).or_default();
            share.cameras += 1;
            share.shards.extend(known.label_of_holder(kept.id(), &label));
            let before = owners.insert(kept.id().clone(), standing.holder_id.clone());
            if before.is_some_and(|before| before != standing.holder_id) {
                metrics::counter!("owner_changes_total", "tenant_id" => tenant.to_owned()).increment(1);
            }
        }
        owners.retain(|camera, _| known.declared(camera).is_some());
        let gauge = |name: &'static str, value: f64| {
            metrics::gauge!(name, "tenant_id" => tenant.to_owned()).set(value);
        };
        gauge("streams_desired_total", f64::from(desired));
        gauge("streams_pending_total", f64::from(pending));
        gauge("lease_time_to_expiry_seconds", least.map_or(0.0, |nanos| nanos as f64 / 1e9));
        let now: HashSet<String> = shares.keys().cloned().collect();
        let before = self.told.insert(tenant.to_owned(), now).unwrap_or_default();
        let gone = before.into_iter().filter(|name| !shares.contains_key(name)).collect::<Vec<_>>();
        let all = shares.iter().map(|(name, share)| (name.clone(), share));
        let nothing = Share::default();
        for (runner, share) in all.chain(gone.into_iter().map(|name| (name, &nothing))) {
            let gauge = |name: &'static str, value: usize| {
                let labels = [("tenant_id", tenant.to_owned()), ("runner_id", runner.clone())];
                metrics::gauge!(name, &labels).set(value as f64);
            };
            gauge("runner_streams_owned", share.cameras);
            gauge("runner_shards", share.shards.len());
            gauge("drain_in_progress", usize::from(share.draining));
        }
        Ok(())
    }
}
