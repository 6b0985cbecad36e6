//! A camera's lease: what is known of it and how it is answered.
//!
//! The id of a lease is a UUID and the id of its session, so what is done to it by that id can touch no other. Its last bytes
//! are a hash of its camera: what the ledger has of a lease that is over is found among the few rows of one camera.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::ledger::{Entry, Event};
use leasehold::store::MarkKind;
use leasehold::{MemberId, ResourceId, clock, plan};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::assign::INCARNATION;
use crate::holders::{Holder, Known, RESOURCE, Standing, wall_time};

/// Among what else is known of a lease.
const TENANT: &str = "tenant";
const SITE: &str = "site";
pub(super) const SHARD: &str = "shard";
const CONFIG: &str = "config_version";
const ZONES: &str = "zone_version";
const ACQUIRED: &str = "acquired";

/// What the session of a reservation is called before the id of the lease that it is to become.
const PENDING: &str = "pending-";
/// After how long without a heartbeat a lease is shown as overdue: three of those of document 004.
const OVERDUE: Duration = Duration::from_secs(90);

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LeaseStatus {
    /// Its holder may work.
    Active,
    /// It was not renewed in time.
    Expired,
    /// Its holder let go.
    Released,
    /// It was taken back: its holder is to stop.
    Revoked,
    /// A reservation: nobody may work by it. It becomes active when whoever has the camera has let go.
    Pending,
}

/// A lease as it is answered.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct CameraLease {
    /// Names it.
    #[schema(example = "018c2f6e-7a10-8f4b-b2c1-5d3a9e0b77aa")]
    pub(super) lease_id: String,
    /// What it is of.
    #[schema(example = "cam-001")]
    pub(super) camera_uuid: String,
    /// Who holds it.
    #[schema(example = "runner-abc123")]
    pub(super) runner_id: String,
    /// Which part of that.
    pub(super) shard_id: String,
    /// Whose camera.
    pub(super) tenant_id: String,
    /// At which site.
    pub(super) site_id: String,
    /// When it was granted.
    pub(super) acquired_at: String,
    /// When its holder must have renewed it, for people: nothing is decided by it.
    pub(super) expires_at: String,
    /// When it was last renewed.
    pub(super) renewed_at: Option<String>,
    /// How it stands.
    pub(super) status: LeaseStatus,
    /// When its holder last said how its work goes.
    pub(super) last_heartbeat: String,
    /// What it said.
    pub(super) processing_stats: Map<String, Value>,
    /// The configuration that its holder had when it asked.
    pub(super) config_version: String,
    /// The zones that it had.
    pub(super) zone_version: String,
    /// Rises with every grant of the camera. Whoever is written to should refuse lower ones.
    pub(super) fencing_token: u64,
    /// How long it lasts from the request on.
    pub(super) ttl_seconds: u64,
    /// Whether another runner waits for the camera: finish, and release it.
    pub(super) release_requested: bool,
    /// Whether nothing was heard of the work for long. The lease stands all the same.
    pub(super) heartbeat_overdue: bool,
}

/// What is asked for with a lease.
#[derive(Debug, Clone)]
pub(super) struct Asked<'a> {
    pub(super) tenant: &'a str,
    pub(super) site: &'a str,
    pub(super) shard: &'a str,
    pub(super) config_version: &'a str,
    pub(super) zone_version: &'a str,
    pub(super) incarnation: &'a str,
}

impl Asked<'_> {
    /// What is to be known of the lease beside its holder.
    pub(super) fn extra(&self, camera: &ResourceId) -> BTreeMap<String, String> {
        let known = [
            (RESOURCE, camera.to_string()),
            (TENANT, self.tenant.to_owned()),
            (SITE, self.site.to_owned()),
            (SHARD, self.shard.to_owned()),
            (CONFIG, self.config_version.to_owned()),
            (ZONES, self.zone_version.to_owned()),
            (INCARNATION, self.incarnation.to_owned()),
            (ACQUIRED, clock::unix_nanos().to_string()),
        ];
        known.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The last bytes of the ids of a camera's leases.
fn trace(camera: &ResourceId) -> u32 {
    (plan::rendezvous::hash_id(camera.as_str()) & 0xffff_ffff) as u32
}

/// A new id for a lease of this camera: a UUID of version 8 that begins with the time, so that ids sort by it.
pub(super) fn new_id(camera: &ResourceId) -> MemberId {
    let millis = clock::unix_nanos() / 1_000_000;
    let random = leasehold::lease::Nonce::generate().0;
    let id = format!(
        "{:08x}-{:04x}-8{:03x}-{:04x}-{:04x}{:08x}",
        millis >> 16 & 0xffff_ffff,
        millis & 0xffff,
        random & 0xfff,
        0x8000 | (random >> 12 & 0x3fff),
        random >> 26 & 0xffff,
        trace(camera),
    );
    MemberId::new(&id).unwrap_or_else(|_| MemberId::generate_in_order())
}

/// Whether a lease of this id can be one of this camera.
pub(super) fn may_be_of(id: &MemberId, camera: &ResourceId) -> bool {
    id.as_str().ends_with(&format!("{:08x}", trace(camera)))
}

/// The session of the reservation that becomes the lease of this id.
pub(super) fn pending(id: &MemberId) -> Option<MemberId> {
    MemberId::new(format!("{PENDING}{id}")).ok()
}

/// What the holder of a lease said last about its work.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) lease_id: String,
    /// Wall time, for people.
    pub(super) at_nanos: u64,
    pub(super) stats: Map<String, Value>,
}

