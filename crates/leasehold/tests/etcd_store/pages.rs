//! A pool that takes several requests to read is read as of one instant, whatever happens between them; and whoever has read it is told
//! no more than the news.

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::lease::{Term, Token};
use leasehold::store::conformance::member::{resource, term};
use leasehold::store::conformance::{Member, pool, wanted};
use leasehold::store::{Acquired, Answer, Changed, Cursor, LeaseRecord, Release, Store, StoreError, Wanted};
use leasehold_testkit::{Etcd, Faults, Proxy};

use super::support::{era_of, eventually, handled, live, next_hint, open};

/// How long the line takes each way: time enough to do something between two requests.
const DELAY: Duration = Duration::from_millis(700);

/// More leases than one page holds. The first and the last change hands in one transaction.
struct Large {
    member: Member,
}

impl Large {
    async fn on(store: &Arc<dyn Store>) -> Self {
        let mut member = Member::join(store, "one").await;
        let between: Vec<Wanted> = (0..1500).map(|number| wanted(&format!("m{number:04}"))).collect();
        for some in between.chunks(store.capabilities().batch_max) {
            assert!(matches!(member.acquire_wanted(some).await, Answer::Done(_)));
        }
        let mut large = Self { member };
        large.take().await;
        large
    }

    async fn take(&mut self) {
        let Answer::Done(outcomes) = self.member.acquire(&["a", "z"]).await else { panic!("it lives") };
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Acquired::Granted(_))), "{outcomes:?}");
    }

    /// Gives these back and takes them again, each under its next token.
    async fn hand_round(&mut self, store: &Arc<dyn Store>, terms: Vec<Term>) -> Vec<Term> {
        let mut next = Vec::new();
        for some in terms.chunks(store.capabilities().batch_max) {
            let releases: Vec<_> =
                some.iter().map(|term| Release { term: term.clone(), offer: None }).collect();
            assert!(matches!(self.member.release(&releases).await, Answer::Done(_)));
            let asked: Vec<Wanted> = some.iter().map(|term| wanted(term.resource.as_str())).collect();
            let Answer::Done(outcomes) = self.member.acquire_wanted(&asked).await else { panic!("it lives") };
            next.extend(outcomes.into_iter().map(|outcome| match outcome {
                Acquired::Granted(term) => term,
                other => panic!("it is free: {other:?}"),
            }));
        }
        next
    }

    /// Gives both back and takes them again, under the next token.
    async fn turn(&mut self, token: u64) {
        let of = |name: &str| Release { term: term(name, token), offer: None };
        assert!(matches!(self.member.release(&[of("a"), of("z")]).await, Answer::Done(_)));
        self.take().await;
    }
}

/// The token of the first and the last, which are always the same.
fn token(read: &Changed<LeaseRecord>) -> u64 {
    assert_eq!(read.items.len(), 1502, "nothing is left out and nothing told twice");
    let of =
        |name: &str| read.items.iter().find(|lease| lease.resource.as_str() == name).expect("it is there");
    assert_eq!((of("a").token, &of("a").holder), (of("z").token, &of("z").holder), "of two instants");
    of("a").token.0
}

