//! The ports of all switches under numbers.

use std::collections::BTreeMap;

use crate::{
    cluster::Cluster,
    model::{Name, Peer},
    storm::{self, Plane, PortId},
};

/// One port.
#[derive(Debug)]
pub(super) struct Port {
    switch: u32,
    name: Name,
    pub(super) peer: Peer,
}

/// All switches with their ports.
#[derive(Debug)]
pub(super) struct Net {
    /// By name.
    pub(super) switches: Vec<Name>,
    /// Sorted by switch and name.
    pub(super) ports: Vec<Port>,
    /// By switch: its first port, and the first of the next.
    bounds: Vec<usize>,
    pub(super) plane: Plane,
}

impl Net {
    /// Cabled ports alone; a cable whose other end is not planned leads to nobody, and its port is left out.
    pub(super) fn of(cluster: &Cluster<'_>) -> Self {
        let switches: Vec<Name> = cluster.names().filter_map(|name| Name::new(name).ok()).collect();
        let mut ports = Vec::new();
        for (switch, name) in (0..).zip(&switches) {
            let own = cluster.ports(name.as_str()).into_iter();
            ports.extend(own.map(|port| Port { switch, name: port.name, peer: port.peer }));
        }
        ports.sort_by(|a, b| (a.switch, &a.name).cmp(&(b.switch, &b.name)));
        let known = |ports: &[Port]| -> BTreeMap<(u32, String), PortId> {
            let at = |(index, port): (u32, &Port)| ((port.switch, port.name.to_string()), PortId(index));
            (0..).zip(ports).map(at).collect()
        };
        let numbered =
            |switch: &Name| switches.binary_search(switch).ok().and_then(|at| u32::try_from(at).ok());
        let mut all = known(&ports);
        let find = |all: &BTreeMap<(u32, String), PortId>, switch: &Name, port: &Name| {
            all.get(&(numbered(switch)?, port.to_string())).copied()
        };
        // One that is left out may be the other end of another.
        while all.len() > {
            ports.retain(|port| match &port.peer {
                Peer::Nic { .. } => true,
                Peer::Switch { switch, port } => find(&all, switch, port).is_some(),
            });
            ports.len()
        } {
            all = known(&ports);
        }
        let mut nics = 0;
        let mut planned = Vec::with_capacity(ports.len());
        for port in &ports {
            let peer = match &port.peer {
                Peer::Nic { .. } => {
                    nics += 1;
                    storm::Peer::Nic(nics - 1)
                }
                Peer::Switch { switch, port } => {
                    storm::Peer::Port(find(&all, switch, port).unwrap_or(PortId(0)))
                }
            };
            planned.push((port.switch, peer));
        }
        let first = |switch: usize| ports.partition_point(|port| (port.switch as usize) < switch);
        let bounds = (0..=switches.len()).map(first).collect();
        Net { plane: Plane::new(planned), switches, ports, bounds }
    }

    /// The number of a switch.
    pub(super) fn index(&self, switch: &str) -> Option<usize> {
        self.switches.binary_search_by(|own| own.as_str().cmp(switch)).ok()
    }

    /// The number of a port of a switch.
    pub(super) fn port(&self, switch: usize, name: &str) -> Option<PortId> {
        let own = &self.ports[self.bounds[switch]..self.bounds[switch + 1]];
        let found = own.binary_search_by(|port| port.name.as_str().cmp(name)).ok()?;
        u32::try_from(self.bounds[switch] + found).ok().map(PortId)
    }

    /// The ports of a switch.
    pub(super) fn of_switch(&self, switch: usize) -> impl Iterator<Item = PortId> + use<> {
        (self.bounds[switch]..self.bounds[switch + 1]).filter_map(|port| u32::try_from(port).ok().map(PortId))
    }

    /// The names of a port's switch and of the port.
    pub(super) fn name(&self, port: PortId) -> (&str, &str) {
        let port = &self.ports[port.0 as usize];
        (self.switches[port.switch as usize].as_str(), port.name.as_str())
    }

    /// The name of a switch.
    pub(super) fn switch(&self, switch: u32) -> &str {
        self.switches[switch as usize].as_str()
    }
}
