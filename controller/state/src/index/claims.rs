//! Which nodes report hardware that only one can have.

use std::{collections::BTreeSet, sync::Arc};

use proto_model::{Claim, Node, NodeName};

/// Who reports what, by the digests of claims; a function of the nodes' inventories. Two claims may share a digest, so that who is
/// found here is asked for the claim itself. (No entry is without a name; `None` comes before all of them.)
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimIndex(BTreeSet<(u64, Option<NodeName>)>);

fn digests(node: Option<&Arc<Node>>) -> BTreeSet<u64> {
    node.map(|node| node.inventory.claims().iter().map(Claim::digest).collect()).unwrap_or_default()
}

impl ClaimIndex {
    /// A node's record was replaced.
    pub fn swap(&mut self, name: &NodeName, old: Option<&Arc<Node>>, new: Option<&Arc<Node>>) {
        let inventory = |node: Option<&Arc<Node>>| node.map(|node| Arc::as_ptr(&node.inventory));
        if inventory(old) == inventory(new) {
            return;
        }
        let (old, new) = (digests(old), digests(new));
        for gone in old.difference(&new) {
            self.0.remove(&(*gone, Some(name.clone())));
        }
        for come in new.difference(&old) {
            self.0.insert((*come, Some(name.clone())));
        }
    }

    /// Nodes that report something of this digest.
    pub fn nodes(&self, digest: u64) -> impl Iterator<Item = &NodeName> {
        let from = self.0.range((digest, None)..);
        from.take_while(move |(own, _)| *own == digest).filter_map(|(_, name)| name.as_ref())
    }
}
