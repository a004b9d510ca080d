//! Switches of a fabric document. The document names ports of leaves where it knows them and none of cables between switches: what it does
//! not name takes the next free port, in the document's order, so that the same document always gives the same ports. What hardware it is
//! the document does not say; that is given.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, Leaf, Link, Spine};
use thiserror::Error;

use crate::{
    asic::Asic,
    model::{Name, Nos, NotAName, Peer, Port, Role, Switch},
};

/// No switch has more ports.
pub(crate) const PORTS_MAX: u32 = 1024;

/// What the document does not say, the same for all switches of a tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    /// The operating system.
    pub nos: Nos,
    /// Its version; empty where it is not known.
    pub version: String,
    /// The ASIC.
    pub asic: Asic,
    /// Lanes of a port.
    pub lanes: u8,
    /// Length of cables to what is below, in metres.
    pub cable_m: u16,
}

/// What is wrong with the document for this purpose.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Finding {
    /// A name that no configuration can hold.
    #[error("{0}")]
    Name(#[from] NotAName),
    /// A cable to a switch that is not there.
    #[error("{from}: is cabled to {to}, which the document has not")]
    Nowhere {
        /// What is cabled.
        from: String,
        /// The switch that is not there.
        to: String,
    },
    /// Headroom and marking follow from speed.
    #[error("{from} to {to}: the document does not say how fast the cable is")]
    NoSpeed {
        /// One end.
        from: String,
        /// The other end.
        to: String,
    },
    /// Two cables in one port.
    #[error("{switch} {port}: two cables are in this port")]
    PortTwice {
        /// The switch.
        switch: Name,
        /// The port.
        port: Name,
    },
    /// More cables than any switch has ports.
    #[error("{0}: has more than {PORTS_MAX} cables")]
    TooMany(Name),
    /// Each of two switches is above the other.
    #[error("uplinks go round in a circle by way of {0}")]
    Circle(String),
}

/// A spine's role by the tiers of a document.
pub(crate) fn spine_role(spine: &Spine, tiers: &BTreeMap<&str, u8>) -> Role {
    Role::Spine(tiers.get(spine.name.as_str()).copied().unwrap_or(1))
}

/// Switches that are being put together.
pub(crate) struct Draft<'a> {
    hardware: &'a dyn Fn(&str, Role) -> Hardware,
    pub(crate) switches: BTreeMap<String, Switch>,
    leaves: BTreeMap<&'a str, &'a Leaf>,
    taken: BTreeMap<String, BTreeSet<Name>>,
    /// Up to here no port of a switch is free.
    next: BTreeMap<String, u32>,
    /// Names of ports in their order, where somebody has said them.
    named: BTreeMap<String, Vec<Name>>,
    /// Nothing is planned that follows from the speed of a cable: one whose speed is not known has none.
    pub(crate) routing_alone: bool,
    pub(crate) wrong: Vec<Finding>,
}

/// The switches of `fabric`, by name; `hardware` says what those of each tier are.
///
/// # Errors
/// Every [`Finding`] at once.
pub fn switches(fabric: &Fabric, hardware: &dyn Fn(Role) -> Hardware) -> Result<Vec<Switch>, Vec<Finding>> {
    let of_tier = |_: &str, role: Role| hardware(role);
    let mut draft = Draft::new(&of_tier);
    draft.leaves = fabric.leaves.iter().map(|leaf| (leaf.name.as_str(), leaf)).collect();
    let (tiers, circle) = tiers(fabric);
    draft.wrong.extend(circle);
    for leaf in &fabric.leaves {
        draft.leaf(leaf);
    }
    for spine in &fabric.spines {
        draft.spine(spine, &tiers);
    }
    draft.links(&fabric.each_link().collect::<Vec<_>>());
    draft.uplinks(fabric);
    if draft.wrong.is_empty() { Ok(draft.switches.into_values().collect()) } else { Err(draft.wrong) }
}

