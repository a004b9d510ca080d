//! The capacity index: what every node can give at the moment, in the order of places, as bitmaps.
//!
//! 64 nodes of the same leaves are one [`word::NodeBlock`]; a node is one bit in a few planes (takes jobs, holds nothing,
//! the digits of its count of free GPUs) and in one plane per rail. What a job asks of a node is then a handful of
//! operations for 64 nodes at once. Everything follows from the documents, the nodes and what is held: the order of
//! events leaves no trace, and every change is undone exactly by its opposite.

mod change;
mod class;
mod layout;
mod log;
mod owners;
mod word;

use std::{collections::BTreeMap, sync::Arc};

use class::Classes;
use controller_topology::{NodeIx, RailSet, Topology};
use log::Log;
use owners::Owners;
use proto_model::{Fabric, NodeName, TenantName};
use word::NodeBlock;

use crate::{
    capacity::{Allocated, GPUS_MAX},
    host::Host,
};

pub use class::{Filter, Taint, Term, Toleration, Traits, distance};
pub(crate) use class::{Models, Seat, apart, seat};
pub(crate) use layout::{Layout, Pod, WORD};
pub use log::Mark;
pub(crate) use owners::Tenants;
pub(crate) use word::{Value, at_least};

#[cfg(test)]
use crate::plant::{self, Bug};

/// What the capacity index knows of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) slot: u32,
    pub(crate) class: u32,
    /// Whether the node takes new jobs.
    pub(crate) open: bool,
    /// By index, as a bitmap.
    pub(crate) gpus: u64,
    /// The CPUs and the memory that the node has, held or not.
    pub(crate) host: Host,
    /// Rails with a cabled NIC.
    pub(crate) present: RailSet,
    /// Those of them that are up.
    pub(crate) usable: RailSet,
    pub(crate) held: Allocated,
}

impl Record {
    /// GPUs that nobody holds.
    pub(crate) fn free_gpus(&self) -> u64 {
        #[cfg(test)]
        if plant::is(Bug::HeldGpus) {
            return self.gpus;
        }
        if self.held.whole { 0 } else { self.gpus & !self.held.gpus }
    }

    /// CPUs and memory that nobody holds.
    pub(crate) fn free_host(&self) -> Host {
        if self.held.whole { Host::NONE } else { self.host.without(self.held.host) }
    }

    /// Rails that are up and that nobody holds.
    pub(crate) fn free_rails(&self) -> RailSet {
        #[cfg(test)]
        if plant::is(Bug::HeldRails) {
            return self.usable;
        }
        if self.held.whole { RailSet::EMPTY } else { self.usable.without(self.held.rails) }
    }

    /// Tells apart what the planes do not.
    fn digest(&self) -> u64 {
        let Self { open, gpus, host, usable, held, .. } = self;
        let rails = |set: &RailSet| set.iter().fold(0_u64, |bits, rail| bits | 1 << rail);
        let flags = u64::from(*open) << 1 | u64::from(held.whole);
        let parts = [*gpus, rails(usable), held.gpus, rails(&held.rails), flags];
        let hosts = [host.cpus.into(), host.memory, held.host.cpus.into(), held.host.memory];
        parts.into_iter().chain(hosts).fold(0, log::mix)
    }

    fn value(&self) -> Value {
        Value {
            open: self.open && !self.held.whole,
            idle: self.held == Allocated::default(),
            free: ones(self.free_gpus()),
            rails: self.free_rails(),
            host: self.held.host,
        }
    }
}

/// How many ones each byte has.
const ONES: [u8; 256] = {
    let mut ones = [0; 256];
    let mut at = 1;
    while at < 256 {
        ones[at] = ones[at / 2] + (at % 2) as u8;
        at += 1;
    }
    ones
};

/// How many GPUs a set has. Nodes have few, and without a processor's own instruction a table is faster than sums.
pub(crate) fn ones(set: u64) -> u32 {
    match usize::try_from(set) {
        Ok(byte) if byte < ONES.len() => u32::from(ONES[byte]),
        _ => set.count_ones(),
    }
}

