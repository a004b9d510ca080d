//! The cables of the document against those that are there.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, NodeName};

use crate::{
    lldp::Neighbor,
    moves::{self, Cable},
    natural,
};

/// One end at a switch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// Name of the switch.
    pub switch: String,
    /// Its port; may be empty in a document.
    pub port: String,
}

/// A cable that is not where the document has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The server at the cable's other end.
    pub node: NodeName,
    /// The server's NIC, as the document names it.
    pub nic: String,
    /// The switch's end of the cable in the document.
    pub planned: End,
    /// The switch's end of the cable as the server hears it.
    pub seen: End,
}

/// One thing to do with one cable's end at a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The server at the cable's other end.
    pub node: NodeName,
    /// The server's NIC that the cable is plugged into.
    pub nic: String,
    /// Where it is; `None` if it hangs since a step before.
    pub from: Option<End>,
    /// Where it goes; `None`: leave it hanging.
    pub to: Option<End>,
}

/// What differs, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Cables of the document.
    pub planned: usize,
    /// Those that are where they belong.
    pub right: usize,
    /// On the right leaf, but on another port than the document says.
    pub other_port: Vec<Wrong>,
    /// On another leaf; with `exact`, also those on another port.
    pub wrong: Vec<Wrong>,
    /// NICs that hear nothing, of servers that hear something.
    pub silent: Vec<(NodeName, String)>,
    /// Servers that hear nothing at all.
    pub silent_nodes: Vec<NodeName>,
    /// Heard on NICs that the document does not cable, from switches that it has.
    pub unplanned: Vec<Neighbor>,
    /// Heard on such NICs from other switches: other networks, which are none of the document's business.
    pub foreign: usize,
    /// The fewest steps that put every cable heard of where it belongs; see [`crate::moves`] for what fewest means.
    /// The port of a silent NIC counts as taken. Ports that neither the document nor LLDP names are not used.
    pub moves: Vec<Move>,
}

impl Verdict {
    /// Whether every cable of the document is there.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.right + self.other_port.len() == self.planned && self.unplanned.is_empty()
    }
}

/// A cable of which both where it is and what is planned for it may be known.
struct Seen<'a> {
    node: &'a NodeName,
    nic: &'a str,
    at: End,
    to: Option<End>,
}

/// Compares. With `exact` the leaf's port matters, else only the leaf.
#[must_use]
pub fn verify(fabric: &Fabric, heard: &[Neighbor], exact: bool) -> Verdict {
    let mut planned: Vec<(NodeName, String, End)> = fabric
        .each_link()
        .filter(|link| !link.down)
        .map(|link| (link.node, link.nic, End { switch: link.leaf, port: link.port }))
        .collect();
    planned.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    let mut verdict = Verdict { planned: planned.len(), ..Verdict::default() };
    let switches = Switches::of(fabric);
    let mut found: Vec<(&NodeName, &str, End)> = heard
        .iter()
        .map(|one| {
            let end = End { switch: switches.known(&one.switch), port: one.port.clone() };
            (&one.node, one.nic.as_str(), end)
        })
        .collect();
    found.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let speaking: BTreeSet<&NodeName> = heard.iter().map(|neighbor| &neighbor.node).collect();
    let (mut seen, mut silent, mut rest) = (Vec::new(), Vec::new(), &found[..]);
    for cables in planned.chunk_by(|a, b| (&a.0, &a.1) == (&b.0, &b.1)) {
        let (node, nic) = (&cables[0].0, cables[0].1.as_str());
        rest = &rest[rest.iter().take_while(|one| (one.0, one.1) < (node, nic)).count()..];
        let own = rest.iter().take_while(|one| (one.0, one.1) == (node, nic));
        let own: Vec<End> = own.map(|(.., end)| end.clone()).collect();
        let ends: Vec<End> = cables.iter().map(|(.., end)| end.clone()).collect();
        let (pairs, missing) = paired(&ends, &own);
        for (to, at) in pairs {
            sort_in(&mut verdict, node, nic, &to, &at, exact);
            seen.push(Seen { node, nic, at, to: Some(to) });
        }
        for end in missing {
            silent.push(end);
            if speaking.contains(node) {
                verdict.silent.push((node.clone(), nic.to_owned()));
            } else if verdict.silent_nodes.last() != Some(node) {
                verdict.silent_nodes.push(node.clone());
            }
        }
    }
    let mut rest = &planned[..];
    for ends in found.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (node, nic) = (ends[0].0, ends[0].1);
        rest = &rest[rest.iter().take_while(|one| (&one.0, one.1.as_str()) < (node, nic)).count()..];
        let cables = rest.iter().take_while(|one| (&one.0, one.1.as_str()) == (node, nic)).count();
        for (.., at) in ends.iter().skip(cables) {
            if switches.names.contains(at.switch.as_str()) {
                let (switch, port) = (at.switch.clone(), at.port.clone());
                verdict.unplanned.push(Neighbor { node: node.clone(), nic: nic.to_owned(), switch, port });
                seen.push(Seen { node, nic, at: at.clone(), to: None });
            } else {
                verdict.foreign += 1;
            }
        }
    }
    // Where nothing is in a wrong place nothing moves, however large the fabric is.
    if !(verdict.wrong.is_empty() && verdict.unplanned.is_empty()) {
        verdict.moves = if exact { by_port(seen) } else { by_leaf(fabric, &seen, &silent) };
    }
    verdict
}

