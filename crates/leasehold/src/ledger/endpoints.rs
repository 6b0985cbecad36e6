//! The log lines of polling: every entry names its instance and its endpoint, in the words that pollers have always used.
//!
//! They are for people and for what collects logs; the ledger itself has one row for a heartbeat, whatever it keeps.

use super::{Entry, Event, Reason};
use crate::lease::{MemberId, Pool, ResourceId};

/// The pool whose resources are endpoints.
const POOL: &str = "endpoints";
/// How many endpoints are named one by one in what concerns all of them; of more, how many they are.
const NAMED_MAX: usize = 256;

/// Whether the resources of this pool are endpoints.
pub(crate) fn are_in(pool: &Pool) -> bool {
    pool.as_str() == POOL
}

/// What happened to an endpoint, as a sentence; `None` where the usual one will do.
pub(super) fn sentence(entry: &Entry) -> Option<String> {
    let (instance, endpoint) = (&entry.member, entry.resource.as_ref()?);
    let ttl = entry.ttl_ms.unwrap_or_default();
    let reason = entry.reason.map_or("", Reason::as_str);
    Some(match entry.event {
        Event::Acquired => format!("Lease acquired: instance={instance} endpoint={endpoint} ttl={ttl}"),
        Event::TakenOver => format!("Lease taken over: instance={instance} endpoint={endpoint} ttl={ttl}"),
        Event::Released => format!("Lease released: instance={instance} endpoint={endpoint} reason={reason}"),
        Event::Lost => format!("Lease lost: instance={instance} endpoint={endpoint} reason={reason}"),
        Event::Refused => {
            let other = entry.other.as_ref().map_or("another", MemberId::as_str);
            format!("Lease acquisition failed: instance={instance} endpoint={endpoint} error=held by {other}")
        }
        _ => return None,
    })
}

/// Logs for each of these endpoints that its lease was renewed.
pub(crate) fn renewed(instance: &MemberId, endpoints: &[ResourceId]) {
    for endpoint in endpoints.iter().take(NAMED_MAX) {
        tracing::info!(
            target: "leasehold::endpoints",
            event = Event::Renewed.as_str(), instance = instance.as_str(), endpoint = endpoint.as_str(),
            "Lease renewed: instance={instance} endpoint={endpoint}"
        );
    }
    if let Some(more) = endpoints.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        tracing::info!(target: "leasehold::endpoints", more, "Leases renewed: instance={instance} endpoints={more} more");
    }
}

/// Logs for each of these endpoints that its lease was not renewed, or not acquired.
pub(crate) fn failed(event: Event, instance: &MemberId, endpoints: &[ResourceId], error: &str) {
    let what = if event == Event::AcquireFailed { "acquisition" } else { "renewal" };
    for endpoint in endpoints.iter().take(NAMED_MAX) {
        tracing::warn!(
            target: "leasehold::endpoints",
            event = event.as_str(), instance = instance.as_str(), endpoint = endpoint.as_str(), error,
            "Lease {what} failed: instance={instance} endpoint={endpoint} error={error}"
        );
    }
    if let Some(more) = endpoints.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        tracing::warn!(target: "leasehold::endpoints", more, "Lease {what} failed: instance={instance} endpoints={more} more");
    }
}
