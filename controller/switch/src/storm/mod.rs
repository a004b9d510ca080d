//! Who started a pause storm, from what both ends of cables count; and what else the counters of both ends say together.
//!
//! A port that is told to pause fills its switch's buffers, and its switch tells others to pause: one NIC that pauses for ever stops a fabric (Guo et
//! al., "RDMA over Commodity Ethernet at Scale", SIGCOMM 2016). Whose pauses are explained by its own being paused has not started it. [`judge`]
//! walks from each port that is stopped to the one whose pauses nothing explains.
//!
//! What counts is the time that a port was paused, not the number of frames: a frame pauses for 65,535 quanta of 512 bits at most, 84 µs at
//! 400 Gbit/s, and is renewed or not. What could not be read explains nothing and accuses nobody.

mod bench;
mod interval;
mod join;
mod judge;
mod model;
#[cfg(test)]
mod tests;

pub use bench::{Month, Storms, month, storms};
pub use interval::{Counter, Interval, Reading, Watch};
pub use join::{Both, Join, join};
pub use judge::{Action, Cause, Verdict, judge};

/// A port of a switch, in its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

/// What is at the other end of a port's cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A NIC, by its index.
    Nic(u32),
    /// A port of another switch.
    Port(PortId),
}

/// Ports of all switches of one plane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plane {
    /// By port: its switch, and what is at the other end.
    ports: Vec<(u32, Peer)>,
    /// By switch: its ports.
    of: Vec<Vec<PortId>>,
    /// By switch: how many switches are between it and the nearest NIC.
    tiers: Vec<u32>,
}

impl Plane {
    /// A plane with these ports, each with the number of its switch.
    #[must_use]
    pub fn new(ports: Vec<(u32, Peer)>) -> Self {
        let switches = ports.iter().map(|(switch, _)| *switch as usize + 1).max().unwrap_or(0);
        let mut of = vec![Vec::new(); switches];
        for (index, (switch, _)) in (0..).zip(&ports) {
            of[*switch as usize].push(PortId(index));
        }
        let mut tiers = vec![u32::MAX; switches];
        let leaf = |port: &PortId| matches!(ports[port.0 as usize].1, Peer::Nic(_));
        let mut layer: Vec<usize> = (0..switches).filter(|switch| of[*switch].iter().any(leaf)).collect();
        let mut tier = 0;
        while !layer.is_empty() {
            let mut next = Vec::new();
            for switch in layer {
                if tiers[switch] != u32::MAX {
                    continue;
                }
                tiers[switch] = tier;
                let peers = of[switch].iter().filter_map(|port| match ports[port.0 as usize].1 {
                    Peer::Port(there) => Some(ports[there.0 as usize].0 as usize),
                    Peer::Nic(_) => None,
                });
                next.extend(peers);
            }
            next.retain(|switch| tiers[*switch] == u32::MAX);
            (layer, tier) = (next, tier + 1);
        }
        Plane { ports, of, tiers }
    }

    /// How many ports there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ports.len()
    }

    /// There is no port.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// All ports.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..u32::try_from(self.ports.len()).unwrap_or(u32::MAX)).map(PortId)
    }

    /// The switch of a port.
    #[must_use]
    pub fn switch(&self, port: PortId) -> u32 {
        self.ports[port.0 as usize].0
    }

    /// What is at the other end.
    #[must_use]
    pub fn peer(&self, port: PortId) -> Peer {
        self.ports[port.0 as usize].1
    }

    /// The port leads to a switch that is further from the NICs.
    #[must_use]
    pub fn is_up(&self, port: PortId) -> bool {
        let tier = |port: PortId| self.tiers[self.switch(port) as usize];
        matches!(self.peer(port), Peer::Port(there) if tier(there) > tier(port))
    }

    /// The ports of the same switch, this one included.
    #[must_use]
    pub fn beside(&self, port: PortId) -> &[PortId] {
        &self.of[self.switch(port) as usize]
    }
}
