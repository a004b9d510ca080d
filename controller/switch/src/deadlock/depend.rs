//! Which buffer waits for which.

use super::case::Network;
use super::graph::Graph;
use super::routes::{Routing, next_hops};

/// What the routes of a case make.
pub(super) struct Made {
    pub graph: Graph,
    /// Whether something turns from above back up.
    pub has_valley: bool,
}

/// Follows what each serving node sends to each destination.
pub(super) fn graph(network: &Network, routing: Routing) -> Made {
    let ports = Ports::new(network);
    let mut waits = WaitTable::new(network);
    let mut arrivals = Arrivals::default();
    let mut has_valley = false;
    for &to in network.destinations.iter().filter(|to| !network.nodes[**to].is_down) {
        let hops = next_hops(network, to, routing);
        arrivals.follow(network, &ports, &hops);
        for (at, hops) in hops.iter().enumerate().filter(|(_, hops)| !hops.is_empty()) {
            let came = &arrivals.came[at];
            has_valley = has_valley || turns_up(network, at, came, hops);
            waits.wait(network, &ports, at, came, hops);
        }
    }
    Made { graph: waits.graph, has_valley }
}

/// Whether what came over a port goes on over another. Nobody sends back to where it came from; another switch that is drawn as the same node is
/// another one.
fn goes_on(network: &Network, at: usize, from: usize, to: usize) -> bool {
    from != to || network.nodes[network.neighbours[at][to].0].is_many
}

/// Whether something that came from above goes up again.
fn turns_up(network: &Network, at: usize, came: &[usize], hops: &[usize]) -> bool {
    let is_above = |port: &&usize| {
        let near = network.neighbours[at][**port].0;
        network.nodes[near].tier > network.nodes[at].tier
    };
    let up: Vec<usize> = hops.iter().filter(is_above).copied().collect();
    let turns = |from: &usize| up.iter().any(|to| goes_on(network, at, *from, *to));
    !up.is_empty() && came.iter().filter(is_above).any(turns)
}

/// Numbers of all nodes' ports, and for each the neighbour's port that leads back.
struct Ports {
    first: Vec<usize>,
    back: Vec<usize>,
}

impl Ports {
    fn new(network: &Network) -> Self {
        let (mut first, mut back) = (Vec::new(), Vec::new());
        for (at, near) in network.neighbours.iter().enumerate() {
            first.push(back.len());
            let to_here = |(near, _): &(usize, bool)| {
                network.neighbours[*near].partition_point(|(other, _)| *other < at)
            };
            back.extend(near.iter().map(to_here));
        }
        Ports { first, back }
    }
}

/// What a node has begun to send to a destination.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sends {
    Nothing,
    /// All but over this port, over which alone something came.
    AllBut(usize),
    All,
}

/// Ports over which something for a destination comes in, by node.
#[derive(Default)]
struct Arrivals {
    came: Vec<Vec<usize>>,
    sends: Vec<Sends>,
    /// Ports that are to be followed, with their nodes.
    open: Vec<(usize, usize)>,
}

impl Arrivals {
    /// Follows what all serving nodes send.
    fn follow(&mut self, network: &Network, ports: &Ports, hops: &[Vec<usize>]) {
        self.came.resize_with(network.nodes.len(), Vec::new);
        self.came.iter_mut().for_each(Vec::clear);
        self.sends.clear();
        self.sends.resize(network.nodes.len(), Sends::Nothing);
        let serving = network.nodes.iter().enumerate().filter(|(_, node)| node.serves && !node.is_down);
        for (at, _) in serving {
            self.sends[at] = Sends::All;
            self.open.extend(hops[at].iter().map(|port| (at, *port)));
        }
        while let Some((from, port)) = self.open.pop() {
            let (at, back) = (network.neighbours[from][port].0, ports.back[ports.first[from] + port]);
            self.came[at].push(back);
            let is_back = |port: &usize| !goes_on(network, at, back, *port);
            match self.sends[at] {
                Sends::Nothing if hops[at].iter().any(is_back) => {
                    self.sends[at] = Sends::AllBut(back);
                    let others = hops[at].iter().filter(|port| !is_back(port));
                    self.open.extend(others.map(|port| (at, *port)));
                }
                Sends::Nothing => {
                    self.sends[at] = Sends::All;
                    self.open.extend(hops[at].iter().map(|port| (at, *port)));
                }
                Sends::AllBut(left) => {
                    self.sends[at] = Sends::All;
                    self.open.push((at, left));
                }
                Sends::All => {}
            }
        }
    }
}

/// Waits by the nodes as which they are noted.
struct WaitTable {
    graph: Graph,
    /// By port of a node: where the waits of what comes in over it begin, and which of the node's links it is.
    rows: Vec<usize>,
    locals: Vec<usize>,
    /// Waits of one node, word by word.
    words: Vec<(usize, u64)>,
}

impl WaitTable {
    fn new(network: &Network) -> Self {
        let mut near = vec![Vec::new(); network.nodes.len()];
        for (at, neighbours) in network.neighbours.iter().enumerate() {
            near[network.noted_as[at]].extend(neighbours.iter().map(|(near, _)| network.noted_as[*near]));
        }
        let graph = Graph::new(near);
        let noted = |node: usize| network.noted_as[node];
        let ports = network.neighbours.iter().enumerate();
        let ports = ports.flat_map(|(at, near)| near.iter().map(move |(near, _)| (noted(at), noted(*near))));
        let (rows, locals) = ports.map(|(at, near)| (graph.row(near, at), graph.local(at, near))).unzip();
        WaitTable { graph, rows, locals, words: Vec::new() }
    }

    /// All that came over these ports of a node waits for its hops.
    fn wait(&mut self, network: &Network, ports: &Ports, at: usize, came: &[usize], hops: &[usize]) {
        let first = ports.first[at];
        self.words.clear();
        for hop in hops {
            let (word, bit) = Graph::bit(self.locals[first + hop]);
            match self.words.last_mut() {
                Some((last, bits)) if *last == word => *bits |= bit,
                _ => self.words.push((word, bit)),
            }
        }
        for from in came {
            let row = self.rows[first + from];
            if hops.binary_search(from).is_ok() {
                for hop in hops.iter().filter(|to| goes_on(network, at, *from, **to)) {
                    self.graph.wait(row, Graph::bit(self.locals[first + hop]));
                }
            } else {
                self.words.iter().for_each(|word| self.graph.wait(row, *word));
            }
        }
    }
}
