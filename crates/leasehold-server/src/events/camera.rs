//! What an event says in the words of document 004, where it is about the lease of a camera.

use std::collections::BTreeMap;

use leasehold::lease::MemberId;
use leasehold::ledger::{Entry, Event as Kind, Reason};
use serde::Serialize;

/// What happened to a camera's lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LeaseEvent {
    /// What happened.
    #[schema(value_type = String, example = "lease_acquired")]
    pub event_type: LeaseEventType,
    /// To which lease. Of `lease_stolen` the one that was held before.
    pub lease_id: String,
    /// Of which camera.
    pub camera_uuid: String,
    /// Who held it.
    pub runner_id: String,
    /// Which part of that.
    pub shard_id: String,
    /// When, by the writer's wall clock.
    pub timestamp: String,
    /// Tenant, site, fencing token, versions, why, and by whom it was taken.
    pub details: BTreeMap<String, String>,
}

/// What can happen to a camera's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseEventType {
    /// It was granted.
    LeaseAcquired,
    /// It was renewed: told of the first renewal, and of one an hour.
    LeaseRenewed,
    /// It was not renewed in time.
    LeaseExpired,
    /// It was taken back: its holder is to stop.
    LeaseRevoked,
    /// Its holder let go.
    LeaseReleased,
    /// It had expired, and another runner has the camera now.
    LeaseStolen,
}

impl LeaseEventType {
    fn of(entry: &Entry) -> Option<Self> {
        Some(match entry.event {
            Kind::Acquired | Kind::TakenOver => Self::LeaseAcquired,
            Kind::Extended => Self::LeaseRenewed,
            Kind::Expired => Self::LeaseExpired,
            Kind::Revoked => Self::LeaseRevoked,
            Kind::Released => Self::LeaseReleased,
            Kind::Lost if entry.reason == Some(Reason::Superseded) => Self::LeaseStolen,
            _ => return None,
        })
    }

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeaseAcquired => "lease_acquired",
            Self::LeaseRenewed => "lease_renewed",
            Self::LeaseExpired => "lease_expired",
            Self::LeaseRevoked => "lease_revoked",
            Self::LeaseReleased => "lease_released",
            Self::LeaseStolen => "lease_stolen",
        }
    }

    /// The word after `lease.` in routing keys.
    #[must_use]
    pub fn in_key(self) -> &'static str {
        self.as_str().trim_start_matches("lease_")
    }
}

impl LeaseEvent {
    /// What a row says of a camera's lease; `None` if it is of something else.
    #[must_use]
    pub fn of(entry: &Entry, timestamp: &str) -> Option<Self> {
        let event_type = LeaseEventType::of(entry)?;
        let mut known: BTreeMap<String, String> = serde_json::from_str(entry.detail.as_deref()?).ok()?;
        let camera_uuid = known.remove("resource")?;
        let runner_id = known.remove("holder")?;
        let shard_id = known.remove("shard")?;
        let (tenant, site) = (known.remove("tenant")?, known.remove("site")?);
        known.remove("acquired");
        known.extend([("tenant_id".to_owned(), tenant), ("site_id".to_owned(), site)]);
        known.extend(entry.token.map(|token| ("fencing_token".to_owned(), token.to_string())));
        known.extend(entry.reason.map(|reason| ("reason".to_owned(), reason.to_string())));
        // What a replica found out about a lease names it beside itself; everything else is written in its own name.
        let found = matches!(event_type, LeaseEventType::LeaseExpired | LeaseEventType::LeaseRevoked);
        let lease: &MemberId = if found { entry.other.as_ref()? } else { &entry.member };
        if event_type == LeaseEventType::LeaseStolen {
            known.extend(entry.other.iter().map(|other| ("taken_by".to_owned(), other.to_string())));
        }
        Some(Self {
            event_type,
            lease_id: lease.to_string(),
            camera_uuid,
            runner_id,
            shard_id,
            timestamp: timestamp.to_owned(),
            details: known,
        })
    }

    fn detail(&self, name: &str) -> &str {
        self.details.get(name).map_or("-", String::as_str)
    }

    /// Whose camera.
    #[must_use]
    pub fn tenant_id(&self) -> &str {
        self.detail("tenant_id")
    }

    /// At which site.
    #[must_use]
    pub fn site_id(&self) -> &str {
        self.detail("site_id")
    }
}