impl Said {
    /// What was said last about a lease of this camera.
    pub(super) fn of(known: &Known, camera: &ResourceId, lease_id: &str) -> Option<Self> {
        let mark = known.view.mark(MarkKind::Heartbeat, camera.as_str())?;
        let said: Self = serde_json::from_str(mark.value.as_deref()?).ok()?;
        (said.lease_id == lease_id).then_some(said)
    }
}

impl CameraLease {
    /// A lease that stands, as it is answered.
    pub(super) fn of(
        camera: &ResourceId,
        standing: &Standing,
        status: LeaseStatus,
        said: Option<Said>,
        renewed_nanos: Option<u64>,
    ) -> Self {
        let none = BTreeMap::new();
        let extra = standing.holder.as_ref().map_or(&none, |holder| &holder.extra);
        let text = |name: &str| extra.get(name).cloned().unwrap_or_default();
        let ttl = standing.holder.as_ref().map_or(Duration::ZERO, |holder| holder.ttl);
        let acquired = text(ACQUIRED).parse().unwrap_or(0_u64);
        let session = standing.session.as_str();
        let heard = said.as_ref().map_or(acquired, |said| said.at_nanos);
        let overdue = u64::try_from(OVERDUE.as_nanos()).unwrap_or(u64::MAX);
        Self {
            lease_id: session.strip_prefix(PENDING).unwrap_or(session).to_owned(),
            camera_uuid: camera.to_string(),
            runner_id: standing.holder_id.clone(),
            shard_id: text(SHARD),
            tenant_id: text(TENANT),
            site_id: text(SITE),
            acquired_at: wall_time(acquired),
            expires_at: wall_time(standing.expires_nanos),
            renewed_at: renewed_nanos.map(wall_time),
            status,
            last_heartbeat: wall_time(heard),
            processing_stats: said.map(|said| said.stats).unwrap_or_default(),
            config_version: text(CONFIG),
            zone_version: text(ZONES),
            fencing_token: standing.token.0,
            ttl_seconds: ttl.as_secs(),
            release_requested: false,
            heartbeat_overdue: status == LeaseStatus::Active
                && clock::unix_nanos().saturating_sub(heard) > overdue,
        }
    }

    /// A lease that is over, from what the ledger has of it; `None` if that is nothing.
    pub(super) fn past(id: &MemberId, rows: &[(u64, Entry)]) -> Option<Self> {
        let about = |entry: &Entry| entry.member == *id || entry.other.as_ref() == Some(id);
        let (mut lease, mut status): (Option<Self>, _) = (None, LeaseStatus::Expired);
        for (_, entry) in rows.iter().filter(|(_, entry)| about(entry)) {
            match entry.event {
                Event::Acquired | Event::TakenOver if entry.member == *id => lease = Self::granted(entry),
                Event::Released if entry.member == *id && status != LeaseStatus::Revoked => {
                    status = LeaseStatus::Released;
                }
                Event::Revoked => status = LeaseStatus::Revoked,
                _ => continue,
            }
            if let Some(lease) = lease.as_mut().filter(|_| entry.event != Event::Acquired) {
                lease.expires_at = wall_time(entry.wall_nanos);
            }
        }
        lease.map(|lease| Self { status, ..lease })
    }

    /// The row of its grant, if the ledger has no word of its end.
    pub(super) fn open_end<'a>(id: &MemberId, rows: &'a [(u64, Entry)]) -> Option<&'a Entry> {
        let is_grant =
            |entry: &&Entry| entry.member == *id && matches!(entry.event, Event::Acquired | Event::TakenOver);
        let is_end = |entry: &Entry| match entry.event {
            Event::Released => entry.member == *id,
            Event::Expired => entry.other.as_ref() == Some(id),
            _ => false,
        };
        let entries = || rows.iter().map(|(_, entry)| entry);
        entries().find(is_grant).filter(|_| !entries().any(is_end))
    }

    /// A lease as it was granted, from its row in the ledger.
    fn granted(entry: &Entry) -> Option<Self> {
        let extra: BTreeMap<String, String> = serde_json::from_str(entry.detail.as_deref()?).ok()?;
        let holder = Holder {
            id: entry.name.clone(),
            ttl: Duration::from_millis(entry.ttl_ms.unwrap_or(0)),
            key: None,
            idempotency: None,
            extra,
        };
        let expires = entry.wall_nanos.saturating_add(entry.ttl_ms.unwrap_or(0).saturating_mul(1_000_000));
        let standing = Standing::past(entry.member.clone(), holder, entry.token?, expires);
        Some(Self::of(entry.resource.as_ref()?, &standing, LeaseStatus::Expired, None, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves R129
    #[test]
    fn an_id_is_a_uuid_that_remembers_its_camera() {
        let (one, two) = (ResourceId::new("cam-1").unwrap(), ResourceId::new("cam-2").unwrap());
        let ids: Vec<MemberId> = (0..1000).map(|_| new_id(&one)).collect();
        for id in &ids {
            let parts: Vec<usize> = id.as_str().split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
            assert!(id.as_str().bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()));
            assert_eq!((&id.as_str()[14..15], "89ab".contains(&id.as_str()[19..20])), ("8", true));
            assert!(may_be_of(id, &one) && !may_be_of(id, &two));
        }
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 1000);
    }
}
