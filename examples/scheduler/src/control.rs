//! What the controller does: the instances of a worker that is gone become pending again.
//!
//! Pure: a world in, steps out. A worker is gone when it has no state; who keeps that on an etcd lease decides how soon.

use leasehold::Token;

use crate::etcd::{Compare, Kv, Write};
use crate::step::Step;
use crate::world::{PENDING, SCHEDULED, World, instance_key, worker_key};

/// The instances to take back.
#[must_use]
pub fn returns(world: &World, _: Token) -> Vec<Step> {
    let lost = world.instances.iter().filter_map(|(id, fields)| {
        let state = fields.get("state").filter(|state| state.value == SCHEDULED)?;
        let worker = &fields.get("worker")?.value;
        let there = world.workers.get(worker).is_some_and(|fields| fields.contains_key("state"));
        (!there).then(|| take_back(id, state, worker))
    });
    lost.collect()
}

fn take_back(instance: &str, state: &Kv, worker: &str) -> Step {
    Step {
        what: format!("{instance} is pending again: {worker} is gone"),
        rests_on: vec![
            Compare::Unchanged(state.key.clone(), state.mod_revision),
            Compare::Unchanged(worker_key(worker, "state"), 0),
        ],
        writes: vec![
            Write::Put(state.key.clone(), PENDING.to_owned()),
            Write::Delete(instance_key(instance, "worker")),
            Write::Delete(instance_key(instance, "token")),
        ],
    }
}
