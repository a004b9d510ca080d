//! What etcd's refusals mean: whether the call may have happened all the same, and what to do about it.

use proto_rpc::{ErrorClass, RpcError};
use tonic::{Code, Status};

use crate::error::StoreError;

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No answer: no connection, no leader, too late. Another member may know more.
    Unreachable,
    /// etcd's quota is used up.
    NoSpace,
    /// Our login has expired; log in again.
    LoginExpired,
    /// etcd refuses this caller: its certificate, its user, or the rights of that user.
    Denied,
    /// The request is larger than etcd takes.
    TooLarge,
    /// More operations than etcd takes.
    TooManyOps,
    /// The revision is gone.
    Compacted,
    /// The revision is not there yet.
    Future,
    /// The lease does not exist or has expired.
    NoLease,
    /// The lease is there already.
    LeaseExists,
    /// The answer is larger than we take.
    Oversize,
    /// Any other refusal; its text is in [`Failure`].
    Other,
}

/// A failed call to etcd.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub kind: Kind,
    /// Whether the call may have had its effect, or still may have.
    pub doubt: bool,
    pub text: String,
}

/// Beginnings of etcd's own messages (`api/v3rpc/rpctypes`), and what they mean. These are refusals: what was refused did
/// not happen.
const REFUSALS: [(&str, Kind); 18] = [
    ("etcdserver: invalid auth token", Kind::LoginExpired),
    ("etcdserver: revision of auth store is old", Kind::LoginExpired),
    ("etcdserver: user name is empty", Kind::Denied),
    ("etcdserver: user name not found", Kind::Denied),
    ("etcdserver: permission denied", Kind::Denied),
    ("etcdserver: authentication failed", Kind::Denied),
    ("etcdserver: authentication is not enabled", Kind::Denied),
    ("etcdserver: request is too large", Kind::TooLarge),
    ("etcdserver: too many operations", Kind::TooManyOps),
    ("etcdserver: mvcc: required revision has been compacted", Kind::Compacted),
    ("etcdserver: mvcc: required revision is a future revision", Kind::Future),
    ("etcdserver: requested lease not found", Kind::NoLease),
    ("etcdserver: lease already exists", Kind::LeaseExists),
    ("etcdserver: too large lease TTL", Kind::Other),
    ("etcdserver: duplicate key given", Kind::Other),
    ("etcdserver: too many requests", Kind::Unreachable),
    ("etcdserver: not capable", Kind::Other),
    ("etcdserver: corrupt cluster", Kind::Other),
];

impl Failure {
    pub fn of(status: &Status, member: &str) -> Self {
        let message = status.message();
        let failure = |kind, doubt| Self { kind, doubt, text: format!("{member}: {message}") };
        if let Some((_, kind)) = REFUSALS.iter().find(|(begin, _)| message.starts_with(begin)) {
            return failure(*kind, false);
        }
        if message.starts_with("etcdserver: mvcc: database space exceeded") {
            // The transaction that crosses the quota is applied and answered with this; later ones are not applied.
            return failure(Kind::NoSpace, true);
        }
        match status.code() {
            Code::OutOfRange if message.contains("decoded message length") => failure(Kind::Oversize, true),
            // Ours, from before anything was sent: the peers do not trust each other.
            Code::Unauthenticated if RpcError::from_status(status).class == ErrorClass::Unauthenticated => {
                failure(Kind::Denied, false)
            }
            Code::PermissionDenied | Code::Unauthenticated => failure(Kind::Denied, false),
            Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound | Code::Unimplemented => {
                failure(Kind::Other, false)
            }
            _ => failure(Kind::Unreachable, true),
        }
    }

    pub fn unreachable(text: impl Into<String>) -> Self {
        Self { kind: Kind::Unreachable, doubt: true, text: text.into() }
    }

    /// The store's words for it, for a call of which nothing has remained.
    pub fn into_error(self) -> StoreError {
        let cause = self.text;
        match self.kind {
            Kind::NoSpace => StoreError::Full {
                cause: format!(
                    "etcd's space quota is used up ({cause}); the controller compacts and defragments where it may; else: etcdctl compaction, etcdctl defrag, etcdctl alarm disarm, or a larger --quota-backend-bytes"
                ),
            },
            Kind::Denied => StoreError::Denied {
                cause: format!(
                    "{cause}; look at the CA, the certificate and key, the user and the user's rights on the prefix"
                ),
            },
            Kind::LoginExpired | Kind::Unreachable => StoreError::Unavailable { cause },
            Kind::TooLarge
            | Kind::TooManyOps
            | Kind::Compacted
            | Kind::Future
            | Kind::NoLease
            | Kind::LeaseExists
            | Kind::Oversize
            | Kind::Other => StoreError::Refused { cause },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_happened_is_never_called_a_refusal() {
        let of = |code, text: &str| {
            let failure = Failure::of(&Status::new(code, text), "m");
            (failure.kind, failure.doubt)
        };
        for (code, text) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: no leader"),
            (Code::Unavailable, "transport error"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::Cancelled, "stream closed"),
            (Code::Unknown, "h2 protocol error"),
            (Code::Internal, "stream terminated by RST_STREAM"),
        ] {
            assert_eq!(of(code, text), (Kind::Unreachable, true), "{text}");
        }
        assert_eq!(
            of(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            (Kind::NoSpace, true),
            "the one that crosses the quota is applied"
        );
        assert_eq!(of(Code::InvalidArgument, "etcdserver: request is too large"), (Kind::TooLarge, false));
        assert_eq!(of(Code::PermissionDenied, "etcdserver: permission denied"), (Kind::Denied, false));
        assert_eq!(of(Code::Unauthenticated, "etcdserver: invalid auth token"), (Kind::LoginExpired, false));
    }
}
