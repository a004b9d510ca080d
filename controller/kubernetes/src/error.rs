//! Why the operator could not begin.

use std::{io, net::SocketAddr};

use proto_rpc::telemetry::TelemetryError;
use thiserror::Error;

use crate::{connect::ConnectError, railyard::RailyardError};

/// Why the operator could not begin, or ended.
#[derive(Debug, Error)]
pub enum OperatorError {
    /// A setting cannot be used.
    #[error("{0}")]
    Usage(String),
    /// Something of the operating system cannot be had.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The address of metrics cannot be listened on.
    #[error("cannot listen on {address}: {source}; name another one with --metrics")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system answered.
        source: io::Error,
    },
    /// No client of the API server.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No client of the controller.
    #[error(transparent)]
    Railyard(#[from] RailyardError),
    /// Logs cannot be started.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}

impl OperatorError {
    /// Whether the command line or its files are wrong, so that starting again does not help.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Usage(_)
                | Self::Connect(ConnectError::Credentials(_) | ConnectError::NoToken(_))
                | Self::Railyard(RailyardError::Credentials(_))
        )
    }
}
