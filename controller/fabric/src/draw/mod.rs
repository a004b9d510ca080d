//! Fabrics as pictures: for the terminal and as SVG.

mod svg;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, Leaf, NodeName};

use crate::natural;

pub use svg::svg;
pub use text::text;

/// A server's NIC on one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum PortState {
    /// It carries all that it should.
    Up,
    /// One of its two ports does.
    Half,
    /// It works, and an administrator has drained it.
    Drained,
    /// The port does not work.
    Down,
    /// The server has no port on this rail.
    #[default]
    Missing,
    /// The document cables it, the server has not joined.
    Absent,
}

/// A leaf as it is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeafPicture {
    /// Name of the leaf.
    pub name: String,
    /// The leaf is known not to work.
    pub down: bool,
}

/// A server as it is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePicture {
    /// Name of the server.
    pub name: String,
    /// The state of its port on each rail, in the order of the rails.
    pub ports: Vec<PortState>,
}

/// A pod as it is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodPicture {
    /// Its name; empty for servers in no pod.
    pub name: String,
    /// Its leaves rail by rail.
    pub leaves: Vec<Vec<LeafPicture>>,
    /// Its servers in natural order.
    pub nodes: Vec<NodePicture>,
}

/// The spines of a rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpinePicture {
    /// How many there are; none if the document names none.
    pub count: usize,
    /// Those that are known not to work.
    pub down: usize,
}

/// A fabric to be drawn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    /// Name of the fabric.
    pub name: String,
    /// How many rails there are.
    pub rails: usize,
    /// Pods in natural order.
    pub pods: Vec<PodPicture>,
    /// Rail by rail; a spine of several rails counts on each.
    pub spines: Vec<SpinePicture>,
    /// Spines beyond the first rail of those that serve several: they are counted that often too many in `spines`.
    pub shared_spines: usize,
}

impl Picture {
    /// As the document has it: every cable that is not known to be down works.
    #[must_use]
    pub fn of(fabric: &Fabric) -> Self {
        let rails = fabric.rails.len();
        let mut picture = Self { name: fabric.name.clone(), rails, ..Self::default() };
        picture.spines = vec![SpinePicture::default(); rails];
        for spine in &fabric.spines {
            for rail in spine.rails() {
                if let Some(rail) = picture.spines.get_mut(rail as usize) {
                    rail.count += 1;
                    rail.down += usize::from(spine.down);
                }
            }
            picture.shared_spines += spine.more_rails.iter().filter(|rail| (**rail as usize) < rails).count();
        }
        let mut pods: BTreeMap<&str, PodPicture> = BTreeMap::new();
        let mut leaves: BTreeMap<&str, &Leaf> = BTreeMap::new();
        for leaf in &fabric.leaves {
            leaves.insert(&leaf.name, leaf);
            let pod = pods.entry(&leaf.pod).or_default();
            pod.leaves.resize(rails, Vec::new());
            for rail in leaf.rails() {
                if let Some(of_rail) = pod.leaves.get_mut(rail as usize) {
                    of_rail.push(LeafPicture { name: leaf.name.clone(), down: leaf.down });
                }
            }
        }
        // Cables of each server and rail: how many work of how many.
        let mut cables: BTreeMap<NodeName, Cables<'_>> = BTreeMap::new();
        for link in fabric.each_link() {
            let Some(leaf) = leaves.get(link.leaf.as_str()) else { continue };
            let Some(rail) = leaf.rail_of(link.rail) else { continue };
            let (_, ports) = cables.entry(link.node).or_insert_with(|| (&leaf.pod, vec![(0, 0); rails]));
            if let Some((works, all)) = ports.get_mut(rail as usize) {
                *works += u32::from(!link.down && !leaf.down);
                *all += 1;
            }
        }
        for (name, (pod, ports)) in cables {
            let state = |(works, all): (u32, u32)| match (works, all) {
                (_, 0) => PortState::Missing,
                (0, _) => PortState::Down,
                (works, all) if works < all => PortState::Half,
                _ => PortState::Up,
            };
            let ports = ports.into_iter().map(state).collect();
            if let Some(pod) = pods.get_mut(pod) {
                pod.nodes.push(NodePicture { name: name.to_string(), ports });
            }
        }
        picture.pods =
            pods.into_iter().map(|(name, pod)| PodPicture { name: name.to_owned(), ..pod }).collect();
        picture.settle();
        picture
    }

