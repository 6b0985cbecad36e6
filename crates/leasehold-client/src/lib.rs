//! The runner's side of document 004: a [`ControlPlaneClient`] for what a runner asks and says, and a [`LeaseManager`] for its
//! leases.
//!
//! # What it takes care of
//!
//! - Every call has a deadline, and within it is tried again after 100, 200, 400 … ms where no answer came or the control plane
//!   could not say (5xx). All calls can be repeated: an acquisition is answered with the same lease, a registration is of
//!   the same incarnation.
//! - A renewal has three outcomes: [`Renewal::Renewed`], [`Renewal::Lost`], which is final, and [`Renewal::Unknown`], in which case
//!   the lease is trusted until [`Lease::trusted_until`] and no longer.
//! - Trust is counted from before the request was sent, on this machine's own clock, and a tenth shorter than the TTL.
//!
//! ```no_run
//! # async fn example() -> Result<(), leasehold_client::ClientError> {
//! use leasehold_client::{ControlPlaneClient, LeaseManager, RunnerConfig};
//!
//! let client = ControlPlaneClient::new("http://127.0.0.1:7400", None)?;
//! let runner = RunnerConfig::new("runner-1", "tenant-1", "site-1");
//! client.register_runner(&runner).await?;
//! let leases = LeaseManager::new(client);
//! if let Some(lease) = leases.acquire_lease("cam-001", &runner.runner_id, "shard-1").await? {
//!     println!("{} is ours under token {}", lease.camera_uuid, lease.fencing_token);
//!     leases.release_lease(&lease.lease_id).await?;
//! }
//! # Ok(())
//! # }
//! ```

mod call;
mod client;
mod leases;
mod words;

pub use call::ClientError;
pub use client::ControlPlaneClient;
pub use leases::{LeaseManager, Renewal};
pub use words::{
    CameraConfig, Lease, LeaseEvent, LeaseStatus, Offer, RunnerConfig, RunnerInfo, RunnerReport,
    RunnerStatus, SiteVersion, Wanted, ZoneConfig,
};