fn sort_in(verdict: &mut Verdict, node: &NodeName, nic: &str, to: &End, at: &End, exact: bool) {
    let wrong = || Wrong { node: node.clone(), nic: nic.to_owned(), planned: to.clone(), seen: at.clone() };
    if same(to, at) {
        verdict.right += 1;
    } else if to.switch == at.switch && !exact {
        verdict.other_port.push(wrong());
    } else {
        verdict.wrong.push(wrong());
    }
}

/// A document that does not name the port takes any.
fn same(to: &End, at: &End) -> bool {
    to.switch == at.switch && (to.port.is_empty() || to.port == at.port)
}

/// The planned ends of one NIC with those seen: right ones first, then those on the right leaf, then as they come. And
/// the planned ends for which none is left.
fn paired(planned: &[End], seen: &[End]) -> (Vec<(End, End)>, Vec<End>) {
    let (mut planned, mut seen) = (planned.to_vec(), seen[..seen.len().min(planned.len())].to_vec());
    let mut pairs = Vec::new();
    let fits: [fn(&End, &End) -> bool; 3] = [same, |to, at| to.switch == at.switch, |_, _| true];
    for fit in fits {
        planned.retain(|to| match seen.iter().position(|at| fit(to, at)) {
            Some(place) => {
                pairs.push((to.clone(), seen.remove(place)));
                false
            }
            None => true,
        });
    }
    (pairs, planned)
}

/// The document's leaves, and what switches call themselves: the same, with another case, or without the domain.
struct Switches<'a> {
    names: BTreeSet<&'a str>,
    plain: BTreeMap<String, Option<&'a str>>,
}

impl<'a> Switches<'a> {
    fn of(fabric: &'a Fabric) -> Self {
        let names: BTreeSet<&str> = fabric.leaves.iter().map(|leaf| leaf.name.as_str()).collect();
        let mut plain: BTreeMap<String, Option<&str>> = BTreeMap::new();
        for name in &names {
            for short in [name.to_ascii_lowercase(), host(name)] {
                // A short name of two leaves is the name of neither.
                let known = plain.entry(short).or_insert(Some(name));
                if *known != Some(name) {
                    *known = None;
                }
            }
        }
        Self { names, plain }
    }

    fn known(&self, reported: &str) -> String {
        let near = || {
            [reported.to_ascii_lowercase(), host(reported)].iter().find_map(|short| *self.plain.get(short)?)
        };
        if self.names.contains(reported) {
            reported.to_owned()
        } else {
            near().unwrap_or(reported).to_owned()
        }
    }
}

fn host(name: &str) -> String {
    name.split('.').next().unwrap_or(name).to_ascii_lowercase()
}

