//! What controller and agents tell each other.

use proto_model::{NodeEndpoints, NodeName, RailEndpoint};

use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

impl TryFrom<v1::RailEndpoint> for RailEndpoint {
    type Error = FieldErrors;

    fn try_from(row: v1::RailEndpoint) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let wrong = |_| format!("'{}' is not ip:port", row.address);
        let address = fields.take("address", row.address.parse().map_err(wrong));
        fields.finish(address.map(|address| Self { rail: row.rail, address }))
    }
}

impl TryFrom<v1::NodeEndpoints> for NodeEndpoints {
    type Error = FieldErrors;

    fn try_from(row: v1::NodeEndpoints) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let node = fields.take("node", NodeName::new(&row.node));
        let endpoints = fields.list("endpoints", row.endpoints);
        fields.finish(node.map(|node| Self { node, endpoints }))
    }
}
