//! What every handler holds.

use std::sync::Arc;

use controller_core::State;
use controller_reconciler::Handle;
use proto_model::Timestamp;
use proto_rpc::{Authority, ErrorClass, RpcError};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{fault, guard::Guard};

/// The loop, the certificate authority and the door; clones share them.
#[derive(Clone)]
pub struct Context {
    /// The way into the loop.
    pub handle: Handle,
    /// Signs certificates.
    pub ca: Arc<Authority>,
    /// Notes refusals that handlers decide.
    pub guard: Guard,
    /// The release.
    pub version: &'static str,
    /// Cancelled when the controller ends: long streams end with it.
    pub ending: CancellationToken,
}

impl Context {
    /// Reads the committed state.
    ///
    /// # Errors
    /// The loop is too busy, or ending.
    pub async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&State, Timestamp) -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        self.handle.query(question).await.map_err(|refusal| fault::refused(&refusal))
    }
}

/// The core answered an event with what belongs to another: a defect.
pub(crate) fn unexpected() -> Status {
    RpcError::new(ErrorClass::Internal, "UNEXPECTED_REPLY", "the core answered with another kind of reply")
        .into()
}
