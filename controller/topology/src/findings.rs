//! What differs between the document and the nodes' inventories, and what is odd in an inventory.

use std::collections::BTreeMap;

use proto_model::{Nic, NicCondition, NodeName, Reason, ReasonCode, Severity};

use crate::{
    RailSet, Server, Topology,
    check::list,
    plan::{Plan, PlannedCable},
};

impl Topology {
    /// Everything that differs between the document and the inventories, and what is odd in an inventory.
    #[must_use]
    pub fn findings(&self) -> Vec<Reason> {
        let mut findings = Vec::new();
        for (_, server) in self.servers() {
            inventory(server, &mut findings);
            if let Some(plan) = &self.plan {
                match plan.cables_of(&server.name) {
                    Some(cables) => cabling(plan, server, cables, &mut findings),
                    None => {
                        let message = format!(
                            "node '{}' has joined, the document cables none of its NICs; it is not used for jobs that need rails",
                            server.name
                        );
                        findings.push(Reason::new(ReasonCode::NodeNotCabled, message).scope(scope(server)));
                    }
                }
            }
        }
        if let Some(plan) = &self.plan {
            if !plan.down.is_empty() {
                let message = format!("known to be down in the document: {}", list(&plan.down));
                findings.push(Reason::new(ReasonCode::SwitchDown, message).count(plan.down.len()));
            }
            let absent: Vec<&NodeName> =
                plan.nodes.iter().filter(|name| self.index(name).is_none()).collect();
            if !absent.is_empty() {
                let message =
                    format!("{} cabled in the document, not joined: {}", absent.len(), list(&absent));
                findings.push(Reason::new(ReasonCode::NodeNotJoined, message).count(absent.len()));
            }
        }
        findings
    }
}

fn scope(server: &Server) -> String {
    format!("node/{}", server.name)
}

fn inventory(server: &Server, findings: &mut Vec<Reason>) {
    let name = &server.name;
    let mut find = |code: ReasonCode, message| findings.push(Reason::new(code, message).scope(scope(server)));
    let mut seen: BTreeMap<u32, &str> = BTreeMap::new();
    for Nic { device, rail, up, .. } in &server.inventory.nics {
        if *rail >= RailSet::MAX {
            let limit = RailSet::MAX - 1;
            find(
                ReasonCode::RailIndex,
                format!("NIC {device} of node '{name}' says rail {rail}; the largest is {limit}"),
            );
        } else if let Some(other) = seen.insert(*rail, device) {
            find(
                ReasonCode::NicsOnOneRail,
                format!("node '{name}' has NICs {other} and {device} on rail {rail}; one of them is used"),
            );
        }
        if !up {
            find(ReasonCode::NicDown, format!("NIC {device} of node '{name}' (rail {rail}) is down"));
        } else if let Some(bad) = server.inventory.health.iter().find(|nic| nic.device == *device) {
            for condition in bad.conditions.iter().filter(|one| one.severity == Severity::Drain) {
                let NicCondition { code, message, .. } = condition;
                let text = format!(
                    "NIC {device} of node '{name}' (rail {rail}) takes no new job: {code}: {message}"
                );
                find(ReasonCode::NicUnfit, text);
            }
        }
    }
}

fn cabling(plan: &Plan, server: &Server, cables: &[PlannedCable], findings: &mut Vec<Reason>) {
    let name = &server.name;
    let nics = &server.inventory.nics;
    let mut find = |code: ReasonCode, message| findings.push(Reason::new(code, message).scope(scope(server)));
    for cable in cables {
        let (cabled, rail) = (plan.nic_name(cable), cable.rail());
        let leaf_name = &plan.leaf_names[cable.leaf.index()];
        match nics.iter().find(|nic| nic.device == cabled || nic.netdev == cabled) {
            None => find(
                ReasonCode::NicMissing,
                format!(
                    "the document cables NIC {cabled} of node '{name}' to leaf '{leaf_name}'; the node has no such NIC"
                ),
            ),
            Some(nic) if nic.rail != rail => find(
                ReasonCode::RailMismatch,
                format!(
                    "NIC {cabled} of node '{name}' says rail {}, the document cables it to leaf '{leaf_name}' on rail {rail}; it is not used",
                    nic.rail
                ),
            ),
            Some(nic) if nic.up && nic.speed_mbps > 0 && nic.speed_mbps < u64::from(cable.mbps) => find(
                ReasonCode::LinkSpeed,
                format!(
                    "NIC {cabled} of node '{name}' runs at {} Mbit/s, the document says {} to leaf '{leaf_name}'; \
                     look at the cable and at what both ends negotiate",
                    nic.speed_mbps, cable.mbps
                ),
            ),
            Some(_) if !cable.works => find(
                ReasonCode::LinkDown,
                format!(
                    "the cable from NIC {cabled} of node '{name}' to leaf '{leaf_name}' is known to be down, or the leaf is"
                ),
            ),
            Some(_) => {}
        }
    }
    for nic in nics {
        if let Some(heard) = plan.heard_elsewhere(cables, &server.inventory, nic) {
            let (device, heard) = (&nic.device, &plan.leaf_names[heard.index()]);
            let own = cables.iter().find(|cable| {
                let name = plan.nic_name(cable);
                name == nic.device || name == nic.netdev
            });
            if let Some(own) = own {
                let leaf = &plan.leaf_names[own.leaf.index()];
                find(
                    ReasonCode::Miscabled,
                    format!(
                        "NIC {device} of node '{name}' hears leaf '{heard}', the document cables it to '{leaf}'; it is not \
                         used; `railctl topology verify` tells the moves that mend it"
                    ),
                );
            }
        }
        let named = |cable: &PlannedCable| {
            let name = plan.nic_name(cable);
            name == nic.device || name == nic.netdev
        };
        if !cables.iter().any(named) {
            let device = &nic.device;
            find(
                ReasonCode::NicNotCabled,
                format!("NIC {device} of node '{name}' is not cabled in the document; it is not used"),
            );
        }
    }
}
