//! The identity of the caller of a forwarded call, in headers that count only under a controller's certificate.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use proto_rpc::{Identity, PeerInfo, listen::PeerAddress};

const CALLER: HeaderName = HeaderName::from_static("rail-caller");
/// The caller's address, for the audit log.
const ADDRESS: HeaderName = HeaderName::from_static("rail-caller-address");

/// Removes the headers, and takes the identity from them if `peer` is a controller of this cluster; from any other peer they are
/// ignored. `None`: a controller reports something that is no identity.
pub(crate) fn believe(headers: &mut HeaderMap, peer: &mut PeerInfo, cluster: &str) -> Option<()> {
    let (reported, address) = (headers.remove(&CALLER), headers.remove(&ADDRESS));
    if peer.identity != Identity::Controller {
        return Some(());
    }
    let Some(reported) = reported else { return Some(()) };
    peer.identity = match reported.to_str().ok()? {
        "" => Identity::Anonymous,
        uri => Identity::from_uri(uri, cluster).ok()?,
    };
    peer.certificate = None;
    if let Some(address) = address {
        peer.address = PeerAddress::Tcp(address.to_str().ok()?.parse().ok()?);
    }
    Some(())
}

/// Sets the headers to the identity and address of `peer`. `None`: they cannot be written as headers.
pub(crate) fn report(headers: &mut HeaderMap, peer: &PeerInfo, cluster: &str) -> Option<()> {
    let uri = match &peer.identity {
        Identity::Anonymous => String::new(),
        known => known.to_uri(cluster).ok()?,
    };
    headers.insert(CALLER, HeaderValue::from_str(&uri).ok()?);
    if let PeerAddress::Tcp(address) = &peer.address {
        headers.insert(ADDRESS, HeaderValue::from_str(&address.to_string()).ok()?);
    }
    Some(())
}
