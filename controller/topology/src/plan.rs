//! A fabric document in the shape that joins fast: numbers, sorted tables, and each name once.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, Inventory, Neighbor, Nic, NodeName};

use crate::{
    IslandIx, LeafIx, PodIx, RailSet,
    flat::{Cable, Flat, number},
};

/// A leaf switch of the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafFacts {
    /// The rails that it serves: one, or several where the NICs of a server share it.
    pub rails: RailSet,
    /// The pod whose servers it serves.
    pub pod: PodIx,
    /// 0, or 1 for the second leaf of NICs with two ports.
    pub plane: u32,
    /// Taken out, or known not to work.
    pub down: bool,
    /// The leaves that it reaches; alone if it is down.
    pub island: IslandIx,
    /// What its working cables to spines carry together, in Mbit/s each way; 0 if the document does not say.
    pub uplink_mbps: u64,
    /// How many servers' NICs are cabled to it.
    pub cables: u32,
    /// Its working spines, as a number that leaves with the same ones share.
    uppers: u32,
}

/// A cable of one server as the plan keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedCable {
    /// The NIC's name, as an index into [`Plan::nics`].
    pub(crate) nic: u32,
    pub(crate) leaf: LeafIx,
    /// In Mbit/s; 0 if not known.
    pub(crate) mbps: u32,
    /// It and its leaf are not known to be down.
    pub(crate) works: bool,
    /// The rail of its NIC.
    pub(crate) rail: u8,
}

impl PlannedCable {
    pub(crate) fn rail(&self) -> u32 {
        u32::from(self.rail)
    }
}

/// A fabric document, prepared for joining with inventories.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    pub(crate) rails: u32,
    /// The leaves, in name order.
    pub(crate) leaves: Vec<LeafFacts>,
    pub(crate) leaf_names: Vec<Box<str>>,
    /// Names of the pods, in name order.
    pub(crate) pods: Vec<Box<str>>,
    /// Leaves by pod, rail, plane and name; one that serves several rails comes for each of them.
    by_place: Vec<LeafIx>,
    /// Pod and rail of each of these.
    places: Vec<(PodIx, u32)>,
    /// Servers with a cable, in name order.
    pub(crate) nodes: Vec<NodeName>,
    /// Where each server's cables begin, and the end.
    starts: Vec<u32>,
    cables: Vec<PlannedCable>,
    pub(crate) nics: Vec<Box<str>>,
    /// Sets of spines, each sorted; the first is empty.
    uppers: Vec<Vec<u32>>,
    /// Switches and cables between switches that are known to be down.
    pub(crate) down: Vec<String>,
}

impl Plan {
    /// What is faulty in the document is left out.
    pub(crate) fn new(fabric: &Fabric) -> Self {
        let flat = Flat::new(fabric);
        let pods: BTreeSet<&str> = fabric.leaves.iter().map(|leaf| leaf.pod.as_str()).collect();
        let pods: Vec<Box<str>> = pods.into_iter().map(Box::from).collect();
        let pod = |name: &str| PodIx::at(pods.binary_search_by(|pod| (**pod).cmp(name)).unwrap_or(0));
        let rails = fabric.rails.iter().map(|rail| rail.index.saturating_add(1)).max().unwrap_or(0);
        let mut plan = Self { rails: rails.min(RailSet::MAX), ..Self::default() };
        for (at, leaf) in flat.leaves.iter().map(|at| &fabric.leaves[*at as usize]).enumerate() {
            plan.leaf_names.push(leaf.name.as_str().into());
            plan.leaves.push(LeafFacts {
                rails: leaf.rails().collect(),
                pod: pod(&leaf.pod),
                plane: leaf.plane,
                down: leaf.down,
                island: IslandIx::at(at),
                uplink_mbps: 0,
                cables: 0,
                uppers: 0,
            });
        }
        plan.pods = pods;
        plan.take_cables(&flat);
        plan.nics = flat.nics.iter().map(|nic| Box::from(*nic)).collect();
        plan.nodes = flat.nodes;
        plan.climb(fabric);
        let places = |(at, leaf): (usize, &LeafFacts)| {
            let (pod, plane) = (leaf.pod, leaf.plane);
            leaf.rails.iter().map(move |rail| (pod, rail, plane, LeafIx::at(at)))
        };
        let mut by_place: Vec<_> = plan.leaves.iter().enumerate().flat_map(places).collect();
        by_place.sort_unstable();
        plan.places = by_place.iter().map(|(pod, rail, ..)| (*pod, *rail)).collect();
        plan.by_place = by_place.into_iter().map(|(.., ix)| ix).collect();
        plan.down = down(fabric);
        plan
    }