/// The tier of each switch, leaves' being 0: that of a spine is one above the highest that is cabled below it. Beside it the circle, where
/// uplinks have one.
pub(crate) fn tiers(fabric: &Fabric) -> (BTreeMap<&str, u8>, Option<Finding>) {
    let mut tiers: BTreeMap<&str, u8> = fabric.leaves.iter().map(|leaf| (leaf.name.as_str(), 0)).collect();
    let spines: BTreeMap<String, &str> =
        fabric.spines.iter().map(|spine| (spine.name.clone(), spine.name.as_str())).collect();
    // Each round settles a tier more; where one changes after as many rounds as there are uplinks, there is a circle.
    for round in 0..=fabric.uplinks.len() {
        let mut changed = None;
        for uplink in &fabric.uplinks {
            let below = uplink.lower.iter().filter_map(|name| tiers.get(name.as_str()).copied()).max();
            let tier = below.unwrap_or(0).saturating_add(1);
            for name in uplink.upper.iter().filter_map(|name| spines.get(&name).copied()) {
                if tiers.get(name).is_none_or(|own| *own < tier) {
                    tiers.insert(name, tier);
                    changed = Some(name);
                }
            }
        }
        match changed {
            None => break,
            Some(name) if round == fabric.uplinks.len() => {
                return (tiers, Some(Finding::Circle(name.to_owned())));
            }
            Some(_) => {}
        }
    }
    (tiers, None)
}

impl<'a> Draft<'a> {
    pub(crate) fn new(hardware: &'a dyn Fn(&str, Role) -> Hardware) -> Self {
        Self {
            hardware,
            switches: BTreeMap::new(),
            leaves: BTreeMap::new(),
            taken: BTreeMap::new(),
            next: BTreeMap::new(),
            named: BTreeMap::new(),
            routing_alone: false,
            wrong: Vec::new(),
        }
    }

    /// One leaf of a document, and what its ports are called where somebody has said it.
    pub(crate) fn one_leaf(&mut self, leaf: &'a Leaf, named: Vec<Name>) {
        self.leaves.insert(&leaf.name, leaf);
        self.named.insert(leaf.name.clone(), named);
        self.leaf(leaf);
    }

    /// One spine of a document, likewise.
    pub(crate) fn one_spine(&mut self, spine: &Spine, tiers: &BTreeMap<&str, u8>, named: Vec<Name>) {
        self.named.insert(spine.name.clone(), named);
        self.spine(spine, tiers);
    }

    fn leaf(&mut self, leaf: &Leaf) {
        let pod = Some(leaf.pod.as_str()).filter(|pod| !pod.is_empty());
        self.switch(&leaf.name, Role::Leaf, leaf.rails().collect(), leaf.plane, pod);
    }

    fn spine(&mut self, spine: &Spine, tiers: &BTreeMap<&str, u8>) {
        let role = spine_role(spine, tiers);
        self.switch(&spine.name, role, spine.rails().collect(), spine.plane, None);
    }

    /// Ports that are named first: the others take what is left.
    pub(crate) fn links(&mut self, links: &[Link]) {
        let (named, others): (Vec<&Link>, Vec<&Link>) = links.iter().partition(|link| !link.port.is_empty());
        named.into_iter().chain(others).for_each(|link| self.link(link));
    }

    /// A cable between a switch that is drafted and another that is not: the near end alone. The port at the far end is not known here, and
    /// stands as if it had the name of the near one.
    pub(crate) fn near_end(&mut self, own: &str, far: &str, upper: (&str, Role), mbps: u64) {
        let cable_m = (self.hardware)(upper.0, upper.1).cable_m;
        let Some(port) = self.port(far, own, None, mbps, cable_m) else { return };
        let Some(switch) = self.name(far) else { return };
        let peer = Peer::Switch { switch, port: port.name.clone() };
        self.connect(own, port, peer);
    }

    fn name(&mut self, text: &str) -> Option<Name> {
        Name::new(text).map_err(|why| self.wrong.push(why.into())).ok()
    }

    fn switch(&mut self, name: &str, role: Role, rails: Vec<u32>, plane: u32, pod: Option<&str>) {
        let Hardware { nos, version, asic, .. } = (self.hardware)(name, role);
        let pod = pod.and_then(|pod| self.name(pod));
        let Some(own) = self.name(name) else { return };
        let switch = Switch {
            name: own,
            nos,
            version,
            asic,
            role,
            rails,
            pod,
            plane,
            loopback: None,
            asn: None,
            ports: Vec::new(),
        };
        self.switches.insert(name.to_owned(), switch);
    }

    fn link(&mut self, link: &Link) {
        let (server, nic) = (self.name(link.node.as_str()), self.name(&link.nic));
        let (Some(server), Some(nic)) = (server, nic) else { return };
        let rail = self.leaves.get(link.leaf.as_str()).and_then(|leaf| leaf.rail_of(link.rail)).unwrap_or(0);
        let peer = Peer::Nic { server, nic, rail };
        let port = Some(link.port.as_str()).filter(|port| !port.is_empty());
        let cable_m = (self.hardware)(&link.leaf, Role::Leaf).cable_m;
        let from = format!("{} {}", link.node, link.nic);
        if let Some(at) = self.port(&from, &link.leaf, port, link.speed_mbps, cable_m) {
            self.connect(&link.leaf, at, peer);
        }
    }

