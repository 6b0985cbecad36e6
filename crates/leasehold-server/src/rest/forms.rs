//! What is sent and answered.

use std::collections::BTreeMap;

use leasehold::ResourceId;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::holders::{Known, Standing, wall_time};

/// A resource's id under the field name of its pool.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Named {
    /// The id, in the pool `scenes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scene_id: Option<String>,
    /// The id, in any other pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource_id: Option<String>,
}

impl Named {
    /// The id.
    pub(crate) fn id(&self) -> Option<&str> {
        self.scene_id.as_deref().or(self.resource_id.as_deref())
    }

    pub(crate) fn of(pool: &str, resource: &ResourceId) -> Self {
        let id = Some(resource.to_string());
        if pool == "scenes" {
            Self { scene_id: id, resource_id: None }
        } else {
            Self { scene_id: None, resource_id: id }
        }
    }
}

/// A lease as it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeaseForm {
    #[serde(flatten)]
    pub(crate) named: Named,
    /// Who holds it; null if nobody does.
    #[schema(example = "tracker-0")]
    pub(crate) holder_id: Option<String>,
    /// The fencing token of the newest term.
    #[schema(example = 42)]
    pub(crate) version: u64,
    /// When its holder must have renewed it, for people: nothing is decided by it.
    #[schema(example = "2026-01-22T10:15:30.000Z")]
    pub(crate) expires_at: Option<String>,
    /// How long it lasts from the request on, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_ms: Option<u64>,
}

impl LeaseForm {
    pub(crate) fn of(pool: &str, resource: &ResourceId, standing: &Standing) -> Self {
        let ttl = standing.holder.as_ref().map(|holder| holder.ttl);
        Self {
            named: Named::of(pool, resource),
            holder_id: Some(standing.holder_id.clone()),
            version: standing.token.0,
            expires_at: Some(wall_time(standing.expires_nanos)),
            ttl_ms: ttl.and_then(|ttl| u64::try_from(ttl.as_millis()).ok()),
        }
    }

    /// A lease that nobody holds.
    pub(crate) fn free(pool: &str, resource: &ResourceId, known: &Known) -> Self {
        let version = known.view.leases().get(resource).map_or(0, |lease| lease.token.0);
        Self { named: Named::of(pool, resource), holder_id: None, version, expires_at: None, ttl_ms: None }
    }
}

/// Who holds a lease, for an answer that says why not.
pub(crate) fn current(standing: Option<&Standing>) -> Value {
    standing.map_or(Value::Null, |standing| {
        json!({
            "holder_id": standing.holder_id,
            "version": standing.token.0,
            "expires_at": wall_time(standing.expires_nanos),
        })
    })
}

/// A resource and its lease.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ResourceForm {
    #[serde(flatten)]
    pub(crate) lease: LeaseForm,
    /// What describes it.
    pub(crate) labels: BTreeMap<String, String>,
    /// Labels that its holder must have.
    pub(crate) requires: BTreeMap<String, String>,
    /// How much of a member's capacity it takes.
    pub(crate) weight: u32,
    /// Whether nobody is to hold it.
    pub(crate) paused: bool,
    /// The one member that may hold it, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) member: Option<String>,
    /// Counts the changes of the resource, not of its lease.
    pub(crate) resource_version: u64,
    /// What the resource is, for whoever works on it. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) document: Option<Value>,
}

/// What a resource consists of. All of it may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceBody {
    /// The id, where the path does not say it; `scene_id` and `resource_id` mean the same.
    #[serde(alias = "scene_id", alias = "resource_id")]
    pub(crate) id: Option<String>,
    /// What describes it.
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// Labels that its holder must have.
    pub(crate) requires: Option<BTreeMap<String, String>>,
    /// How much of a member's capacity it takes, at least 1.
    #[schema(minimum = 1)]
    pub(crate) weight: Option<u32>,
    /// Whether nobody is to hold it.
    pub(crate) paused: Option<bool>,
    /// The one member that may hold it, by name; null for any.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub(crate) member: Option<Option<String>>,
    /// What the resource is; null for nothing.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Value>)]
    pub(crate) document: Option<Option<Value>>,
}

/// Tells a field that is null from one that is not there.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// How a pool is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// By the plan, or by whoever comes first.
    #[default]
    Dynamic,
    /// Every resource belongs to the member that it names.
    Static,
}

/// What is set for a pool as a whole.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolSettings {
    /// How it is shared out.
    #[serde(default)]
    pub(crate) mode: Mode,
}

/// A pool.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolForm {
    /// Its name.
    #[schema(example = "scenes")]
    pub(crate) pool: String,
    /// How it is shared out.
    pub(crate) mode: Mode,
}

/// Where a pool is found.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `InPool` reads")]
pub(crate) struct PoolPath {
    /// The pool, such as scenes.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9.-][A-Za-z0-9._-]*$")]
    pool: String,
}

/// Where a resource is found.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `AtResource` reads")]
pub(crate) struct ResourcePath {
    /// The pool, such as scenes.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9.-][A-Za-z0-9._-]*$")]
    pool: String,
    /// The resource, such as scene-01.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:@+=-]+$")]
    resource: String,
}

/// Which resources to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// Only those that are leased, or only those that are not.
    pub(crate) leased: Option<bool>,
    /// How many at most; more are found by the header `Link`.
    #[param(minimum = 1)]
    pub(crate) limit: Option<usize>,
    /// Only those with greater ids.
    #[param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:@+=-]+$")]
    pub(crate) after: Option<String>,
}

/// Who wants a lease.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct AcquireBody {
    /// Who: a name that no other process has at the same time.
    #[schema(example = "tracker-0", min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    pub(crate) holder_id: String,
    /// How long the lease lasts without a renewal, in milliseconds; 30 seconds unless the pool has another default.
    #[schema(minimum = 1000, maximum = 3_600_000)]
    pub(crate) ttl_ms: Option<u64>,
    /// Labels of the holder, where the resource requires some.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
}

/// Who renews or releases a lease.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct HolderBody {
    /// Who.
    #[schema(example = "tracker-0")]
    pub(crate) holder_id: Option<String>,
    /// The version that the lease was acquired under. If it is given, no other is touched.
    pub(crate) version: Option<u64>,
}

/// The same in a query.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HolderQuery {
    /// Who.
    pub(crate) holder_id: Option<String>,
    /// The version that the lease was acquired under.
    pub(crate) version: Option<u64>,
}
