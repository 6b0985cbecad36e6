//! A holder without a member, as its session's profile has it.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::store::Profile;
use leasehold::{MemberName, plan};

/// The longest that an answer may take on its way: a client that counts from it is not ended before.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// What labels of the control plane's own begin with.
pub(crate) const RESERVED: &str = "leasehold.";
/// The label with the id of the API key that a session was opened with.
pub(crate) const KEY: &str = "leasehold.key";
const HOLDER: &str = "leasehold.holder";
const TTL: &str = "leasehold.ttl_ms";
const IDEMPOTENCY: &str = "leasehold.idempotency";
/// What labels begin with that say what else is known.
const EXTRA: &str = "leasehold.extra.";

/// Among what else is known of a lease: what it is of, so that it is found by its id alone.
pub(crate) const RESOURCE: &str = "resource";

/// The label under which a session says what else is known of its lease.
pub(crate) fn label_of(name: &str) -> String {
    format!("{EXTRA}{name}")
}

/// Who holds a lease over REST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The name it gave itself.
    pub(crate) id: MemberName,
    /// How long it may go without a renewal.
    pub(crate) ttl: Duration,
    /// The API key it came with.
    pub(crate) key: Option<String>,
    /// What it calls this very request, so that it can be repeated.
    pub(crate) idempotency: Option<String>,
    /// What else is to be known of its lease, for whoever gave it.
    pub(crate) extra: BTreeMap<String, String>,
}

impl Holder {
    /// How long its session may be silent.
    pub(super) fn patience(&self) -> Duration {
        self.ttl + self.ttl / 10 + ANSWER_MAX
    }

    /// What its session publishes: a member that holds one resource of this weight and takes nothing more.
    pub(super) fn profile(&self, weight: u32) -> Profile {
        let mut labels = BTreeMap::from([
            (HOLDER.to_owned(), self.id.as_str().to_owned()),
            (TTL.to_owned(), self.ttl.as_millis().to_string()),
        ]);
        labels.extend(self.key.clone().map(|key| (KEY.to_owned(), key)));
        labels.extend(self.idempotency.clone().map(|key| (IDEMPOTENCY.to_owned(), key)));
        labels.extend(self.extra.iter().map(|(name, value)| (label_of(name), value.clone())));
        Profile {
            name: self.id.clone(),
            capacity: Some(weight.into()),
            labels,
            ready: true,
            settled: false,
            leaving: false,
            listing: None,
            plan_version: plan::VERSION,
            flaps: 0,
            version: None,
        }
    }

    /// The holder that a session is kept for; `None` for a member of its own.
    pub(crate) fn of(profile: &Profile) -> Option<Self> {
        let label = |name: &str| profile.labels.get(name).cloned();
        Some(Self {
            id: label(HOLDER)?.parse().ok()?,
            ttl: Duration::from_millis(label(TTL)?.parse().ok()?),
            key: label(KEY),
            idempotency: label(IDEMPOTENCY),
            extra: profile
                .labels
                .iter()
                .filter_map(|(name, value)| Some((name.strip_prefix(EXTRA)?.to_owned(), value.clone())))
                .collect(),
        })
    }

    /// Whether a session is kept for a holder: whether [`of`](Self::of) finds one.
    pub(super) fn is_of(profile: &Profile) -> bool {
        let label = |name: &str| profile.labels.get(name);
        label(HOLDER).is_some_and(|id| id.parse::<MemberName>().is_ok())
            && label(TTL).is_some_and(|ttl| ttl.parse::<u64>().is_ok())
    }

    /// What else is known of its lease, for a row of the ledger: whoever reads that has no session to look at.
    pub(crate) fn detail(&self) -> Option<String> {
        if self.extra.is_empty() {
            return None;
        }
        let known = self.extra.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let known: BTreeMap<&str, &str> = known.chain([("holder", self.id.as_str())]).collect();
        Some(serde_json::to_string(&known).unwrap_or_default())
    }
}
