//! Two stores as one keep the contract, and each keeps its own half.

#[path = "support/split_harness.rs"]
mod split_harness;
#[path = "support/sqlite_file.rs"]
mod sqlite_file;

use std::sync::Arc;

use leasehold::clock::SystemClock;
use leasehold::store::around::Split;
use leasehold::store::conformance::{Member, pool, resource};
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Cursor, Declared, Listing, MarkKind, Registry, Store, Version};
use leasehold::view::View;
use sqlite_file::{File, open};

leasehold::conformance!(split_harness::TwoFiles);

#[tokio::test]
async fn each_store_keeps_its_own_half() {
    let (file, work) = (File::new(), pool("work"));
    let leases: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let registry = open(&file.path()).await;
    let split: Arc<dyn Store> = Arc::new(Split::new(Arc::clone(&leases), Arc::clone(&registry)));
    let mut one = Member::join(&split, "one").await;
    let _ = one.take("a").await;
    let declared = Declared::new(resource("b"));
    let _ = split.declare(&pool("cameras"), &declared).await.expect("the store answers");
    let listing = Listing::new(vec![resource("a")]).expect("no id twice");
    split.publish(&work, &listing.id(), &listing).await.expect("the store answers");
    let known = |store: &Arc<dyn Store>| {
        let store = Arc::clone(store);
        async move { store.pools().await.expect("the store answers") }
    };
    assert_eq!(known(&leases).await, [pool("work")]);
    assert_eq!(known(&registry).await, [pool("cameras")]);
    assert_eq!(known(&split).await, [pool("cameras"), work.clone()]);
    assert!(leases.listing(&work, &listing.id()).await.expect("the store answers").is_some());
    let seen = split.resources(&pool("cameras"), Cursor::START).await.expect("the store answers");
    let kept = registry.resources(&pool("cameras"), Cursor::START).await.expect("the store answers");
    assert_eq!(seen, kept);
}

#[tokio::test]
async fn a_registry_that_was_set_back_is_read_anew() {
    let (file, work) = (File::new(), pool("work"));
    let split = Split::new(Arc::new(MemoryStore::new()), open(&file.path()).await);
    let mark = async |subject: &str| {
        let set = split.set_mark(&work, MarkKind::Pause, subject, Some(""), Version(0)).await;
        let _ = set.expect("the store answers");
    };
    mark("kept").await;
    file.copy();
    mark("forgotten").await;
    let mut view = View::new(work.clone());
    view.refresh(&split, &SystemClock).await.expect("the store answers");
    assert_eq!(view.marks().count(), 2);
    file.put_copy_back();
    view.refresh(&split, &SystemClock).await.expect("the store answers");
    let left: Vec<_> = view.marks().map(|mark| mark.subject.as_str()).collect();
    assert_eq!(left, ["kept"]);
    assert!(view.era().is_some_and(|era| !era.frozen), "leases go on");
}
