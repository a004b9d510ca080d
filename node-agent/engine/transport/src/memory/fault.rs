//! What can happen to memory rails, as data.

use std::time::Duration;

use node_agent_collective::RailCause;
use node_agent_collective::units::{Node, Rail};
use proto_random::mix;

/// Something that happens to the rails between two nodes, or to a node's port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A link goes down at both ends, and stays down; what is on it is lost.
    Cut {
        /// The node at one end of the link.
        a: Node,
        /// The node at the other end of the link.
        b: Node,
        /// Number of the rail that the link is on.
        rail: Rail,
        /// The cause that both ends get.
        cause: RailCause,
    },
    /// A link that was cut can be made again.
    Restore {
        /// The node at one end of the link.
        a: Node,
        /// The node at the other end of the link.
        b: Node,
        /// Number of the rail that the link is on.
        rail: Rail,
    },
    /// Nothing gets through in this direction any more, and nobody gets an event of it. What is sent waits, as in a kernel that
    /// repeats it, and arrives after [`Fault::Speak`], unless the link was closed before.
    Silence {
        /// The node that sends in this direction.
        from: Node,
        /// The node that receives in this direction.
        to: Node,
        /// Number of the rail that the link is on.
        rail: Rail,
    },
    /// The end of [`Fault::Silence`].
    Speak {
        /// The node that sends in this direction.
        from: Node,
        /// The node that receives in this direction.
        to: Node,
        /// Number of the rail that the link is on.
        rail: Rail,
    },
    /// Each frame in this direction takes a time up to `most`, by the seed and its number; the order stays.
    Delay {
        /// The node that sends in this direction.
        from: Node,
        /// The node that receives in this direction.
        to: Node,
        /// Number of the rail that the link is on.
        rail: Rail,
        /// The greatest delay that a frame can have.
        most: Duration,
    },
    /// A node's port loses its carrier: the node gets an event of it, its peers do not.
    PortDown {
        /// The node whose port it is.
        node: Node,
        /// Number of the rail that the port is on.
        rail: Rail,
    },
    /// The carrier is back.
    PortUp {
        /// The node whose port it is.
        node: Node,
        /// Number of the rail that the port is on.
        rail: Rail,
    },
}

impl Fault {
    /// What undoes this, if it lasts.
    #[must_use]
    pub fn undone(&self) -> Option<Fault> {
        match *self {
            Fault::Cut { a, b, rail, .. } => Some(Fault::Restore { a, b, rail }),
            Fault::Silence { from, to, rail } => Some(Fault::Speak { from, to, rail }),
            Fault::PortDown { node, rail } => Some(Fault::PortUp { node, rail }),
            Fault::Delay { from, to, rail, most } if most > Duration::ZERO => {
                Some(Fault::Delay { from, to, rail, most: Duration::ZERO })
            }
            _ => None,
        }
    }

    /// A script of `count` faults on random rails of random nodes by this seed, each undone later, for
    /// [`super::MemoryNet::script`]: a fault comes every `spacing` frames. Rail 0 is never touched, so that peers
    /// stay reachable.
    #[must_use]
    pub fn random(seed: u64, nodes: usize, rails: usize, count: usize, spacing: u64) -> Vec<(u64, Fault)> {
        let mut script = Vec::new();
        if nodes < 2 || rails < 2 {
            return script;
        }
        for i in 0..count as u64 {
            let draw = |what: u64, below: usize| (mix(seed ^ mix(i << 8 | what)) % below as u64) as usize;
            let from = draw(0, nodes) as Node;
            let to = ((usize::from(from) + 1 + draw(1, nodes - 1)) % nodes) as Node;
            let rail = 1 + draw(2, rails - 1) as Rail;
            let fault = match draw(3, 4) {
                0 => Fault::Cut { a: from, b: to, rail, cause: RailCause::Closed },
                1 => Fault::Silence { from, to, rail },
                2 => Fault::PortDown { node: from, rail },
                _ => Fault::Delay { from, to, rail, most: Duration::from_millis(1 + draw(4, 5) as u64) },
            };
            let after = (i + 1) * spacing;
            let end =
                fault.undone().map(|undone| (after + spacing / 2 + draw(5, 4) as u64 * spacing, undone));
            script.push((after, fault));
            script.extend(end);
        }
        script
    }
}
