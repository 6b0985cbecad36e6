//! The transactions of document 000 under `pgbench`, waiting for the disk as Leasehold does.

use std::process::Command;
use std::time::Duration;

use leasehold_testkit::Postgres;

/// The table of document 000, as it is printed there, with resources that nobody holds.
pub(crate) fn table(resources: usize) -> String {
    format!(
        "CREATE TABLE scene_leases (scene_id VARCHAR(64) PRIMARY KEY, holder_id VARCHAR(64), expires_at TIMESTAMP, \
         version BIGINT DEFAULT 0); \
         INSERT INTO scene_leases SELECT 'scene-' || n FROM generate_series(0, {}) AS n; ANALYZE scene_leases;",
        resources - 1
    )
}

/// The transaction that acquires, of the resource that `:id` names.
pub(crate) const ACQUIRE: &str = "BEGIN;
SELECT * FROM scene_leases WHERE scene_id = 'scene-' || :id FOR UPDATE;
UPDATE scene_leases SET holder_id = 'tracker', expires_at = NOW() + INTERVAL '30 seconds', version = version + 1
WHERE scene_id = 'scene-' || :id AND (holder_id IS NULL OR expires_at < NOW());
SELECT version, expires_at FROM scene_leases WHERE scene_id = 'scene-' || :id;
COMMIT;
";

/// A server that loses nothing that it confirmed.
pub(crate) fn server() -> Postgres {
    let server = Postgres::start_with(&["fsync=on", "synchronous_commit=on", "max_connections=400"]);
    server.create("bench");
    server
}

/// How often a second a script runs.
pub(crate) fn rate(server: &Postgres, script: &str, connections: usize, round: Duration) -> f64 {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("script.sql");
    std::fs::write(&file, script).expect("a file");
    let mut command = Command::new("pgbench");
    command.args(["-n", "-M", "prepared", "-j", "2", "-c"]).arg(connections.to_string());
    command.arg("-T").arg(round.as_secs().max(1).to_string()).arg("-f").arg(&file).arg(server.url("bench"));
    let output = command.output().expect("pgbench, of Debian's postgresql-contrib or postgresql");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tps =
        text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
    tps.unwrap_or_else(|| panic!("pgbench said: {text}{}", String::from_utf8_lossy(&output.stderr)))
}
