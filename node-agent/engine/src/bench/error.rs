//! Why a benchmark could not be done.

use node_agent_client::Error;

/// Why a benchmark could not be done.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A call of this rank failed; see [`Error`].
    #[error(transparent)]
    Rank(#[from] Error),
    /// The result could not be stored.
    #[error("cannot write the result to {path}: {source}")]
    Result {
        /// The file, as RAIL_RESULT_FILE names it.
        path: String,
        /// What the operating system answered.
        source: std::io::Error,
    },
}

impl BenchError {
    /// Whether the process was started wrongly.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Rank(Error::Environment { .. }))
    }
}
