//! Credentials that are issued: how long they live, and by what digest the core knows a token.

use std::time::Duration;

use proto_rpc::{RpcError, TokenHash};
use proto_wire::convert::duration_from_wire;

use crate::fault;

/// How long what is issued for a user lives at most.
pub(crate) const LONGEST_LIFETIME: Duration = Duration::from_secs(30 * 86_400);

/// The digest by which the core knows a token.
pub(crate) fn token_digest(hash: &TokenHash) -> [u8; 32] {
    // A TokenHash shows itself as 64 hex digits.
    let text = hash.to_string();
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(digits).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        *byte = pair.unwrap_or(0);
    }
    bytes
}

/// An asked lifetime; absent or zero leaves it to the receiver.
pub(crate) fn lifetime(wire: Option<prost_types::Duration>) -> Result<Option<Duration>, RpcError> {
    let lifetime =
        wire.map(duration_from_wire).transpose().map_err(|errors| fault::fields(errors, "lifetime"))?;
    Ok(lifetime.filter(|lifetime| !lifetime.is_zero()))
}