/// Begins to read the pool over a slow line, and goes on when the server has answered the first request.
async fn begin(
    server: &Etcd,
    line: &Proxy,
    reader: &Arc<dyn Store>,
) -> tokio::task::JoinHandle<Result<Changed<LeaseRecord>, StoreError>> {
    line.set(Faults { delay: DELAY, ..Faults::default() });
    let before = handled(server.port(), "Txn");
    let store = Arc::clone(reader);
    let reading = tokio::spawn(async move { store.leases(&pool("work"), Cursor::START).await });
    eventually("the first page is read", async || (handled(server.port(), "Txn") > before).then_some(()))
        .await;
    reading
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_one_revision_whatever_is_written_meanwhile_and_a_compaction_begins_anew() {
    let server = Etcd::start();
    let store = live(&server.url("pages")).await;
    let mut large = Large::on(&store).await;
    let line = Proxy::to(server.port());
    let reader = open(&format!("etcd://127.0.0.1:{}/pages", line.port())).await;
    assert_eq!(token(&reader.leases(&pool("work"), Cursor::START).await.expect("the store answers")), 1);

    let reading = begin(&server, &line, &reader).await;
    large.turn(1).await;
    let read = reading.await.expect("it ends").expect("the store answers");
    assert_eq!(token(&read), 1, "as it was at the first request");
    line.heal();
    let news = reader.leases(&pool("work"), read.cursor).await.expect("the store answers").items;
    let news: Vec<_> = news.iter().map(|lease| (lease.resource.as_str(), lease.token)).collect();
    assert_eq!(news, [("a", Token(2)), ("z", Token(2))], "what came after it is news");

    let reading = begin(&server, &line, &reader).await;
    large.turn(2).await;
    server.compact();
    let read = reading.await.expect("it ends").expect("the store answers");
    assert_eq!(token(&read), 3, "the first revision is gone, so all is read as of a newer one");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_two_clusters_are_never_put_together() {
    let (server, other) = (Etcd::start(), Etcd::start());
    let store = live(&server.url("pages")).await;
    let _large = Large::on(&store).await;
    let elsewhere = live(&other.url("pages")).await;
    let mut large = Large::on(&elsewhere).await;
    for token in 1..20 {
        large.turn(token).await;
    }
    let line = Proxy::to(server.port());
    let reader = open(&format!("etcd://127.0.0.1:{}/pages", line.port())).await;
    let before = era_of(&reader).await;

    let reading = begin(&server, &line, &reader).await;
    // The first page has come, and the request for the second is on its way.
    tokio::time::sleep(DELAY * 3 / 2).await;
    line.set(Faults { refuse: true, ..Faults::default() });
    line.lead_to(other.port());
    line.heal();
    let read = match reading.await.expect("it ends") {
        Ok(read) => read,
        Err(_) => {
            eventually("the other cluster answers", async || {
                reader.leases(&pool("work"), Cursor::START).await.ok()
            })
            .await
        }
    };
    assert_eq!(token(&read), 20, "all of it is the other cluster's");
    assert!(read.era.frozen && read.era.nonce != before.nonce, "which has forgotten: {:?}", read.era);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_listens_reads_what_changed_by_one_request_and_misses_nothing_after_a_restart() {
    let mut server = Etcd::start();
    let store = live(&server.url("news")).await;
    let (reader, work) = (open(&server.url("news")).await, pool("work"));
    let mut one = Member::join(&store, "one").await;
    let mut hints = reader.changes(&work);
    while next_hint(&mut hints, Duration::from_millis(500)).await {}
    let mut cursor = reader.leases(&work, Cursor::START).await.expect("the store answers").cursor;
    for number in 0..20 {
        let names = [format!("r{number}"), format!("r{number}-too")];
        let _ = one.acquire(&[&names[0], &names[1]]).await;
        let before = handled(server.port(), "Txn") + handled(server.port(), "Range");
        let read = reader.leases(&work, cursor).await.expect("the store answers");
        assert_eq!(handled(server.port(), "Txn") + handled(server.port(), "Range") - before, 1);
        let found: Vec<_> = read.items.iter().map(|lease| lease.resource.as_str()).collect();
        assert_eq!(found, names, "these and nothing else");
        cursor = read.cursor;
    }
    for number in 0..3 {
        server.restart();
        let (name, pulse) = (format!("s{number}"), one.pulse());
        let asked = [wanted(&name)];
        let _ = eventually("the server is back", async || store.acquire(one.id(), pulse, &asked).await.ok())
            .await;
        one.confirmed = one.sent;
        let read = eventually("the server is back", async || reader.leases(&work, cursor).await.ok()).await;
        assert_eq!(read.items.len(), 1, "{:?}", read.items);
        assert_eq!(read.items[0].resource, resource(&name));
        cursor = read.cursor;
    }
}

// To find what changed etcd would look at the whole pool, for each of those who were busy while much happened.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_away_while_much_happened_reads_the_last_of_it_by_one_request() {
    let server = Etcd::start();
    let store = live(&server.url("away")).await;
    let (reader, work) = (open(&server.url("away")).await, pool("work"));
    let mut large = Large::on(&store).await;
    let mut hints = reader.changes(&work);
    while next_hint(&mut hints, Duration::from_millis(500)).await {}
    let cursor = reader.leases(&work, Cursor::START).await.expect("the store answers").cursor;
    // Sixty thousand changes, all of the same leases.
    let mut terms: Vec<_> = (0..1000).map(|number| term(&format!("m{number:04}"), 1)).collect();
    for _ in 0..30 {
        terms = large.hand_round(&store, terms).await;
    }
    let before = handled(server.port(), "Txn") + handled(server.port(), "Range");
    let read = reader.leases(&work, cursor).await.expect("the store answers");
    assert_eq!(handled(server.port(), "Txn") + handled(server.port(), "Range") - before, 1);
    let found: Vec<_> =
        read.items.into_iter().map(|lease| Term { resource: lease.resource, token: lease.token }).collect();
    assert_eq!(found, terms, "the last change of each and nothing else");
}

// Each reading is two requests over a slow line. Were they made at the same time, all three would take no longer than one.
#[tokio::test(flavor = "multi_thread")]
async fn readers_of_one_handle_read_a_large_pool_one_after_the_other() {
    let server = Etcd::start();
    let store = live(&server.url("turns")).await;
    let line = Proxy::to(server.port());
    let (reader, work) = (open(&format!("etcd://127.0.0.1:{}/turns", line.port())).await, pool("work"));
    let _large = Large::on(&store).await;
    let mut hints = reader.changes(&work);
    while next_hint(&mut hints, Duration::from_millis(500)).await {}
    line.set(Faults { delay: DELAY, ..Faults::default() });
    let began = clock::now();
    let read = || reader.leases(&work, Cursor::START);
    for read in <[_; 3]>::from(tokio::join!(read(), read(), read())) {
        assert_eq!(token(&read.expect("the store answers")), 1);
    }
    let took = clock::now().since(began);
    assert!(took >= 3 * 2 * DELAY, "together after {took:?}");
}
