//! Failures as NCCL knows them: one of its codes, and one line for its log.

use node_agent_client::{Error, FailureCode};

use crate::core::ConnectionError;

/// NCCL's result codes that this plugin gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// It was done.
    Success = 0,
    /// The system or the engine failed.
    System = 2,
    /// NCCL used the plugin in a way that cannot be, or the plugin has a bug.
    Internal = 3,
    /// The user's doing: how the job is set up, or sizes that do not fit.
    InvalidUsage = 5,
    /// Another rank or node is gone, or failed.
    Remote = 6,
}

/// Why an entry failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NetError {
    /// The code that NCCL gets.
    pub code: Code,
    /// What happened, where, and what to do.
    pub text: String,
}

impl NetError {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl From<ConnectionError> for NetError {
    fn from(error: ConnectionError) -> Self {
        let code = match &error {
            ConnectionError::Handle(_)
            | ConnectionError::OtherJob { .. }
            | ConnectionError::NoSuchRank { .. }
            | ConnectionError::TooLarge { .. } => Code::InvalidUsage,
            ConnectionError::Refused { .. }
            | ConnectionError::Closed { .. }
            | ConnectionError::Protocol { .. } => Code::Remote,
            ConnectionError::TooMany { .. }
            | ConnectionError::Unknown(_)
            | ConnectionError::Argument(_)
            | ConnectionError::Withdrawn { .. } => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl From<Error> for NetError {
    fn from(error: Error) -> Self {
        let code = match error.code() {
            _ if matches!(error, Error::Environment { .. }) => Code::InvalidUsage,
            FailureCode::Mismatch | FailureCode::Denied => Code::InvalidUsage,
            FailureCode::InvalidArgument => Code::Internal,
            FailureCode::RankLost
            | FailureCode::PeerLost
            | FailureCode::RailLost
            | FailureCode::Stopped
            | FailureCode::TimedOut => Code::Remote,
            FailureCode::Exhausted
            | FailureCode::NotReady
            | FailureCode::Protocol
            | FailureCode::Internal
            | FailureCode::EngineLost => Code::System,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_the_codes_that_nccl_documents() {
        let code = |error: ConnectionError| NetError::from(error).code;
        assert_eq!(code(ConnectionError::Closed { rank: 1 }), Code::Remote);
        assert_eq!(
            code(ConnectionError::TooLarge { rank: 1, bytes: 2, tag: 0, room: 1 }),
            Code::InvalidUsage
        );
        assert_eq!(code(ConnectionError::Unknown("request")), Code::Internal);
        assert_eq!(NetError::from(Error::EngineLost).code, Code::System);
        let environment = Error::Environment { name: "RANK", problem: "is not set".into() };
        let error = NetError::from(environment);
        assert_eq!(error.code, Code::InvalidUsage);
        assert!(error.text.contains("RANK is not set"), "{error}");
    }
}
