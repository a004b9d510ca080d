//! Peers that were refused before their first call: what the audit log tells of them.

use std::sync::Arc;

use controller_leader::{Handle, Refusal};
use proto_audit::{ANONYMOUS, Actor};
use proto_rpc::RefusedPeer;

/// What stands for the call's name.
const HANDSHAKE: &str = "Handshake";

/// Records that a certificate was refused at the handshake. The peer is anonymous: it has not proved to hold the certificate's
/// key, and shares the budget of all who have shown nothing.
///
/// # Errors
/// It could not be recorded.
pub async fn record(handle: &Handle, peer: &RefusedPeer) -> Result<(), Refusal> {
    let detail = match &peer.shown {
        Some((serial, identity)) => {
            format!("a certificate of {identity} with serial number {serial} was shown")
        }
        None => "a certificate that is not by this cluster's authority was shown".to_owned(),
    };
    let actor = Actor {
        who: ANONYMOUS.to_owned(),
        source: peer.address.to_string(),
        rpc: HANDSHAKE.to_owned(),
        ..Actor::default()
    };
    handle.deny(&Arc::new(actor), peer.reason, &detail).await
}
