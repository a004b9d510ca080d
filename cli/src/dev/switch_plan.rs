//! Leaves and spines that run FRR, as values. Servers of a pod meet on a rail at their leaf's bridge. Leaves and spines route between
//! themselves as they are configured (unnumbered BGP, each announces its loopback), and where a rail has leaves in several pods their bridges
//! are joined by VXLAN from loopback to loopback, so that what one pod sends to another crosses the spines by what they route.

use std::net::Ipv4Addr;

use proto_wire::v1;

use super::{
    network_plan::{NetworkPlan, bridge, leaf_name, namespace, server_ports, veth},
    spec::Spec,
};
use crate::args::Leaves;

/// What VXLAN puts around a packet, and something to spare: cables between switches carry so many bytes more than rails.
const TUNNEL_BYTES: u32 = 216;
/// The VXLAN number of rail 0; the other rails follow.
const FIRST_VNI: u32 = 100;

/// A switch of the local cluster that runs FRR.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchPlan {
    /// Its name: that of a leaf, or `spine0`, `spine1` and so on.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// Loopbacks of the other leaves: to each of them it has a route as soon as the fabric works.
    pub reaches: Vec<Ipv4Addr>,
    /// What the controller is told of it.
    pub document: v1::Switch,
}

fn spine_name(spine: u32) -> String {
    format!("spine{spine}")
}

/// Leaves with their pod and rail, in the order of the fabric document.
fn leaves(spec: &Spec) -> impl Iterator<Item = (u32, u32)> {
    let rails = spec.rails;
    (0..spec.pods).flat_map(move |pod| (0..rails).map(move |rail| (pod, rail)))
}

/// The loopback of the switch of this number: leaves are counted first, then spines. Rails have 10.0 to 10.15.
fn loopback(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from_be_bytes([10, 255, 0, 0]) + number + 1)
}

fn leaf_loopback(spec: &Spec, pod: u32, rail: u32) -> Ipv4Addr {
    loopback(pod * spec.rails + rail)
}

/// The spines of the fabric document; none where leaves are bridges.
#[must_use]
pub fn spines(spec: &Spec) -> Vec<v1::Spine> {
    let spine = |spine| v1::Spine {
        name: spine_name(spine),
        rails: (0..spec.rails).collect(),
        ..v1::Spine::default()
    };
    (0..spec.spines).map(spine).collect()
}

/// The cables between switches of the fabric document: each leaf has one to each spine.
#[must_use]
pub fn uplinks(spec: &Spec) -> Vec<v1::Uplink> {
    if spec.spines == 0 {
        return Vec::new();
    }
    let lower: Vec<String> = leaves(spec).map(|(pod, rail)| leaf_name(pod, rail)).collect();
    let upper: Vec<String> = (0..spec.spines).map(spine_name).collect();
    vec![v1::Uplink { lower: lower.join(","), upper: upper.join(","), cables: 1, ..v1::Uplink::default() }]
}

/// The switches, leaves first; none where leaves are bridges.
#[must_use]
pub fn switches(spec: &Spec) -> Vec<SwitchPlan> {
    if spec.leaves == Leaves::Bridge {
        return Vec::new();
    }
    let leaf = |(pod, rail): (u32, u32)| (leaf_name(pod, rail), "up", spec.spines);
    let all = leaves(spec).map(leaf);
    let all = all.chain((0..spec.spines).map(|spine| (spine_name(spine), "dn", spec.pods * spec.rails)));
    let leaves = spec.pods * spec.rails;
    (0..)
        .zip(all)
        .map(|(number, (name, port, cables))| SwitchPlan {
            namespace: namespace(spec, &name),
            reaches: (0..leaves).filter(|leaf| *leaf != number).map(loopback).collect(),
            document: document(&name, loopback(number), port, cables),
            name,
        })
        .collect()
}

fn document(name: &str, loopback: Ipv4Addr, port: &str, cables: u32) -> v1::Switch {
    let ports =
        (0..cables).map(|cable| v1::SwitchPort { name: format!("{port}{cable}"), ..Default::default() });
    v1::Switch {
        api_version: "rail/v1".to_owned(),
        kind: "Switch".to_owned(),
        metadata: Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() }),
        spec: Some(v1::SwitchSpec {
            nos: v1::switch_spec::Nos::Linux.into(),
            loopback: loopback.to_string(),
            ports: ports.collect(),
            ..v1::SwitchSpec::default()
        }),
        status: None,
    }
}

/// The role of a switch's FRR.
#[must_use]
pub fn frr_role(switch: &SwitchPlan) -> String {
    format!("frr-{}", switch.name)
}

/// The role of a switch's agent.
#[must_use]
pub fn agent_role(switch: &SwitchPlan) -> String {
    format!("switch-{}", switch.name)
}

