//! The fabric in columns, for a picture of all of it: the same as [`State::topology`] says, without a text for each port.

use std::collections::BTreeMap;

use controller_topology::{LeafIx, NodeIx, PodIx, Server, Topology};
use proto_model::{NodeName, Reason};

use crate::tables::state::State;

/// The fabric in columns: what is of a node stands at the node's place, what is of a port at `node * rails + rail`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapView {
    /// Number of rails.
    pub rails: u32,
    /// Pods in the order of their nodes, each with how many nodes it has; nodes that the document does not cable come last, in one
    /// without name.
    pub pods: Vec<(String, u32)>,
    /// Of each node: its name.
    pub names: Vec<NodeName>,
    /// Of each node: its GPUs and whether new jobs may be placed there.
    pub nodes: Vec<MapNode>,
    /// Of each port: what it is.
    pub ports: Vec<MapPort>,
    /// Of each port: its leaf as a place in `leaves`; none without one.
    pub leaf: Vec<Option<u32>>,
    /// Names of all leaves of pods, and of those that ports lead to.
    pub leaves: Vec<String>,
    /// What does not fit, as far as [`FINDINGS_MAX`].
    pub findings: Vec<Reason>,
    /// Findings that are left out.
    pub findings_left_out: usize,
}

/// Findings that one picture of the fabric carries.
pub const FINDINGS_MAX: usize = 256;

/// A node of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapNode {
    /// GPUs that can be scheduled.
    pub gpus: u8,
    /// Those that no job holds.
    pub gpus_free: u8,
    /// Whether new jobs may be placed there.
    pub schedulable: bool,
}

/// A port of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapPort {
    /// Up and cabled.
    Usable,
    /// Out of use for an administrator or a rollout, whatever else it is.
    Drained,
    /// Not usable, and nobody has drained it.
    Down,
}

/// A count of the bits of a mask of 64.
fn bits(mask: u64) -> u8 {
    u8::try_from(mask.count_ones()).unwrap_or(u8::MAX)
}

/// Leaves by their numbers, each named once.
#[derive(Default)]
struct Leaves {
    /// By the index of the leaf: its place in `names`.
    numbers: Vec<Option<u32>>,
    names: Vec<String>,
}

impl Leaves {
    fn number(&mut self, leaf: LeafIx, topology: &Topology) -> u32 {
        let at = leaf.index();
        if at >= self.numbers.len() {
            self.numbers.resize(at + 1, None);
        }
        *self.numbers[at].get_or_insert_with(|| {
            self.names.push(topology.leaf_name(leaf).to_owned());
            u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

impl State {
    /// The fabric in columns.
    #[must_use]
    pub fn map(&self) -> MapView {
        let topology = self.index.snapshot.topology();
        let mut leaves = Leaves::default();
        let mut pods: BTreeMap<usize, (String, u32)> = BTreeMap::new();
        for pod in topology.pod_indices() {
            for rail in 0..topology.rails() {
                for leaf in topology.leaves_on(pod, rail) {
                    leaves.number(*leaf, topology);
                }
            }
            pods.insert(pod.index(), (topology.pod_name(pod).to_owned(), 0));
        }
        // In the order of pods, then of names: those without a pod last.
        let place = |server: &Server| server.pod.map_or(usize::MAX, PodIx::index);
        let mut servers: Vec<(NodeIx, &Server)> = topology.servers().collect();
        servers.sort_by_key(|(_, server)| place(server));
        let mut findings = topology.findings();
        let findings_left_out = findings.len().saturating_sub(FINDINGS_MAX);
        findings.truncate(FINDINGS_MAX);
        let mut view = MapView { rails: topology.rails(), findings, findings_left_out, ..MapView::default() };
        for (ix, server) in servers {
            pods.entry(place(server)).or_default().1 += 1;
            self.add_to_map(ix, server, &mut leaves, &mut view);
        }
        view.pods = pods.into_values().collect();
        view.leaves = leaves.names;
        view
    }

    fn add_to_map(&self, ix: NodeIx, server: &Server, leaves: &mut Leaves, view: &mut MapView) {
        let topology = self.index.snapshot.topology();
        let capacity = self.index.snapshot.capacity(ix);
        let drained = self.drained_rails(&server.name);
        // Nearly always nothing is drained, and then nobody has to know what jobs call the rails.
        let names = (!drained.is_empty()).then(|| self.names(&server.name));
        view.names.push(server.name.clone());
        view.nodes.push(MapNode {
            gpus: bits(capacity.gpus),
            gpus_free: bits(capacity.free_gpus()),
            schedulable: capacity.gate.is_open(),
        });
        for rail in 0..view.rails {
            let is_drained = names.as_ref().is_some_and(|names| drained.has(names.of(rail)));
            view.ports.push(match (is_drained, server.usable.has(rail)) {
                (true, _) => MapPort::Drained,
                (false, true) => MapPort::Usable,
                (false, false) => MapPort::Down,
            });
            let leaf = server.ports.get(rail as usize).copied().flatten().and_then(|port| port.leaf);
            view.leaf.push(leaf.map(|leaf| leaves.number(leaf, topology)));
        }
    }
}
