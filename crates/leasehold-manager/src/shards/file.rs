//! The configuration that a worker reads, format 1. `docs/manager.md` describes it.

use leasehold::clock::Moment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The format of the file. It changes only if those who read this one could not read another.
pub const FORMAT: u32 = 1;

/// How a worker is told that there is a new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reload {
    /// By `SIGHUP`.
    #[default]
    Signal,
    /// Not at all: it looks at the file itself.
    Watch,
}

/// What a worker reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardFile {
    /// [`FORMAT`].
    pub format: u32,
    /// Rises whenever anything but deadlines changes.
    pub generation: u64,
    /// The runner's name.
    pub runner_id: String,
    /// Which of its workers this is.
    pub shard_id: usize,
    /// Whose child it is.
    pub manager_pid: u32,
    /// Where it answers, on loopback.
    pub http_port: u16,
    /// Where its figures are, on loopback.
    pub metrics_port: u16,
    /// How often it says that it is alive.
    pub heartbeat_seconds: u64,
    /// How it is told of a new generation.
    pub reload: Reload,
    /// What it works on.
    pub cameras: Vec<CameraEntry>,
}

/// One camera to work on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CameraEntry {
    /// The camera.
    pub camera_uuid: String,
    /// Whose it is.
    pub tenant_id: String,
    /// Where it is.
    pub site_id: String,
    /// Under which lease.
    pub lease_id: String,
    /// Goes with everything that is put out.
    pub fencing_token: u64,
    /// When work and output must have ended, in seconds of `CLOCK_BOOTTIME`.
    pub trusted_until_boottime: f64,
    /// The same for people; nothing is decided by it.
    pub trusted_until: String,
    /// Whether what is put out is to be marked.
    pub degraded: bool,
    /// SHA-256 of the configuration.
    pub config_version: String,
    /// SHA-256 of its zones.
    pub zone_version: String,
    /// What the control plane says of the camera.
    pub document: Value,
    /// The zones of its site, which hold besides its own.
    pub site_zones: Value,
}

/// A moment as the file has it.
#[must_use]
pub fn boottime(moment: Moment) -> f64 {
    // Exact to a microsecond for a machine that runs for a century.
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a century fit")]
    let micros = (moment.0 / 1000) as f64;
    micros / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_seconds() {
        assert_eq!(boottime(Moment(12_345_678_900_000)).to_string(), "12345.6789");
    }
}