/// What a node is, for [`CapacityIndex::set_node`].
#[derive(Debug, Clone)]
pub struct Facts {
    /// Whether the node takes new jobs.
    pub open: bool,
    /// GPUs by index, as a bitmap.
    pub gpus: u64,
    /// The CPUs and the memory that the node has, held or not.
    pub host: Host,
    /// Rails with a cabled NIC.
    pub present: RailSet,
    /// Those of them that are up.
    pub usable: RailSet,
    /// What jobs hold on it.
    pub held: Allocated,
    /// Labels, taints and wiring, which put the node into its class.
    pub traits: Arc<Traits>,
}

/// One node of a gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// The node, by its index.
    pub node: NodeIx,
    /// The GPUs that the job takes there, as a bitmap.
    pub gpus: u64,
}

/// What every node can give at the moment.
#[derive(Debug, Clone)]
pub struct CapacityIndex {
    layout: Arc<Layout>,
    /// Planes per word in `rails`.
    stride: usize,
    words: Vec<NodeBlock>,
    rails: Vec<u64>,
    /// Which words have a node that takes jobs and has a free GPU, as a bitmap: few in a full cluster.
    some: Vec<u64>,
    /// Which nodes of a word are of which class.
    kinds: Vec<Vec<(u32, u64)>>,
    /// Which node stands where.
    nodes: Vec<Option<NodeIx>>,
    records: Vec<Option<Record>>,
    classes: Classes,
    /// Which free rails nodes that take jobs offer, with how many do.
    offers: BTreeMap<RailSet, usize>,
    /// How many nodes that take jobs and hold something have so many GPUs free.
    broken: [usize; GPUS_MAX as usize + 1],
    /// Nodes outside the document, in name order.
    outside: Vec<(NodeName, NodeIx)>,
    /// The rails whose leaves do not all reach one another, with a number per block: blocks of one number do.
    splits: Vec<(u32, Vec<u32>)>,
    /// Per block how many NICs of gangs that span several blocks it has.
    load: Vec<u32>,
    /// Whose jobs are on each node.
    owners: Owners,
    /// Used again by each change.
    spans: Vec<(u32, u32)>,
    log: Log,
    /// The same nodes as if rails that are drained were down; only while some are. It knows no tenants.
    undrained: Option<Box<CapacityIndex>>,
}

impl Default for CapacityIndex {
    fn default() -> Self {
        Self::new(None, 0)
    }
}

/// Equal in all that decides; numbers of classes and the history may differ.
impl PartialEq for CapacityIndex {
    fn eq(&self, other: &Self) -> bool {
        let record = |capacity_index: &Self, at: usize| {
            capacity_index.records.get(at).copied().flatten().map(|record| {
                (Record { class: 0, ..record }, Arc::clone(capacity_index.classes.traits(record.class)))
            })
        };
        self.layout == other.layout
            && self.stride == other.stride
            && self.words == other.words
            && self.rails == other.rails
            && self.nodes == other.nodes
            && self.outside == other.outside
            && self.splits == other.splits
            && self.load == other.load
            && self.owners == other.owners
            && (0..self.records.len().max(other.records.len()))
                .all(|at| record(self, at) == record(other, at))
    }
}

impl Eq for CapacityIndex {}

impl CapacityIndex {
    /// A capacity index without nodes, in a fabric of so many rails.
    #[must_use]
    pub fn new(fabric: Option<&Fabric>, rails: u32) -> Self {
        Self::empty(Arc::new(Layout::new(fabric)), rails)
    }

    fn empty(layout: Arc<Layout>, rails: u32) -> Self {
        let words = layout.fixed_words() as usize;
        let stride = rails.min(RailSet::MAX) as usize;
        Self {
            stride,
            words: vec![NodeBlock::default(); words],
            rails: vec![0; words * stride],
            some: vec![0; words.div_ceil(64)],
            kinds: vec![Vec::new(); words],
            nodes: vec![None; words * WORD as usize],
            records: Vec::new(),
            classes: Classes::default(),
            offers: BTreeMap::new(),
            broken: [0; GPUS_MAX as usize + 1],
            outside: Vec::new(),
            splits: Vec::new(),
            load: vec![0; layout.blocks.len()],
            owners: Owners::default(),
            spans: Vec::new(),
            log: Log::new(words as u64),
            undrained: None,
            layout,
        }
    }

