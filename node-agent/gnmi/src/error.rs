//! What goes wrong with a switch, by what is to be done about it.

use std::time::Duration;

use proto_rpc::client::ClientError;
use tonic::{Code, Status};

/// Why a call to a switch failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address or the credentials cannot be used; nothing was called.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A user name or password that cannot stand in a header; nothing was called.
    #[error("the {0} of the switch's login has a character that no header can carry")]
    Login(&'static str),
    /// No connection, or it broke.
    #[error("the switch cannot be reached: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("the switch has not answered within {} ms", .0.as_millis())]
    Late(Duration),
    /// The switch does not know who calls, or does not let them do this.
    #[error("the switch refuses the login or the certificate: {0}")]
    Denied(String),
    /// It does not take changes by gNMI.
    #[error(
        "the switch takes no changes by gNMI ({0}); enable writes in its gNMI server, or apply the rendered file by hand"
    )]
    ReadOnly(String),
    /// It cannot do this at all.
    #[error("the switch's gNMI server does not support this: {0}")]
    Unsupported(String),
    /// It has looked at the change and refused it; nothing was changed. SONiC says [`Error::Failed`] of that, too.
    #[error("the switch refuses the change: {0}")]
    Refused(String),
    /// There is nothing at that path.
    #[error("the switch has nothing there: {0}")]
    NotFound(String),
    /// It has more to say than is read.
    #[error("the switch's answer is larger than {limit} bytes: {message}")]
    TooLarge {
        /// [`crate::Limits::message_bytes`].
        limit: usize,
        /// What was read of its length.
        message: String,
    },
    /// What it has sent cannot be.
    #[error("the switch's answer cannot be read: {0}")]
    Malformed(String),
    /// Anything else that it says.
    #[error("the switch answers {code:?}: {message}")]
    Failed {
        /// The code of gRPC.
        code: Code,
        /// Its own words, cut to 512 characters.
        message: String,
    },
}

/// What was called, as far as errors mean different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// Get, Capabilities, Subscribe.
    Read,
    /// Set.
    Write,
}

impl Error {
    /// What the switch, or our client for it, says.
    pub(crate) fn of(status: &Status, call: Call, limit: Duration, bytes: usize) -> Self {
        let message: String = status.message().chars().take(512).collect();
        // What has a cause was made here: the connection broke, and whatever code stands on that is none of the switch's.
        let is_answer = std::error::Error::source(status).is_none();
        match (status.code(), call) {
            (Code::Unavailable, _) => Error::Unreachable(message),
            (Code::DeadlineExceeded | Code::Cancelled, _) => Error::Late(limit),
            (Code::Unauthenticated | Code::PermissionDenied, _) => Error::Denied(message),
            (Code::Unimplemented, Call::Write) => Error::ReadOnly(message),
            (Code::Unimplemented, Call::Read) => Error::Unsupported(message),
            (Code::InvalidArgument | Code::FailedPrecondition | Code::Aborted, Call::Write) => {
                Error::Refused(message)
            }
            (Code::NotFound, _) => Error::NotFound(message),
            // What our own decoder says of a message above the limit.
            (Code::OutOfRange, _) => Error::TooLarge { limit: bytes, message },
            (Code::Unknown | Code::Internal, _) if !is_answer => Error::Unreachable(message),
            (code, _) => Error::Failed { code, message },
        }
    }

    /// A change that failed so may have been made all the same: read back what is there. A switch that fails in the middle says
    /// INTERNAL or UNKNOWN, whatever it had done by then.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self {
            Error::Unreachable(_) | Error::Late(_) | Error::TooLarge { .. } | Error::Malformed(_) => true,
            Error::Failed { code, .. } => !matches!(code, Code::ResourceExhausted | Code::AlreadyExists),
            Error::Client(_)
            | Error::Login(_)
            | Error::Denied(_)
            | Error::ReadOnly(_)
            | Error::Unsupported(_)
            | Error::Refused(_)
            | Error::NotFound(_) => false,
        }
    }

    /// Calling again may help.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Error::Unreachable(_) | Error::Late(_) => true,
            Error::Failed { code, .. } => {
                matches!(code, Code::ResourceExhausted | Code::Unknown | Code::Internal)
            }
            _ => false,
        }
    }
}