/// Every port is a bin of one.
fn by_port(mut seen: Vec<Seen<'_>>) -> Vec<Move> {
    // An end without a port is right wherever it is on its leaf.
    let target = |one: &Seen<'_>| {
        one.to.as_ref().map(|to| if same(to, &one.at) { one.at.clone() } else { to.clone() })
    };
    let is_right = |one: &Seen<'_>| one.to.as_ref().is_some_and(|to| same(to, &one.at));
    // Cables that are right matter where they are in the way of others.
    let ends: BTreeSet<End> = seen
        .iter()
        .filter(|one| !is_right(one))
        .flat_map(|one| [Some(one.at.clone()), target(one)])
        .flatten()
        .collect();
    seen.retain(|one| !is_right(one) || ends.contains(&one.at));
    let ends: Vec<End> = ends.into_iter().collect();
    let bin = |end: &End| ends.binary_search(end).unwrap_or(0);
    let cables: Vec<Cable> =
        seen.iter().map(|one| Cable { at: bin(&one.at), to: target(one).map(|to| bin(&to)) }).collect();
    let steps = moves::fewest(&vec![1; ends.len()], &cables);
    let mut at: Vec<Option<End>> = seen.iter().map(|one| Some(one.at.clone())).collect();
    steps
        .into_iter()
        .map(|step| {
            let (cable, to) = match step {
                moves::Step::Move(cable, to) | moves::Step::Plug(cable, to) => {
                    (cable, Some(ends[to].clone()))
                }
                moves::Step::Unplug(cable) => (cable, None),
            };
            let from = std::mem::replace(&mut at[cable], to.clone());
            Move { node: seen[cable].node.clone(), nic: seen[cable].nic.to_owned(), from, to }
        })
        .collect()
}

/// Every leaf is a bin of as many ports as the document and LLDP name; a port is chosen for each step.
fn by_leaf(fabric: &Fabric, seen: &[Seen<'_>], silent: &[End]) -> Vec<Move> {
    let mut leaves: BTreeSet<&str> = fabric.leaves.iter().map(|leaf| leaf.name.as_str()).collect();
    leaves.extend(seen.iter().map(|one| one.at.switch.as_str()));
    let leaves: Vec<&str> = leaves.into_iter().collect();
    let bin = |switch: &str| leaves.binary_search(&switch).unwrap_or(0);
    let mut known: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); leaves.len()];
    for end in seen.iter().flat_map(|one| [Some(&one.at), one.to.as_ref()]).flatten().chain(silent) {
        if !end.port.is_empty() {
            known[bin(&end.switch)].insert(&end.port);
        }
    }
    let mut taken: Vec<BTreeSet<String>> = vec![BTreeSet::new(); leaves.len()];
    for one in seen {
        taken[bin(&one.at.switch)].insert(one.at.port.clone());
    }
    let mut ports: Vec<usize> = known.iter().map(BTreeSet::len).collect();
    for end in silent {
        let bin = bin(&end.switch);
        // Where another cable is heard on its port, the silent one is not there.
        if taken[bin].insert(end.port.clone()) {
            ports[bin] = ports[bin].saturating_sub(1);
        }
    }
    let cables: Vec<Cable> = seen
        .iter()
        .map(|one| Cable { at: bin(&one.at.switch), to: one.to.as_ref().map(|to| bin(&to.switch)) })
        .collect();
    let steps = moves::fewest(&ports, &cables);
    let mut at: Vec<Option<End>> = seen.iter().map(|one| Some(one.at.clone())).collect();
    let mut moves = Vec::new();
    for step in steps {
        let (cable, to) = match step {
            moves::Step::Move(cable, to) | moves::Step::Plug(cable, to) => (cable, Some(to)),
            moves::Step::Unplug(cable) => (cable, None),
        };
        let from = at[cable].take();
        if let Some(from) = &from {
            taken[bin(&from.switch)].remove(&from.port);
        }
        let to = to.map(|bin| {
            let planned = seen[cable].to.as_ref().map_or("", |to| &to.port);
            let mut free: Vec<&str> =
                known[bin].iter().copied().filter(|port| !taken[bin].contains(*port)).collect();
            free.sort_by(|a, b| natural::compare(a, b));
            let port =
                if free.contains(&planned) { planned } else { free.first().copied().unwrap_or_default() };
            taken[bin].insert(port.to_owned());
            End { switch: leaves[bin].to_owned(), port: port.to_owned() }
        });
        at[cable].clone_from(&to);
        moves.push(Move { node: seen[cable].node.clone(), nic: seen[cable].nic.to_owned(), from, to });
    }
    moves
}
