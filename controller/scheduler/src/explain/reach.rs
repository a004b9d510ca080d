//! How many nodes of a gang could be had: by counting, without placing.

use controller_topology::RailSet;

use crate::{
    capacity_index::CapacityIndex,
    place::{Hidden, Need, Placer, RailNeed, Within},
};

/// Sets of rails that are counted for one gang at most, those that most nodes offer: in small clusters, and in those of
/// more words of nodes, where placing tries few as well.
const SETS: [usize; 2] = [64, 8];
const LARGE: u32 = 64;

/// Nodes per block that could be in one gang together: one row per set of rails and island.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    /// Where all nodes of a gang share their rails and reach one another.
    pub(crate) aligned: Vec<Vec<u32>>,
    /// Where each node has enough rails, whichever.
    pub(crate) loose: Vec<u32>,
}

/// What binds the gang as a whole; each can be thought away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) within: Within,
    /// Nodes that stay together on the same leaves, and in one pod.
    pub(crate) leaf_unit: u32,
    pub(crate) pod_unit: u32,
    pub(crate) spares: u32,
    pub(crate) aligned: bool,
}

impl Bounds {
    pub(crate) fn of(need: &Need) -> Self {
        Self {
            within: need.within,
            leaf_unit: need.unit(Within::Leaves, true),
            pod_unit: need.unit(Within::Pod, true),
            spares: need.spares,
            aligned: true,
        }
    }
}

impl Fields {
    pub(crate) fn of(
        placer: &mut Placer,
        capacity_index: &CapacityIndex,
        need: &Need,
        hidden: Option<&Hidden>,
    ) -> Self {
        let blocks = u32::try_from(capacity_index.blocks()).unwrap_or(u32::MAX);
        let mut counts = |rails: RailNeed| {
            let mut row = Vec::new();
            placer.check(capacity_index, &Need { rails, ..need.clone() }, hidden, |view| {
                row.extend((0..blocks).map(|block| view.blocks().count(block)));
            });
            row
        };
        let loose = counts(need.rails);
        let sets = match need.rails {
            RailNeed::Exactly(rails) => vec![rails],
            RailNeed::Any(count) => sets(capacity_index, count),
        };
        let mut aligned = Vec::new();
        for rails in sets {
            let row = match need.rails {
                RailNeed::Exactly(_) => loose.clone(),
                RailNeed::Any(_) => counts(RailNeed::Exactly(rails)),
            };
            if need.nodes + need.spares > 1 && capacity_index.is_split(rails) {
                aligned.extend(islands(capacity_index, rails, &row));
            } else {
                aligned.push(row);
            }
        }
        Self { aligned, loose }
    }

    /// The most nodes, not more than asked for, that a gang of this kind could have.
    pub(crate) fn reach(&self, capacity_index: &CapacityIndex, need: &Need, bounds: &Bounds) -> u32 {
        if need.uneven_groups().next().is_some() {
            return 0;
        }
        let rows = if bounds.aligned { &self.aligned[..] } else { std::slice::from_ref(&self.loose) };
        let most =
            rows.iter().map(|row| most(capacity_index, row, bounds)).max().unwrap_or(0).min(need.nodes);
        // Several nodes without a rail do not reach one another.
        let most = if need.rail_count() == 0 { most.min(1) } else { most };
        let unit = need.groups.iter().map(|group| group.size).max().unwrap_or(1);
        whole(most, unit)
    }
}

fn whole(nodes: u32, unit: u32) -> u32 {
    nodes - nodes % unit.max(1)
}

fn most(capacity_index: &CapacityIndex, row: &[u32], bounds: &Bounds) -> u32 {
    let total: u32 = row.iter().sum();
    let block = |block: u32| whole(row[block as usize], bounds.leaf_unit);
    let pods =
        capacity_index.layout().pods.iter().map(|pod| {
            whole((pod.first_block..pod.first_block + pod.blocks).map(block).sum(), bounds.pod_unit)
        });
    let most = match bounds.within {
        Within::Fabric => pods.sum(),
        Within::Pod => pods.max().unwrap_or(0),
        Within::Leaves => row.iter().copied().max().unwrap_or(0),
    };
    most.min(total.saturating_sub(bounds.spares))
}

/// The nodes of each island by themselves.
fn islands(capacity_index: &CapacityIndex, rails: RailSet, row: &[u32]) -> Vec<Vec<u32>> {
    let mut firsts: Vec<u32> = Vec::new();
    let mut rows: Vec<Vec<u32>> = Vec::new();
    for (block, count) in (0..).zip(row).filter(|(_, count)| **count > 0) {
        let at = firsts.iter().position(|first| capacity_index.reach(rails, *first, block));
        let at = at.unwrap_or_else(|| {
            firsts.push(block);
            rows.push(vec![0; row.len()]);
            firsts.len() - 1
        });
        rows[at][block as usize] = *count;
    }
    rows
}

/// Sets of so many rails, those that most nodes offer first.
fn sets(capacity_index: &CapacityIndex, count: u32) -> Vec<RailSet> {
    let mut masks = crate::place::Masks::default();
    masks.candidates(count, capacity_index.offers());
    masks.sets().iter().take(SETS[usize::from(capacity_index.words() > LARGE)]).map(|(set, _)| *set).collect()
}
