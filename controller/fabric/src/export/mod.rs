//! Fabrics as other schedulers read them, each with what it cannot say.
//!
//! All of them know one tree over the nodes. A pod, whose leaves serve the same servers, stands for its leaves of all
//! rails; a block of pods that share their spines stands above it where there are several.

mod kubernetes;
mod slurm;

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, Names, NodeName};

use crate::natural;

pub use kubernetes::{kueue, volcano};
pub use slurm::{slurm_conf, slurm_yaml};

/// A fabric for another scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The text; what is lost stands in it as comments too.
    pub text: String,
    /// What the other scheduler will not know.
    pub lost: Vec<String>,
}

/// The fabric as one tree.
struct Tree {
    /// Blocks in natural order; one without a name where there is no layer between pods and the top.
    blocks: Vec<Block>,
    lost: Vec<String>,
}

struct Block {
    name: String,
    pods: Vec<Pod>,
}

struct Pod {
    name: String,
    /// In natural order.
    nodes: Vec<NodeName>,
}

impl Tree {
    /// `clean` makes a name of one that the other scheduler takes; names that it makes alike get a number.
    fn of(fabric: &Fabric, clean: fn(&str) -> String) -> Self {
        let leaf_pod: BTreeMap<&str, &str> =
            fabric.leaves.iter().map(|leaf| (leaf.name.as_str(), leaf.pod.as_str())).collect();
        let mut pods: BTreeMap<&str, BTreeSet<NodeName>> = BTreeMap::new();
        for link in fabric.each_link() {
            if let Some(pod) = leaf_pod.get(link.leaf.as_str()) {
                pods.entry(pod).or_default().insert(link.node);
            }
        }
        let mut blocks: BTreeMap<BTreeSet<String>, Vec<Pod>> = BTreeMap::new();
        let uppers = uppers(fabric);
        for (name, nodes) in pods {
            let mut nodes: Vec<NodeName> = nodes.into_iter().collect();
            nodes.sort_by(|a, b| natural::compare(a.as_str(), b.as_str()));
            let above = uppers.get(name).cloned().unwrap_or_default();
            blocks.entry(above).or_default().push(Pod { name: name.to_owned(), nodes });
        }
        let mut blocks: Vec<Vec<Pod>> = blocks.into_values().collect();
        for pods in &mut blocks {
            pods.sort_by(|a, b| natural::compare(&a.name, &b.name));
        }
        blocks.sort_by(|a, b| natural::compare(&a[0].name, &b[0].name));
        let width = blocks.len().to_string().len();
        let named = blocks.len() > 1;
        let names: Vec<String> = (1..=blocks.len()).map(|at| format!("block{at:0width$}")).collect();
        let mut lost = lost(fabric);
        let mut taken: BTreeSet<String> = names.iter().cloned().chain(["fabric".to_owned()]).collect();
        for pod in blocks.iter_mut().flatten() {
            let plain = clean(&pod.name);
            let plain = if plain.is_empty() { "pod".to_owned() } else { plain };
            let name = (1_u32..)
                .map(|at| if at == 1 { plain.clone() } else { format!("{plain}-{at}") })
                .find(|name| !taken.contains(name))
                .unwrap_or(plain);
            if name != pod.name {
                lost.push(format!("names: pod '{}' is called {name}", pod.name));
            }
            taken.insert(name.clone());
            pod.name = name;
        }
        let blocks = names.into_iter().zip(blocks).map(|(name, pods)| {
            let name = if named { name } else { String::new() };
            Block { name, pods }
        });
        Self { blocks: blocks.collect(), lost }
    }

    fn pods(&self) -> impl Iterator<Item = (&Block, &Pod)> {
        self.blocks.iter().flat_map(|block| block.pods.iter().map(move |pod| (block, pod)))
    }
}

/// The spines above each pod, on the rail and plane that come first.
fn uppers(fabric: &Fabric) -> BTreeMap<&str, BTreeSet<String>> {
    let first = fabric.leaves.iter().map(|leaf| (leaf.rail, leaf.plane)).min();
    let leaves: BTreeMap<&str, &str> = fabric
        .leaves
        .iter()
        .filter(|leaf| Some((leaf.rail, leaf.plane)) == first)
        .map(|leaf| (leaf.name.as_str(), leaf.pod.as_str()))
        .collect();
    let mut above: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for uplink in &fabric.uplinks {
        let upper: BTreeSet<String> = uplink.upper.iter().collect();
        for pod in uplink.lower.iter().filter_map(|name| leaves.get(name.as_str())) {
            above.entry(pod).or_default().extend(upper.iter().cloned());
        }
    }
    above
}

/// What one tree does not say.
fn lost(fabric: &Fabric) -> Vec<String> {
    let mut lost = Vec::new();
    let rails = fabric.rails.len();
    if rails > 1 {
        lost.push(format!(
            "rails: {rails} rails are trees of their own over the same nodes; one tree remains, in which a pod stands for its {} leaves",
            per_pod(fabric)
        ));
    }
    if fabric.leaves.iter().any(|leaf| leaf.plane > 0) {
        lost.push("planes: that NICs have two ports on two leaves".into());
    }
    let mut on: BTreeMap<NodeName, BTreeSet<u32>> = BTreeMap::new();
    let rail_of: BTreeMap<&str, u32> =
        fabric.leaves.iter().map(|leaf| (leaf.name.as_str(), leaf.rail)).collect();
    let (mut speeds, mut down) = (BTreeSet::new(), 0);
    for link in fabric.each_link() {
        let rails = on.entry(link.node).or_default();
        rails.extend(rail_of.get(link.leaf.as_str()));
        speeds.insert(link.speed_mbps);
        down += usize::from(link.down);
    }
    let partial: Vec<&NodeName> =
        on.iter().filter(|(_, own)| own.len() < rails).map(|(node, _)| node).collect();
    if !partial.is_empty() {
        let names = Names::of(partial.iter().take(16));
        let more = if partial.len() > 16 { " and others" } else { "" };
        lost.push(format!(
            "partial rails: {} nodes lack a rail and will be taken for whole: {names}{more}",
            partial.len()
        ));
    }
    let switches = fabric.leaves.iter().filter(|leaf| leaf.down).count()
        + fabric.spines.iter().filter(|spine| spine.down).count();
    let uplinks = fabric.uplinks.iter().filter(|uplink| uplink.down > 0).count();
    if down + switches + uplinks > 0 {
        lost.push(format!(
            "health: {down} cables, {switches} switches and {uplinks} bundles of uplinks that are down are taken for whole"
        ));
    }
    if speeds.len() > 1 || fabric.uplinks.iter().any(|uplink| uplink.speed_mbps > 0) {
        lost.push("capacity: speeds of cables and oversubscription; no share of a link is planned".into());
    }
    lost
}

fn per_pod(fabric: &Fabric) -> usize {
    let mut pods: BTreeMap<&str, usize> = BTreeMap::new();
    for leaf in &fabric.leaves {
        *pods.entry(&leaf.pod).or_default() += 1;
    }
    pods.into_values().max().unwrap_or(0)
}

/// The lines of a comment.
fn comments(title: &str, lost: &[String]) -> String {
    let mut text = format!("# {title}\n");
    if !lost.is_empty() {
        text.push_str("# Not said here, because one tree cannot:\n");
    }
    for line in lost {
        text.push_str(&format!("# - {line}\n"));
    }
    text
}