    /// Puts pods, leaves and servers in natural order. To be called once after filling a picture by hand.
    pub fn settle(&mut self) {
        self.spines.resize(self.rails, SpinePicture::default());
        self.pods.sort_by(|a, b| natural::compare(&a.name, &b.name));
        for pod in &mut self.pods {
            pod.leaves.resize(self.rails, Vec::new());
            pod.nodes.sort_by(|a, b| natural::compare(&a.name, &b.name));
            for leaves in &mut pod.leaves {
                leaves.sort_by(|a, b| natural::compare(&a.name, &b.name));
            }
            for node in &mut pod.nodes {
                node.ports.resize(self.rails, PortState::Missing);
            }
        }
    }

    fn nodes(&self) -> usize {
        self.pods.iter().map(|pod| pod.nodes.len()).sum()
    }

    /// Each once, however many rails it serves.
    fn leaves(&self) -> usize {
        let names = |pod: &PodPicture| {
            pod.leaves.iter().flatten().map(|leaf| &leaf.name).collect::<BTreeSet<_>>().len()
        };
        self.pods.iter().map(names).sum()
    }

    /// One line about the whole.
    fn title(&self) -> String {
        let spines: usize = self.spines.iter().map(|spines| spines.count).sum();
        let spines = spines.saturating_sub(self.shared_spines);
        let name = if self.name.is_empty() { "fabric".to_owned() } else { format!("fabric {}", self.name) };
        format!(
            "{name}: {} servers, {} rails, {} pods, {} leaves, {}",
            self.nodes(),
            self.rails,
            self.pods.len(),
            self.leaves(),
            if spines == 0 { "no spines named".to_owned() } else { format!("{spines} spines") }
        )
    }

    /// What all leaves' names begin and end with, up to where a word begins: it need not be drawn each time.
    fn affixes(&self) -> (usize, usize) {
        let names: BTreeSet<&str> =
            self.pods.iter().flat_map(|pod| &pod.leaves).flatten().map(|leaf| leaf.name.as_str()).collect();
        let (Some(first), Some(last)) = (names.first(), names.last()) else { return (0, 0) };
        if names.len() < 2 || !names.iter().all(|name| name.is_ascii()) {
            return (0, 0);
        }
        let same = first.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
        let mut front = first[..same].rfind(['-', '.', '_', '/']).map_or(0, |at| at + 1);
        // A number alone is no name: leaf-1 stays leaf-1.
        if front > 0 && names.iter().any(|name| name[front..].starts_with(|c: char| c.is_ascii_digit())) {
            front = first[..front - 1].rfind(['-', '.', '_', '/']).map_or(0, |at| at + 1);
        }
        let shortest = names.iter().map(|name| name.len()).min().unwrap_or(0);
        let back = (1..=shortest.saturating_sub(front + 1))
            .take_while(|back| {
                names.iter().all(|name| name[name.len() - back..] == first[first.len() - back..])
            })
            .filter(|back| first[first.len() - back..].starts_with(['-', '.', '_', '/']))
            .max();
        (front, back.unwrap_or(0))
    }

    /// A leaf's name without what all have.
    fn short<'a>(&self, name: &'a str, (front, back): (usize, usize)) -> &'a str {
        name.get(front..name.len().saturating_sub(back)).filter(|name| !name.is_empty()).unwrap_or(name)
    }
}

/// A server's pod, and how many cables work of how many, rail by rail.
type Cables<'a> = (&'a str, Vec<(u32, u32)>);

/// How many ports of a pod are in each state on a rail.
fn counts(pod: &PodPicture, rail: usize) -> BTreeMap<PortState, usize> {
    let mut counts = BTreeMap::new();
    for node in &pod.nodes {
        *counts.entry(node.ports.get(rail).copied().unwrap_or_default()).or_default() += 1;
    }
    counts
}

/// Servers that are not whole, each with what it lacks.
fn lacking(picture: &Picture) -> Vec<(&PodPicture, &NodePicture, String)> {
    let mut found = Vec::new();
    for pod in &picture.pods {
        for node in &pod.nodes {
            let mut by_state: BTreeMap<PortState, Vec<String>> = BTreeMap::new();
            for (rail, state) in node.ports.iter().enumerate().filter(|(_, state)| **state != PortState::Up) {
                by_state.entry(*state).or_default().push(rail.to_string());
            }
            if by_state.is_empty() {
                continue;
            }
            let reported: Vec<String> = by_state
                .iter()
                .map(|(state, rails)| match state {
                    PortState::Absent => "has not joined".to_owned(),
                    state => {
                        let word = match state {
                            PortState::Half => "one of two ports works on",
                            PortState::Drained => "drained on",
                            PortState::Down => "down on",
                            _ => "no cable on",
                        };
                        format!("{word} rail {}", rails.join(", "))
                    }
                })
                .collect();
            found.push((pod, node, reported.join("; ")));
        }
    }
    found
}
