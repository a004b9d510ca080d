//! Why a call of a rank failed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use node_agent_gpu::export::ExportError;
use node_agent_ipc::{Failure, FailureCode, ProtocolError, RegionError, SocketError};

/// Why a call failed. After [`Error::EngineLost`], [`Error::EngineSilent`] and [`Error::Engine`] the client is of no use any
/// more: every later call fails the same way. After [`Error::Failed`] it depends on the cause in it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The process was not started as a rank of a job.
    #[error("{name} {problem}; start this program as a rank of a job, which sets it")]
    Environment {
        /// The environment variable that is missing or wrong.
        name: &'static str,
        /// What is wrong with the variable, as the rest of the sentence.
        problem: String,
    },
    /// The engine's socket could not be reached.
    #[error("could not attach to the engine at {}: {cause}", socket.display())]
    Attach {
        /// Path of the engine's socket.
        socket: PathBuf,
        /// Why connecting failed, as text.
        cause: String,
    },
    /// The engine answered that it could not do it.
    #[error("{call} failed: {failure}")]
    Failed {
        /// The call that failed, by its name in messages (`attach`, `all-reduce`, ...).
        call: &'static str,
        /// What the engine answered: a code, where it happened, and a text.
        failure: Failure,
    },
    /// The engine's process is gone.
    #[error("the engine ended while this rank was attached; the job cannot go on")]
    EngineLost,
    /// The engine did not even say that it was late.
    #[error("the engine did not answer within {} ms; it is stuck or stopped", after.as_millis())]
    EngineSilent {
        /// How long this side waited.
        after: Duration,
    },
    /// The engine's answer makes no sense.
    #[error("the engine answered wrongly: {cause}")]
    Engine {
        /// How the answer differs from what the protocol allows.
        cause: String,
    },
    /// The arguments do not fit together.
    #[error("invalid argument: {0}")]
    Argument(String),
    /// Memory of a GPU cannot be used, and what would fix it.
    #[error("memory of a GPU: {0}")]
    Gpu(Arc<ExportError>),
    /// Memory of a GPU is still used by calls under way.
    #[error(
        "the memory of a GPU from {pointer:#x} is used by {calls} calls that are under way: wait for them first"
    )]
    InUse {
        /// The address in GPU memory at which the registered range begins.
        pointer: u64,
        /// How many calls under way use it.
        calls: usize,
    },
    /// Shared memory could not be mapped or reached.
    #[error("shared memory: {0}")]
    Memory(String),
}

impl Error {
    /// The cause as one of the fixed codes, whichever side found it.
    pub fn code(&self) -> FailureCode {
        match self {
            Self::Environment { .. }
            | Self::Argument(_)
            | Self::Memory(_)
            | Self::Gpu(_)
            | Self::InUse { .. } => FailureCode::InvalidArgument,
            Self::Attach { .. } | Self::EngineLost => FailureCode::EngineLost,
            Self::Failed { failure, .. } => failure.code,
            Self::EngineSilent { .. } => FailureCode::TimedOut,
            Self::Engine { .. } => FailureCode::Protocol,
        }
    }

    pub(crate) fn from_socket(error: &SocketError, waited: Duration) -> Self {
        match error {
            SocketError::Closed => Self::EngineLost,
            SocketError::TimedOut => Self::EngineSilent { after: waited },
            other => Self::Engine { cause: other.to_string() },
        }
    }
}

impl From<ExportError> for Error {
    fn from(error: ExportError) -> Self {
        Self::Gpu(Arc::new(error))
    }
}

impl From<RegionError> for Error {
    fn from(error: RegionError) -> Self {
        Self::Memory(error.to_string())
    }
}

impl From<ProtocolError> for Error {
    fn from(error: ProtocolError) -> Self {
        Self::Engine { cause: error.to_string() }
    }
}
