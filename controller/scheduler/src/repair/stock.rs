//! What can take the place of a lost node: spares and free nodes, by block.

use std::collections::{BTreeMap, BTreeSet};

use controller_topology::{NodeIx, RailSet};
use proto_model::{Reason, ReasonCode, many};

use super::{
    gang::{Gang, part},
    request::RepairRequest,
};
use crate::{
    bins::bits,
    capacity_index::{Pick, WORD},
    place::{Hidden, Placer, Within},
    reasons::not_now,
    snapshot::{NodeSet, Snapshot},
};

/// Free nodes that are known of each block at most: more are never needed at once than were lost.
const PER_BLOCK: usize = 4096;

/// One node out of the stock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Taken {
    pub(crate) block: u32,
    pub(crate) spare: bool,
    /// How many of this kind and block were taken before it.
    pub(crate) nth: u32,
}

/// What there is in one block.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) spares: Vec<Pick>,
    pub(crate) free: Vec<Pick>,
}

/// What there is to choose from.
#[derive(Debug, Default)]
pub(crate) struct Stock {
    pub(crate) shelves: BTreeMap<u32, Shelf>,
    /// Free nodes that would do, wherever they are.
    free: u64,
    spares: usize,
}

impl Stock {
    pub(crate) fn of(
        snapshot: &Snapshot,
        placer: &mut Placer,
        request: &RepairRequest<'_>,
        rails: RailSet,
        gang: &Gang,
    ) -> Self {
        let mut stock = Self::default();
        let capacity_index = snapshot.capacity_index();
        if gang.open.is_empty() {
            return stock;
        }
        if request.sources.spares {
            for pick in &gang.spares {
                let Some((_, block)) = capacity_index.place(pick.node) else { continue };
                stock.shelves.entry(block).or_default().spares.push(*pick);
                stock.spares += 1;
            }
        }
        if request.sources.free {
            let topology = snapshot.topology();
            let lost = request.lost.keys().filter_map(|name| topology.index(name));
            let own = gang.seats.iter().filter_map(|(pick, _)| Some(pick.as_ref()?.node));
            let hidden = Hidden::of(capacity_index, lost.chain(own).chain(request.kept.iter()));
            stock.free(snapshot, placer, request, rails, gang, &hidden);
        }
        stock
    }

    /// Free nodes: in the pods where the gang or its spares are, and in the pods with the most of them.
    fn free(
        &mut self,
        snapshot: &Snapshot,
        placer: &mut Placer,
        request: &RepairRequest<'_>,
        rails: RailSet,
        gang: &Gang,
        hidden: &Hidden,
    ) {
        let (capacity_index, need) =
            (snapshot.capacity_index(), part(request.need, gang.first_open(), rails));
        let layout = capacity_index.layout();
        let own = gang.seats.iter().filter_map(|(pick, _)| Some(pick.as_ref()?.node));
        let mut pods: BTreeSet<u32> =
            own.filter_map(|node: NodeIx| capacity_index.place(node)).map(|(pod, _)| pod).collect();
        pods.extend(self.shelves.keys().map(|block| layout.blocks[*block as usize].pod));
        let most = gang.open.len().min(PER_BLOCK);
        let shelves = &mut self.shelves;
        self.free = placer.check(capacity_index, &need, Some(hidden), |view| {
            if request.need.within == Within::Fabric || gang.open.len() == gang.seats.len() {
                // The pods that could take the most, and the one that takes all of them tightest.
                let mut more = most + 1;
                let mut others = Vec::new();
                view.pods().largest(
                    &mut others,
                    |pod| pod,
                    |pod| {
                        more -= usize::from(!pods.contains(&pod));
                        more == 0
                    },
                );
                let wanted = u32::try_from(gang.open.len()).unwrap_or(u32::MAX);
                pods.extend(others);
                pods.extend(view.pods().best_fit(wanted, |pod| pod));
            }
            for pod in &pods {
                let pod = layout.pods[*pod as usize];
                for block in pod.first_block..pod.first_block + pod.blocks {
                    if view.blocks().count(block) == 0 {
                        continue;
                    }
                    let mut found = Vec::new();
                    for word in capacity_index.block_words(block) {
                        for bit in bits(view.bits(word)) {
                            let slot = word * WORD + bit;
                            let Some(node) = capacity_index.node_at(slot) else { continue };
                            let Some(record) = capacity_index.record(node) else { continue };
                            let free = record.free_gpus();
                            // Those that are broken into first, the tightest first.
                            let idle = record.held == crate::capacity::Allocated::default();
                            found.push(((idle, free.count_ones(), slot), node, record.class, free));
                        }
                    }
                    found.sort_unstable_by_key(|(key, ..)| *key);
                    found.truncate(most);
                    let picks = found.into_iter().map(|(_, node, class, free)| {
                        let traits = capacity_index.classes().traits(class);
                        Pick { node, gpus: traits.choose_gpus(free, need.gpus, rails) }
                    });
                    shelves.entry(block).or_default().free.extend(picks);
                }
            }
        });
    }

