//! Stores with ids, tokens and times that are the same in every run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::ledger::{Entry, Event, Reason};
use leasehold::store::{
    Answer, Begin, Declared, MarkKind, OpenSession, Profile, Pulse, Store, StoreUrl, Version, Wanted, open_as,
};
use leasehold::{BeatNumber, MemberId, MemberName, Pool, ResourceId, Token};

use crate::support::Place;

/// 2001-09-09T01:46:40Z.
const THEN: u64 = 1_000_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

fn on(place: &Place, scene: impl AsyncFnOnce(Arc<dyn Store>)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url: StoreUrl = place.url().parse().unwrap();
        scene(open_as(&url, Begin::Live).await.unwrap()).await;
    });
}
