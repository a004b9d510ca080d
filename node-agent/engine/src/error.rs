//! Why an engine ends otherwise than on request.

use node_agent_engine_transport::TransportError;
use node_agent_engine_transport::tcp::SetupError;

use crate::config::ConfigError;

/// Why an engine ended otherwise than on request.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The collective core refused the configuration.
    #[error("configuration cannot work: {0}")]
    Shape(#[from] node_agent_collective::ConfigError),
    /// Rails could not be opened.
    #[error("{0}")]
    Rails(#[from] SetupError),
    /// Verbs were asked for, and cannot be had.
    #[error("transport verbs was asked for: {0}")]
    Verbs(String),
    /// The ranks' socket could not be opened.
    #[error("ranks' socket: {0}")]
    RankSocket(#[from] node_agent_ipc::SocketError),
    /// The control socket could not be opened.
    #[error("control socket {path}: {source}")]
    ControlSocket {
        /// Path of the control socket.
        path: String,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// A socket could not be watched.
    #[error("cannot watch a socket: {0}")]
    Watch(#[source] std::io::Error),
    /// Waiting for events failed.
    #[error(transparent)]
    Wait(#[from] TransportError),
    /// A peer or a rail was lost while ranks needed it.
    #[error("{text}")]
    Lost {
        /// It was a peer: this server may be well.
        peer: bool,
        /// Which job this engine serves and how, for its log.
        text: String,
    },
}
