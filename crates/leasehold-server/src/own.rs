//! The pool of the control plane's own records: keys, settings of pools, silences, how far events were relayed.

use leasehold::Pool;
use leasehold::store::SERVER_POOL;

/// The pool of the control plane's own records.
pub(crate) fn server_pool() -> Pool {
    Pool::new(SERVER_POOL).expect("a pool's name")
}
