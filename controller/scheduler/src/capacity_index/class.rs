//! Classes of nodes: label sets, taints and wiring are few, so constraints are weighed once per class.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_topology::RailSet;
use proto_model::{Gpu, GpuKind, GpuModel, Inventory, IsolationSet, Nic};

pub use proto_model::{Taint, Term, Toleration};

/// What nodes of one class have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Traits {
    /// Key/value pairs that selectors look at.
    pub labels: BTreeMap<String, String>,
    /// What a job must tolerate.
    pub taints: BTreeSet<Taint>,
    /// Per rail the GPUs that have no nearer NIC than that rail's, as bitmaps.
    pub near: Vec<u64>,
    /// How far it keeps jobs apart.
    pub isolation: IsolationSet,
    /// Rails that are drained there: their NICs are up, and engines leave them alone.
    pub drained: RailSet,
    /// What its GPUs are.
    pub gpu_kinds: BTreeSet<GpuKind>,
}

impl Traits {
    /// The wiring of an inventory, without labels and taints.
    #[must_use]
    pub fn of(inventory: &Inventory) -> Self {
        let mut near = Vec::new();
        // Addresses are read once, not for every pair.
        let nics: Vec<(&Nic, Option<u32>)> =
            inventory.nics.iter().map(|nic| (nic, pci(&nic.pci_address))).collect();
        let mut gpu_kinds: BTreeSet<GpuKind> = BTreeSet::new();
        for gpu in inventory.gpus.iter().filter(|gpu| gpu.index < crate::capacity::GPUS_MAX) {
            // Mostly all are alike: a name is copied once.
            if !gpu_kinds.iter().any(|kind| kind.is_of(gpu)) {
                gpu_kinds.insert(gpu.kind());
            }
            let bus = pci(&gpu.pci_address);
            let far =
                |(nic, other): &(&Nic, Option<u32>)| apart((gpu.numa_node, bus), (nic.numa_node, *other));
            let nearest = nics.iter().map(far).min();
            for entry in nics.iter().filter(|(nic, _)| nic.rail < RailSet::MAX) {
                let nic = entry.0;
                if Some(far(entry)) == nearest {
                    let rail = nic.rail as usize;
                    if near.len() <= rail {
                        near.resize(rail + 1, 0);
                    }
                    near[rail] |= 1 << gpu.index;
                }
            }
        }
        Self { near, isolation: inventory.isolation.active(), gpu_kinds, ..Self::default() }
    }

    /// The GPUs to take of those that are free: those nearest to a NIC of the rails first, then the lowest.
    #[must_use]
    pub fn choose_gpus(&self, free: u64, wanted: u32, rails: RailSet) -> u64 {
        if free.count_ones() <= wanted {
            return free;
        }
        let near = rails.iter().fold(0, |set, rail| set | self.near.get(rail as usize).copied().unwrap_or(0));
        let (mut near, mut far, mut taken) = (free & near, free & !near, 0);
        for _ in 0..wanted {
            let from = if near != 0 { &mut near } else { &mut far };
            let lowest = *from & from.wrapping_neg();
            *from ^= lowest;
            taken |= lowest;
        }
        taken
    }
}

/// How far a GPU is from a NIC: another NUMA node first, then the distance of their PCI buses.
#[must_use]
pub fn distance(gpu: &Gpu, nic: &Nic) -> (u32, u32) {
    apart(seat(gpu.numa_node, &gpu.pci_address), seat(nic.numa_node, &nic.pci_address))
}

/// A NUMA node and a bus, where known.
pub(crate) type Seat = (Option<u32>, Option<u32>);

/// Where a device sits: read once where it is compared with many.
pub(crate) fn seat(numa_node: Option<u32>, address: &str) -> Seat {
    (numa_node, pci(address))
}

/// The distance of two seats.
pub(crate) fn apart(a: Seat, b: Seat) -> (u32, u32) {
    let numa = a.0.zip(b.0).map_or(0, |(a, b)| u32::from(a != b));
    let bus = a.1.zip(b.1).map_or(0, |(a, b)| a.abs_diff(b));
    (numa, bus)
}

/// Domain and bus of `0000:1b:00.0` as one number.
fn pci(address: &str) -> Option<u32> {
    // As they nearly always are: four digits, two digits.
    if let [a, b, c, d, b':', e, f, b':', ..] = address.as_bytes() {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        let number = [a, b, c, d, e, f].into_iter().try_fold(0, |sum, byte| Some(sum * 16 + digit(byte)?));
        if number.is_some() {
            return number;
        }
    }
    let mut parts = address.split(':');
    let domain = u32::from_str_radix(parts.next()?, 16).ok()?;
    let bus = u32::from_str_radix(parts.next()?, 16).ok()?;
    parts.next()?;
    (bus < 256).then_some(domain.checked_mul(256)? + bus)
}

/// Which nodes a job may have, by their labels and taints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Filter {
    /// Terms on the node's labels, all of which must hold; empty takes every node.
    pub selector: Vec<Term>,
    /// Each taint must be covered by one.
    pub tolerations: Vec<Toleration>,
    /// How far a node must keep the job apart from others.
    pub isolation: IsolationSet,
    /// Drained rails will not do, even where nothing else is left. Of a job that asks for certain rails these are named here,
    /// and a node on which one of them is drained is not admitted; of a job for which any rails will do there are none here,
    /// and the rails are chosen among those that are not drained. `None`: drained rails are the last choice.
    pub avoid_drained: Option<RailSet>,
    /// Models of GPU of which any will do; none: any whole GPU. All GPUs of a node must be of one of them.
    pub gpu_models: BTreeSet<GpuModel>,
    /// MIG instances will not do, if no model names them: the job asks for GPUs, and means whole ones.
    pub whole_gpus: bool,
}

