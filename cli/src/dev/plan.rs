//! The cluster as a value: nodes with their addresses and inventories, the fabric document, the network commands.

use std::net::Ipv4Addr;

use proto_wire::v1;
use serde_json::{Value, json};

use super::{
    network_plan::{NetworkPlan, bridge, leaf_name, namespace, server_ports, shape, veth},
    spec::Spec,
    switch_plan::{self, SwitchPlan},
};
use crate::args::Leaves;

/// What is true of this machine and goes into every node's inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Machine {
    /// Logical processors of the machine.
    pub cpus: u32,
    /// Main memory in bytes.
    pub memory_bytes: u64,
}

/// The role of the agent of a server.
#[must_use]
pub fn agent_role(node: &str) -> String {
    format!("agent-{node}")
}

/// All that `dev up` makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The servers, one plan for each.
    pub nodes: Vec<NodePlan>,
    /// The switches that run FRR, leaves first; none where leaves are bridges.
    pub switches: Vec<SwitchPlan>,
    /// The fabric document of the cluster.
    pub fabric: v1::Fabric,
    /// The network to build; none where rails are loopback addresses.
    pub network: Option<NetworkPlan>,
}

/// One server of the local cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePlan {
    /// Number of the server, from 0.
    pub index: u32,
    /// Name of the server: `n0`, `n1` and so on.
    pub name: String,
    /// Its network namespace; `None` where rails are loopback addresses.
    pub namespace: Option<String>,
    /// What its agent reads in place of the hardware.
    pub inventory: Value,
}

/// The plan for a shape.
#[must_use]
pub fn plan(spec: &Spec, machine: Machine) -> Plan {
    Plan {
        nodes: (0..spec.nodes).map(|node| node_plan(spec, machine, node)).collect(),
        switches: switch_plan::switches(spec),
        fabric: fabric(spec),
        network: spec.netns.then(|| network(spec)),
    }
}

fn node_name(node: u32) -> String {
    format!("n{node}")
}

/// A node's address on a rail: 10.RAIL.x.y in namespaces; else 127.(16+RAIL).x.y, all of 127/8 being this machine.
#[must_use]
pub fn address(spec: &Spec, node: u32, rail: u32) -> Ipv4Addr {
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    let (first, second) = if spec.netns { (10, byte(rail)) } else { (127, byte(16 + rail)) };
    Ipv4Addr::new(first, second, byte(node / 250), byte(node % 250 + 1))
}

/// What the nodes tell of their NICs' speed, in Mbit/s; 0 (not known) where nothing shapes them.
fn speed_mbps(spec: &Spec) -> u64 {
    spec.rail_rate_bps.map_or(0, |bits| bits / 1_000_000)
}

fn node_plan(spec: &Spec, machine: Machine, node: u32) -> NodePlan {
    let name = node_name(node);
    let gpu = |index: u32| json!({"index": index, "uuid": format!("DEV-{name}-{index}"), "model": "dev GPU", "numaNode": 0});
    let nic = |rail: u32| {
        let device = format!("rail{rail}");
        json!({
            "device": device, "netdev": device, "rail": rail, "numaNode": 0, "mtu": spec.mtu, "up": true,
            "address": address(spec, node, rail).to_string(), "speedMbps": speed_mbps(spec), "gidIndex": -1,
        })
    };
    // What LLDP would tell if bridges spoke it.
    let neighbor = |rail: u32| {
        let (netdev, switch) = (format!("rail{rail}"), leaf_name(spec.pod_of(node), rail));
        json!({"netdev": netdev, "switch": switch, "port": format!("swp{node}")})
    };
    let inventory = json!({
        "gpus": (0..spec.gpus).map(gpu).collect::<Vec<_>>(),
        "nics": (0..spec.rails).map(nic).collect::<Vec<_>>(),
        "neighbors": (0..spec.rails).map(neighbor).collect::<Vec<_>>(),
        "numaNodes": 1, "cpus": machine.cpus, "memoryBytes": machine.memory_bytes,
    });
    let namespace = spec.netns.then(|| namespace(spec, &name));
    NodePlan { index: node, name, namespace, inventory }
}

