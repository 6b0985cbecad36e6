//! How many checks a fence makes in a second, on one core: of tokens alone, and of whole messages.
//!
//! Run with `taskset -c 0 cargo bench -p leasehold --bench fence`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::fence::{Authority, Gate, Judgement, Message, Newest, Offered};
use leasehold::store::{Hints, StoreError};
use leasehold::{ResourceId, Token};

const RESOURCES: usize = 1000;
const CHECKS: usize = 5_000_000;
/// What the house promises.
const CHECKS_A_SECOND: f64 = 1_000_000.0;

/// Every resource is held under token 5.
#[derive(Debug)]
struct Five;

#[async_trait::async_trait]
impl Authority for Five {
    async fn newest(&self) -> Result<Vec<Newest>, StoreError> {
        let newest = |resource| Newest { resource, token: Token(5), ttl: None };
        Ok(resources().into_iter().map(newest).collect())
    }

    async fn raise(&self, _: &ResourceId, _: Token) -> Result<(), StoreError> {
        Ok(())
    }

    fn changes(&self) -> Hints {
        unreachable!("nobody follows")
    }
}

fn resources() -> Vec<ResourceId> {
    (0..RESOURCES).map(|number| ResourceId::new(format!("scene-{number:04}")).expect("an id")).collect()
}

fn main() {
    let gate = Gate::new(Arc::new(Five), Duration::from_secs(3600));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(gate.refresh()).expect("it answers");
    let resources = resources();
    let mut rate_of_all = f64::INFINITY;
    for (what, token, passes) in [("current, passed", 5, true), ("stale, refused", 4, false)] {
        let start = clock::now();
        for number in 0..CHECKS {
            let resource = &resources[number % RESOURCES];
            let said = gate.check(black_box(resource), Offered::Token(Token(token)));
            assert!(matches!(said, Judgement::Now(said) if said.is_admitted() == passes));
        }
        let rate = CHECKS as f64 / clock::now().since(start).as_secs_f64();
        println!("{what:<30} {:>8.2} million checks a second", rate / 1e6);
        rate_of_all = rate_of_all.min(rate);
    }
    for objects in [10, 300] {
        let object = r#"{"id": "a1b2-7", "type": "person", "translation": [1.5, 2.25, 0.0], "velocity": [0.1, 0.0, 0.0]}"#;
        let objects_json = vec![object; objects].join(",");
        let text =
            format!(r#"{{"id": "scene-0001", "name": "Hall", "objects": [{objects_json}], "_version": 5}}"#);
        let (start, rounds) = (clock::now(), 2_000_000 / objects / 10);
        for _ in 0..rounds {
            black_box(Message::read(black_box(text.as_bytes())).expect("a message"));
        }
        let rate = rounds as f64 / clock::now().since(start).as_secs_f64();
        println!("a message of {:>6} bytes, read   {:>8.0} a second", text.len(), rate);
    }
    assert!(rate_of_all > CHECKS_A_SECOND, "{rate_of_all} checks a second are too few");
}