    fn take_cables(&mut self, flat: &Flat<'_>) {
        self.starts = vec![0; flat.nodes.len() + 1];
        self.cables = Vec::with_capacity(flat.cables.len());
        for &Cable { node, nic, leaf, mbps, down, rail } in &flat.cables {
            let known = rail != Cable::NO_RAIL;
            if let Some(facts) = self.leaves.get_mut(leaf as usize).filter(|_| known) {
                facts.cables += 1;
                let works = !down && !facts.down;
                self.cables.push(PlannedCable { nic, leaf: LeafIx::at(leaf as usize), mbps, works, rail });
                self.starts[node as usize + 1] += 1;
            }
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
    }

    /// A server's cables; `None` if the document does not know it.
    pub(crate) fn cables_of(&self, name: &NodeName) -> Option<&[PlannedCable]> {
        let at = self.nodes.binary_search(name).ok()?;
        Some(self.cables_at(at))
    }

    /// The cables of a server by its place in name order.
    pub(crate) fn cables_at(&self, at: usize) -> &[PlannedCable] {
        let place = |at: usize| self.starts.get(at).map_or(0, |start| *start as usize);
        self.cables.get(place(at)..place(at + 1)).unwrap_or_default()
    }

    /// The leaf of the document that a NIC hears over LLDP where the document cables it to others only. Switches that the
    /// document does not name say nothing of it.
    pub(crate) fn heard_elsewhere(
        &self,
        cables: &[PlannedCable],
        inventory: &Inventory,
        nic: &Nic,
    ) -> Option<LeafIx> {
        let own = |neighbor: &&Neighbor| neighbor.netdev == nic.netdev || neighbor.netdev == nic.device;
        let heard = inventory.neighbors.iter().filter(own).filter_map(|neighbor| {
            self.leaf_names.binary_search_by(|leaf| (**leaf).cmp(&neighbor.switch)).ok().map(LeafIx::at)
        });
        let named = |cable: &&PlannedCable| {
            let name = self.nic_name(cable);
            name == nic.device || name == nic.netdev
        };
        let planned = |leaf: &LeafIx| cables.iter().filter(named).any(|cable| cable.leaf == *leaf);
        heard.filter(|leaf| !planned(leaf)).min()
    }

    pub(crate) fn nic_name(&self, cable: &PlannedCable) -> &str {
        &self.nics[cable.nic as usize]
    }

    /// The leaves of a pod on a rail, by plane.
    pub(crate) fn leaves_on(&self, pod: PodIx, rail: u32) -> &[LeafIx] {
        let start = self.places.partition_point(|place| *place < (pod, rail));
        let end = self.places.partition_point(|place| *place <= (pod, rail));
        &self.by_place[start..end]
    }

    /// Whether two leaves have a working spine in common.
    pub(crate) fn share_spine(&self, a: LeafIx, b: LeafIx) -> bool {
        let (a, b) = (self.leaves[a.index()].uppers, self.leaves[b.index()].uppers);
        if a == b {
            return !self.uppers[a as usize].is_empty();
        }
        let (a, b) = (&self.uppers[a as usize], &self.uppers[b as usize]);
        a.iter().any(|spine| b.binary_search(spine).is_ok())
    }

    /// Uplinks: what each leaf's carry, and who reaches whom.
    fn climb(&mut self, fabric: &Fabric) {
        let leaves = self.leaves.len();
        let spines: BTreeMap<&str, usize> =
            fabric.spines.iter().enumerate().map(|(at, spine)| (spine.name.as_str(), leaves + at)).collect();
        let at = |name: &str| {
            let leaf = self.leaf_names.binary_search_by(|leaf| (**leaf).cmp(name)).ok();
            leaf.or_else(|| spines.get(name).copied())
        };
        let works = |at: usize| match self.leaves.get(at) {
            Some(leaf) => !leaf.down,
            None => !fabric.spines[at - leaves].down,
        };
        let rails: Vec<(RailSet, u32)> = self.leaves.iter().map(|leaf| (leaf.rails, leaf.plane)).collect();
        let spined = fabric.spines.iter().map(|spine| (spine.rails().collect::<RailSet>(), spine.plane));
        let place: Vec<(RailSet, u32)> = rails.into_iter().chain(spined).collect();
        // Switches of one plane that have a rail in common may be joined.
        let meet = |a: usize, b: usize| {
            let ((a, plane), (b, other)) = (place[a], place[b]);
            plane == other && !a.and(b).is_empty()
        };
        let mut sets = Sets::new(leaves + fabric.spines.len());
        let mut uppers: Vec<Vec<u32>> = vec![Vec::new(); leaves];
        let mut carried = vec![0_u64; leaves];
        for uplink in &fabric.uplinks {
            let cables = u64::from(uplink.cables.saturating_sub(uplink.down));
            let upper: Vec<usize> = uplink
                .upper
                .iter()
                .filter_map(|name| at(&name))
                .filter(|at| *at >= leaves && works(*at))
                .collect();
            for low in uplink.lower.iter().filter_map(|name| at(&name)).filter(|at| works(*at)) {
                for &high in upper.iter().filter(|high| cables > 0 && meet(**high, low)) {
                    sets.join(low, high);
                    if let Some(uppers) = uppers.get_mut(low) {
                        uppers.push(number(high));
                        carried[low] = carried[low].saturating_add(cables.saturating_mul(uplink.speed_mbps));
                    }
                }
            }
        }
        // Where the document names no spine of a rail and plane, its leaves are taken to reach each other.
        let keys = |(rails, plane): (RailSet, u32)| rails.iter().map(move |rail| (rail, plane));
        let known: BTreeSet<(u32, u32)> = place[leaves..].iter().flat_map(|place| keys(*place)).collect();
        let mut first: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for at in (0..leaves).filter(|at| works(*at) && !keys(place[*at]).any(|key| known.contains(&key))) {
            for key in keys(place[at]) {
                sets.join(at, *first.entry(key).or_insert(at));
            }
            uppers[at] = vec![u32::MAX];
        }
        let mut numbers: BTreeMap<Vec<u32>, u32> = BTreeMap::from([(Vec::new(), 0)]);
        for (at, mut own) in uppers.into_iter().enumerate() {
            own.sort_unstable();
            own.dedup();
            let next = number(numbers.len());
            let leaf = &mut self.leaves[at];
            leaf.uppers = *numbers.entry(own).or_insert(next);
            leaf.uplink_mbps = carried[at];
            leaf.island = IslandIx::at(sets.root(at));
        }
        self.uppers = vec![Vec::new(); numbers.len()];
        for (set, at) in numbers {
            self.uppers[at as usize] = set;
        }
    }
}

/// Union-find; the smallest member stands for a set.
struct Sets(Vec<usize>);

impl Sets {
    fn new(len: usize) -> Self {
        Self((0..len).collect())
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// What the document says is down, above the servers' cables.
fn down(fabric: &Fabric) -> Vec<String> {
    let leaves = fabric.leaves.iter().filter(|leaf| leaf.down).map(|leaf| format!("leaf {}", leaf.name));
    let spines = fabric.spines.iter().filter(|spine| spine.down).map(|spine| format!("spine {}", spine.name));
    let uplinks = fabric.uplinks.iter().filter(|uplink| uplink.down > 0).map(|uplink| {
        format!("{} of {} cables of each of {} to {}", uplink.down, uplink.cables, uplink.lower, uplink.upper)
    });
    leaves.chain(spines).chain(uplinks).collect()
}
