//! Who else reports a piece of hardware.

use std::sync::Arc;

use proto_model::{Claim, Node, NodeName};

use crate::tables::state::State;

impl State {
    /// Other nodes that report the thing and are not quarantined.
    pub fn others(&self, name: &NodeName, claim: &Claim) -> Vec<&Arc<Node>> {
        let nodes = self.index.claims.nodes(claim.digest()).filter(|other| *other != name);
        let nodes = nodes.filter_map(|other| self.base.nodes.get(other));
        let has = |node: &&Arc<Node>| {
            !node.is_quarantined() && node.inventory.claims().binary_search(claim).is_ok()
        };
        nodes.filter(has).collect()
    }
}
