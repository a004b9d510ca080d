//! Why the agent ended, and why it has no identity.

use std::{io, path::PathBuf};

use node_agent_host::InventoryFileError;
use node_agent_qos_apply::{document::ProfileFileError, keeper::KeeperError};
use node_agent_rank::user::RankUserError;
use proto_rpc::{
    IdentityFilesError, RpcError, ca::CaError, client::ClientError, files::FileError,
    telemetry::TelemetryError, tls::TlsError,
};
use thiserror::Error;

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// No certificate, no token.
    #[error(
        "this server has no certificate yet: give --join-token and --ca-pin, as `railctl node token {node}` prints them"
    )]
    NoToken {
        /// Name of this server, as the controller knows it.
        node: String,
    },
    /// A token without the pin by which the controller is known.
    #[error("--join-token goes with --ca-pin: without it the token could be given to anybody")]
    NoPin,
    /// The certificate here is another server's.
    #[error(
        "the certificate in {} is node '{found}', not '{wanted}'; use another --data-dir or the old name",
        dir.display()
    )]
    OtherNode {
        /// The directory that holds the certificate.
        dir: PathBuf,
        /// The server that the certificate names.
        found: String,
        /// The server that it should name.
        wanted: String,
    },
    /// It has expired while the agent was away.
    #[error("this server's certificate has expired; join again with a new --join-token and --ca-pin")]
    Expired,
    /// The controller refused or could not be reached.
    #[error("cannot join at {controller}: {source}")]
    Join {
        /// The controller's address, as it was given.
        controller: String,
        /// Why the call failed, or what the controller answered.
        source: RpcError,
    },
    /// As above, for a new certificate in place of the one that is here.
    #[error("cannot renew at {controller}: {source}")]
    Renew {
        /// The controller's address, as it was given.
        controller: String,
        /// Why the call failed, or what the controller answered.
        source: Box<RpcError>,
    },
    /// A file of the identity cannot be read or written.
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
    /// The data directory cannot be used.
    #[error("cannot use the data directory {}: {source}; give another --data-dir or mend its permissions", path.display())]
    DataDir {
        /// Path of the data directory.
        path: PathBuf,
        /// What the operating system answered.
        source: io::Error,
    },
    /// Another agent uses it.
    #[error("another rail-node-agent uses the data directory {}; one server has one agent", .0.display())]
    Locked(PathBuf),
    /// No engine to start jobs with.
    #[error("there is no rail-engine at {}; install it beside rail-node-agent or give --engine", .0.display())]
    NoEngine(PathBuf),
    /// The inventory file cannot be used.
    #[error(transparent)]
    Inventory(#[from] InventoryFileError),
    /// No certificate, and none could be got.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Logs or traces could not be started.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Ranks cannot run as the user that was asked for.
    #[error(transparent)]
    RankUser(#[from] RankUserError),
    /// The profile of class of service cannot be used.
    #[error(transparent)]
    QosProfile(#[from] ProfileFileError),
    /// Class of service cannot be kept.
    #[error("cannot keep class of service: {0}")]
    Qos(#[from] KeeperError),
    /// The metrics address cannot be used.
    #[error("cannot serve metrics: {0}")]
    Metrics(String),
    /// Something else that the process needs.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

impl AgentError {
    /// True where the command line is to be fixed.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoEngine(_) | Self::Inventory(_) | Self::RankUser(_) | Self::QosProfile(_))
    }
}
