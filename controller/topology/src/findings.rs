//! What differs between the document and the nodes' inventories, and what is odd in an inventory.

use std::collections::BTreeMap;

use proto_model::{Nic, NodeName, Reason};

use crate::{
    RailSet, Server, Topology,
    check::list,
    topology::{LeafIx, Plan},
};

impl Topology {
    /// Everything that differs between the document and the inventories, and what is odd in an inventory.
    #[must_use]
    pub fn findings(&self) -> Vec<Reason> {
        let mut findings = Vec::new();
        for (_, server) in self.servers() {
            inventory(server, &mut findings);
            if let Some(plan) = &self.plan {
                match plan.cables.get(&server.name) {
                    Some(cables) => cabling(plan, server, cables, &mut findings),
                    None => {
                        let message = format!(
                            "node '{}' has joined, the document cables none of its NICs; it is not used for jobs that need rails",
                            server.name
                        );
                        findings.push(Reason::new("NodeNotCabled", message).scope(scope(server)));
                    }
                }
            }
        }
        if let Some(plan) = &self.plan {
            let absent: Vec<&NodeName> =
                plan.cables.keys().filter(|name| self.index(name).is_none()).collect();
            if !absent.is_empty() {
                let message =
                    format!("{} cabled in the document, not joined: {}", absent.len(), list(&absent));
                findings.push(Reason::new("NodeNotJoined", message).count(absent.len()));
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
    let mut find =
        |code: &'static str, message| findings.push(Reason::new(code, message).scope(scope(server)));
    let mut seen: BTreeMap<u32, &str> = BTreeMap::new();
    for Nic { device, rail, up, .. } in &server.inventory.nics {
        if *rail >= RailSet::MAX {
            let limit = RailSet::MAX - 1;
            find(
                "RailIndex",
                format!("NIC {device} of node '{name}' says rail {rail}; the largest is {limit}"),
            );
        } else if let Some(other) = seen.insert(*rail, device) {
            find(
                "NicsOnOneRail",
                format!("node '{name}' has NICs {other} and {device} on rail {rail}; one of them is used"),
            );
        }
        if !up {
            find("NicDown", format!("NIC {device} of node '{name}' (rail {rail}) is down"));
        }
    }
}

fn cabling(plan: &Plan, server: &Server, cables: &[(String, LeafIx)], findings: &mut Vec<Reason>) {
    let name = &server.name;
    let nics = &server.inventory.nics;
    let mut find =
        |code: &'static str, message| findings.push(Reason::new(code, message).scope(scope(server)));
    for (cabled, leaf) in cables {
        let leaf = &plan.leaves[leaf.index()];
        match nics.iter().find(|nic| nic.device == *cabled || nic.netdev == *cabled) {
            None => find(
                "NicMissing",
                format!(
                    "the document cables NIC {cabled} of node '{name}' to leaf '{}'; the node has no such NIC",
                    leaf.name
                ),
            ),
            Some(nic) if nic.rail != leaf.rail => find(
                "RailMismatch",
                format!(
                    "NIC {cabled} of node '{name}' says rail {}, the document cables it to leaf '{}' of rail {}; it is not used",
                    nic.rail, leaf.name, leaf.rail
                ),
            ),
            Some(_) => {}
        }
    }
    for nic in nics {
        if !cables.iter().any(|(cabled, _)| *cabled == nic.device || *cabled == nic.netdev) {
            let device = &nic.device;
            find(
                "NicNotCabled",
                format!("NIC {device} of node '{name}' is not cabled in the document; it is not used"),
            );
        }
    }
}
