//! Slurm: topology.conf of topology/tree, and topology.yaml (25.05 and later) with a tree and blocks.

use proto_model::{Fabric, Names, NodeName};

use super::{Export, Tree, comments};

/// A name as Slurm's configuration takes it: no blanks, commas, brackets or signs of its own grammar.
fn plain(name: &str) -> String {
    let right = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.chars().map(|c| if right(c) { c } else { '_' }).collect()
}

fn list<'a>(nodes: impl IntoIterator<Item = &'a NodeName>) -> String {
    Names::of(nodes.into_iter().map(NodeName::as_str)).to_string()
}

/// What holds nodes itself: groups of leaves, or pods where there are none.
fn lowest(tree: &Tree) -> Vec<(&str, Vec<&NodeName>)> {
    if tree.grouped {
        let groups = tree.pods().flat_map(|(_, pod)| &pod.groups);
        return groups.map(|group| (group.name.as_str(), group.nodes.iter().collect())).collect();
    }
    tree.pods().map(|(_, pod)| (pod.name.as_str(), pod.nodes())).collect()
}

/// A tree's switches from the bottom: name, and either nodes or switches below.
fn switches(tree: &Tree) -> Vec<(String, Below)> {
    let below = |names: Vec<String>| Below::Switches(Names::of(&names).to_string());
    let mut found: Vec<(String, Below)> =
        lowest(tree).into_iter().map(|(name, nodes)| (name.to_owned(), Below::Nodes(list(nodes)))).collect();
    if tree.grouped {
        for (_, pod) in tree.pods() {
            let groups = pod.groups.iter().map(|group| group.name.clone()).collect();
            found.push((pod.name.clone(), below(groups)));
        }
    }
    if tree.blocks.len() > 1 {
        for block in &tree.blocks {
            found.push((block.name.clone(), below(block.pods.iter().map(|pod| pod.name.clone()).collect())));
        }
    }
    let top: Vec<String> = if tree.blocks.len() > 1 {
        tree.blocks.iter().map(|block| block.name.clone()).collect()
    } else {
        tree.pods().map(|(_, pod)| pod.name.clone()).collect()
    };
    if top.len() > 1 {
        found.push(("fabric".into(), below(top)));
    }
    found
}

enum Below {
    Nodes(String),
    Switches(String),
}

/// Loses beside what every tree loses.
fn lost(tree: &Tree) -> Vec<String> {
    let mut lost = tree.lost.clone();
    lost.push("rank order: Slurm orders the hosts of a job by name".into());
    lost
}

/// The fabric as `topology.conf` for `TopologyPlugin=topology/tree`.
#[must_use]
pub fn slurm_conf(fabric: &Fabric) -> Export {
    let tree = Tree::of(fabric, plain);
    let lost = lost(&tree);
    let mut text =
        comments(&format!("topology.conf of fabric {} (TopologyPlugin=topology/tree)", fabric.name), &lost);
    for (name, below) in switches(&tree) {
        let below = match below {
            Below::Nodes(nodes) => format!("Nodes={nodes}"),
            Below::Switches(switches) => format!("Switches={switches}"),
        };
        text.push_str(&format!("SwitchName={name} {below}\n"));
    }
    Export { text, lost }
}

/// `topology.yaml`: the tree as the cluster's default, and beside it what holds nodes as blocks: groups of leaves, or pods.
#[must_use]
pub fn slurm_yaml(fabric: &Fabric) -> Export {
    let tree = Tree::of(fabric, plain);
    let mut lost = lost(&tree);
    let lowest = lowest(&tree);
    let sizes: Vec<usize> = lowest.iter().map(|(_, nodes)| nodes.len()).collect();
    let base = sizes.iter().copied().min().unwrap_or(0);
    let largest = sizes.iter().copied().max().unwrap_or(0);
    if largest > base {
        lost.push(format!(
            "in the blocks: {} have {base} to {largest} nodes, and Slurm plans with blocks of {base}, the smallest",
            if tree.grouped { "groups of leaves" } else { "pods" }
        ));
    }
    if tree.grouped {
        lost.push("in the blocks: which groups of leaves are of one pod; the tree says it".into());
    }
    let mut text =
        comments(&format!("topology.yaml of fabric {} (Slurm 25.05 and later)", fabric.name), &lost);
    text.push_str("---\n- topology: pods\n  cluster_default: true\n  tree:\n    switches:\n");
    for (name, below) in switches(&tree) {
        let below = match below {
            Below::Nodes(nodes) => format!("nodes: {nodes:?}"),
            Below::Switches(switches) => format!("children: {switches:?}"),
        };
        text.push_str(&format!("      - switch: {name:?}\n        {below}\n"));
    }
    text.push_str("- topology: blocks\n  cluster_default: false\n  block:\n    block_sizes:\n");
    // The base, and powers of two of it while there are as many pods.
    let steps = (0..16).map(|power| 1_usize << power).take_while(|times| *times <= sizes.len().max(1));
    for times in steps {
        text.push_str(&format!("      - {}\n", base.max(1) * times));
    }
    text.push_str("    blocks:\n");
    for (name, nodes) in lowest {
        text.push_str(&format!("      - block: {name:?}\n        nodes: {:?}\n", list(nodes)));
    }
    Export { text, lost }
}
