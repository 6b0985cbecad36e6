//! A pooler in front of a PostgreSQL server.

use std::path::Path;

use crate::postgres::as_servant;
use crate::psql::{USER, try_sql, url};
use crate::{Dir, Postgres, Process, free_port, wait_for};

/// A PgBouncer in transaction mode: every transaction may go to another connection of the server.
#[derive(Debug)]
pub struct PgBouncer {
    _process: Process,
    _dir: Dir,
    port: u16,
}

impl PgBouncer {
    /// Stands in front of a server.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn before(server: &Postgres) -> Self {
        let dir = Dir::new();
        let port = free_port();
        let config = dir.join("pgbouncer.ini");
        // Whoever comes is let in as the superuser, as the server itself does on loopback.
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user={USER}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             max_client_conn = 200\ndefault_pool_size = 8\n",
            server.port()
        );
        std::fs::write(&config, text).expect("a file in our own directory");
        dir.give(&config);
        let mut command = as_servant(&dir, Path::new("/usr/sbin/pgbouncer"));
        command.arg(&config);
        let process = Process::start(&mut command, &dir.join("log"));
        wait_for("PgBouncer answers", || try_sql(port, "postgres", "SELECT 1").is_ok());
        Self { _process: process, _dir: dir, port }
    }

    /// The address of a database through it.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        url(self.port, database)
    }
}
