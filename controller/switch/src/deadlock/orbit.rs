//! Which switches are alike, so that failures that are alike are looked at once, and alike switches are drawn as one.
//!
//! Two switches of one tier with the same neighbours can change places and nothing else changes. Two failures touch four switches at
//! most, so that whatever fails is like something that fails among the first four of each class of alike switches. Switches that
//! nothing has touched stay alike: they are drawn as one node. A cycle of the fabric is then a cycle of the drawing, too, so that a drawing
//! without a cycle is a proof; the other direction does not hold.

use std::collections::{BTreeMap, BTreeSet};

use super::case::{Network, Node};
use super::fabric::{Fabric, Failure};

/// Members of a class that what has failed sets apart, at most.
const APART: usize = 4;

/// The classes of alike switches.
pub(super) struct Classes {
    /// By switch.
    class: Vec<usize>,
    /// By class, in the order of their indices.
    members: Vec<Vec<usize>>,
}

impl Classes {
    pub fn of(fabric: &Fabric) -> Self {
        let named: BTreeSet<usize> =
            fabric.routes().iter().flat_map(|route| [route.at, route.to, route.over]).collect();
        let mut known = BTreeMap::new();
        let (mut class, mut members) = (Vec::new(), Vec::new());
        for (index, switch) in fabric.switches().iter().enumerate() {
            let mut near: Vec<usize> = fabric.neighbours(index).iter().map(|(near, _)| *near).collect();
            near.sort_unstable();
            // Who is named by a route set by hand is like nobody.
            let alone = named.contains(&index).then_some(index);
            let id = *known.entry((switch.tier, switch.serves, alone, near)).or_insert(members.len());
            if id == members.len() {
                members.push(Vec::new());
            }
            members[id].push(index);
            class.push(id);
        }
        Classes { class, members }
    }
}

/// Sets of at most so many failures, each unlike the others, the smallest first. Two failures in parts of the fabric that are not connected are
/// left out: each of them alone is looked at.
pub(super) fn cases<'a>(
    fabric: &'a Fabric,
    classes: &'a Classes,
    failures: u8,
) -> Box<dyn Iterator<Item = Vec<Failure>> + 'a> {
    let first: BTreeSet<usize> =
        classes.members.iter().flat_map(|members| members.iter().take(APART).copied()).collect();
    let links = fabric.links().iter().enumerate();
    let links = links.filter(|(_, (a, b))| first.contains(a) && first.contains(b));
    let mut things: Vec<Failure> = links.map(|(link, _)| Failure::Link(link)).collect();
    things.extend(first.iter().map(|switch| Failure::Switch(*switch)));
    let part = fabric.parts();
    let place = move |failure: &Failure| match failure {
        Failure::Link(link) => part[fabric.links()[*link].0],
        Failure::Switch(switch) => part[*switch],
    };
    let places: Vec<usize> = things.iter().map(place).collect();
    let singles: Vec<Vec<Failure>> = things.iter().map(|thing| vec![*thing]).collect();
    let pairs = (0..things.len()).flat_map({
        let (things, places) = (things.clone(), places.clone());
        move |one| {
            let (things, places) = (things.clone(), places.clone());
            let later = one + 1..things.len();
            later
                .filter(move |other| places[one] == places[*other])
                .map(move |other| vec![things[one], things[other]])
        }
    });
    let singles = singles.into_iter().filter(move |_| failures >= 1);
    let pairs = pairs.take_while(move |_| failures >= 2);
    let mut seen = BTreeSet::new();
    let unlike = move |case: &Vec<Failure>| seen.insert(likeness(fabric, classes, case));
    Box::new(std::iter::once(Vec::new()).chain(singles).chain(pairs).filter(unlike))
}

