//! Clusters to decide in: made from a fabric document, with some NICs down, some nodes closed, labels and taints.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_scheduler::{
    Allocated, Arrange, CapacityIndex, Choice, Filter, Gate, Group, Host, Need, Pattern, Pick, RailNeed,
    Seen, Snapshot, Taint, Term, Toleration, Traits, Within, World,
};
use controller_topology::{NodeIx, RailSet};
use proto_model::{Fabric, Gpu, Inventory, Leaf, LinkGroup, Names, Nic, NodeName, Rail, Spine, Uplink};
use proto_random::Random;

/// Rails and GPUs of each node.
pub const RAILS: u32 = 8;

/// Numbers that differ from seed to seed and are the same in every run.
#[derive(Debug, Clone)]
pub struct Dice(Random);

impl Dice {
    /// Random numbers that this seed determines.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed.wrapping_mul(proto_random::STEP) ^ 0x1234_5678_9abc_def1))
    }

    /// Below `end`, evenly.
    pub fn below(&mut self, end: u32) -> u32 {
        (((self.0.word() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// One of several things, each as likely.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u32) as usize]
    }
}

/// The sizes of a cluster: per pod, per group of leaves of it, how many nodes.
pub type Sizes = Vec<Vec<u32>>;

/// Equal pods of equal blocks until there are enough nodes.
pub fn even(nodes: u32, blocks: u32, block: u32) -> Sizes {
    let (mut sizes, mut rest) = (Sizes::new(), nodes);
    while rest > 0 {
        let mut pod = Vec::new();
        for _ in 0..blocks {
            let here = rest.min(block);
            rest -= here;
            if here > 0 {
                pod.push(here);
            }
        }
        sizes.push(pod);
    }
    sizes
}

/// How a cluster is cabled.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The number of nodes per pod, and in it per group of leaves.
    pub sizes: Sizes,
    /// Odd rails are in two islands: pods with even numbers, and those with odd ones.
    pub split: bool,
    /// Rails that have no leaf in the last pod.
    pub bare: RailSet,
}

impl Plan {
    /// Cabled on all rails, without spines: every leaf of a rail reaches every other.
    pub fn of(sizes: &Sizes) -> Self {
        Self { sizes: sizes.clone(), ..Self::default() }
    }

    /// The island of a pod on a rail.
    fn island(&self, pod: u32, rail: u32) -> u32 {
        if self.split { pod % 2 * (rail % 2) } else { 0 }
    }
}

/// The document of such a cluster.
pub fn fabric(plan: &Plan) -> Fabric {
    let (sizes, last) = (&plan.sizes, plan.sizes.len().saturating_sub(1));
    let mut fabric = Fabric::default();
    fabric.rails.extend((0..RAILS).map(|index| Rail { index, name: format!("r{index}") }));
    let mut first = 0;
    for (pod, blocks) in sizes.iter().enumerate() {
        for (block, nodes) in blocks.iter().enumerate() {
            let names = Names::of((first..first + nodes).map(node_name));
            first += nodes;
            for rail in (0..RAILS).filter(|rail| pod < last || !plan.bare.has(*rail)) {
                let leaf = format!("leaf-{pod:04}-{block:02}-{rail}");
                let pod = format!("pod{pod:04}");
                fabric.leaves.push(Leaf { name: leaf.clone(), rail, pod, ..Leaf::default() });
                let (nodes, nic) = (names.clone(), format!("mlx5_{rail}"));
                fabric.link_groups.push(LinkGroup {
                    nodes,
                    nic,
                    leaf,
                    speed_mbps: 400_000,
                    ..LinkGroup::default()
                });
            }
        }
    }
    if plan.split {
        spines(plan, &mut fabric);
    }
    fabric
}

/// A spine for each island of each rail.
fn spines(plan: &Plan, fabric: &mut Fabric) {
    let pod = |leaf: &Leaf| leaf.pod.trim_start_matches("pod").parse::<u32>().unwrap_or(0);
    for (rail, island) in (0..RAILS).flat_map(|rail| [(rail, 0), (rail, 1)]) {
        let here = |leaf: &&Leaf| leaf.rail == rail && plan.island(pod(leaf), rail) == island;
        let lower: Vec<String> = fabric.leaves.iter().filter(here).map(|leaf| leaf.name.clone()).collect();
        if lower.is_empty() {
            continue;
        }
        let name = format!("spine-{rail}-{island}");
        let (lower, upper) = (Names::of(lower), Names::of([name.clone()]));
        fabric.spines.push(Spine { name, rail, ..Spine::default() });
        fabric.uplinks.push(Uplink { lower, upper, cables: 1, speed_mbps: 400_000, down: 0 });
    }
}

/// The name of a server.
pub fn node_name(at: u32) -> String {
    format!("gpu{at:06}")
}

/// Eight GPUs, eight NICs, two NUMA nodes; the NICs of `down` are down.
pub fn inventory(down: u32) -> Inventory {
    let gpu = |index: u32| Gpu {
        index,
        uuid: String::new(),
        model: "NVIDIA H100 80GB HBM3".into(),
        pci_address: format!("0000:{:02x}:00.0", 0x10 + index * 8 + 1),
        numa_node: Some(index / 4),
        memory_bytes: 80 << 30,
        facts: None,
    };
    let nic = |rail: u32| Nic {
        device: format!("mlx5_{rail}"),
        netdev: format!("eth{rail}"),
        pci_address: format!("0000:{:02x}:00.0", 0x10 + rail * 8),
        numa_node: Some(rail / 4),
        rail,
        address: None,
        mtu: 9000,
        speed_mbps: 400_000,
        up: down >> rail & 1 == 0,
        gid_index: Some(3),
        facts: None,
    };
    Inventory {
        gpus: (0..8).map(gpu).collect(),
        nics: (0..RAILS).map(nic).collect(),
        isolation: proto_model::Isolation::with(proto_model::IsolationSet::ALL),
        ..Inventory::default()
    }
}

/// Nodes in pods of 64, all of them alike and well.
pub fn alike(nodes: u32) -> Snapshot {
    let mut snapshot = cluster(&even(nodes, 1, 64), 9);
    let names: Vec<_> =
        snapshot.nodes().map(|(_, server, _)| (server.name.clone(), Arc::clone(&server.inventory))).collect();
    for (name, inventory) in names {
        let mut inventory = inventory.as_ref().clone();
        inventory.nics.iter_mut().for_each(|nic| nic.up = true);
        snapshot.set_node(&name, &Arc::new(inventory), Gate::default());
    }
    snapshot
}

/// A cluster with two NICs of a hundred down, one node of a hundred closed, three zones and a few taints.
pub fn cluster(sizes: &Sizes, seed: u64) -> Snapshot {
    planned(&Plan::of(sizes), seed)
}

/// The same, cabled so.
pub fn planned(plan: &Plan, seed: u64) -> Snapshot {
    let (mut dice, sizes) = (Dice::new(seed), &plan.sizes);
    let mut snapshot = Snapshot::new(Some(&fabric(plan)));
    let mut kinds: BTreeMap<u32, Arc<Inventory>> = BTreeMap::new();
    let slow: BTreeSet<Taint> = [Taint { key: "slow".into(), value: String::new() }].into();
    for at in 0..sizes.iter().flatten().sum() {
        let down = if dice.below(50) == 0 { 1 << dice.below(RAILS) } else { 0 };
        let inventory = kinds.entry(down).or_insert_with(|| Arc::new(inventory(down)));
        let gate = Gate { unschedulable: dice.below(100) == 0, ..Gate::default() };
        let zone = ["a", "b", "c"][dice.below(3) as usize];
        let labels = [("zone".to_owned(), zone.to_owned())].into();
        let taints = if dice.below(50) == 0 { &slow } else { &BTreeSet::new() };
        if let Ok(name) = NodeName::new(node_name(at)) {
            snapshot.set_labelled(&name, inventory, gate, &labels, taints);
        }
    }
    snapshot
}

/// What jobs ask for, all constraints that there are among them; the same share of each.
pub fn needs(dice: &mut Dice, snapshot: &Snapshot, nodes: u32) -> Need {
    let all = RailNeed::Exactly(RailSet::first(RAILS));
    let mut need = Need::plain(nodes, 8, all);
    let zones =
        |zones: &[&str]| Term::In("zone".into(), zones.iter().map(|zone| (*zone).to_owned()).collect());
    let tolerant = || vec![Toleration { key: Some("slow".into()), value: None }];
    let filter = |selector, tolerations| Arc::new(Filter { selector, tolerations, ..Filter::default() });
    need.pattern = *dice.one(&[Pattern::Ring, Pattern::AllToAll, Pattern::Pipeline(8)]);
    match dice.below(10) {
        0 => need.filter = filter(vec![zones(&["a", "b"])], Vec::new()),
        1 => need.filter = filter(Vec::new(), tolerant()),
        2 => need.exclusive = true,
        3 => need.rails = RailNeed::Any(6),
        4 if nodes.is_multiple_of(8) => {
            need.groups = vec![Group { size: 8, within: Within::Pod, required: true }];
            if nodes.is_multiple_of(32) {
                need.groups.push(Group { size: 32, within: Within::Pod, required: false });
            }
        }
        5 if nodes <= 32 => need.within = Within::Pod,
        6 => need.spares = 1,
        7 => {
            let topology = snapshot.topology();
            let slots = topology.slots() as u32;
            need.exclude.extend((0..4).map(|_| NodeIx::at(dice.below(slots) as usize)));
        }
        8 if nodes <= 4 => (need.gpus, need.rails) = (4, RailNeed::Any(4)),
        9 if nodes <= 32 => need.arrange = Arrange::Spread,
        _ => {}
    }
    need
}

/// The facts of single nodes beside the capacity index, and what gangs hold there: what the proof looks at.
pub struct Ledger {
    nodes: Vec<Option<Entry>>,
    plan: Plan,
}

struct Entry {
    open: bool,
    gpus: u64,
    usable: RailSet,
    held: Allocated,
    pod: Option<u32>,
    leaves: Vec<Option<u32>>,
    traits: Arc<Traits>,
}

impl Ledger {
    /// What a cluster is, with nothing held.
    pub fn new(snapshot: &Snapshot) -> Self {
        let topology = snapshot.topology();
        let mut nodes: Vec<Option<Entry>> = (0..topology.slots()).map(|_| None).collect();
        for (ix, _) in topology.servers_by_index() {
            nodes[ix.index()] = World::node(snapshot, ix).map(|seen| Entry {
                open: seen.open,
                gpus: seen.gpus,
                usable: seen.usable,
                held: Allocated::default(),
                pod: seen.pod,
                leaves: (0..RAILS).map(|rail| World::leaf(snapshot, ix, rail)).collect(),
                traits: Arc::new(seen.traits.clone()),
            });
        }
        Self { nodes, plan: Plan::default() }
    }

    /// In a cluster that is cabled so.
    pub fn planned(snapshot: &Snapshot, plan: &Plan) -> Self {
        Self { plan: plan.clone(), ..Self::new(snapshot) }
    }

    /// A gang takes what it was given, or gives it back.
    pub fn hold(&mut self, choice: &Choice, take: bool) {
        for pick in choice.nodes.iter().chain(&choice.spares) {
            let Some(Some(entry)) = self.nodes.get_mut(pick.node.index()) else { continue };
            let held = &mut entry.held;
            if take {
                held.gpus |= pick.gpus;
                held.rails = held.rails.or(choice.rails);
                held.whole |= choice.exclusive;
            } else {
                held.gpus &= !pick.gpus;
                held.rails = held.rails.without(choice.rails);
                held.whole &= !choice.exclusive;
            }
        }
    }

    /// Nodes of each pod and block that one node's part of a gang could have on these rails.
    pub fn free(&self, capacity_index: &CapacityIndex, sizes: &Sizes, need: &Need, rails: RailSet) -> Sizes {
        let mut free: Sizes = sizes.iter().map(|blocks| vec![0; blocks.len()]).collect();
        let blocks: Vec<(usize, usize)> = sizes
            .iter()
            .enumerate()
            .flat_map(|(pod, blocks)| (0..blocks.len()).map(move |block| (pod, block)))
            .collect();
        for (at, entry) in self.nodes.iter().enumerate() {
            let Some(entry) = entry else { continue };
            let fits = entry.open
                && !entry.held.whole
                && (entry.gpus & !entry.held.gpus).count_ones() >= need.gpus
                && entry.usable.without(entry.held.rails).covers(rails)
                && (!need.exclusive || entry.held == Allocated::default())
                && need.filter.admits(&entry.traits)
                && !need.exclude.contains(&NodeIx::at(at));
            if fits && let Some((_, block)) = capacity_index.place(NodeIx::at(at)) {
                let (pod, block) = blocks[block as usize];
                free[pod][block] += 1;
            }
        }
        free
    }
}

impl World for Ledger {
    fn node(&self, node: NodeIx) -> Option<Seen<'_>> {
        let entry = self.nodes.get(node.index())?.as_ref()?;
        let Entry { open, gpus, usable, held, pod, traits, .. } = entry;
        // No job of the benches asks for CPUs or memory.
        let host = Host::NONE;
        Some(Seen { open: *open, gpus: *gpus, host, usable: *usable, held: *held, pod: *pod, traits })
    }

    fn leaf(&self, node: NodeIx, rail: u32) -> Option<u32> {
        *self.nodes.get(node.index())?.as_ref()?.leaves.get(rail as usize)?
    }

    fn aligned(&self, nodes: &[NodeIx], rails: RailSet) -> bool {
        let pod = |node: NodeIx| self.node(node).and_then(|seen| seen.pod).unwrap_or(u32::MAX);
        let first = nodes.first().map_or(0, |node| pod(*node));
        nodes.iter().all(|node| {
            let pod = pod(*node);
            let reached = |rail| self.plan.island(pod, rail) == self.plan.island(first, rail);
            self.node(*node).is_some_and(|seen| seen.usable.covers(rails))
                && rails.iter().all(|rail| self.leaf(*node, rail).is_some() && reached(rail))
        })
    }

    fn rails(&self) -> u32 {
        RAILS
    }

    /// All jobs here are of one tenant.
    fn has_others(&self, _: NodeIx, _: &proto_model::TenantName) -> bool {
        false
    }
}

/// All nodes that a choice takes.
pub fn taken(choice: &Choice, into: &mut Vec<Pick>) {
    into.clear();
    into.extend_from_slice(&choice.nodes);
    into.extend_from_slice(&choice.spares);
}
