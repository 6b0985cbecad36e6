//! One run, from its seed to its history.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Pool;
use leasehold::mistakes::{Mistake, put_back};
use leasehold::participant::{OnUncertain, Settings, TTL_MIN};

use crate::faults::Trouble;
use crate::gate::{WAKINGS_MAX, Wakings};
use crate::history::{History, What};
use crate::machine::Machine;
use crate::time::TrueTime;
use crate::world::World;

/// For how many TTLs things go wrong.
const TROUBLE_TTLS: u32 = 10;
/// How long a pool may take to come to rest once nothing goes wrong any more, beyond some TTLs.
const REST_WITHIN: Duration = Duration::from_secs(60);
const REST_TTLS: u32 = 10;
/// For how many TTLs all must be well before it counts, because the last fault may still have its consequences.
const WELL_TTLS: u32 = 2;
/// For how many TTLs nothing may move after that.
const IDLE_TTLS: u32 = 1;
/// The same in one run of twenty, for what goes in slow circles.
const LONG_IDLE_TTLS: u32 = 30;

/// Runs one seed, with a known mistake put back if one is given.
///
/// # Panics
/// The runtime cannot be built.
#[must_use]
pub fn run(seed: u64, mistake: Option<Mistake>) -> History {
    run_within(WAKINGS_MAX, seed, mistake)
}

fn run_within(wakings: u64, seed: u64, mistake: Option<Mistake>) -> History {
    put_back(mistake);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    #[cfg(tokio_unstable)]
    runtime.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    runtime.enable_time().start_paused(true).on_thread_unpark(TrueTime::goes_on);
    let runtime = runtime.build().expect("a runtime");
    let history = runtime.block_on(play(seed, Wakings::new(wakings)));
    drop(runtime);
    put_back(None);
    history
}

async fn play(seed: u64, wakings: Wakings) -> History {
    let mut rng = fastrand::Rng::with_seed(seed);
    let ttl = Duration::from_millis([1000, 2000, 2000, 3000][rng.usize(0..4)]);
    let longest = settings(&mut rng, ttl);
    let mixed = rng.u32(0..4) == 0;
    let (count, resources) = (rng.usize(2..=4), World::resources(rng.usize(1..=8)));
    let pool = Pool::new("simulated").expect("an id that is one");
    let world = Arc::new(World::new(rng, longest.clone(), pool, resources, wakings));
    let machines: Vec<Machine> = (0..count)
        .map(|index| {
            let shorter = mixed && index > 0 && world.random(|rng| rng.bool());
            let settings = match shorter {
                true => world.random(|rng| settings(rng, TTL_MIN)),
                false => longest.clone(),
            };
            Machine::new(index, settings, &world)
        })
        .collect();
    let end = tokio::select! {
        biased;
        () = world.wakings.used_up() => What::Endless,
        amiss = trouble_and_rest(&world, machines, ttl) => What::Over(amiss),
    };
    world.happened(end);
    History { ttl, events: world.take_events() }
}

/// Says what is amiss in the end.
async fn trouble_and_rest(world: &Arc<World>, mut machines: Vec<Machine>, ttl: Duration) -> Option<String> {
    for machine in &mut machines {
        machine.start(world).await;
        let pause = world.random(|rng| Duration::from_millis(rng.u64(0..500)));
        world.time.sleep(pause).await;
    }
    world.know_the_longest_ttl(ttl).await;
    Trouble::new(Arc::clone(world)).reign(&mut machines, ttl * TROUBLE_TTLS).await;
    world.mend(&mut machines, world).await;
    come_to_rest(world, machines.len(), ttl).await
}

/// The defaults, or what comes closest to the limits of what is allowed.
fn settings(rng: &mut fastrand::Rng, ttl: Duration) -> Settings {
    let mut settings = Settings::with_ttl(ttl);
    settings.on_uncertain = match rng.u32(0..4) {
        0 => OnUncertain::Pause,
        1 => OnUncertain::Stop,
        _ => settings.on_uncertain,
    };
    if rng.bool() {
        settings.grace = Duration::from_millis(20);
        settings.call_timeout = settings.heartbeat.mul_f64(0.9);
    }
    settings
}

/// Waits until the pool is as it should be, and then for a while; says what is amiss if it does not become so.
async fn come_to_rest(world: &World, machines: usize, ttl: Duration) -> Option<String> {
    let patience = world.time.now() + REST_WITHIN + ttl * REST_TTLS;
    let mut well_since = None;
    loop {
        world.time.sleep(Duration::from_millis(100)).await;
        let now = world.time.now();
        match world.is_amiss(machines) {
            None if now - *well_since.get_or_insert(now) >= ttl * WELL_TTLS => break,
            None => {}
            Some(amiss) if now > patience => return Some(amiss),
            Some(_) => well_since = None,
        }
    }
    world.happened(What::Converged);
    let idle = world.random(|rng| if rng.u32(0..20) == 0 { LONG_IDLE_TTLS } else { IDLE_TTLS });
    world.time.sleep(ttl * idle).await;
    world.is_amiss(machines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::first_broken;

    #[test]
    fn a_run_that_does_not_end_is_ended_and_found() {
        let history = run_within(1000, 0, None);
        let (name, how) = first_broken(&history).expect("it is found");
        assert_eq!(name, "coming to an end", "{how}");
    }
}
