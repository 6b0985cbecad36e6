//! What the scheduler does: every pending instance gets a worker with room.
//!
//! Pure: a world in, steps out. The oldest instance comes first, and goes to the worker with the most room, of several
//! the one whose id comes first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use leasehold::Token;

use crate::etcd::{Compare, Kv, Write};
use crate::step::Step;
use crate::world::{Fields, PENDING, READY, SCHEDULED, World, instance_key, value, worker_key};

/// The assignments to make, in this order.
#[must_use]
pub fn assignments(world: &World, token: Token) -> Vec<Step> {
    let mut pending: Vec<(&String, &Kv)> = world
        .instances
        .iter()
        .filter_map(|(id, fields)| Some((id, fields.get("state").filter(|state| state.value == PENDING)?)))
        .collect();
    pending.sort_by_key(|(id, state)| (state.create_revision, *id));
    let mut room = room(world);
    let mut steps = Vec::new();
    for (instance, state) in pending {
        let most =
            room.iter_mut().filter(|(_, free)| **free > 0).max_by_key(|(id, free)| (**free, Reverse(**id)));
        let Some((worker, free)) = most else { break };
        *free -= 1;
        steps.push(assign(instance, state, worker, token));
    }
    steps
}

fn assign(instance: &str, state: &Kv, worker: &str, token: Token) -> Step {
    Step {
        what: format!("{instance} goes to {worker}"),
        rests_on: vec![
            Compare::Unchanged(state.key.clone(), state.mod_revision),
            Compare::Is(worker_key(worker, "state").into(), READY.into()),
        ],
        writes: vec![
            Write::Put(state.key.clone(), SCHEDULED.to_owned()),
            Write::Put(instance_key(instance, "worker"), worker.to_owned()),
            Write::Put(instance_key(instance, "token"), token.to_string()),
        ],
    }
}

/// How many more instances each worker takes.
fn room(world: &World) -> BTreeMap<&str, usize> {
    let mut room: BTreeMap<&str, usize> = world
        .workers
        .iter()
        .filter(|(_, fields)| value(fields, "state") == Some(READY))
        .map(|(id, fields)| (id.as_str(), size(fields)))
        .collect();
    for worker in world.instances.values().filter_map(|fields| value(fields, "worker")) {
        if let Some(free) = room.get_mut(worker) {
            *free = free.saturating_sub(1);
        }
    }
    room
}

/// A worker that does not say how much it can take, or not in a number, takes nothing.
fn size(worker: &Fields) -> usize {
    let number = |field| value(worker, field).map(|text| text.trim().parse().unwrap_or(0));
    number("capacity").unwrap_or(0).min(number("ports").unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(keys: &[(String, &str)]) -> World {
        let kv = |(number, (key, value)): (usize, &(String, &str))| {
            let revision = i64::try_from(number).unwrap();
            let (key, value) = (key.clone(), (*value).to_owned());
            Kv { key, value, create_revision: revision, mod_revision: revision, version: 1 }
        };
        World::read(100, keys.iter().enumerate().map(kv).collect())
    }

    fn planned(keys: &[(String, &str)]) -> Vec<String> {
        assignments(&world(keys), Token(1)).into_iter().map(|step| step.what).collect()
    }

    #[test]
    fn the_oldest_goes_first_to_the_worker_with_the_most_room() {
        let plan = planned(&[
            (worker_key("b", "state"), READY),
            (worker_key("b", "capacity"), "2"),
            (worker_key("a", "state"), READY),
            (worker_key("a", "capacity"), "2"),
            (instance_key("z", "state"), PENDING),
            (instance_key("y", "state"), PENDING),
            (instance_key("x", "state"), PENDING),
        ]);
        assert_eq!(plan, ["z goes to a", "y goes to b", "x goes to a"]);
    }

    // proves R112
    #[test]
    fn nobody_gets_more_than_it_has_room_and_ports_for_and_who_is_not_ready_gets_nothing() {
        let plan = planned(&[
            (worker_key("away", "capacity"), "9"),
            (worker_key("draining", "state"), "DRAINING"),
            (worker_key("draining", "capacity"), "9"),
            (worker_key("few-ports", "state"), READY),
            (worker_key("few-ports", "capacity"), "9"),
            (worker_key("few-ports", "ports"), "1"),
            (worker_key("nearly-full", "state"), READY),
            (worker_key("nearly-full", "capacity"), "2"),
            (worker_key("unreadable", "state"), READY),
            (worker_key("unreadable", "capacity"), "many"),
            (instance_key("old", "state"), "RUNNING"),
            (instance_key("old", "worker"), "nearly-full"),
            (instance_key("p", "state"), PENDING),
            (instance_key("q", "state"), PENDING),
            (instance_key("r", "state"), PENDING),
        ]);
        assert_eq!(plan, ["p goes to few-ports", "q goes to nearly-full"]);
    }
}