/// The same for failures that are alike.
fn likeness(fabric: &Fabric, classes: &Classes, failures: &[Failure]) -> Vec<usize> {
    let written = |order: &[Failure]| {
        let mut met: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut text = Vec::new();
        for failure in order {
            let (kind, switches) = match failure {
                Failure::Link(link) => (0, vec![fabric.links()[*link].0, fabric.links()[*link].1]),
                Failure::Switch(switch) => (1, vec![*switch]),
            };
            text.push(kind);
            for switch in switches {
                let class = classes.class[switch];
                let of = met.entry(class).or_default();
                let number = of.iter().position(|known| *known == switch).unwrap_or(of.len());
                if number == of.len() {
                    of.push(switch);
                }
                text.extend([class, number]);
            }
        }
        text
    };
    let reversed: Vec<Failure> = failures.iter().rev().copied().collect();
    written(failures).min(written(&reversed))
}

/// The fabric with alike switches that nothing has touched drawn as one. Of a class that serves, one switch is drawn apart, as the destination
/// that stands for all of them; what waits for it is noted as waiting for the class (`drawn_as`).
pub(super) fn quotient(fabric: &Fabric, classes: &Classes, failures: &[Failure]) -> Network {
    let touched: BTreeSet<usize> = failures
        .iter()
        .flat_map(|failure| match failure {
            Failure::Link(link) => vec![fabric.links()[*link].0, fabric.links()[*link].1],
            Failure::Switch(switch) => vec![*switch],
        })
        .collect();
    let mut drawing = Drawing::default();
    drawing.node_of.resize(fabric.switches().len(), usize::MAX);
    for members in &classes.members {
        let mut rest = Vec::with_capacity(members.len());
        for &member in members {
            if touched.contains(&member) {
                drawing.draw(&[member], None);
            } else {
                rest.push(member);
            }
        }
        let serves = fabric.switches()[members[0]].serves;
        if serves && rest.len() > 1 {
            let apart = drawing.draw(&rest[..1], None);
            drawing.draw(&rest[1..], Some(apart));
        } else if !rest.is_empty() {
            drawing.draw(&rest, None);
        }
    }
    drawing.network(fabric, failures)
}

#[derive(Default)]
struct Drawing {
    node_of: Vec<usize>,
    /// By node: the switch that stands for it, how many it is, and as which node it is noted.
    nodes: Vec<(usize, usize, usize)>,
}

impl Drawing {
    fn draw(&mut self, switches: &[usize], noted_as: Option<usize>) -> usize {
        let node = self.nodes.len();
        self.nodes.push((switches[0], switches.len(), noted_as.unwrap_or(node)));
        for switch in switches {
            self.node_of[*switch] = node;
        }
        node
    }

    fn network(self, fabric: &Fabric, failures: &[Failure]) -> Network {
        let down = |failure| failures.contains(&failure);
        let node = |(switch, count, _): &(usize, usize, usize)| Node {
            tier: fabric.switches()[*switch].tier,
            serves: fabric.switches()[*switch].serves,
            is_many: *count > 1,
            is_down: down(Failure::Switch(*switch)),
        };
        let nodes: Vec<Node> = self.nodes.iter().map(node).collect();
        let near = |at: usize| {
            let mut near: Vec<(usize, bool)> = fabric
                .neighbours(self.nodes[at].0)
                .iter()
                .map(|&(switch, link)| {
                    let to = self.node_of[switch];
                    (to, !(down(Failure::Link(link)) || nodes[at].is_down || nodes[to].is_down))
                })
                .collect();
            near.sort_unstable();
            near.dedup();
            near
        };
        let neighbours = (0..nodes.len()).map(near).collect();
        let drawn = |switch: usize| self.node_of[switch];
        let routes = fabric
            .static_routes()
            .into_iter()
            .map(|((at, to), over)| ((drawn(at), drawn(to)), over.into_iter().map(drawn).collect()));
        // Of a class that is drawn as two nodes, the first is the one switch that is looked at.
        let looked_at = |at: &usize| nodes[*at].serves && self.nodes[*at].2 == *at;
        let destinations = (0..nodes.len()).filter(looked_at).collect();
        let noted_as = self.nodes.iter().map(|(_, _, noted_as)| *noted_as).collect();
        Network { routes: routes.collect(), nodes, neighbours, destinations, noted_as }
    }
}
