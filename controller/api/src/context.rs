//! What every handler holds.

use std::sync::Arc;

use controller_core::{Event, State};
use controller_leader::{Applied, Handle};
use proto_model::Timestamp;
use proto_rpc::{Authority, ErrorClass, RpcError};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{
    fault,
    guard::{Caller, Guard},
};

/// The loop, the certificate authority and the door; clones share them.
#[derive(Clone)]
pub struct Context {
    /// Sends events to the leader loop.
    pub handle: Handle,
    /// The cluster's authority, which signs certificates.
    pub ca: Arc<Authority>,
    /// Notes refusals that handlers decide.
    pub guard: Guard,
    /// The release of this controller, for callers and agents.
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

    /// Has the core do what a caller asks for.
    ///
    /// # Errors
    /// The core's refusal, or the loop's.
    pub async fn apply(&self, caller: &Caller, event: Event) -> Result<Applied, RpcError> {
        self.handle.apply(&caller.actor, event).await.map_err(|refusal| fault::refused(&refusal))
    }
}

/// The core answered an event with what belongs to another: a defect.
pub(crate) fn unexpected() -> Status {
    RpcError::new(ErrorClass::Internal, "UNEXPECTED_REPLY", "the core answered with another kind of reply")
        .into()
}
