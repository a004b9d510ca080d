//! Fabrics made to measure, for tests and benches: pods of leaves, one for each rail, under common spines.

use crate::{
    asic::Asic,
    model::{Name, Nos, NotAName, Peer, Port, Role, Switch},
};

/// What a fabric is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// What all its names begin with.
    pub prefix: String,
    /// Number of servers.
    pub servers: u32,
    /// NICs of each, one on each rail.
    pub rails: u32,
    /// Servers of a pod: NICs that a leaf serves.
    pub servers_per_pod: u32,
    /// Number of spines; each has a cable to each leaf.
    pub spines: u32,
    /// Speed of all ports in Gbit/s.
    pub speed: u32,
    /// Length of cables to servers in metres.
    pub nic_cable_m: u16,
    /// Length of cables to spines in metres.
    pub spine_cable_m: u16,
    /// ASIC of all switches.
    pub asic: Asic,
    /// Their operating system.
    pub nos: Nos,
}

impl Default for Shape {
    /// 1,024 servers with 8 rails: 128 leaves of 64 servers each.
    fn default() -> Self {
        Self {
            prefix: String::new(),
            servers: 1024,
            rails: 8,
            servers_per_pod: 64,
            spines: 16,
            speed: 400,
            nic_cable_m: 5,
            spine_cable_m: 40,
            asic: Asic::Spectrum4,
            nos: Nos::Sonic,
        }
    }
}

impl Shape {
    fn port_name(&self, at: u32) -> Result<Name, NotAName> {
        self.nos.port_name(at, 4)
    }

    fn leaf_name(&self, pod: u32, rail: u32) -> Result<Name, NotAName> {
        Name::new(&format!("{}leaf-p{pod}-r{rail}", self.prefix))
    }

    fn spine_name(&self, spine: u32) -> Result<Name, NotAName> {
        Name::new(&format!("{}spine{spine}", self.prefix))
    }

    fn port(&self, at: u32, cable_m: u16, peer: Peer) -> Result<Port, NotAName> {
        let first = u16::try_from(at * 4).unwrap_or(u16::MAX - 4);
        Ok(Port {
            name: self.port_name(at)?,
            lanes: (first..first + 4).collect(),
            speed: Some(self.speed),
            optics: String::new(),
            cable_m,
            peer,
        })
    }

    fn switch(&self, name: Name, role: Role, ports: Vec<Port>) -> Switch {
        Switch {
            name,
            nos: self.nos,
            version: String::new(),
            asic: self.asic,
            role,
            rails: (0..self.rails).collect(),
            pod: None,
            plane: 0,
            loopback: None,
            asn: None,
            ports,
        }
    }

    fn pods(&self) -> u32 {
        self.servers.div_ceil(self.servers_per_pod.max(1))
    }

    fn leaf(&self, pod: u32, rail: u32) -> Result<Switch, NotAName> {
        let first = pod * self.servers_per_pod;
        let servers = self.servers_per_pod.min(self.servers.saturating_sub(first));
        let mut ports = Vec::new();
        for at in 0..servers {
            let server = Name::new(&format!("{}n{}", self.prefix, first + at))?;
            let nic = Name::new(&format!("mlx5_{rail}"))?;
            ports.push(self.port(at, self.nic_cable_m, Peer::Nic { server, nic, rail })?);
        }
        for spine in 0..self.spines {
            let peer = Peer::Switch {
                switch: self.spine_name(spine)?,
                port: self.port_name(pod * self.rails + rail)?,
            };
            ports.push(self.port(servers + spine, self.spine_cable_m, peer)?);
        }
        let switch = self.switch(self.leaf_name(pod, rail)?, Role::Leaf, ports);
        let pod = Some(Name::new(&format!("{}pod{pod}", self.prefix))?);
        Ok(Switch { rails: vec![rail], pod, ..switch })
    }

    fn spine(&self, spine: u32) -> Result<Switch, NotAName> {
        let mut ports = Vec::new();
        for leaf in 0..self.pods() * self.rails {
            let (pod, rail) = (leaf / self.rails, leaf % self.rails);
            let servers = self.servers_per_pod.min(self.servers.saturating_sub(pod * self.servers_per_pod));
            let peer =
                Peer::Switch { switch: self.leaf_name(pod, rail)?, port: self.port_name(servers + spine)? };
            ports.push(self.port(leaf, self.spine_cable_m, peer)?);
        }
        Ok(self.switch(self.spine_name(spine)?, Role::Spine(1), ports))
    }

    /// The switches of such a fabric, leaves first.
    ///
    /// # Errors
    /// [`NotAName`] where the prefix makes a name that is none.
    pub fn switches(&self) -> Result<Vec<Switch>, NotAName> {
        let leaves = (0..self.pods()).flat_map(|pod| (0..self.rails).map(move |rail| (pod, rail)));
        let leaves = leaves.map(|(pod, rail)| self.leaf(pod, rail));
        leaves.chain((0..self.spines).map(|spine| self.spine(spine))).collect()
    }
}
