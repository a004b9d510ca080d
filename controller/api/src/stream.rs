//! Streams that callers open: what they say first.

use std::time::Duration;

use proto_rpc::{ErrorClass, RpcError};
use tonic::Streaming;

/// How long an agent may take to say who it is, and an upload to say what it answers.
pub(crate) const FIRST_MESSAGE: Duration = Duration::from_secs(10);

pub(crate) async fn first<M>(stream: &mut Streaming<M>) -> Result<M, RpcError> {
    let invalid = |text: &str| RpcError::new(ErrorClass::Invalid, "NO_FIRST_MESSAGE", text);
    let message = tokio::time::timeout(FIRST_MESSAGE, stream.message()).await;
    let message =
        message.map_err(|_| RpcError::new(ErrorClass::Timeout, "SILENT", "nothing was said in time"))?;
    message
        .map_err(|status| RpcError::from_status(&status))?
        .ok_or_else(|| invalid("the stream ended before it began"))
}
