//! Every row of what a consumer does with a token, the control plane running or killed. A gate asks it over HTTP.

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::fence::{Admission, Gate, Offered, PoolAuthority, Refusal, Rules};
use leasehold::store::{StoreUrl, open};
use leasehold::{ResourceId, Token};

use super::plane::Plane;

/// Long enough to do something in, short enough to wait for.
const LIFETIME: Duration = Duration::from_secs(3);

struct Analytics {
    plane: Plane,
    gate: Gate,
    token: u64,
}

impl Analytics {
    /// A scene that is held, and a consumer that knows nothing yet.
    async fn new() -> Self {
        Self::with(Rules { lifetime: Some(LIFETIME), allow_unversioned: false }).await
    }

    async fn with(rules: Rules) -> Self {
        let plane = Plane::with(&["scene-01"]);
        let token = plane.acquire("scene-01", "tracker-0");
        let url: StoreUrl = plane.url().parse().unwrap();
        let authority = PoolAuthority::new(open(&url).await.unwrap(), "scenes".parse().unwrap());
        Self { plane, gate: Gate::with(Arc::new(authority), rules), token }
    }

    async fn says(&self, offered: Offered) -> Admission {
        self.gate.admit(&ResourceId::new("scene-01").unwrap(), offered).await
    }

    async fn of(&self, token: u64) -> Admission {
        self.says(Offered::Token(Token(token))).await
    }
}

const PASSES: Admission = Admission::Admitted;

// proves R041, R042, C09: equal is accepted
#[tokio::test]
async fn an_equal_version_is_accepted() {
    let analytics = Analytics::new().await;
    assert_eq!(analytics.of(analytics.token).await, PASSES);
    assert_eq!(analytics.gate.counts().passed, 1);
}

// proves R038, R042, C09: lower is rejected
#[tokio::test]
async fn a_lower_version_is_rejected() {
    let analytics = Analytics::new().await;
    let newest = analytics.plane.hand_over("scene-01", "tracker-0", "tracker-1");
    let stale = Admission::Refused(Refusal::Stale { newest: Token(newest) });
    assert_eq!(analytics.of(newest).await, PASSES);
    assert_eq!(analytics.of(analytics.token).await, stale);
    assert_eq!(analytics.gate.counts().stale, 1);
}

// proves R043, C09: higher is accepted if a refresh confirms it
#[tokio::test]
async fn a_higher_version_is_accepted_when_a_refresh_confirms_it() {
    let analytics = Analytics::new().await;
    assert_eq!(analytics.of(analytics.token).await, PASSES, "the cache is filled");
    let newest = analytics.plane.hand_over("scene-01", "tracker-0", "tracker-1");
    assert_eq!(analytics.of(newest).await, PASSES, "at once, however fresh the cache was");
}

// proves C09: `future_token` otherwise
#[tokio::test]
async fn a_higher_version_that_no_refresh_confirms_is_rejected_as_future_token() {
    let analytics = Analytics::new().await;
    let future = Admission::Refused(Refusal::Future { newest: Token(analytics.token) });
    assert_eq!(analytics.of(analytics.token + 1).await, future);
    assert_eq!(analytics.of(analytics.token).await, PASSES, "it moved nothing");
    assert_eq!(
        (analytics.gate.counts().future_token, analytics.gate.counts().refused()[1].0),
        (1, "future_token")
    );
}

// proves C09: a missing version is rejected
#[tokio::test]
async fn a_missing_or_malformed_version_is_rejected_and_counted() {
    let analytics = Analytics::new().await;
    assert_eq!(analytics.says(Offered::Missing).await, Admission::Refused(Refusal::Unversioned));
    assert_eq!(analytics.says(Offered::Malformed).await, Admission::Refused(Refusal::Malformed));
    let counts = analytics.gate.counts();
    assert_eq!((counts.unversioned, counts.malformed), (1, 1));
}

