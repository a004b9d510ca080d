//! NICs: RDMA devices on Ethernet, and plain network devices where a rule names them as rails.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use node_agent_netlink::gid;
use proto_model::Nic;

use crate::{
    host::Finding,
    rails::{Candidate, RailRule},
    sysfs::{Tree, is_pci_address, numa},
};

/// Addresses of network devices, by device.
pub type Addresses = BTreeMap<String, Vec<IpAddr>>;

/// All NICs that serve a rail, by rail then device.
pub fn discover(
    tree: &Tree,
    addresses: &Addresses,
    rule: &RailRule,
    findings: &mut Vec<Finding>,
) -> Vec<Nic> {
    let mut all: Vec<Nic> = Vec::new();
    let mut taken = BTreeSet::new();
    for device in tree.names("sys/class/infiniband") {
        if let Some(nic) = rdma(tree, addresses, &device, findings) {
            taken.insert(nic.netdev.clone());
            all.push(nic);
        }
    }
    for netdev in tree.names("sys/class/net") {
        // Aliases and bridges' own names are no cables; `lo` never is.
        if netdev != "lo" && !taken.contains(&netdev) {
            all.push(plain(tree, addresses, netdev));
        }
    }
    let candidates: Vec<Candidate<'_>> = all
        .iter()
        .map(|nic| Candidate {
            device: &nic.device,
            netdev: &nic.netdev,
            pci_address: &nic.pci_address,
            rdma: nic.device != nic.netdev
                || tree.at(&format!("sys/class/infiniband/{}", nic.device)).exists(),
            speed_mbps: nic.speed_mbps,
        })
        .collect();
    let rails = rule.assign(&candidates, findings);
    let mut nics: Vec<Nic> = all
        .iter()
        .zip(rails)
        .filter_map(|(nic, rail)| rail.map(|rail| Nic { rail, ..nic.clone() }))
        .collect();
    nics.sort_by(|a, b| (a.rail, &a.device).cmp(&(b.rail, &b.device)));
    nics
}

fn rdma(tree: &Tree, addresses: &Addresses, device: &str, findings: &mut Vec<Finding>) -> Option<Nic> {
    let base = format!("sys/class/infiniband/{device}");
    let port = format!("{base}/ports/1");
    let layer = tree.text(&format!("{port}/link_layer"));
    if layer.as_deref().is_some_and(|layer| layer != "Ethernet") {
        return None;
    }
    let netdev = netdev_of(tree, &base, &port);
    let Some(netdev) = netdev else {
        findings.push(Finding::new(device, "RDMA device without a network device; it is left out"));
        return None;
    };
    let known: &[IpAddr] = addresses.get(&netdev).map_or(&[], Vec::as_slice);
    let table = gid::table(tree, device, 1);
    let gid = gid::roce_v2(&table, &netdev, known).map(|gid| (gid.index, gid.address()));
    if gid.is_none() {
        let text = "no RoCE v2 GID for an address of its network device; give the device its rail's address";
        findings.push(Finding::new(device, text));
    }
    let active = tree.text(&format!("{port}/state")).is_none_or(|state| state.starts_with('4'));
    let net = plain(tree, addresses, netdev);
    let rate = || tree.text(&format!("{port}/rate")).and_then(|rate| rate_mbps(&rate)).unwrap_or(0);
    Some(Nic {
        device: device.to_owned(),
        pci_address: pci_address(tree, &base),
        numa_node: numa(tree, &format!("{base}/device/numa_node")),
        address: gid.map(|(_, address)| address).or(net.address),
        gid_index: gid.map(|(index, _)| index),
        speed_mbps: if net.speed_mbps == 0 { rate() } else { net.speed_mbps },
        up: net.up && active,
        ..net
    })
}

fn plain(tree: &Tree, addresses: &Addresses, netdev: String) -> Nic {
    let base = format!("sys/class/net/{netdev}");
    let state = tree.text(&format!("{base}/operstate")).unwrap_or_default();
    // Drivers without carrier detection say "unknown"; their flags tell whether they are up (IFF_UP is bit 0).
    let flags = tree.text(&format!("{base}/flags"));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let up = state == "up" || (state == "unknown" && flags.is_none_or(|flags| flags & 1 == 1));
    let speed: i64 = tree.number(&format!("{base}/speed")).unwrap_or(-1);
    let routable = |address: &&IpAddr| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    Nic {
        device: netdev.clone(),
        pci_address: pci_address(tree, &base),
        numa_node: numa(tree, &format!("{base}/device/numa_node")),
        rail: 0,
        address: addresses.get(&netdev).and_then(|list| list.iter().find(routable)).copied(),
        mtu: tree.number(&format!("{base}/mtu")).unwrap_or(0),
        speed_mbps: u64::try_from(speed).unwrap_or(0),
        up,
        gid_index: None,
        netdev,
    }
}

fn pci_address(tree: &Tree, base: &str) -> String {
    let path = tree.device_path(&format!("{base}/device")).unwrap_or_default();
    path.into_iter().rev().find(|part| is_pci_address(part)).unwrap_or_default()
}

fn netdev_of(tree: &Tree, base: &str, port: &str) -> Option<String> {
    let beside = tree.names(&format!("{base}/device/net")).into_iter().next();
    // A software device (rxe) has no PCI device; its GIDs name the network device.
    beside.or_else(|| {
        let ndevs = format!("{port}/gid_attrs/ndevs");
        tree.names(&ndevs).into_iter().find_map(|index| tree.text(&format!("{ndevs}/{index}")))
    })
}

/// `400 Gb/sec (4X NDR)` in Mbit/s.
fn rate_mbps(rate: &str) -> Option<u64> {
    let number: f64 = rate.split_whitespace().next()?.parse().ok()?;
    (number.is_finite() && (0.0..1e7).contains(&number)).then_some((number * 1000.0) as u64)
}
