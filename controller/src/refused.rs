//! Records of peers that were refused at the handshake: made where this controller leads.

use std::sync::Arc;

use controller_api::handshake;
use controller_leader::Handle;
use proto_rpc::RefusedPeer;
use tokio::sync::{Semaphore, mpsc, watch};

/// Refused peers that wait to be recorded; what comes beyond is counted only.
pub(crate) const WAITING: usize = 64;
/// Records that are made at a time: each may wait for others of its second.
const AT_ONCE: usize = 32;

/// Ends with the server that tells of them.
pub(crate) async fn record(
    mut refused: mpsc::Receiver<RefusedPeer>,
    leading: watch::Receiver<Option<Handle>>,
) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(peer) = refused.recv().await {
        let RefusedPeer { address, reason, shown } = &peer;
        let serial = shown.as_ref().map(|(serial, _)| serial.as_str());
        tracing::info!(%address, reason, serial, "a peer's certificate was refused");
        let Some(handle) = leading.borrow().clone() else { continue };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        tokio::spawn(async move {
            if let Err(error) = handshake::record(&handle, &peer).await {
                tracing::debug!(%error, "a refused certificate was not recorded");
            }
            drop(place);
        });
    }
}
