//! Kubernetes: Kueue's Topology with the labels of its nodes, and Volcano's HyperNodes.

use proto_model::Fabric;

use super::{Export, Tree, comments};

/// Label of the block, where pods are gathered in blocks.
pub const BLOCK: &str = "railyard.io/block";
/// Label of the pod.
pub const POD: &str = "railyard.io/pod";
/// Label of the leaf on the first rail, where pods have several leaves on one rail.
pub const LEAF: &str = "railyard.io/leaf";

/// A name of an object, and the value of a label: lower-case letters, digits and `-`, at most 48 to leave room for a number.
fn object(name: &str) -> String {
    let text: String = name
        .to_ascii_lowercase()
        .chars()
        .take(48)
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    text.trim_matches('-').to_owned()
}

/// A Topology of Kueue (0.14 and later), and the labels that its levels read, as Node documents for `kubectl apply
/// --server-side`. Nodes are taken to be called in Kubernetes as in the fabric.
#[must_use]
pub fn kueue(fabric: &Fabric) -> Export {
    let tree = Tree::of(fabric, object);
    let mut lost = tree.lost.clone();
    lost.push("rank order: pods of a job are ordered within what Kueue assigns, not along rails".into());
    let mut text = comments(&format!("Kueue Topology and node labels of fabric {}", fabric.name), &lost);
    let blocks = tree.blocks.len() > 1;
    text.push_str(&format!(
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Topology\nmetadata:\n  name: {:?}\nspec:\n  levels:\n",
        object(&fabric.name)
    ));
    let levels = blocks.then_some(BLOCK).into_iter().chain([POD]);
    for label in levels.chain(tree.grouped.then_some(LEAF)).chain(["kubernetes.io/hostname"]) {
        text.push_str(&format!("  - nodeLabel: {label:?}\n"));
    }
    let groups = tree.pods().flat_map(|(block, pod)| pod.groups.iter().map(move |group| (block, pod, group)));
    for (block, pod, group) in groups {
        for node in &group.nodes {
            text.push_str(&format!(
                "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {:?}\n  labels:\n",
                node.as_str()
            ));
            if blocks {
                text.push_str(&format!("    {BLOCK:?}: {:?}\n", block.name));
            }
            text.push_str(&format!("    {POD:?}: {:?}\n", pod.name));
            if tree.grouped {
                text.push_str(&format!("    {LEAF:?}: {:?}\n", group.name));
            }
        }
    }
    Export { text, lost }
}

/// HyperNodes of Volcano: groups of leaves at tier 1 where pods have several, then pods, blocks above where there are any,
/// the fabric at the top.
#[must_use]
pub fn volcano(fabric: &Fabric) -> Export {
    let tree = Tree::of(fabric, object);
    let mut lost = tree.lost.clone();
    lost.push("rank order: Volcano places tasks within HyperNodes, not along rails".into());
    let mut text = comments(&format!("Volcano HyperNodes of fabric {}", fabric.name), &lost);
    let mut first = true;
    let mut node = |name: &str, tier: u32, tier_name: &str, kind: &str, members: Vec<String>| {
        let divide = if std::mem::take(&mut first) { "" } else { "---\n" };
        text.push_str(&format!(
            "{divide}apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata:\n  name: {name:?}\nspec:\n  tier: {tier}\n  tierName: {tier_name}\n  members:\n"
        ));
        for member in members {
            text.push_str(&format!(
                "  - type: {kind}\n    selector:\n      exactMatch:\n        name: {member:?}\n"
            ));
        }
    };
    let low = u32::from(tree.grouped);
    for (_, pod) in tree.pods() {
        if !tree.grouped {
            let members = pod.nodes().into_iter().map(ToString::to_string).collect();
            node(&pod.name, 1, "pod", "Node", members);
            continue;
        }
        for group in &pod.groups {
            let members = group.nodes.iter().map(ToString::to_string).collect();
            node(&group.name, 1, "leaf", "Node", members);
        }
        let members = pod.groups.iter().map(|group| group.name.clone()).collect();
        node(&pod.name, 2, "pod", "HyperNode", members);
    }
    let blocks = tree.blocks.len() > 1;
    if blocks {
        for block in &tree.blocks {
            let members = block.pods.iter().map(|pod| pod.name.clone()).collect();
            node(&block.name, 2 + low, "block", "HyperNode", members);
        }
    }
    let top: Vec<String> = if blocks {
        tree.blocks.iter().map(|block| block.name.clone()).collect()
    } else {
        tree.pods().map(|(_, pod)| pod.name.clone()).collect()
    };
    if top.len() > 1 {
        node("fabric", if blocks { 3 + low } else { 2 + low }, "fabric", "HyperNode", top);
    }
    Export { text, lost }
}
