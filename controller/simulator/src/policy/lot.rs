//! Servers as a scheduler without rails sees them: free GPUs, and one tree of switches over them.

use controller_scheduler::{Choice, Host, Pick, Snapshot};
use controller_topology::RailSet;
use proto_model::Placement;

use crate::{
    dice::Dice,
    servers::Kind,
    site::{Site, Spot},
    workload::SimJob,
};

/// What a job asks for, as far as such a scheduler can tell jobs apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    pub(super) nodes: u32,
    pub(super) gpus: u32,
    /// NICs that it holds on each; all for whole servers.
    pub(super) rails: u32,
    /// The kinds of servers that have it, as a bitmap.
    kinds: u64,
    /// CPUs that it holds on each server.
    cpus: u32,
    /// Bytes of memory of each.
    memory: u64,
}

impl Class {
    pub(super) fn of(job: &SimJob) -> Self {
        let Host { cpus, memory } = job.need.host;
        let (nodes, gpus, rails) = (job.need.nodes, job.need.gpus, job.need.rail_count());
        Self { nodes, gpus, rails, kinds: job.kinds, cpus, memory }
    }
}

#[derive(Debug, Clone)]
struct Berth {
    leaf: u32,
    pod: u32,
    all: u64,
    free: u64,
    /// NICs that work and that nobody holds.
    rails: RailSet,
    open: bool,
    full: bool,
    kind: usize,
    /// CPUs and memory that nobody holds.
    host: Host,
}

impl Berth {
    fn takes(&self, class: Class) -> bool {
        let room = self.free.count_ones() >= class.gpus && self.rails.len() >= class.rails;
        let host = self.host.cpus >= class.cpus && self.host.memory >= class.memory;
        self.open && room && host && class.kinds >> self.kind & 1 == 1 && (class.nodes == 1 || self.full)
    }
}

/// What a job holds.
#[derive(Debug, Clone, Default)]
pub(super) struct LotAllocation {
    rails: RailSet,
    host: Host,
    picks: Vec<(usize, u64)>,
}

/// The servers with what is free on each.
#[derive(Debug, Clone)]
pub(super) struct Lot {
    berths: Vec<Berth>,
    pub(super) rails: u32,
    held: Vec<Option<LotAllocation>>,
}

impl Lot {
    pub(super) fn new(site: &Site) -> Self {
        let rails = site.snapshot.topology().rails();
        let slots = site.spots.iter().map(|spot| spot.node.index() + 1).max().unwrap_or(0);
        let closed = Berth {
            leaf: 0,
            pod: 0,
            all: 0,
            free: 0,
            rails: RailSet::EMPTY,
            open: false,
            full: false,
            kind: 0,
            host: Host::NONE,
        };
        let mut berths = vec![closed; slots];
        for spot in &site.spots {
            let usable = site.snapshot.topology().server(spot.node).map(|server| server.usable);
            let rails = usable.unwrap_or_default();
            let &Spot { leaf, pod, full, kind, .. } = spot;
            let Kind { gpus, cpus, memory, .. } = site.kinds[kind];
            let all = if gpus >= 64 { u64::MAX } else { (1 << gpus) - 1 };
            let host = Host { cpus, memory };
            berths[spot.node.index()] =
                Berth { leaf, pod, all, free: all, rails, open: true, full, kind, host };
        }
        Self { berths, rails, held: Vec::new() }
    }

    pub(super) fn set_open(&mut self, at: usize, open: bool) {
        if let Some(berth) = self.berths.get_mut(at) {
            berth.open = open && berth.all != 0;
        }
    }

    /// Whether so many servers can take it, but for those of `kept`.
    pub(super) fn fits(&self, class: Class, kept: &[usize]) -> bool {
        let mut found = 0;
        for (at, berth) in self.berths.iter().enumerate() {
            if berth.takes(class) && !kept.contains(&at) {
                found += 1;
                if found >= class.nodes {
                    return true;
                }
            }
        }
        false
    }

