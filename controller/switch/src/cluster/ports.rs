//! The ports of one switch of a cluster.

use proto_model::{Link, SwitchNos, SwitchSpec, Uplink};

use crate::{
    cluster::{
        Cluster, Finding, Listed, Problem,
        cables::{Cables, End, Ends},
    },
    fabric::{self, Draft},
    model::{Name, Role, Switch},
};

impl<'a> Cluster<'a> {
    /// A switch with its ports as the document and what is said of it make them, and what is wrong with either.
    pub(super) fn planned(&self, name: &str, own: Listed<'_>) -> (Option<Switch>, Vec<Finding>) {
        let hardware = |name: &str, role: Role| self.hardware(name, role);
        let mut draft = Draft::new(&hardware);
        let said = self.said.get(name).copied();
        draft.routing_alone = said.is_some_and(|said| said.nos == SwitchNos::Linux);
        match own {
            Listed::Leaf(leaf) => {
                draft.one_leaf(leaf, names(said));
                draft.links(&self.links(name));
            }
            Listed::Spine(spine) => draft.one_spine(spine, &self.tiers, names(said)),
        }
        self.cable_up(&mut draft, name);
        draft.wrong.extend(self.circle.clone());
        let mut switch = draft.switches.remove(name);
        let mut found: Vec<Finding> =
            draft.wrong.into_iter().map(|why| Finding::of(name, Problem::Fabric(why))).collect();
        if let (Some(switch), Some(said)) = (&mut switch, said) {
            found.extend(say(switch, said));
        }
        (switch, found)
    }

    /// Cables of a leaf to servers, in the document's order.
    fn links(&self, leaf: &str) -> Vec<Link> {
        let cables = self.cables.get_or_init(|| {
            let mut cables = Cables::default();
            for link in &self.fabric.links {
                cables.links.entry(link.leaf.as_str()).or_default().push(link);
            }
            for group in &self.fabric.link_groups {
                cables.groups.entry(group.leaf.as_str()).or_default().push(group);
            }
            cables
        });
        let single = cables.links.get(leaf).into_iter().flatten().map(|link| (*link).clone());
        let grouped = cables.groups.get(leaf).into_iter().flatten().flat_map(|group| group.each());
        single.chain(grouped).collect()
    }

    /// Cables of a switch to others, in the document's order.
    fn cable_up(&self, draft: &mut Draft<'_>, own: &str) {
        let all = self.uplinks.get_or_init(|| by_end(&self.fabric.uplinks));
        for (end, uplink) in all.get(own).into_iter().flatten() {
            // Each of the lower ones is cabled to each of the upper ones.
            match end {
                End::Lower => {
                    uplink.upper.iter().for_each(|upper| self.cable(draft, own, &upper, &upper, uplink));
                }
                End::Upper => {
                    uplink.lower.iter().for_each(|lower| self.cable(draft, own, &lower, own, uplink));
                }
            }
        }
    }

    fn cable(&self, draft: &mut Draft<'_>, own: &str, far: &str, upper: &str, uplink: &Uplink) {
        if !self.listed.contains_key(far) {
            let (from, to) = (own.to_owned(), far.to_owned());
            draft.wrong.push(fabric::Finding::Nowhere { from, to });
            return;
        }
        for _ in 0..uplink.cables.clamp(1, fabric::PORTS_MAX) {
            if draft.wrong.iter().any(|why| matches!(why, fabric::Finding::TooMany(_))) {
                return;
            }
            draft.near_end(own, far, (upper, self.role(upper)), uplink.speed_mbps);
        }
    }
}

/// Uplinks by the switches at their ends, in the document's order.
fn by_end(uplinks: &[Uplink]) -> Ends<'_> {
    let mut all = Ends::new();
    for uplink in uplinks {
        for name in uplink.lower.iter() {
            all.entry(name).or_default().push((End::Lower, uplink));
        }
        for name in uplink.upper.iter() {
            all.entry(name).or_default().push((End::Upper, uplink));
        }
    }
    all
}

/// What ports are called: Linux has no names of its own for them.
fn names(said: Option<&SwitchSpec>) -> Vec<Name> {
    let said = said.filter(|said| said.nos == SwitchNos::Linux);
    said.into_iter().flat_map(|said| &said.ports).filter_map(|port| Name::new(&port.name).ok()).collect()
}

/// Puts into a switch what is said of it, and tells which ports it has not.
fn say(switch: &mut Switch, said: &SwitchSpec) -> Vec<Finding> {
    (switch.loopback, switch.asn) = (said.loopback, Some(said.asn).filter(|asn| *asn > 0));
    let mut found = Vec::new();
    for port in &said.ports {
        let own = switch.ports.iter_mut().find(|own| own.name.as_str() == port.name);
        let Some(own) = own else {
            // On Linux a list of all that the switch has is right.
            if said.nos != SwitchNos::Linux {
                found.push(no_port(switch, &port.name));
            }
            continue;
        };
        let metres = u16::try_from(port.cable_m).ok().filter(|metres| *metres > 0);
        own.cable_m = metres.unwrap_or(own.cable_m);
        own.optics.clone_from(&port.optics);
    }
    found
}

fn no_port(switch: &Switch, port: &str) -> Finding {
    let name = |at: Option<&crate::model::Port>| at.map(|own| own.name.to_string()).unwrap_or_default();
    let problem = Problem::NoPort {
        ports: switch.ports.len(),
        first: name(switch.ports.first()),
        last: name(switch.ports.last()),
    };
    Finding::of_port(switch.name.as_str(), port, problem)
}
