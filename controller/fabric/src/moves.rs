//! The fewest moves that bring cables where they belong.
//!
//! # What minimal means
//! Cables have one end that stays (at a server) and one that sits in a bin (a leaf with so many ports, or one port). One
//! step takes one cable and either moves it to a bin with a free port, or unplugs it and leaves it hanging, or plugs a
//! hanging one into a bin with a free port. No bin ever holds more cables than it has ports. [`fewest`] gives a shortest
//! sequence of steps after which every cable that belongs somewhere is there; where the others are does not matter.
//!
//! # Why it is
//! Take wrong cables as edges from the bin where they are to the bin where they belong. Every wrong cable needs a step.
//! A bin that would end with more cables than ports needs one step for each that is too many, to unplug one that belongs
//! nowhere. And in a connected component of these edges in which no bin has a free port, some cable must leave before
//! any can arrive: one step more, after which each arrival frees the port for the next. So a component with a free
//! port costs its edges, one without costs one more; the order of the steps is an Euler circuit walked backwards from the
//! free port. (A component without a free port is balanced: its bins are full and end full, so each is left as often
//! as it is entered.)

use std::collections::BTreeMap;

/// A cable, by the bins where it is and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cable {
    /// The bin where it is.
    pub at: usize,
    /// The bin where it belongs; `None` if it may be anywhere.
    pub to: Option<usize>,
}

/// One step; cables and bins by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// From one bin to another that has a free port.
    Move(usize, usize),
    /// Out of its bin, to hang.
    Unplug(usize),
    /// A hanging one into a bin that has a free port.
    Plug(usize, usize),
}

/// The fewest steps. `ports` are those of each bin; a bin in which more cables are or belong than it has ports is taken
/// to have as many.
#[must_use]
pub fn fewest(ports: &[usize], cables: &[Cable]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut held = vec![0_usize; ports.len()];
    let (mut entered, mut left, mut belong) = (held.clone(), held.clone(), held.clone());
    for cable in cables {
        held[cable.at] += 1;
        if let Some(to) = cable.to {
            belong[to] += 1;
            if to != cable.at {
                entered[to] += 1;
                left[cable.at] += 1;
            }
        }
    }
    let ports: Vec<usize> = (0..ports.len()).map(|bin| ports[bin].max(held[bin]).max(belong[bin])).collect();
    for (number, cable) in cables.iter().enumerate().filter(|(_, cable)| cable.to.is_none()) {
        let bin = cable.at;
        if held[bin] + entered[bin] - left[bin] > ports[bin] {
            held[bin] -= 1;
            steps.push(Step::Unplug(number));
        }
    }
    let free = |bin: usize| ports[bin] - held[bin];
    let wrong: Vec<Edge> = cables
        .iter()
        .enumerate()
        .filter_map(|(number, cable)| {
            let to = cable.to.filter(|to| *to != cable.at)?;
            Some(Edge { cable: Some(number), from: cable.at, to })
        })
        .collect();
    for mut edges in components(wrong) {
        let outside = ports.len();
        let mut bins: Vec<usize> = edges.iter().flat_map(|edge| [edge.from, edge.to]).collect();
        bins.sort_unstable();
        bins.dedup();
        for &bin in &bins {
            // Edges to and from outside balance every bin: there the free ports come from, and there they go.
            for _ in left[bin]..entered[bin] {
                edges.push(Edge { cable: None, from: bin, to: outside });
            }
            for _ in entered[bin]..left[bin] {
                edges.push(Edge { cable: None, from: outside, to: bin });
            }
        }
        let unbalanced = edges.iter().any(|edge| edge.cable.is_none());
        let start = if unbalanced { Some(outside) } else { bins.iter().copied().find(|bin| free(*bin) > 0) };
        let walk = backwards(&edges, start.unwrap_or(edges[0].from));
        let mut last = None;
        let mut walk = walk.as_slice();
        if let (None, Some((end, rest))) = (start, walk.split_last()) {
            steps.extend(edges[*end].cable.map(Step::Unplug));
            (last, walk) = (Some(&edges[*end]), rest);
        }
        let edges = walk.iter().map(|at| &edges[*at]);
        steps.extend(edges.filter_map(|edge| Some(Step::Move(edge.cable?, edge.to))));
        steps.extend(last.and_then(|edge| Some(Step::Plug(edge.cable?, edge.to))));
    }
    steps
}

/// A wrong cable, or a balance with outside.
#[derive(Debug, Clone, Copy)]
struct Edge {
    cable: Option<usize>,
    from: usize,
    to: usize,
}

/// Edges by connected component, in the order of their first bins.
fn components(edges: Vec<Edge>) -> Vec<Vec<Edge>> {
    let mut root: BTreeMap<usize, usize> = BTreeMap::new();
    fn find(root: &mut BTreeMap<usize, usize>, mut at: usize) -> usize {
        loop {
            let next = *root.entry(at).or_insert(at);
            if next == at {
                return at;
            }
            let far = *root.entry(next).or_insert(next);
            root.insert(at, far);
            at = far;
        }
    }
    for edge in &edges {
        let (a, b) = (find(&mut root, edge.from), find(&mut root, edge.to));
        root.insert(a.max(b), a.min(b));
    }
    let mut parts: BTreeMap<usize, Vec<Edge>> = BTreeMap::new();
    for edge in edges {
        parts.entry(find(&mut root, edge.from)).or_default().push(edge);
    }
    parts.into_values().collect()
}

/// An Euler circuit (Hierholzer) from a bin, each edge walked from its end to its beginning.
fn backwards(edges: &[Edge], start: usize) -> Vec<usize> {
    let mut into: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, edge) in edges.iter().enumerate().rev() {
        into.entry(edge.to).or_default().push(at);
    }
    let mut walk = Vec::with_capacity(edges.len());
    let mut stack: Vec<(usize, Option<usize>)> = vec![(start, None)];
    while let Some(&(bin, by)) = stack.last() {
        match into.get_mut(&bin).and_then(Vec::pop) {
            Some(edge) => stack.push((edges[edge].from, Some(edge))),
            None => {
                stack.pop();
                walk.extend(by);
            }
        }
    }
    walk.reverse();
    walk
}
