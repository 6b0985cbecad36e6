//! What to tell people about a server that refuses or does not answer.
//!
//! *Misconfigured* is only what waiting does not mend. Nothing that a server says is repeated where it could hold a
//! password.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::StoreError;

/// An error of the server or of the way to it, told for `place`.
pub(super) fn told(place: &str, error: RedisError) -> StoreError {
    let refused = |said: String| StoreError::misconfigured(said);
    let unknown = |said: String| StoreError::unavailable(said);
    let error_text = error.to_string();
    let told = match (error.kind(), error.code().unwrap_or_default()) {
        (ErrorKind::AuthenticationFailed, _) | (_, "WRONGPASS") => {
            refused(format!("{place} refused the user or the password; check both"))
        }
        (_, "NOAUTH") => {
            refused(format!("{place} wants a password; put it into the address or into a password-file"))
        }
        (ErrorKind::Server(ServerErrorKind::NoPerm), _) => refused(format!(
            "{place} does not permit this user what Leasehold needs; grant it the commands and keys in docs/stores/redis.md"
        )),
        (ErrorKind::Server(kind), _) if is_cluster(kind) => refused(cluster(place)),
        (_, "MIRROR") => refused(format!(
            "{place} is used with other values of mirror= or poll= already; all members of a store must give the same"
        )),
        (_, "VERSION") => refused(newer(place)),
        (_, "WRONGTYPE") => refused(format!(
            "{place} has a key of another kind where Leasehold keeps its own; choose another prefix or database"
        )),
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => {
            unknown(format!("{place} has become a replica, which takes no writes; is a failover under way?"))
        }
        (ErrorKind::Server(ServerErrorKind::BusyLoading), _) => {
            unknown(format!("{place} is still loading its data; it answers when it has"))
        }
        (_, "OOM") => unknown(format!("{place} has no memory left; raise maxmemory or remove keys")),
        (_, "NOREPLICAS") => {
            unknown(format!("{place} has fewer replicas than min-replicas-to-write; bring them back"))
        }
        (_, "MISCONF") => {
            unknown(format!("{place} cannot write to its disk and takes no writes; look at its log"))
        }
        (_, "BUSY") => unknown(format!("{place} is held up by somebody's script; it answers afterwards")),
        (ErrorKind::Server(ServerErrorKind::ResponseError), _)
            if error_text.to_lowercase().contains("unknown command") =>
        {
            refused(format!(
                "{place} does not know a command that Leasehold needs; it must have scripts (EVALSHA, SCRIPT)"
            ))
        }
        (ErrorKind::Io, _) if error_text.contains("fatal alert") => refused(format!(
            "{place} does not accept us over TLS; give it our certificate with cert=FILE and key=FILE"
        )),
        (ErrorKind::Io, _) if is_certificate(&error_text) => refused(format!(
            "{place} could not be trusted: its certificate does not fit; name the authority with ca=FILE"
        )),
        (ErrorKind::InvalidClientConfig, _) => {
            refused(format!("the certificates or the key for {place} cannot be used"))
        }
        (ErrorKind::Io, _) => unknown(format!("{place} cannot be reached or broke off")),
        _ => unknown(format!("{place} did not do what was asked")),
    };
    // A server that does not know AUTH repeats what it was given.
    if error.kind() == ErrorKind::AuthenticationFailed { told } else { told.caused_by(error) }
}

/// Why what a later version wrote is left alone.
pub(super) fn newer(place: &str) -> String {
    format!("{place} was written by a newer Leasehold; update this one")
}

/// Why a cluster is refused.
pub(super) fn cluster(place: &str) -> String {
    format!(
        "{place} is a cluster, in which one record for the whole store cannot be compared in one step with a lease; \
         use a single server or redis+sentinel://"
    )
}

fn is_cluster(kind: ServerErrorKind) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, CrossSlot, Moved};
    matches!(kind, Moved | Ask | CrossSlot | ClusterDown)
}

fn is_certificate(text: &str) -> bool {
    text.contains("certificate") || text.contains("InvalidDnsName")
}

/// Whether the connection should be replaced after this.
pub(super) fn breaks_connection(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::AuthenticationFailed => true,
        ErrorKind::Server(kind) => {
            kind == ServerErrorKind::ReadOnly || kind == ServerErrorKind::MasterDown || is_cluster(kind)
        }
        _ => error.is_unrecoverable_error(),
    }
}

/// Something came back that we did not write.
pub(super) fn unreadable(place: &str, what: &str) -> StoreError {
    StoreError::misconfigured(format!(
        "{place} holds {what} that Leasehold did not write; choose another prefix or database"
    ))
}