    /// Servers for it by tree best fit: the lowest switch under which it fits, of several that which it fills best;
    /// on one server, that with the fewest free GPUs. But for those of `kept`.
    pub(super) fn tree(&self, class: Class, kept: &[usize]) -> Option<Vec<usize>> {
        let takes = |at: &usize| self.berths[*at].takes(class) && !kept.contains(at);
        let fit: Vec<usize> = (0..self.berths.len()).filter(takes).collect();
        if fit.len() < class.nodes as usize {
            return None;
        }
        let least = |at: &usize| (self.berths[*at].free.count_ones(), *at);
        if class.nodes == 1 {
            return fit.iter().min_by_key(|at| least(at)).map(|at| vec![*at]);
        }
        let leaf = |at: usize| self.berths[at].leaf;
        let pod = |at: usize| self.berths[at].pod;
        let groups = |of: &dyn Fn(usize) -> u32, fit: &[usize]| {
            let mut groups: std::collections::BTreeMap<u32, Vec<usize>> = std::collections::BTreeMap::new();
            for at in fit {
                groups.entry(of(*at)).or_default().push(*at);
            }
            groups
        };
        let wanted = class.nodes as usize;
        let enough = |group: &&Vec<usize>| group.len() >= wanted;
        let leaves = groups(&leaf, &fit);
        if let Some(group) = leaves.values().filter(enough).min_by_key(|group| group.len()) {
            return Some(group[..wanted].to_vec());
        }
        let pods = groups(&pod, &fit);
        let within = pods.values().filter(enough).min_by_key(|group| group.len()).unwrap_or(&fit);
        // Under a common switch: leaf after leaf, the smallest that holds the rest, else the largest.
        let mut leaves: Vec<Vec<usize>> = groups(&leaf, within).into_values().collect();
        let mut taken = Vec::with_capacity(wanted);
        while taken.len() < wanted && !leaves.is_empty() {
            let rest = wanted - taken.len();
            let holds = (0..leaves.len()).filter(|at| leaves[*at].len() >= rest);
            let best = holds.min_by_key(|at| leaves[*at].len());
            let best =
                best.or_else(|| (0..leaves.len()).max_by_key(|at| (leaves[*at].len(), usize::MAX - at)));
            let Some(best) = best else { break };
            let group = leaves.remove(best);
            taken.extend(group.into_iter().take(rest));
        }
        Some(taken)
    }

    /// Chooses servers at random among those that fit; `None`: too few of them.
    pub(super) fn random(&self, class: Class, dice: &mut Dice) -> Option<Vec<usize>> {
        let mut fit: Vec<usize> = (0..self.berths.len()).filter(|at| self.berths[*at].takes(class)).collect();
        if fit.len() < class.nodes as usize {
            return None;
        }
        let wanted = class.nodes as usize;
        for at in 0..wanted {
            let other = at + dice.below(fit.len() - at);
            fit.swap(at, other);
        }
        fit.truncate(wanted);
        Some(fit)
    }

    /// A job takes these servers.
    pub(super) fn take(&mut self, job: usize, class: Class, servers: &[usize]) {
        let mut held = LotAllocation::default();
        // All servers of a gang are on the same rails; one by itself takes those that are free.
        let rails = match servers {
            [one] if class.rails < self.rails => {
                self.berths[*one].rails.iter().take(class.rails as usize).collect()
            }
            _ => RailSet::first(class.rails),
        };
        held.rails = rails;
        held.host = Host { cpus: class.cpus, memory: class.memory };
        for at in servers {
            let berth = &mut self.berths[*at];
            let mut gpus = 0;
            let mut rest = berth.free;
            for _ in 0..class.gpus {
                gpus |= rest & rest.wrapping_neg();
                rest &= rest.wrapping_sub(1);
            }
            berth.free &= !gpus;
            berth.rails = berth.rails.without(rails);
            berth.host.cpus = berth.host.cpus.saturating_sub(class.cpus);
            berth.host.memory = berth.host.memory.saturating_sub(class.memory);
            held.picks.push((*at, gpus));
        }
        if self.held.len() <= job {
            self.held.resize(job + 1, None);
        }
        self.held[job] = Some(held);
    }

    /// Frees the servers that a job holds.
    pub(super) fn give(&mut self, job: usize) {
        let Some(held) = self.held.get_mut(job).and_then(Option::take) else { return };
        self.give_back(&held);
    }

    fn give_back(&mut self, held: &LotAllocation) {
        for (at, gpus) in &held.picks {
            let berth = &mut self.berths[*at];
            berth.free |= gpus;
            berth.rails = berth.rails.or(held.rails);
            berth.host.cpus += held.host.cpus;
            berth.host.memory += held.host.memory;
        }
    }

    /// What a job holds, to think it gone.
    pub(super) fn held(&self, job: usize) -> Option<&LotAllocation> {
        self.held.get(job)?.as_ref()
    }

    /// Thinks a job gone; for copies only. Which servers it was on.
    pub(super) fn think_gone(&mut self, held: &LotAllocation) {
        self.give_back(held);
    }

    /// A copy without who holds what, to think about the future.
    pub(super) fn sketch(&self) -> Self {
        Self { berths: self.berths.clone(), rails: self.rails, held: Vec::new() }
    }

    /// The placement of what a job holds.
    pub(super) fn placement(&self, snapshot: &Snapshot, job: usize, of: &SimJob) -> Placement {
        let Some(held) = self.held(job) else { return Placement::default() };
        let pick =
            |(at, gpus): &(usize, u64)| Pick { node: controller_topology::NodeIx::at(*at), gpus: *gpus };
        let mut pods: Vec<u32> = held.picks.iter().map(|(at, _)| self.berths[*at].pod).collect();
        pods.sort_unstable();
        pods.dedup();
        let choice = Choice {
            rails: held.rails,
            host: held.host,
            nodes: held.picks.iter().map(pick).collect(),
            pods: u32::try_from(pods.len()).unwrap_or(u32::MAX),
            ..Choice::default()
        };
        controller_scheduler::rankmap::placement(snapshot, &of.spec, &choice)
    }
}