// proves C09: `allow_unversioned`, for a migration
#[tokio::test]
async fn a_migration_lets_messages_without_a_version_pass_and_no_stale_ones() {
    let rules = Rules { lifetime: Some(LIFETIME), allow_unversioned: true };
    let analytics = Analytics::with(rules).await;
    let newest = analytics.plane.hand_over("scene-01", "tracker-0", "tracker-1");
    assert_eq!(analytics.says(Offered::Missing).await, PASSES);
    assert_eq!(analytics.of(newest).await, PASSES);
    assert!(!analytics.of(analytics.token).await.is_admitted());
}

// proves R044: the Manager is away, the cached version is used while its TTL lasts
#[tokio::test]
async fn without_a_manager_the_cached_version_is_used() {
    let mut analytics = Analytics::new().await;
    let newest = analytics.plane.hand_over("scene-01", "tracker-0", "tracker-1");
    analytics.gate.refresh().await.unwrap();
    let (asked, before) = (clock::now(), analytics.of(newest).await);
    analytics.plane.kill();
    let after = analytics.of(newest).await;
    let stale = analytics.of(newest - 1).await;
    if clock::now().since(asked) < LIFETIME / 2 {
        assert_eq!((before, after), (PASSES, PASSES));
    }
    assert_eq!(stale, Admission::Refused(Refusal::Stale { newest: Token(newest) }));
}

// proves R044: and rejected once the cache expired
#[tokio::test]
async fn without_a_manager_messages_are_rejected_once_the_cache_expired() {
    let mut analytics = Analytics::new().await;
    assert_eq!(analytics.of(analytics.token).await, PASSES);
    analytics.plane.kill();
    tokio::time::sleep(LIFETIME).await;
    assert_eq!(analytics.of(analytics.token).await, Admission::Refused(Refusal::Unconfirmed));
    assert!(analytics.gate.unanswered() > 0, "it was asked");
    assert_eq!(analytics.gate.counts().unconfirmed, 1);
    // And when it is back, everything goes on.
    analytics.plane.start();
    let give_up_at = clock::now().after(Duration::from_secs(40));
    while !analytics.of(analytics.token).await.is_admitted() {
        assert!(clock::now() < give_up_at, "nothing passes though the control plane is back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// proves C09, R044: a higher version cannot be confirmed without a Manager
#[tokio::test]
async fn without_a_manager_a_higher_version_is_rejected() {
    let mut analytics = Analytics::new().await;
    assert_eq!(analytics.of(analytics.token).await, PASSES);
    let newest = analytics.plane.hand_over("scene-01", "tracker-0", "tracker-1");
    analytics.plane.kill();
    let said = analytics.of(newest).await;
    let Admission::Refused(refusal) = said else { panic!("nobody confirmed {newest}, and it passed") };
    assert!(["future_token", "unconfirmed"].contains(&refusal.reason()), "{refusal:?}");
}

// proves R044: who has never asked has nothing to go by
#[tokio::test]
async fn without_a_manager_from_the_start_nothing_passes() {
    let mut analytics = Analytics::new().await;
    analytics.plane.kill();
    assert_eq!(analytics.of(analytics.token).await, Admission::Refused(Refusal::Unconfirmed));
}

// proves C09: the cache lives less long than the lease, whatever it is told
#[tokio::test]
async fn the_cache_lives_less_long_than_the_lease() {
    let plane = Plane::with(&["scene-01"]);
    let body = serde_json::json!({"holder_id": "tracker-0", "ttl_ms": 1000});
    assert_eq!(plane.send("POST", "/api/v1/scenes/scene-01/lease", &body).0, 201);
    let url: StoreUrl = plane.url().parse().unwrap();
    let authority = PoolAuthority::new(open(&url).await.unwrap(), "scenes".parse().unwrap());
    let gate = Gate::new(Arc::new(authority), Duration::from_secs(3600));
    let mut plane = plane;
    gate.refresh().await.unwrap();
    plane.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let said = gate.admit(&ResourceId::new("scene-01").unwrap(), Offered::Token(Token(1))).await;
    assert_eq!(said, Admission::Refused(Refusal::Unconfirmed));
}
