//! The condition that a term is still the newest, for a write that goes to the server on which the leases are.
//!
//! Invariant: once another term of the resource has been granted, or this one was given back, the condition is false and
//! stays false. The server judges it in one step with the write, so neither a pause nor a clock can get in between.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use super::OpenSession;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::lease::Term;

/// A condition to make a write depend on. What a holder writes with it is refused once the resource has gone to another,
/// however long the holder slept in between.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guard {
    /// For the comparisons of an etcd transaction: the value of this key is exactly this.
    Etcd {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// For the `WHERE` of a statement, in the database that has the leases. It contains nothing that a user wrote but
    /// checked ids, and needs no parameters. PostgreSQL holds a share of the lease's row until the transaction ends, so
    /// that nobody is granted a newer term before the write is there: keep such transactions to one statement.
    Sql {
        /// The condition.
        condition: String,
    },
}

impl Guard {
    /// A condition on the row of a lease. Ids are made of characters that need no quoting.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn of_row(table: &str, lock: &str, holder: &OpenSession, term: &Term) -> Self {
        let OpenSession { pool, id, .. } = holder;
        let Term { resource, token } = term;
        let condition = format!(
            "EXISTS (SELECT 1 FROM {table} WHERE pool = '{pool}' AND resource = '{resource}' \
             AND holder = '{id}' AND token = {token}{lock})"
        );
        Self::Sql { condition }
    }
}