fn fabric(spec: &Spec) -> v1::Fabric {
    let rail = |index: u32| v1::Rail { index, name: format!("rail{index}") };
    let leaf = |(pod, rail): (u32, u32)| v1::Leaf {
        name: leaf_name(pod, rail),
        rail,
        pod: format!("p{pod}"),
        ..v1::Leaf::default()
    };
    let link = |(node, rail): (u32, u32)| v1::Link {
        node: node_name(node),
        nic: format!("rail{rail}"),
        leaf: leaf_name(spec.pod_of(node), rail),
        port: format!("swp{node}"),
        speed_mbps: speed_mbps(spec),
        ..v1::Link::default()
    };
    let pairs = |count: u32| (0..count).flat_map(|outer| (0..spec.rails).map(move |rail| (outer, rail)));
    v1::Fabric {
        api_version: "rail/v1".to_owned(),
        kind: "Fabric".to_owned(),
        metadata: Some(v1::Metadata { name: spec.name.clone(), ..v1::Metadata::default() }),
        spec: Some(v1::FabricSpec {
            rails: (0..spec.rails).map(rail).collect(),
            leaves: pairs(spec.pods).map(leaf).collect(),
            links: pairs(spec.nodes).map(link).collect(),
            spines: switch_plan::spines(spec),
            uplinks: switch_plan::uplinks(spec),
            ..v1::FabricSpec::default()
        }),
        status: None,
    }
}

/// Servers with a veth to each of their leaves, and the leaves with what is above them.
fn network(spec: &Spec) -> NetworkPlan {
    let mut plan = NetworkPlan::default();
    servers(spec, &mut plan);
    match spec.leaves {
        Leaves::Bridge => bridges(spec, &mut plan),
        Leaves::Frr => switch_plan::network(spec, &mut plan),
    }
    plan.namespaces = plan.inside.iter().map(|(name, ..)| name.clone()).collect();
    plan
}

fn servers(spec: &Spec, plan: &mut NetworkPlan) {
    for node in 0..spec.nodes {
        let here = namespace(spec, &node_name(node));
        let mut ip = vec!["link set lo up".to_owned()];
        let mut tc = Vec::new();
        for rail in 0..spec.rails {
            let leaf = namespace(spec, &leaf_name(spec.pod_of(node), rail));
            plan.links.push(veth(spec.mtu, (&format!("rail{rail}"), &here), (&format!("swp{node}"), &leaf)));
            ip.push(format!("addr add {}/16 dev rail{rail}", address(spec, node, rail)));
            ip.push(format!("link set rail{rail} up"));
            tc.extend(shape(spec, &format!("rail{rail}")));
        }
        plan.inside.push((here, ip, tc));
    }
}

