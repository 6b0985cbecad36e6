//! What is read and written for every message, id and line.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold::clock::Moment;
use leasehold::fence::{Authority, Gate, Judgement, Message, Newest, Offered};
use leasehold::ledger::{Entry, Event};
use leasehold::store::{Hints, StoreError};
use leasehold::{MemberId, MemberName, Pool, ResourceId, Token};

/// Every resource is held under token 5.
#[derive(Debug)]
struct Five;

#[async_trait]
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
    (0..100).map(|number| ResourceId::new(format!("scene-{number:04}")).expect("an id")).collect()
}

pub(crate) fn fence_check(times: usize) {
    let gate = Gate::new(Arc::new(Five), Duration::from_secs(3600));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(gate.refresh()).expect("it answers");
    let resources = resources();
    for number in 0..times {
        let said = gate.check(black_box(&resources[number % 100]), Offered::Token(Token(5)));
        assert!(matches!(said, Judgement::Now(said) if said.is_admitted()));
    }
}

pub(crate) fn fence_message(times: usize) {
    let object =
        r#"{"id": "a1b2-7", "type": "person", "translation": [1.5, 2.25, 0.0], "velocity": [0.1, 0.0, 0.0]}"#;
    let text = format!(
        r#"{{"id": "scene-0001", "name": "Hall", "objects": [{}], "_version": 5}}"#,
        [object; 10].join(",")
    );
    for _ in 0..times {
        black_box(Message::read(black_box(text.as_bytes())).expect("a message"));
    }
}

pub(crate) fn parse(times: usize) {
    for _ in 0..times {
        black_box(black_box("endpoints").parse::<Pool>().expect("a pool"));
        black_box(black_box("camera-0042:front@hall").parse::<ResourceId>().expect("an id"));
        black_box(black_box("host-7-1700000000000000000-0badcafe").parse::<MemberId>().expect("an id"));
        black_box(black_box("9007199254740991").parse::<Token>().expect("a token"));
    }
}

pub(crate) fn ledger_line(times: usize) {
    let entry = Entry {
        wall_nanos: 1_700_000_000_000_000_000,
        at: Moment(1_000_000_000),
        boot: "3a1b0c52".to_owned(),
        number: Some(7),
        member: MemberId::new("host-7-1700000000000000000-0badcafe").expect("an id"),
        name: MemberName::new("host-7").expect("a name"),
        event: Event::Renewed,
        resource: Some(ResourceId::new("camera-0042").expect("an id")),
        token: Some(Token(42)),
        trusted_until: Some(Moment(2_000_000_000)),
        ttl_ms: Some(30_000),
        reason: None,
        error: None,
        other: None,
        detail: None,
    };
    for _ in 0..times {
        let line = serde_json::to_string(black_box(&entry)).expect("a line");
        black_box(serde_json::from_str::<Entry>(&line).expect("an entry"));
    }
}
