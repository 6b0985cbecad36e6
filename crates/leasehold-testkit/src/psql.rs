//! Statements to a PostgreSQL server, by its own client.

use std::process::Command;

/// The superuser of every server here.
pub(crate) const USER: &str = "leasehold";

pub(crate) fn url(port: u16, database: &str) -> String {
    format!("postgres://{USER}@127.0.0.1:{port}/{database}")
}

pub(crate) fn sql(port: u16, database: &str, statements: &str) -> String {
    try_sql(port, database, statements).unwrap_or_else(|said| panic!("{statements}: {said}"))
}

pub(crate) fn try_sql(port: u16, database: &str, statements: &str) -> Result<String, String> {
    try_each(port, database, &[statements])
}

/// Each in a transaction of its own.
pub(crate) fn try_each(port: u16, database: &str, statements: &[&str]) -> Result<String, String> {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", USER]);
    psql.args(["-p", &port.to_string(), "-d", database]).env("PGCONNECT_TIMEOUT", "10");
    psql.args(statements.iter().flat_map(|statement| ["-c", statement]));
    let output = psql.output().expect("psql is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
