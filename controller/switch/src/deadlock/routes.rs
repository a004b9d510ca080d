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

/// For each node the neighbours that it sends to. Nodes without a way have none.
pub(super) fn next_hops(network: &Network, to: usize, routing: Routing) -> Vec<Vec<usize>> {
    let mut hops = match routing {
        Routing::UpDown => up_down(network, to, &|at| network.alive(at).collect()),
        Routing::Shortest => shortest(network, to),
        Routing::Bounce => bounce(network, to),
    };
    for ((at, _), over) in network.routes.range((0, 0)..).filter(|((_, dest), _)| *dest == to) {
        let alive: Vec<usize> = network.alive(*at).filter(|near| over.contains(near)).collect();
        if !alive.is_empty() {
            hops[*at] = alive;
        }
    }
    hops[to].clear();
    hops
}

type Near<'a> = &'a dyn Fn(usize) -> Vec<usize>;

/// By distances over ways that go up and then down: first how far a node is by going down alone, then by going up first.
fn up_down(network: &Network, to: usize, near: Near<'_>) -> Vec<Vec<usize>> {
    let count = network.nodes.len();
    let tier = |at: usize| network.nodes[at].tier;
    let mut down = vec![FAR; count];
    down[to] = 0;
    let mut layer = vec![to];
    while !layer.is_empty() {
        let mut next = Vec::new();
        for at in layer {
            for above in near(at).into_iter().filter(|above| tier(*above) > tier(at)) {
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
        for above in near(at).into_iter().filter(|above| tier(*above) > tier(at)) {
            far[at] = far[at].min(far[above].saturating_add(1));
        }
    }
    let hops = |at: usize| {
        let closer = |next: &usize| {
            let (goes_down, left) = (tier(*next) < tier(at), far[at].saturating_sub(1));
            if goes_down { down[*next] == left && down[at] == far[at] } else { far[*next] == left }
        };
        if far[at] == FAR { Vec::new() } else { near(at).into_iter().filter(closer).collect() }
    };
    (0..count).map(hops).collect()
}

fn shortest(network: &Network, to: usize) -> Vec<Vec<usize>> {
    let mut far = vec![FAR; network.nodes.len()];
    far[to] = 0;
    let mut layer = vec![to];
    while !layer.is_empty() {
        let mut next = Vec::new();
        for at in layer {
            for near in network.alive(at) {
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
        far_at => network.alive(at).filter(|near| far[*near] == far_at - 1).collect(),
    };
    (0..far.len()).map(hops).collect()
}

fn bounce(network: &Network, to: usize) -> Vec<Vec<usize>> {
    let before = up_down(network, to, &|at| network.neighbours[at].iter().map(|(near, _)| *near).collect());
    let hops = |(at, before): (usize, Vec<usize>)| {
        let left: Vec<usize> = network.alive(at).filter(|near| before.contains(near)).collect();
        if left.is_empty() && !before.is_empty() { network.alive(at).collect() } else { left }
    };
    before.into_iter().enumerate().map(hops).collect()
}
