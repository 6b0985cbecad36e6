//! What etcd's refusals mean, and what to tell people.

use tonic::{Code, Status};

use crate::store::StoreError;

/// What to do about a request that failed.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Another endpoint, or the same one a moment later, may answer.
    Elsewhere(StoreError),
    /// The login is no longer valid.
    LogIn(StoreError),
    /// Trying again does not help.
    Final(StoreError),
}

/// What etcd says of a revision that it no longer has, and of one that it does not have yet.
pub(super) const COMPACTED: &str = "has been compacted";
pub(super) const FUTURE: &str = "is a future revision";

/// Judges a refusal from `host`.
pub(super) fn judge(host: &str, status: &Status) -> Verdict {
    let said = status.message();
    let lower = said.to_lowercase();
    let wrong = |what: String| Verdict::Final(StoreError::misconfigured(what));
    if lower.contains("database space exceeded") {
        return Verdict::Final(StoreError::unavailable(format!(
            "etcd at {host} refuses to write because its space is used up (alarm NOSPACE); compact and defragment it, then disarm the alarm"
        )));
    }
    if lower.contains("user name is empty") {
        return wrong(format!("etcd at {host} asks for a user and a password; put them into the address"));
    }
    if lower.contains("authentication failed") {
        return wrong(format!("etcd at {host} does not accept this user and password"));
    }
    if lower.contains("authentication is not enabled") {
        return wrong(format!("etcd at {host} has no users; leave user and password out of the address"));
    }
    if lower.contains("invalid auth token") || lower.contains("revision of auth store is old") {
        return Verdict::LogIn(StoreError::unavailable(format!(
            "etcd at {host} has ended the login: {said}"
        )));
    }
    if lower.contains("too many operations in txn") {
        return wrong(format!(
            "etcd at {host} allows too few operations at once; set --max-txn-ops to 128 or more"
        ));
    }
    if lower.contains("request is too large") || lower.contains("larger than max") {
        return wrong(format!("etcd at {host} refuses a record of this size; raise --max-request-bytes"));
    }
    if lower.contains(COMPACTED) || lower.contains(FUTURE) {
        let gone =
            StoreError::unavailable(format!("etcd at {host} does not have the revision that was asked for"));
        return Verdict::Final(gone.caused_by(said.to_owned()));
    }
    match status.code() {
        Code::PermissionDenied => wrong(format!(
            "the user may not do this on etcd at {host}; grant it readwrite on the store's prefix"
        )),
        Code::Unimplemented => wrong(format!("what answers at {host} is not etcd 3.4 or newer")),
        _ => transport(host, status),
    }
}

fn transport(host: &str, status: &Status) -> Verdict {
    let causes = causes_of(status);
    match trouble_with_tls(&causes) {
        Some(trouble) => {
            let said = StoreError::misconfigured(format!("etcd at {host} {trouble}"));
            Verdict::Final(said.caused_by(causes))
        }
        None => Verdict::Elsewhere(
            StoreError::unavailable(format!("etcd at {host} cannot be used now")).caused_by(causes),
        ),
    }
}

/// What is wrong with a TLS connection, if it is TLS that fails.
pub(super) fn trouble_with_tls(causes: &str) -> Option<&'static str> {
    let lower = causes.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if says(&["unknownissuer", "unknown issuer", "unknownca", "unknown ca"]) {
        Some("has a certificate that nobody here vouches for; name its authority with ?ca=FILE")
    } else if says(&["certificaterequired", "certificate required", "badcertificate", "bad certificate"]) {
        Some("asks for a client's certificate; name one with ?cert=FILE&key=FILE")
    } else if says(&["notvalidforname", "not valid for name"]) {
        Some("has a certificate for another name; use the name that is in it")
    } else if says(&["invalid peer certificate", "invalidcertificate"]) {
        Some("has a certificate that is not valid")
    } else if says(&["invalidcontenttype", "corrupt message"]) {
        Some("does not speak TLS; use etcd:// instead of etcds://")
    } else {
        None
    }
}

/// A refusal and what caused it, on one line, without what is said twice.
pub(super) fn causes_of(status: &Status) -> String {
    let mut parts = vec![status.message().to_owned()];
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let said = error.to_string();
        if !parts.iter().any(|part| part.contains(&said)) {
            parts.push(said);
        }
        cause = error.source();
    }
    parts.retain(|part| !part.is_empty());
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreErrorKind::{Misconfigured, Unavailable};

    #[test]
    fn refusals_are_told_by_what_can_be_done_about_them() {
        let kind = |code, said: &str| match judge("h:1", &Status::new(code, said)) {
            Verdict::Elsewhere(error) => ("elsewhere", error.kind()),
            Verdict::LogIn(error) => ("log in", error.kind()),
            Verdict::Final(error) => ("final", error.kind()),
        };
        for (code, said, expected) in [
            (Code::Unavailable, "etcdserver: no leader", ("elsewhere", Unavailable)),
            (Code::Unknown, "transport error", ("elsewhere", Unavailable)),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", ("final", Unavailable)),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                ("final", Unavailable),
            ),
            (Code::InvalidArgument, "etcdserver: user name is empty", ("final", Misconfigured)),
            (Code::Unauthenticated, "etcdserver: invalid auth token", ("log in", Unavailable)),
            (Code::PermissionDenied, "etcdserver: permission denied", ("final", Misconfigured)),
            (Code::Unimplemented, "unknown service", ("final", Misconfigured)),
            (Code::Unavailable, "invalid peer certificate: UnknownIssuer", ("final", Misconfigured)),
        ] {
            assert_eq!(kind(code, said), expected, "{said}");
        }
    }
}
