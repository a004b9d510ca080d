//! Where switches send what is for a destination.

use super::case::Network;

/// By which rule switches route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// Up, then down, over as few switches as possible: BGP with one AS number for all switches of a tier above the leaves (and in a pod),
    /// so that no leaf carries what is not its own (RFC 7938, 5.2.1).
    UpDown,
    /// As few switches as possible, up and down as it comes: BGP with an AS number for every switch, or OSPF.
    Shortest,
    /// The moment after a failure: routes are those of before, and a switch whose ways are all gone sends to any neighbour that is left, but
    /// not back to where it came from (fast reroute).
    Bounce,
}

const FAR: u32 = u32::MAX;

/// For each node its ports to neighbours that it sends to, in order: indices of its neighbours. Nodes without a way have none.
pub(super) fn next_hops(network: &Network, to: usize, routing: Routing) -> Vec<Vec<usize>> {
    let mut hops = match routing {
        Routing::UpDown => up_down(network, to, Links::Working),
        Routing::Shortest => shortest(network, to),
        Routing::Bounce => bounce(network, to),
    };
    for ((at, _), over) in network.routes.range((0, 0)..).filter(|((_, dest), _)| *dest == to) {
        let alive = Links::Working.of(network, *at).filter(|(_, near)| over.contains(near));
        let alive: Vec<usize> = alive.map(|(port, _)| port).collect();
        if !alive.is_empty() {
            hops[*at] = alive;
        }
    }
    hops[to].clear();
    hops
}

/// Which links count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    /// Those that work.
    Working,
    /// All, as before anything failed.
    All,
}

impl Links {
    /// Ports of a node and the neighbours behind them.
    fn of(self, network: &Network, at: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let ports = network.neighbours[at].iter().enumerate();
        let ports = ports.filter(move |(_, (_, works))| *works || self == Links::All);
        ports.map(|(port, (near, _))| (port, *near))
    }
}

/// By distances over ways that go up and then down: first how far a node is by going down alone, then by going up first.
fn up_down(network: &Network, to: usize, links: Links) -> Vec<Vec<usize>> {
    let count = network.nodes.len();
    let tier = |at: usize| network.nodes[at].tier;
    let above =
        |at: usize| links.of(network, at).map(|(_, near)| near).filter(move |near| tier(*near) > tier(at));
    let mut down = vec![FAR; count];
    down[to] = 0;
    let mut layer = vec![to];
    while !layer.is_empty() {
        let mut next = Vec::new();
        for at in layer {
            for above in above(at) {
                if down[above] == FAR {
                    down[above] = down[at] + 1;
                    next.push(above);
                }
            }
        }
        layer = next;
    }
    let mut far = down.clone();
    let mut order: Vec<usize> = (0..count).collect();
    // From the top: who is above is known before who is below.
    order.sort_by_key(|at| std::cmp::Reverse(tier(*at)));
    for &at in &order {
        for above in above(at) {
            far[at] = far[at].min(far[above].saturating_add(1));
        }
    }
    let hops = |at: usize| {
        let closer = |(_, next): &(usize, usize)| {
            let (goes_down, left) = (tier(*next) < tier(at), far[at].saturating_sub(1));
            if goes_down { down[*next] == left && down[at] == far[at] } else { far[*next] == left }
        };
        if far[at] == FAR {
            Vec::new()
        } else {
            links.of(network, at).filter(closer).map(|(port, _)| port).collect()
        }
    };
    (0..count).map(hops).collect()
}

fn shortest(network: &Network, to: usize) -> Vec<Vec<usize>> {
    let near = |at: usize| Links::Working.of(network, at);
    let mut far = vec![FAR; network.nodes.len()];
    far[to] = 0;
    let mut layer = vec![to];
    while !layer.is_empty() {
        let mut next = Vec::new();
        for at in layer {
            for (_, near) in near(at) {
                if far[near] == FAR {
                    far[near] = far[at] + 1;
                    next.push(near);
                }
            }
        }
        layer = next;
    }
    let hops = |at: usize| match far[at] {
        0 | FAR => Vec::new(),
        far_at => near(at).filter(|(_, near)| far[*near] == far_at - 1).map(|(port, _)| port).collect(),
    };
    (0..far.len()).map(hops).collect()
}

fn bounce(network: &Network, to: usize) -> Vec<Vec<usize>> {
    let before = up_down(network, to, Links::All);
    let hops = |(at, before): (usize, Vec<usize>)| {
        let works = |port: &usize| network.neighbours[at][*port].1;
        let left: Vec<usize> = before.iter().copied().filter(works).collect();
        if left.is_empty() && !before.is_empty() {
            Links::Working.of(network, at).map(|(port, _)| port).collect()
        } else {
            left
        }
    };
    before.into_iter().enumerate().map(hops).collect()
}