/// Adds leaves and spines, and the cables between them.
pub fn network(spec: &Spec, plan: &mut NetworkPlan) {
    let mtu = spec.mtu + TUNNEL_BYTES;
    for (number, (pod, rail)) in (0..).zip(leaves(spec)) {
        let here = namespace(spec, &leaf_name(pod, rail));
        for spine in 0..spec.spines {
            let there = namespace(spec, &spine_name(spine));
            plan.links.push(veth(mtu, (&format!("up{spine}"), &here), (&format!("dn{number}"), &there)));
        }
        let (ports, tc) = server_ports(spec, pod);
        let mut ip = routed(leaf_loopback(spec, pod, rail), "up", spec.spines);
        ip.extend(bridge(spec, &ports));
        if spec.pods > 1 {
            ip.extend(tunnel(spec, pod, rail));
            let others = (0..spec.pods).filter(|other| *other != pod);
            let flood = |other| {
                let to = leaf_loopback(spec, other, rail);
                format!("fdb append 00:00:00:00:00:00 dev vx0 dst {to}")
            };
            plan.floods.push((here.clone(), others.map(flood).collect()));
        }
        plan.inside.push((here, ip, tc));
    }
    let cables = spec.pods * spec.rails;
    for spine in 0..spec.spines {
        let ip = routed(loopback(cables + spine), "dn", cables);
        plan.inside.push((namespace(spec, &spine_name(spine)), ip, Vec::new()));
    }
}

/// A switch's loopback and its cables to other switches.
fn routed(loopback: Ipv4Addr, port: &str, cables: u32) -> Vec<String> {
    let mut ip = vec!["link set lo up".to_owned(), format!("addr add {loopback}/32 dev lo")];
    ip.extend((0..cables).map(|cable| format!("link set {port}{cable} up")));
    ip
}

/// The tunnel between the leaves of a rail.
fn tunnel(spec: &Spec, pod: u32, rail: u32) -> [String; 2] {
    let (vni, local) = (FIRST_VNI + rail, leaf_loopback(spec, pod, rail));
    [
        format!("link add vx0 type vxlan id {vni} local {local} dstport 4789"),
        format!("link set vx0 mtu {} master br0 up", spec.mtu),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::spec::tests::flags;

    fn spec(line: &[&str]) -> Spec {
        let line = [&["--name", "x", "--netns", "--leaves", "frr"], line].concat();
        Spec::of_flags(&flags(&line), None).unwrap()
    }

    fn network_of(spec: &Spec) -> NetworkPlan {
        let mut plan = NetworkPlan::default();
        network(spec, &mut plan);
        plan
    }

    fn inside<'a>(network: &'a NetworkPlan, name: &str) -> &'a [String] {
        let found = network.inside.iter().find(|(here, ..)| here == name);
        found.map(|(_, ip, _)| ip.as_slice()).unwrap()
    }

    #[test]
    fn pods_of_a_rail_are_joined_over_the_spines() {
        let spec = spec(&["--nodes", "4", "--rails", "2", "--pods", "2"]);
        let (network, switches) = (network_of(&spec), switches(&spec));
        assert_eq!((network.inside.len(), network.links.len()), (4 + 2, 8));
        assert_eq!(
            network.links[0],
            "link add up0 mtu 9216 netns rail-x-p0-rail0 type veth peer name dn0 mtu 9216 netns rail-x-spine0"
        );
        let leaf = inside(&network, "rail-x-p1-rail0");
        let expected = [
            "link set lo up",
            "addr add 10.255.0.3/32 dev lo",
            "link set up0 up",
            "link set up1 up",
            "link add br0 type bridge",
            "link set swp2 master br0 up",
            "link set swp3 master br0 up",
            "link set br0 mtu 9000 up",
            "link add vx0 type vxlan id 100 local 10.255.0.3 dstport 4789",
            "link set vx0 mtu 9000 master br0 up",
        ];
        assert_eq!(leaf, expected);
        let flood = "fdb append 00:00:00:00:00:00 dev vx0 dst 10.255.0.1".to_owned();
        assert_eq!(network.floods[2], ("rail-x-p1-rail0".to_owned(), vec![flood]));
        assert_eq!(inside(&network, "rail-x-spine1")[1], "addr add 10.255.0.6/32 dev lo");
        assert_eq!(inside(&network, "rail-x-spine1").len(), 2 + 4);
        let names: Vec<&str> = switches.iter().map(|switch| switch.name.as_str()).collect();
        assert_eq!(names, ["p0-rail0", "p0-rail1", "p1-rail0", "p1-rail1", "spine0", "spine1"]);
        assert_eq!((switches[1].reaches.len(), switches[5].reaches.len()), (3, 4));
        let document = switches[4].document.spec.clone().unwrap();
        assert_eq!((document.loopback.as_str(), document.ports[3].name.as_str()), ("10.255.0.5", "dn3"));
        assert_eq!(spines(&spec)[1].rails, [0, 1]);
        assert_eq!(uplinks(&spec)[0].lower, "p0-rail0,p0-rail1,p1-rail0,p1-rail1");
    }

    #[test]
    fn servers_of_one_pod_need_no_tunnel() {
        let spec = spec(&["--nodes", "2", "--rails", "4", "--spines", "1"]);
        let (network, switches) = (network_of(&spec), switches(&spec));
        assert!(network.floods.is_empty());
        assert!(!inside(&network, "rail-x-p0-rail3").iter().any(|line| line.contains("vxlan")));
        assert_eq!((switches.len(), switches[4].name.as_str()), (5, "spine0"));
    }
}
