//! What a private cluster looks like.

use std::sync::Arc;

use controller_scheduler::{Gate, Snapshot};
use proto_model::{Fabric, Inventory, Leaf, LinkGroup, Names, NodeName, Rail};

/// What a private cluster is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Nodes of each whole pod.
    pub pods: Vec<u32>,
    /// Whole nodes beside them.
    pub nodes: u32,
    /// GPUs of one more node, of which there are so many.
    pub gpus: u32,
    /// What each node is like.
    pub inventory: Arc<Inventory>,
    /// Rails of the fabric.
    pub rails: u32,
}

impl Site {
    /// The cluster. Its nodes are numbered in the order of `pods`, then `nodes`, then the node with `gpus`; whole nodes
    /// beside pods are each in a pod of their own, for nothing is promised of where they lie.
    #[must_use]
    pub fn cluster(&self) -> Snapshot {
        let single = self.nodes + u32::from(self.gpus > 0);
        let sizes: Vec<u32> = self.pods.iter().copied().chain((0..single).map(|_| 1)).collect();
        let mut fabric = Fabric::default();
        fabric.rails.extend((0..self.rails).map(|index| Rail { index, name: format!("r{index}") }));
        let mut first = 0;
        for (pod, size) in sizes.iter().enumerate() {
            let names = Names::of((first..first + size).map(name_text));
            first += size;
            for nic in self.inventory.nics.iter().filter(|nic| nic.rail < self.rails) {
                let leaf = format!("p{pod:05}-{}", nic.rail);
                let pod = format!("p{pod:05}");
                if fabric.leaves.last().is_none_or(|last| last.name != leaf) {
                    fabric.leaves.push(Leaf { name: leaf.clone(), rail: nic.rail, pod, ..Leaf::default() });
                }
                let (nodes, nic) = (names.clone(), nic.device.clone());
                fabric.link_groups.push(LinkGroup {
                    nodes,
                    nic,
                    leaf,
                    speed_mbps: 1,
                    ..LinkGroup::default()
                });
            }
        }
        let mut snapshot = Snapshot::new(Some(&fabric));
        let small = Arc::new(Inventory {
            gpus: self.inventory.gpus.iter().take(self.gpus as usize).cloned().collect(),
            ..self.inventory.as_ref().clone()
        });
        for node in 0..first {
            let inventory = if self.gpus > 0 && node + 1 == first { &small } else { &self.inventory };
            if let Ok(name) = NodeName::new(name_text(node)) {
                snapshot.set_node(&name, inventory, Gate::default());
            }
        }
        snapshot
    }

    /// How many nodes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.pods.iter().sum::<u32>() + self.nodes + u32::from(self.gpus > 0)) as usize
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In which of the whole pods a node is.
    pub(super) fn pod(&self, node: usize) -> Option<usize> {
        let mut first = 0;
        self.pods.iter().position(|size| {
            first += *size as usize;
            node < first
        })
    }
}

fn name_text(node: u32) -> String {
    format!("v{node:06}")
}

/// The number of a private cluster's node.
pub(super) fn number(name: &NodeName) -> Option<usize> {
    name.as_str().strip_prefix('v')?.parse().ok()
}
