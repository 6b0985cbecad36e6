//! What there is: instances to place, and workers to place them on.
//!
//! | key | value |
//! |---|---|
//! | `/ccm/instances/{id}/state` | `PENDING`, `SCHEDULED`, and whatever its worker says later |
//! | `/ccm/instances/{id}/worker` | the worker it was given to |
//! | `/ccm/instances/{id}/token` | the token of the leader that did so, so that the worker can refuse an older one |
//! | `/ccm/workers/{id}/state` | `READY`, or something else; absent if the worker is gone |
//! | `/ccm/workers/{id}/capacity` | how many instances it can run |
//! | `/ccm/workers/{id}/ports` | how many ports it has, of which each instance needs one; absent if that does not matter |

use std::collections::BTreeMap;

use crate::etcd::{Event, Kv};

/// Everything of interest begins with this.
pub const PREFIX: &str = "/ccm/";
/// The state of an instance that has no worker yet.
pub const PENDING: &str = "PENDING";
/// The state of an instance that was given to a worker.
pub const SCHEDULED: &str = "SCHEDULED";
/// The state of a worker that takes instances.
pub const READY: &str = "READY";

/// A key of an instance.
#[must_use]
pub fn instance_key(id: &str, field: &str) -> String {
    format!("{PREFIX}instances/{id}/{field}")
}

/// A key of a worker.
#[must_use]
pub fn worker_key(id: &str, field: &str) -> String {
    format!("{PREFIX}workers/{id}/{field}")
}

/// What is known of an instance or of a worker, by the last part of the key.
pub type Fields = BTreeMap<String, Kv>;

/// Everything at one revision.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// All that happened up to this revision is in here, and nothing that happened later.
    pub revision: i64,
    /// Instances by their ids.
    pub instances: BTreeMap<String, Fields>,
    /// Workers by their ids.
    pub workers: BTreeMap<String, Fields>,
}

impl World {
    /// From everything that was read at a revision.
    #[must_use]
    pub fn read(revision: i64, kvs: Vec<Kv>) -> Self {
        let mut world = Self { revision, ..Self::default() };
        for kv in kvs {
            if let Some((all, id, field)) = world.place_of(&kv.key) {
                all.entry(id).or_default().insert(field, kv);
            }
        }
        world
    }

    /// Takes in the events of some revisions. Those that it knows already change nothing.
    pub fn hear(&mut self, events: Vec<Event>) {
        let known = self.revision;
        for event in events.into_iter().filter(|event| event.kv.mod_revision > known) {
            self.revision = event.kv.mod_revision;
            let gone = event.is_delete();
            let Some((all, id, field)) = self.place_of(&event.kv.key) else { continue };
            let fields = all.entry(id.clone()).or_default();
            if gone {
                fields.remove(&field);
            } else {
                fields.insert(field, event.kv);
            }
            if fields.is_empty() {
                all.remove(&id);
            }
        }
    }

    /// Where a key belongs: in which of the maps, under which id, as which field.
    fn place_of(&mut self, key: &str) -> Option<(&mut BTreeMap<String, Fields>, String, String)> {
        let mut parts = key.strip_prefix(PREFIX)?.split('/');
        let (kind, id, field) = (parts.next()?, parts.next()?, parts.next()?);
        let all = match kind {
            "instances" => &mut self.instances,
            "workers" => &mut self.workers,
            _ => return None,
        };
        parts.next().is_none().then(|| (all, id.to_owned(), field.to_owned()))
    }
}

/// The value of a field.
#[must_use]
pub fn value<'a>(fields: &'a Fields, field: &str) -> Option<&'a str> {
    fields.get(field).map(|kv| kv.value.as_str())
}