/// One bridge per leaf, and a bridge per rail above the leaves where there are several pods.
fn bridges(spec: &Spec, plan: &mut NetworkPlan) {
    for pod in 0..spec.pods {
        for rail in 0..spec.rails {
            let here = namespace(spec, &leaf_name(pod, rail));
            let (mut ports, tc) = server_ports(spec, pod);
            if spec.pods > 1 {
                let spine = namespace(spec, &format!("spine-rail{rail}"));
                plan.links.push(veth(spec.mtu, ("up0", &here), (&format!("dn{pod}"), &spine)));
                ports.push("up0".to_owned());
            }
            plan.inside.push((here, bridge(spec, &ports), tc));
        }
    }
    if spec.pods > 1 {
        let ports: Vec<String> = (0..spec.pods).map(|pod| format!("dn{pod}")).collect();
        for rail in 0..spec.rails {
            let here = namespace(spec, &format!("spine-rail{rail}"));
            plan.inside.push((here, bridge(spec, &ports), Vec::new()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dev::spec::tests::flags;

    fn spec(line: &[&str]) -> Spec {
        Spec::of_flags(&flags(line), None).unwrap()
    }

    #[test]
    fn loopback_needs_no_network() {
        let plan = plan(
            &spec(&["--nodes", "3", "--rails", "2", "--gpus", "1"]),
            Machine { cpus: 2, memory_bytes: 7 },
        );
        assert_eq!(plan.network, None);
        assert_eq!(plan.nodes.len(), 3);
        let inventory = &plan.nodes[2].inventory;
        assert_eq!(inventory["nics"][1]["address"], "127.17.0.3");
        assert_eq!(inventory["nics"][1]["speedMbps"], 0);
        assert_eq!(inventory["gpus"].as_array().unwrap().len(), 1);
        assert_eq!(plan.nodes[2].namespace, None);
        let fabric = plan.fabric.spec.unwrap();
        assert_eq!((fabric.rails.len(), fabric.leaves.len(), fabric.links.len()), (2, 2, 6));
        assert_eq!(fabric.links[5].leaf, "p0-rail1");
    }

    #[test]
    fn namespaces_links_and_shapes() {
        let plan = plan(
            &spec(&["--name", "x", "--nodes", "2", "--rails", "1", "--netns", "--rail-rate", "400mbit"]),
            Machine::default(),
        );
        let network = plan.network.unwrap();
        assert_eq!(network.namespaces, ["rail-x-n0", "rail-x-n1", "rail-x-p0-rail0"]);
        assert!(plan.switches.is_empty() && network.floods.is_empty());
        assert_eq!(
            network.links[1],
            "link add rail0 mtu 9000 netns rail-x-n1 type veth peer name swp1 mtu 9000 netns rail-x-p0-rail0"
        );
        let shaped = "qdisc add dev rail0 root tbf rate 400000000bit burst 100000 limit 500000";
        let node = ["link set lo up", "addr add 10.0.0.2/16 dev rail0", "link set rail0 up"];
        assert_eq!(
            network.inside[1],
            ("rail-x-n1".into(), node.map(str::to_owned).to_vec(), vec![shaped.into()])
        );
        let (_, ip, tc) = &network.inside[2];
        assert_eq!(ip[0], "link add br0 type bridge");
        assert_eq!(ip[2], "link set swp1 master br0 up");
        assert_eq!(tc[0], shaped.replace("rail0", "swp0"), "both directions are shaped");
        assert_eq!(plan.nodes[0].inventory["nics"][0]["speedMbps"], 400);
    }

    #[test]
    fn pods_meet_at_a_spine_of_their_rail() {
        let network =
            plan(&spec(&["--nodes", "4", "--rails", "2", "--pods", "2", "--netns"]), Machine::default())
                .network
                .unwrap();
        assert_eq!(network.namespaces.len(), 4 + 4 + 2);
        let uplinks: Vec<_> = network.links.iter().filter(|link| link.contains("up0")).collect();
        assert_eq!(uplinks.len(), 4);
        for link in uplinks {
            let rail = link.chars().last().unwrap();
            assert!(
                link.contains(&format!("p0-rail{rail}")) || link.contains(&format!("p1-rail{rail}")),
                "{link}"
            );
        }
    }

    #[test]
    fn every_address_and_device_is_used_once_at_any_size() {
        for (netns, leaves, pods) in
            [(false, Leaves::Bridge, 7), (true, Leaves::Bridge, 7), (true, Leaves::Frr, 3)]
        {
            let mut spec = spec(&["--nodes", "128", "--rails", "16", "--pods", "7"]);
            (spec.netns, spec.leaves, spec.pods) = (netns, leaves, pods);
            spec.spines = if leaves == Leaves::Frr { 8 } else { 0 };
            let addresses: BTreeSet<_> = (0..spec.nodes)
                .flat_map(|node| (0..16).map(move |rail| (node, rail)))
                .map(|(node, rail)| address(&spec, node, rail))
                .collect();
            assert_eq!(addresses.len(), 128 * 16);
            assert!(
                addresses.iter().all(|address| address.is_loopback() != netns && address.octets()[3] != 0)
            );
            if let Some(network) = plan(&spec, Machine::default()).network {
                let names: BTreeSet<_> = network.namespaces.iter().collect();
                assert_eq!(names.len(), network.namespaces.len());
                let ends = network.links.iter().flat_map(|link| {
                    let words: Vec<&str> = link.split(' ').collect();
                    [(words[2].to_owned(), words[6].to_owned()), (words[11].to_owned(), words[15].to_owned())]
                });
                assert_eq!(ends.collect::<BTreeSet<_>>().len(), network.links.len() * 2);
            }
        }
    }
}
