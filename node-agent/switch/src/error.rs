//! Why the agent ended, and why it has no identity.

use std::{io, path::PathBuf};

use proto_rpc::{
    IdentityFilesError, RpcError, ca::CaError, client::ClientError, files::FileError,
    telemetry::TelemetryError, tls::TlsError,
};
use thiserror::Error;

use crate::{gnmi::ReachError, store::StoreError};

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// No certificate, no token.
    #[error(
        "this switch has no certificate yet: give --join-token-file and --ca-pin, as `railctl switch token {switch}` prints them"
    )]
    NoToken {
        /// Name of this switch.
        switch: String,
    },
    /// A token without the pin by which the controller is known.
    #[error("a join token goes with --ca-pin: without it the token could be given to anybody")]
    NoPin,
    /// The certificate here is another switch's.
    #[error(
        "the certificate in {} is of switch '{found}', not '{wanted}'; use another --state or the old name",
        dir.display()
    )]
    OtherSwitch {
        /// The folder that holds the certificate.
        dir: PathBuf,
        /// The switch that the certificate names.
        found: String,
        /// The switch that it should name.
        wanted: String,
    },
    /// It has expired while the agent was away.
    #[error("this switch's certificate has expired; join again with a new token and --ca-pin")]
    Expired,
    /// The controller refused or could not be reached.
    #[error("cannot join at {controller}: {source}")]
    Join {
        /// The controller's address, as it was given.
        controller: String,
        /// Why the call failed, or what the controller answered.
        source: Box<RpcError>,
    },
    /// As above, for a new certificate in place of the one that is here.
    #[error("cannot renew: {0}")]
    Renew(Box<RpcError>),
    /// A file of the identity cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The key and the certificate on disk cannot be used, or not replaced.
    #[error(transparent)]
    Files(IdentityFilesError),
    /// The key could not be made.
    #[error(transparent)]
    Key(#[from] CaError),
    /// What the controller sent cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Tls(#[from] TlsError),
    /// The client could not be made.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<IdentityFilesError> for IdentityError {
    fn from(error: IdentityFilesError) -> Self {
        match error {
            IdentityFilesError::Expired => Self::Expired,
            other => Self::Files(other),
        }
    }
}

/// Why the agent ended.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The state cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No certificate, and none could be got.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Logs or traces could not be started.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The client could not be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The switch cannot be called.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// The switch's name is none.
    #[error(
        "'{0}' is no name of a switch: small letters, digits, '-', '_' and '.', at most 63; give --switch"
    )]
    Name(String),
    /// Something else that the process needs.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

impl AgentError {
    /// True where the command line is to be fixed.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Reach(_))
    }
}
