//! Fabrics as other schedulers read them, each with what it cannot say.
//!
//! All of them know one tree over the nodes. Servers that share all their leaves are a group, and stand for these leaves of
//! all rails; groups of a pod stand below it, where a pod has several; a block of pods that share their spines stands above
//! it where there are several.

mod cabled;
mod kubernetes;
mod lost;
mod slurm;

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, NodeName};

use crate::{export::cabled::Cabled, natural};

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
    /// Some pod has several groups of leaves: there is a layer of groups below the pods.
    grouped: bool,
    lost: Vec<String>,
}

struct Block {
    name: String,
    pods: Vec<Pod>,
}

struct Pod {
    name: String,
    /// In natural order; at least one.
    groups: Vec<Group>,
}

/// Servers of a pod that share all their leaves.
struct Group {
    name: String,
    /// The servers of the group, in natural order of their names.
    nodes: Vec<NodeName>,
}

impl Pod {
    /// All its servers, in natural order.
    fn nodes(&self) -> Vec<&NodeName> {
        let mut nodes: Vec<&NodeName> = self.groups.iter().flat_map(|group| &group.nodes).collect();
        nodes.sort_by(|a, b| natural::compare(a.as_str(), b.as_str()));
        nodes
    }
}

/// The servers of a pod by groups of leaves.
#[derive(Default)]
struct Gathered<'a> {
    groups: Vec<(&'a [usize], Vec<&'a NodeName>)>,
    /// Few servers with leaves of several groups; each is in the group of most of its leaves.
    odd: Vec<&'a NodeName>,
    /// Many servers share leaves crosswise, which no tree says: all are one group.
    crossed: bool,
}

/// Servers that lack a cable belong to those whose leaves cover theirs.
fn gather<'a>(sets: &BTreeMap<&'a [usize], Vec<&'a NodeName>>) -> Gathered<'a> {
    let mut order: Vec<(&[usize], &Vec<&NodeName>)> =
        sets.iter().map(|(leaves, nodes)| (*leaves, nodes)).collect();
    order.sort_by_key(|(leaves, nodes)| (std::cmp::Reverse((leaves.len(), nodes.len())), *leaves));
    let mut found = Gathered::default();
    let mut owner: BTreeMap<usize, usize> = BTreeMap::new();
    for (leaves, nodes) in order {
        let mut owners: BTreeMap<Option<usize>, usize> = BTreeMap::new();
        for at in leaves {
            *owners.entry(owner.get(at).copied()).or_default() += 1;
        }
        let whole = owners.len() == 1;
        match owners.iter().filter(|(group, _)| group.is_some()).max_by_key(|(_, leaves)| **leaves) {
            Some((Some(group), _)) => {
                found.groups[*group].1.extend(nodes);
                if !whole {
                    found.odd.extend(nodes);
                }
            }
            _ => {
                owner.extend(leaves.iter().map(|at| (*at, found.groups.len())));
                found.groups.push((leaves, nodes.clone()));
            }
        }
    }
    let all: usize = sets.values().map(Vec::len).sum();
    // Up to a quarter may be cabled otherwise.
    if found.odd.len() * 4 > all {
        let nodes = sets.values().flatten().copied().collect();
        return Gathered { groups: vec![(&[], nodes)], odd: Vec::new(), crossed: true };
    }
    found
}

/// Names that are taken, so that those that `clean` makes alike get a number.
struct Taken {
    clean: fn(&str) -> String,
    names: BTreeSet<String>,
}

impl Taken {
    fn name(&mut self, what: &str, name: &str, lost: &mut Vec<String>) -> String {
        let plain = (self.clean)(name);
        let plain = if plain.is_empty() { what.to_owned() } else { plain };
        let mut free = (1_u32..)
            .map(|at| if at == 1 { plain.clone() } else { format!("{plain}-{at}") })
            .filter(|name| !self.names.contains(name));
        let own = free.next().unwrap_or(plain);
        if own != name {
            lost.push(format!("names: {what} '{name}' is called {own}"));
        }
        self.names.insert(own.clone());
        own
    }
}

impl Tree {
    /// `clean` makes a name of one that the other scheduler takes; names that it makes alike get a number.
    fn of(fabric: &Fabric, clean: fn(&str) -> String) -> Self {
        let cabled = Cabled::of(fabric);
        let mut lost = lost::lost(fabric, &cabled);
        let (mut crossed, mut odd) = (Vec::new(), Vec::new());
        let mut blocks: BTreeMap<BTreeSet<String>, Vec<Pod>> = BTreeMap::new();
        let uppers = uppers(fabric);
        let mut leaf_names: BTreeMap<String, String> = BTreeMap::new();
        for (name, sets) in cabled.pods() {
            let gathered = gather(&sets);
            crossed.extend(gathered.crossed.then_some(name));
            odd.extend(gathered.odd);
            let mut groups: Vec<Group> = gathered
                .groups
                .into_iter()
                .map(|(leaves, nodes)| {
                    let leaf = cabled.name(leaves);
                    let leaf = if leaf.is_empty() { format!("{name}-leaves") } else { leaf.to_owned() };
                    let mut nodes: Vec<NodeName> = nodes.into_iter().cloned().collect();
                    nodes.sort_by(|a, b| natural::compare(a.as_str(), b.as_str()));
                    Group { name: leaf, nodes }
                })
                .collect();
            groups.sort_by(|a, b| natural::compare(&a.name, &b.name));
            let above = uppers.get(name).cloned().unwrap_or_default();
            blocks.entry(above).or_default().push(Pod { name: name.to_owned(), groups });
        }
        lost.extend(lost::crossed(&crossed));
        lost.extend(lost::odd(&odd));
        let mut blocks: Vec<Vec<Pod>> = blocks.into_values().collect();
        for pods in &mut blocks {
            pods.sort_by(|a, b| natural::compare(&a.name, &b.name));
        }
        blocks.sort_by(|a, b| natural::compare(&a[0].name, &b[0].name));
        let width = blocks.len().to_string().len();
        let named = blocks.len() > 1;
        let names: Vec<String> = (1..=blocks.len()).map(|at| format!("block{at:0width$}")).collect();
        let grouped = blocks.iter().flatten().any(|pod| pod.groups.len() > 1);
        let mut taken = Taken { clean, names: names.iter().cloned().chain(["fabric".to_owned()]).collect() };
        for pod in blocks.iter_mut().flatten() {
            pod.name = taken.name("pod", &pod.name, &mut lost);
        }
        for group in blocks.iter_mut().flatten().flat_map(|pod| &mut pod.groups).filter(|_| grouped) {
            let name = leaf_names.entry(group.name.clone());
            group.name = name.or_insert_with(|| taken.name("leaf", &group.name, &mut lost)).clone();
        }
        let blocks = names.into_iter().zip(blocks).map(|(name, pods)| {
            let name = if named { name } else { String::new() };
            Block { name, pods }
        });
        Self { blocks: blocks.collect(), grouped, lost }
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
        .filter(|leaf| first.is_some_and(|(rail, plane)| leaf.serves(rail) && leaf.plane == plane))
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
