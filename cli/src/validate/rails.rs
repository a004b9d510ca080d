//! Which rails the tests use: those that all servers of a test have and that are well there; the others are findings. Pure.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1::{self, nic_condition::Severity};

use super::judge::Finding;

/// The rails that each server can use in tests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rails {
    /// Those that new jobs may use, by server.
    usable: BTreeMap<String, BTreeSet<u32>>,
    /// Findings for the rails that they may not use.
    pub unfit: Vec<Finding>,
}

impl Rails {
    /// What is known of these servers, before anything is measured.
    pub fn of(known: &[v1::Node], nodes: &[String]) -> Self {
        let mut rails = Self::default();
        for node in known {
            let name = node.metadata.as_ref().map(|of| of.name.clone()).unwrap_or_default();
            if !nodes.contains(&name) {
                continue;
            }
            let usable = rails.usable.entry(name.clone()).or_default();
            let inventory = node.status.as_ref().and_then(|of| of.inventory.as_ref());
            for nic in inventory.into_iter().flat_map(|of| &of.nics) {
                let conditions =
                    inventory.into_iter().flat_map(|of| &of.health).filter(|of| of.device == nic.device);
                let worst = conditions
                    .flat_map(|of| &of.conditions)
                    .find(|condition| condition.severity() == Severity::Drain);
                let why = match worst {
                    Some(worst) => format!("{}: {}", worst.code, worst.message),
                    None if !nic.up => "its link is down".to_owned(),
                    None => {
                        usable.insert(nic.rail);
                        continue;
                    }
                };
                rails.unfit.push(Finding {
                    code: "RailUnfit",
                    what: "before all tests".to_owned(),
                    place: format!("{name}:{}", nic.rail),
                    message: format!("{} is left out: {why}", nic.device),
                    note: false,
                });
            }
        }
        // Of two NICs on one rail one is enough.
        let usable = &rails.usable;
        let lacks = |finding: &Finding| {
            let (node, rail) = finding.place.rsplit_once(':').unwrap_or_default();
            let rail = rail.parse().unwrap_or(u32::MAX);
            usable.get(node).is_none_or(|rails| !rails.contains(&rail))
        };
        rails.unfit.retain(lacks);
        rails
    }

    /// Those that all of these servers can use, ascending.
    pub fn shared(&self, nodes: &[String]) -> Vec<u32> {
        let all = nodes.iter().map(|node| self.usable.get(node).cloned().unwrap_or_default());
        let shared = all.reduce(|a, b| a.intersection(&b).copied().collect()).unwrap_or_default();
        shared.into_iter().collect()
    }

    /// What the job of a test on these servers asks for: all that they share, and not all that the fabric has.
    pub fn request(&self, nodes: &[String]) -> v1::RailRequest {
        let shared = self.shared(nodes);
        let required = u32::try_from(shared.len()).unwrap_or(u32::MAX).max(1);
        let allow_partial = !shared.into_iter().eq(0..required);
        v1::RailRequest { required, allow_partial, ..v1::RailRequest::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, rails: u32) -> v1::Node {
        let nic = |rail| v1::Nic { device: format!("mlx5_{rail}"), rail, up: true, ..v1::Nic::default() };
        let inventory = v1::Inventory { nics: (0..rails).map(nic).collect(), ..v1::Inventory::default() };
        v1::Node {
            metadata: Some(v1::Metadata { name: name.into(), ..v1::Metadata::default() }),
            status: Some(v1::NodeStatus { inventory: Some(inventory), ..v1::NodeStatus::default() }),
            ..v1::Node::default()
        }
    }

    fn inventory(node: &mut v1::Node) -> &mut v1::Inventory {
        node.status.as_mut().unwrap().inventory.as_mut().unwrap()
    }

    #[test]
    fn a_test_asks_for_what_its_servers_share() {
        let names = |text: &str| -> Vec<String> { text.split(',').map(str::to_owned).collect() };
        let mut all = [node("a", 8), node("b", 4), node("c", 8), node("d", 8)];
        let sick = v1::NicCondition {
            code: "Storm".into(),
            severity: Severity::Drain.into(),
            message: "pauses".into(),
            ..v1::NicCondition::default()
        };
        let health = |device: &str, condition: v1::NicCondition| v1::NicHealth {
            device: device.into(),
            conditions: vec![condition],
            ..v1::NicHealth::default()
        };
        let slow = v1::NicCondition { severity: Severity::Degraded.into(), ..sick.clone() };
        inventory(&mut all[2]).health = vec![health("mlx5_2", sick), health("mlx5_3", slow)];
        inventory(&mut all[2]).nics[7].up = false;
        let rails = Rails::of(&all, &names("a,b,c"));
        assert_eq!(rails.shared(&names("a,b")), [0, 1, 2, 3]);
        assert_eq!(rails.shared(&names("a,b,c")), [0, 1, 3]);
        let asked = |nodes| {
            let request = rails.request(&names(nodes));
            (request.required, request.allow_partial)
        };
        assert_eq!([asked("a,b"), asked("a,c"), asked("b,c")], [(4, false), (6, true), (3, true)]);
        let found: Vec<(&str, &str)> =
            rails.unfit.iter().map(|one| (one.place.as_str(), one.message.as_str())).collect();
        let expected =
            [("c:2", "mlx5_2 is left out: Storm: pauses"), ("c:7", "mlx5_7 is left out: its link is down")];
        assert_eq!(found, expected);
        assert!(Rails::of(&all, &names("a,d")).unfit.is_empty(), "of others nothing is said");
    }
}
