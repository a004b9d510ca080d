//! Why a claim was not prepared, why the driver ended, and why it knows nothing of its server.

use std::{io, path::PathBuf};

use node_agent_host::InventoryFileError;
use proto_rpc::{RpcError, client::ClientError, credentials::CredentialsError, telemetry::TelemetryError};
use thiserror::Error;

use crate::{
    key::{BadName, DRIVER},
    kube::KubeError,
};

/// Why a claim was not prepared, or not removed. Kubelet shows it as an event of the pod, and asks again.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// Not of Kubernetes' making.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The claim is not there any more, or its name is another claim's now.
    #[error("ResourceClaim {namespace}/{name} with UID {uid} is gone; nothing was prepared")]
    Gone {
        /// Namespace of the claim.
        namespace: String,
        /// Name of the claim.
        name: String,
        /// The UID that kubelet has asked for.
        uid: String,
    },
    /// The scheduler has given it nothing, or nothing of this driver.
    #[error("ResourceClaim {0} has no device of {DRIVER} allocated")]
    NotAllocated(String),
    /// The device is another server's.
    #[error("device {device} is of pool {pool}, and this server is pool {own}: was the pod moved by hand?")]
    OtherPool {
        /// The device that was allocated.
        device: String,
        /// The pool that it was allocated from.
        pool: String,
        /// The pool of this server.
        own: String,
    },
    /// A device that is not here.
    #[error("device {device} is no rail of this server now{nearest}")]
    NoDevice {
        /// The device that was allocated.
        device: String,
        /// Which devices there are, as the end of a sentence.
        nearest: String,
    },
    /// Another claim has it.
    #[error(
        "device {device} is still prepared for ResourceClaim {owner}: its pod has to end first, and kubelet to unprepare it"
    )]
    InUse {
        /// The device that was allocated.
        device: String,
        /// Namespace, name and UID of the claim that has it.
        owner: String,
    },
    /// Parameters that nobody here understands.
    #[error(
        "ResourceClaim {0} has opaque parameters for {DRIVER}, which takes none: remove them from the claim or its DeviceClass"
    )]
    Parameters(String),
    /// The RDMA device has no file for processes.
    #[error(
        "RDMA device {device} has no character device below {}: is the kernel's module ib_uverbs loaded?",
        .folder.display()
    )]
    NoFile {
        /// The RDMA device.
        device: String,
        /// Where the kernel names it.
        folder: PathBuf,
    },
    /// What the claim is was not to be had, or makes no sense.
    #[error("ResourceClaim {claim} cannot be read: {source}")]
    Api {
        /// Namespace and name.
        claim: String,
        /// What the API server said, or why it was not reached.
        source: KubeError,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// Too many at a time.
    #[error("{0} claims are being prepared or removed already; ask again")]
    Busy(usize),
    /// The process ends.
    #[error("the driver is ending")]
    Ending,
}

/// Why it is not known which rails there are.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The inventory file cannot be used.
    #[error(transparent)]
    Inventory(#[from] InventoryFileError),
    /// The controller does not answer, or refuses.
    #[error("controller: {call}: {source}")]
    Controller {
        /// The call that failed.
        call: &'static str,
        /// What it said, or why it was not reached.
        source: Box<RpcError>,
    },
    /// The credentials cannot be used.
    #[error("the controller's credentials: {0}")]
    Credentials(#[from] CredentialsError),
    /// The client could not be made.
    #[error("the controller: {0}")]
    Client(#[from] ClientError),
    /// What the controller said of the server is no inventory.
    #[error("controller: GetNode: {0}")]
    Answer(String),
}

/// Why the driver could not begin, or ended.
#[derive(Debug, Error)]
pub enum DriverError {
    /// A setting cannot be used.
    #[error("{0}")]
    Usage(String),
    /// Another driver has the folder.
    #[error("another rail-dra-driver uses {}: end that one first, or name another --state", .0.display())]
    Locked(PathBuf),
    /// A file or socket cannot be used.
    #[error(transparent)]
    File(#[from] io::Error),
    /// A socket cannot be made.
    #[error("cannot listen on {}: {source}", path.display())]
    Listen {
        /// Path of the socket.
        path: PathBuf,
        /// What the operating system answered.
        source: io::Error,
    },
    /// The API server's authority cannot be used.
    #[error("the API server's authority: {0}")]
    Credentials(#[from] CredentialsError),
    /// The client of the API server could not be made.
    #[error("the API server: {0}")]
    Client(#[from] ClientError),
    /// Logs cannot be started.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// What this server has cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl DriverError {
    /// Whether the command line or its files are wrong, so that starting again does not help.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Credentials(_) | Self::Source(SourceError::Credentials(_)))
    }
}