    /// How many of a kind a block has.
    pub(crate) fn count(&self, block: u32, spare: bool) -> u32 {
        let shelf = self.shelves.get(&block);
        let count = shelf.map_or(0, |shelf| if spare { shelf.spares.len() } else { shelf.free.len() });
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The node and the GPUs to take there.
    pub(crate) fn pick(&self, taken: Taken) -> Pick {
        let shelf = self.shelves.get(&taken.block);
        let list = shelf.map(|shelf| if taken.spare { &shelf.spares } else { &shelf.free });
        let pick = list.and_then(|list| list.get(taken.nth as usize)).copied();
        pick.unwrap_or(Pick { node: NodeIx::at(u32::MAX as usize), gpus: 0 })
    }

    /// Why the lost ones cannot be replaced.
    pub(crate) fn reasons(
        &self,
        snapshot: &Snapshot,
        request: &RepairRequest<'_>,
        gang: &Gang,
    ) -> Vec<Reason> {
        let (lost, free, spares) = (gang.open.len(), self.free, self.spares);
        let from = match (request.sources.spares, request.sources.free) {
            (false, false) => "; the job lets none be replaced".to_owned(),
            (true, false) => format!("; {spares} of its spares can stand in, and it lets no others"),
            (false, true) => format!("; {} can stand in", many(free, "free node")),
            (true, true) => format!("; {spares} of its spares and {} can stand in", many(free, "free node")),
        };
        let nodes = if lost == 1 { "node is" } else { "nodes are" };
        let message = format!("{lost} {nodes} to be replaced{from}");
        let mut reasons = vec![Reason::new(ReasonCode::RepairCapacity, message).count(lost)];
        let enough = free.saturating_add(spares as u64) >= lost as u64;
        if enough {
            let place = match request.need.within {
                Within::Leaves => "on the same leaves as the others",
                Within::Pod => "in the pod of the others",
                Within::Fabric => "where its groups stay together and its rails reach the others",
            };
            let message = format!("too few of them stand {place}");
            reasons.push(Reason::new(ReasonCode::RepairPlace, message).count(lost));
        }
        if request.sources.free {
            let rails: RailSet = request.placement.rails.iter().copied().collect();
            let missing = u32::try_from(lost).unwrap_or(u32::MAX);
            let need = crate::Need { nodes: missing, ..part(request.need, gang.first_open(), rails) };
            let kept: &NodeSet = request.kept;
            let causes = not_now(snapshot, &need, None).into_iter();
            // They are about a gang that starts.
            let other = [ReasonCode::GangCapacity, ReasonCode::RailAlignment, ReasonCode::RailDead];
            reasons.extend(causes.filter(|cause| !other.contains(&cause.code)));
            if !kept.is_empty() {
                let are = if kept.len() == 1 { "is" } else { "are" };
                let message = format!("{} {are} kept for others", many(kept.len(), "node"));
                reasons.push(Reason::new(ReasonCode::Reserved, message).count(kept.len()));
            }
        }
        reasons
    }
}
