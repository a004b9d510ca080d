//! What controller and agents tell each other.

use proto_model::{NodeEndpoints, RailEndpoint};

use crate::v1;

impl From<&RailEndpoint> for v1::RailEndpoint {
    fn from(endpoint: &RailEndpoint) -> Self {
        Self { rail: endpoint.rail, address: endpoint.address.to_string() }
    }
}

impl From<&NodeEndpoints> for v1::NodeEndpoints {
    fn from(peer: &NodeEndpoints) -> Self {
        Self { node: peer.node.to_string(), endpoints: peer.endpoints.iter().map(Into::into).collect() }
    }
}
