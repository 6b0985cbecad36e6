//! Waiting for a handle to find its server again.

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::Store;

/// Waits until the handle's calls are answered. That asks for settings only, which touches no era.
pub(crate) async fn reconnect(store: &Arc<dyn Store>) {
    for _ in 0..600 {
        if store.checkup().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the handle does not find its server again");
}