    /// How many rails it distinguishes.
    #[must_use]
    pub fn rails(&self) -> u32 {
        u32::try_from(self.stride).unwrap_or(u32::MAX)
    }

    /// How many pods it has, that of the nodes without cables too.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.layout.pods.len()
    }

    /// How many groups of nodes on the same leaves it has.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.layout.blocks.len()
    }

    /// The pod and the block of a node: its place.
    #[must_use]
    pub fn place(&self, node: NodeIx) -> Option<(u32, u32)> {
        let block = self.layout.block_of(self.record(node)?.slot / WORD);
        Some((self.layout.blocks[block as usize].pod, block))
    }

    /// What nodes of this one's class have in common.
    #[must_use]
    pub fn traits(&self, node: NodeIx) -> Option<&Arc<Traits>> {
        Some(self.classes.traits(self.record(node)?.class))
    }

    /// The traits of a class that is in use already, so that nodes share them.
    #[must_use]
    pub fn shared(&self, traits: Arc<Traits>) -> Arc<Traits> {
        self.classes.shared(traits)
    }

    /// Whether a tenant must not have a node now: another tenant's job is there, and the node cannot keep the two apart.
    #[must_use]
    pub fn is_closed_to(&self, node: NodeIx, tenant: &TenantName) -> bool {
        self.owners.is_closed_to(node, tenant)
    }

    /// All such nodes; none where every node that somebody is on keeps tenants apart.
    pub(crate) fn closed_to(&self, tenant: Option<&TenantName>) -> impl Iterator<Item = NodeIx> {
        tenant.into_iter().flat_map(|tenant| self.owners.closed_to(tenant))
    }

    /// Whether for some node it matters who asks.
    #[must_use]
    pub fn has_guards(&self) -> bool {
        self.owners.has_guards()
    }

    /// Whether a node cannot keep two tenants apart.
    #[must_use]
    pub fn is_apart(&self, node: NodeIx) -> bool {
        self.owners.is_apart(node)
    }

    /// Jobs by tenant on a node.
    #[must_use]
    pub fn tenants_on(&self, node: NodeIx) -> BTreeMap<&TenantName, u32> {
        self.owners.on(node)
    }

    /// GPUs that nobody holds, and rails that are up and that nobody holds.
    #[must_use]
    pub fn free(&self, node: NodeIx) -> (u64, RailSet) {
        self.record(node).map_or((0, RailSet::EMPTY), |record| (record.free_gpus(), record.free_rails()))
    }

    pub(crate) fn record(&self, node: NodeIx) -> Option<&Record> {
        self.records.get(node.index())?.as_ref()
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().flatten()
    }

    /// The same with their indices, which ascend.
    pub(crate) fn records_by_node(&self) -> impl Iterator<Item = (NodeIx, &Record)> {
        let records = self.records.iter().enumerate();
        records.filter_map(|(at, record)| Some((NodeIx::at(at), record.as_ref()?)))
    }

    /// Whether the leaves of some of these rails do not all reach one another.
    #[must_use]
    pub fn is_split(&self, rails: RailSet) -> bool {
        self.splits.iter().any(|(rail, _)| rails.has(*rail))
    }

    /// Which free rails nodes that take jobs offer, with how many do.
    pub(crate) fn offers(&self) -> impl Iterator<Item = (RailSet, usize)> {
        self.offers.iter().map(|(rails, nodes)| (*rails, *nodes))
    }

    /// Whether a node that takes jobs and holds something has so many GPUs free.
    pub(crate) fn has_broken(&self, gpus: u32) -> bool {
        self.broken.iter().skip(gpus as usize).any(|nodes| *nodes > 0)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn words(&self) -> u32 {
        u32::try_from(self.words.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn word(&self, word: u32) -> &NodeBlock {
        &self.words[word as usize]
    }

    /// Of 64 words those that have a node that takes jobs and has a free GPU.
    pub(crate) fn some(&self, words: u32) -> u64 {
        self.some.get(words as usize).copied().unwrap_or(0)
    }

    pub(crate) fn rail_planes(&self, word: u32) -> &[u64] {
        &self.rails[word as usize * self.stride..][..self.stride]
    }

    pub(crate) fn kinds(&self, word: u32) -> &[(u32, u64)] {
        &self.kinds[word as usize]
    }

    pub(crate) fn node_at(&self, slot: u32) -> Option<NodeIx> {
        self.nodes.get(slot as usize).copied().flatten()
    }

    /// What nodes of each class in use have in common, with how many they are.
    pub(crate) fn class_sizes(&self) -> impl Iterator<Item = (&Traits, usize)> {
        self.classes.sizes()
    }

    pub(crate) fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The same nodes as if rails that are drained were down; `None` where none is drained.
    pub(crate) fn undrained(&self) -> Option<&Self> {
        self.undrained.as_deref()
    }

    /// Learns from the fabric which blocks reach one another on each rail; before any node is set.
    pub(crate) fn connect(&mut self, topology: &Topology) {
        self.splits.clear();
        for rail in 0..self.rails() {
            let islands = |plane: u32| -> Vec<Option<u32>> {
                let of = |block: u32| {
                    let mut leaves = self.layout.leaves(block).iter();
                    leaves.find_map(|name| {
                        let leaf = topology.leaf(topology.leaf_index(name)?)?;
                        let here = leaf.rails.has(rail) && leaf.plane == plane;
                        here.then(|| u32::try_from(leaf.island.index()).unwrap_or(u32::MAX))
                    })
                };
                (0..self.layout.outside()).map(of).collect()
            };
            let whole = |islands: &[Option<u32>]| {
                islands.iter().all(|island| island.is_some() && island == &islands[0])
            };
            let first = islands(0);
            // Where one plane joins all, it does not matter what the other joins.
            if !whole(&first) && !whole(&islands(1)) {
                let number = |island: Option<u32>| island.unwrap_or(u32::MAX);
                let outside = std::iter::once(u32::MAX);
                self.splits.push((rail, first.into_iter().map(number).chain(outside).collect()));
            }
        }
    }

    /// The sets of blocks that do not all reach one another on these rails, each as what is outside of it; `None` where
    /// all do.
    pub(crate) fn islands(&self, rails: RailSet) -> Option<Vec<Vec<(u32, u64)>>> {
        let splits: Vec<&Vec<u32>> =
            self.splits.iter().filter(|(rail, _)| rails.has(*rail)).map(|(_, numbers)| numbers).collect();
        #[cfg(test)]
        if plant::is(Bug::Islands) {
            return None;
        }
        if splits.is_empty() {
            return None;
        }
        let key = |block: usize| splits.iter().map(|numbers| numbers[block]).collect::<Vec<u32>>();
        let keys: std::collections::BTreeSet<Vec<u32>> = (0..self.layout.blocks.len()).map(key).collect();
        let without = |wanted: &Vec<u32>| {
            let others = (0..).zip(0..self.layout.blocks.len()).filter(|(_, block)| key(*block) != *wanted);
            others.flat_map(|(block, _)| self.block_words(block).map(|word| (word, u64::MAX))).collect()
        };
        Some(keys.iter().map(without).collect())
    }

    /// Whether the nodes of two blocks reach one another on all of these rails.
    pub(crate) fn reach(&self, rails: RailSet, a: u32, b: u32) -> bool {
        let mut splits = self.splits.iter().filter(|(rail, _)| rails.has(*rail));
        splits.all(|(_, numbers)| numbers[a as usize] == numbers[b as usize])
    }

    pub(crate) fn load(&self, block: u32) -> u32 {
        self.load[block as usize]
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// A place in the history of changes: yards that stand at the same one have the same nodes, which hold the same.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.log.mark()
    }

    /// The nodes of which something may have changed since `mark`, each once; `None` if that is not known, so that all
    /// may have.
    #[must_use]
    pub fn changed_since(&self, mark: Mark) -> Option<Vec<NodeIx>> {
        let mut words: Vec<u32> = self.log.since(mark)?.collect();
        words.sort_unstable();
        words.dedup();
        let slots = words.into_iter().flat_map(|word| word * WORD..(word + 1) * WORD);
        Some(slots.filter_map(|slot| self.node_at(slot)).collect())
    }

    /// The words of a block.
    pub(crate) fn block_words(&self, block: u32) -> std::ops::Range<u32> {
        if block == self.layout.outside() {
            return self.layout.fixed_words()..self.words();
        }
        let block = self.layout.blocks[block as usize];
        block.first_word..block.first_word + block.words
    }
}