/// Whether a node's GPUs are of the models that a job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Models {
    /// They are, or any will do.
    Asked,
    /// Some are of others, or there are none.
    Others,
    /// They may be: of some its agent reports nothing.
    Unknown,
}

impl Filter {
    /// The conditions that these labels do not fulfil.
    pub fn unmet<'a>(&'a self, traits: &'a Traits) -> impl Iterator<Item = &'a Term> {
        self.selector.iter().filter(|term| !term.holds(&traits.labels))
    }

    /// The taints that the job does not tolerate.
    pub fn untolerated<'a>(&'a self, traits: &'a Traits) -> impl Iterator<Item = &'a Taint> {
        let tolerated = |taint: &Taint| self.tolerations.iter().any(|toleration| toleration.covers(taint));
        traits.taints.iter().filter(move |taint| !tolerated(taint))
    }

    /// The rails of the job that are drained on such a node, where that will not do.
    #[must_use]
    pub fn drained(&self, traits: &Traits) -> RailSet {
        self.avoid_drained.map_or(RailSet::EMPTY, |rails| traits.drained.and(rails))
    }

    /// What of these rails a job may use on such a node at all.
    #[must_use]
    pub fn rails_of(&self, traits: &Traits, rails: RailSet) -> RailSet {
        if self.avoid_drained.is_some() { rails.without(traits.drained) } else { rails }
    }

    /// Whether the GPUs of a node are of models that will do.
    pub(crate) fn models(&self, traits: &Traits) -> Models {
        if self.gpu_models.is_empty() {
            let parts = self.whole_gpus && traits.gpu_kinds.iter().any(|kind| kind.partition);
            return if parts { Models::Others } else { Models::Asked };
        }
        let asked = |kind: &GpuKind| self.gpu_models.iter().any(|model| model.is(kind));
        let others = traits.gpu_kinds.iter().any(|kind| !kind.name.is_empty() && !asked(kind));
        if others || traits.gpu_kinds.is_empty() {
            return Models::Others;
        }
        let unknown = traits.gpu_kinds.iter().any(|kind| kind.name.is_empty());
        if unknown { Models::Unknown } else { Models::Asked }
    }

    /// Whether a node of this class will do.
    #[must_use]
    pub fn admits(&self, traits: &Traits) -> bool {
        traits.isolation.has_all(self.isolation)
            && self.drained(traits).is_empty()
            && self.models(traits) == Models::Asked
            && self.unmet(traits).next().is_none()
            && self.untolerated(traits).next().is_none()
    }
}

/// The classes in use; a class without nodes gives its number back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Classes {
    numbers: BTreeMap<Arc<Traits>, u32>,
    list: Vec<(Arc<Traits>, u32)>,
    free: Vec<u32>,
}

impl Classes {
    /// One node more of a class. True if the class is new.
    pub(crate) fn enter(&mut self, traits: &Arc<Traits>) -> (u32, bool) {
        if let Some(number) = self.numbers.get(traits) {
            self.list[*number as usize].1 += 1;
            return (*number, false);
        }
        let row = (Arc::clone(traits), 1);
        let number = match self.free.pop() {
            Some(number) => {
                self.list[number as usize] = row;
                number
            }
            None => {
                self.list.push(row);
                u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.numbers.insert(Arc::clone(traits), number);
        (number, true)
    }

    pub(crate) fn shared(&self, traits: Arc<Traits>) -> Arc<Traits> {
        self.numbers.get_key_value(&traits).map_or(traits, |(known, _)| Arc::clone(known))
    }

    /// Counts one node less in the class of this number.
    pub(crate) fn leave(&mut self, number: u32) {
        let (traits, nodes) = &mut self.list[number as usize];
        *nodes -= 1;
        if *nodes == 0 {
            self.numbers.remove(traits);
            self.free.push(number);
        }
    }

    /// The classes in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = (u32, &Arc<Traits>)> {
        self.numbers.iter().map(|(traits, number)| (*number, traits))
    }

    /// The classes in use with how many nodes each has.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&Traits, usize)> {
        let rows = self.numbers.values().filter_map(|number| self.list.get(*number as usize));
        rows.map(|(traits, nodes)| (traits.as_ref(), *nodes as usize))
    }

    pub(crate) fn traits(&self, number: u32) -> &Arc<Traits> {
        &self.list[number as usize].0
    }

    /// Per class whether it is in use and admitted, as a bitmap; and whether all in use are.
    pub(crate) fn admitted(&self, filter: &Filter) -> (Vec<u64>, bool) {
        let mut set = vec![0; self.list.len().div_ceil(64)];
        for number in self.numbers.values().map(|number| *number as usize) {
            if filter.admits(&self.list[number].0) {
                set[number / 64] |= 1 << (number % 64);
            }
        }
        let admitted: usize = set.iter().map(|word: &u64| word.count_ones() as usize).sum();
        let all = admitted == self.numbers.len();
        (set, all)
    }
}