    /// A port of a switch, without what is at its other end.
    fn port(&mut self, from: &str, to: &str, named: Option<&str>, mbps: u64, cable_m: u16) -> Option<Port> {
        let Some((nos, role)) = self.switches.get(to).map(|switch| (switch.nos, switch.role)) else {
            self.wrong.push(Finding::Nowhere { from: from.to_owned(), to: to.to_owned() });
            return None;
        };
        let speed = u32::try_from(mbps / 1000).ok().filter(|speed| *speed > 0);
        let is_lacking = speed.is_none() && !self.routing_alone;
        if is_lacking {
            self.wrong.push(Finding::NoSpeed { from: from.to_owned(), to: to.to_owned() });
        }
        let lanes = u32::from((self.hardware)(to, role).lanes.max(1));
        let found = match named {
            Some(text) => Some((nos.port_index(text, lanes).unwrap_or(0), self.name(text)?)),
            None => self.free(to, nos, lanes),
        };
        let own = self.switches.get(to).map(|switch| switch.name.clone())?;
        let Some((index, name)) = found else {
            self.wrong.push(Finding::TooMany(own));
            return None;
        };
        if !self.taken.entry(to.to_owned()).or_default().insert(name.clone()) {
            self.wrong.push(Finding::PortTwice { switch: own, port: name });
            return None;
        }
        let first = u16::try_from(index.saturating_mul(lanes)).unwrap_or(u16::MAX);
        let lanes = (0..lanes).filter_map(|lane| first.checked_add(u16::try_from(lane).ok()?)).collect();
        // What is at the other end is set by `connect`.
        let peer = Peer::Switch { switch: own, port: name.clone() };
        (!is_lacking).then(|| Port { name, lanes, speed, optics: String::new(), cable_m, peer })
    }

    /// The next free port of a switch.
    fn free(&mut self, switch: &str, nos: Nos, lanes: u32) -> Option<(u32, Name)> {
        let taken = self.taken.entry(switch.to_owned()).or_default();
        let next = self.next.entry(switch.to_owned()).or_default();
        let named = self.named.get(switch).map(Vec::as_slice).unwrap_or_default();
        while *next < PORTS_MAX {
            let at = *next as usize;
            let beyond = u32::try_from(at.saturating_sub(named.len())).unwrap_or(PORTS_MAX);
            let name = match named.get(at) {
                Some(name) => name.clone(),
                None => nos.port_name(beyond, lanes).ok()?,
            };
            if !taken.contains(&name) {
                return Some((*next, name));
            }
            *next += 1;
        }
        None
    }

    fn connect(&mut self, switch: &str, port: Port, peer: Peer) {
        if let Some(switch) = self.switches.get_mut(switch) {
            switch.ports.push(Port { peer, ..port });
        }
    }

    fn uplinks(&mut self, fabric: &Fabric) {
        for uplink in &fabric.uplinks {
            let pairs = uplink
                .lower
                .iter()
                .flat_map(|lower| uplink.upper.iter().map(move |upper| (lower.clone(), upper)));
            for (lower, upper) in pairs {
                for _ in 0..uplink.cables.clamp(1, PORTS_MAX) {
                    self.uplink(&lower, &upper, uplink.speed_mbps);
                }
            }
        }
    }

    fn uplink(&mut self, lower: &str, upper: &str, mbps: u64) {
        let role = self.switches.get(upper).map_or(Role::Spine(1), |switch| switch.role);
        let cable_m = (self.hardware)(upper, role).cable_m;
        let near = self.port(upper, lower, None, mbps, cable_m);
        let far = self.port(lower, upper, None, mbps, cable_m);
        let (Some(near), Some(far)) = (near, far) else { return };
        let peer = |switch: Option<&Switch>, port: &Port| {
            let switch = switch.map(|switch| switch.name.clone());
            switch.map(|switch| Peer::Switch { switch, port: port.name.clone() })
        };
        let (up, down) = (peer(self.switches.get(upper), &far), peer(self.switches.get(lower), &near));
        if let (Some(up), Some(down)) = (up, down) {
            self.connect(lower, near, up);
            self.connect(upper, far, down);
        }
    }
}
