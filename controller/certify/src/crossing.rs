//! Rails that are swapped. Nothing tells which plane a rail number means but the majority of the nodes: nodes that agree on it
//! form a class, the largest class is right, and every other node's NICs are where that class finds them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{finding::Remap, plan::Gang, sums::Sums};

/// From a rail of one node to the rail of another on the same plane.
type Map = BTreeMap<u32, u32>;

/// What comparing the classes of nodes found about rails that are swapped.
#[derive(Debug, Default)]
pub(crate) struct Crossing {
    /// Nodes whose rails are permuted.
    pub(crate) remaps: Vec<Remap>,
    /// Nodes of which some pairs say that their rails are permuted and others that they are not, each with the other end of one that
    /// contradicts: one of the two may not say what is so.
    pub(crate) doubtful: Vec<(u32, u32)>,
    /// Two classes of nodes are equally large, so that none is known to be right.
    pub(crate) undecided: bool,
    /// Pairs in which some rail answered to another: (lower, higher, and whether that is more than a permutation).
    pub(crate) pairs: Vec<(u32, u32, bool)>,
}

pub(crate) fn crossing(gang: &Gang, sums: &Sums) -> Crossing {
    let relations = relations(gang, sums);
    let mut found = Crossing::default();
    if relations.values().all(|relation| !relation.crossed) {
        return found;
    }
    // A pair of which a rail is dead, and none crossed, says nothing here.
    let pair = |((low, high), relation): (&(u32, u32), &Relation)| {
        let whole = relation.is_permutation(gang);
        (whole || relation.crossed).then_some((*low, *high, !whole))
    };
    found.pairs = relations.iter().filter_map(pair).collect();
    let classes = classes(gang, &relations);
    let mut sizes: BTreeMap<&Map, usize> = BTreeMap::new();
    for map in classes.values() {
        *sizes.entry(map).or_default() += 1;
    }
    let most = sizes.values().max().copied().unwrap_or_default();
    found.undecided = sizes.values().filter(|size| **size == most).count() > 1;
    // Of classes of the same size that of the lowest position is taken for right.
    let right = classes.values().find(|map| sizes.get(map) == Some(&most));
    let Some(right) = right.cloned() else { return found };
    for (node, map) in &classes {
        // Its rail `own` is on the plane that the right class calls `named`.
        let back: Map = right.iter().map(|(rail, plane)| (*plane, *rail)).collect();
        let is = |(own, plane): (&u32, &u32)| Some((*own, *back.get(plane)?));
        let rails: Vec<(u32, u32)> = map.iter().filter_map(is).filter(|(own, named)| own != named).collect();
        match contradiction(*node, &relations, &classes, gang) {
            _ if rails.is_empty() => {}
            Some(other) => found.doubtful.push((*node, other)),
            None => found.remaps.push(Remap { node: *node, rails }),
        }
    }
    found
}

/// The other end of a pair that says otherwise of where a node's rails are than what was concluded from all pairs.
fn contradiction(
    node: u32,
    relations: &BTreeMap<(u32, u32), Relation>,
    classes: &BTreeMap<u32, Map>,
    gang: &Gang,
) -> Option<u32> {
    let own = relations.iter().filter(|((low, high), _)| *low == node || *high == node);
    let mut own = own.filter(|(_, relation)| relation.is_permutation(gang));
    let (ends, _) = own.find(|((low, high), relation)| {
        let planes = classes.get(low).zip(classes.get(high));
        planes.is_some_and(|(low, high)| relation.map.iter().any(|(a, b)| low.get(a) != high.get(b)))
    })?;
    Some(if ends.0 == node { ends.1 } else { ends.0 })
}

#[derive(Debug, Default)]
struct Relation {
    /// From the lower node's rails to the higher's.
    map: Map,
    /// Some rail is not its own.
    crossed: bool,
    /// One rail was seen on two.
    torn: bool,
}

impl Relation {
    fn is_permutation(&self, gang: &Gang) -> bool {
        let images: BTreeSet<u32> = self.map.values().copied().collect();
        !self.torn && self.map.len() == gang.rails.len() && images.len() == gang.rails.len()
    }
}

fn relations(gang: &Gang, sums: &Sums) -> BTreeMap<(u32, u32), Relation> {
    let mut relations: BTreeMap<(u32, u32), Relation> = BTreeMap::new();
    for (rail, pairs) in &sums.rails {
        for (ends, pair) in pairs {
            let relation = relations.entry(*ends).or_default();
            let own = pair.answered.then_some((*rail, *rail));
            for (low, high) in own.into_iter().chain(pair.crossed.iter().copied()) {
                if !gang.rails.contains(&low) || !gang.rails.contains(&high) {
                    continue;
                }
                relation.crossed |= low != high;
                let before = relation.map.insert(low, high);
                relation.torn |= before.is_some_and(|before| before != high);
            }
        }
    }
    relations
}

/// Where the rails of each node are, in the numbers of one node that others are compared with.
fn classes(gang: &Gang, relations: &BTreeMap<(u32, u32), Relation>) -> BTreeMap<u32, Map> {
    let mut edges: BTreeMap<u32, Vec<(u32, Map)>> = BTreeMap::new();
    for ((low, high), relation) in relations.iter().filter(|(_, relation)| relation.is_permutation(gang)) {
        let back = relation.map.iter().map(|(low, high)| (*high, *low)).collect();
        edges.entry(*high).or_default().push((*low, relation.map.clone()));
        edges.entry(*low).or_default().push((*high, back));
    }
    // Begun at the node with the most whole pairs, so that what hangs together is as large as can be.
    let Some((root, _)) = edges.iter().max_by_key(|(node, known)| (known.len(), std::cmp::Reverse(**node)))
    else {
        return BTreeMap::new();
    };
    let mut planes: BTreeMap<u32, Map> = BTreeMap::new();
    planes.insert(*root, gang.rails.iter().map(|rail| (*rail, *rail)).collect());
    let mut queue = VecDeque::from([*root]);
    while let Some(node) = queue.pop_front() {
        let Some(own) = planes.get(&node).cloned() else { continue };
        for (other, to_own) in edges.get(&node).into_iter().flatten() {
            if planes.contains_key(other) {
                continue;
            }
            let map = to_own.iter().filter_map(|(rail, mine)| Some((*rail, *own.get(mine)?))).collect();
            planes.insert(*other, map);
            queue.push_back(*other);
        }
    }
    planes
}
