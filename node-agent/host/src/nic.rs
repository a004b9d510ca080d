//! NICs: RDMA devices on Ethernet, and plain network devices where a rule names them as rails.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use node_agent_health::Vendor;
use node_agent_netlink::{gid, rdma};
use proto_model::{Gid, GidKind, Neighbor, Nic, NicFacts, NicPort, PhysicalState, PortState};

use crate::{
    finding::FindingKind,
    pass::DiscoveryPass,
    pci::{self, Slots},
    rails::{Candidate, PreviousFindings, RailRule},
    sysfs::numa,
};

/// Addresses of network devices, by device.
pub type Addresses = BTreeMap<String, Vec<IpAddr>>;
/// Entries of a GID table that are reported; all of them are looked at.
const GIDS_REPORTED: usize = 32;

/// What is known of a server before its NICs are read.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Addresses of network devices.
    pub addresses: &'a Addresses,
    /// RDMA devices with their ports.
    pub rdma: &'a [rdma::Device],
    /// What network devices hear over LLDP.
    pub neighbors: &'a [Neighbor],
    /// The physical PCI slots of the server.
    pub slots: &'a Slots,
}

/// All NICs that serve a rail, by rail then device. `held` is what earlier passes found.
pub fn discover(
    pass: &mut DiscoveryPass<'_>,
    known: Known<'_>,
    rule: &RailRule,
    held: &mut PreviousFindings,
) -> Vec<Nic> {
    // A device has other addresses too (management, a virtual one); its rail's are what its GID is found by.
    let of_rails = known.addresses.iter().map(|(netdev, all)| (netdev.clone(), rule.of_rails(all)));
    let addresses: Addresses = of_rails.collect();
    let known = Known { addresses: &addresses, ..known };
    let mut all: Vec<Nic> = Vec::new();
    let mut taken = BTreeSet::new();
    for device in known.rdma.iter().filter(|device| is_name(&device.name)) {
        for nic in rdma_nics(pass, known, device) {
            taken.insert(nic.netdev.clone());
            all.push(nic);
        }
    }
    for netdev in pass.tree.names("sys/class/net") {
        // Aliases and bridges' own names are no cables; `lo` never is.
        if netdev != "lo"
            && is_name(&netdev)
            && !taken.contains(&netdev)
            && pass.tree.at(&format!("sys/class/net/{netdev}")).exists()
        {
            all.push(plain(pass, known, netdev));
        }
    }
    let candidates: Vec<Candidate<'_>> = all.iter().map(|nic| candidate(nic, known)).collect();
    let rails = rule.assign(&candidates, held, pass.findings);
    let mut nics: Vec<Nic> = Vec::new();
    for (mut nic, served) in all.into_iter().zip(rails) {
        let Some(served) = served else { continue };
        nic.rail = served.rail;
        if let Some(facts) = &mut nic.facts {
            facts.rail_reason = served.reason;
        }
        check(pass, &nic);
        nics.push(nic);
    }
    strangers(pass, &nics);
    nics.sort_by(|a, b| (a.rail, &a.device).cmp(&(b.rail, &b.device)));
    nics
}

fn candidate<'a>(nic: &'a Nic, known: Known<'a>) -> Candidate<'a> {
    let facts = nic.facts.as_deref();
    let heard = known.neighbors.iter().filter(|one| one.netdev == nic.netdev);
    Candidate {
        device: &nic.device,
        netdev: &nic.netdev,
        pci_address: &nic.pci_address,
        slot: facts.map_or("", |facts| facts.pci.slot.as_str()),
        rdma: facts.is_some_and(|facts| facts.port.is_some()),
        speed_mbps: nic.speed_mbps,
        kind: facts.map_or(("", ""), |facts| (facts.pci.id.as_str(), facts.driver.as_str())),
        addresses: known.addresses.get(&nic.netdev).map_or(&[], Vec::as_slice),
        switches: heard.map(|one| one.switch.as_str()).collect(),
    }
}

/// Drivers of RDMA devices that are not known here; each is one finding, however many NICs it has.
fn strangers(pass: &mut DiscoveryPass<'_>, nics: &[Nic]) {
    let mut drivers: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for nic in nics {
        let Some(facts) = nic.facts.as_deref().filter(|facts| facts.port.is_some()) else { continue };
        if !facts.driver.is_empty() && Vendor::of_driver(&facts.driver) == Vendor::Other {
            drivers.entry((&facts.driver, &facts.pci.id)).or_default().push(&nic.device);
        }
    }
    for ((driver, id), devices) in drivers {
        let more = match devices.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = format!(
            "the driver of {}{more} (PCI {id}) is not known here: rails are served, but only standard counters are watched",
            devices[0]
        );
        pass.find(FindingKind::UnknownVendor, driver, text);
    }
}

/// What is odd about a NIC that serves a rail.
fn check(pass: &mut DiscoveryPass<'_>, nic: &Nic) {
    let Some(facts) = nic.facts.as_deref() else { return };
    if facts.port.is_none() {
        return;
    }
    if nic.gid_index.is_none() {
        let text = "no RoCE v2 GID for an address of its network device; give the device its rail's address";
        pass.find(FindingKind::NoGid, &nic.device, text);
    }
    if !nic.pci_address.is_empty() {
        pci::check_link(pass, &nic.device, &facts.pci);
    }
}

/// The kernel takes almost any byte in a name (`dev_valid_name`); a controller takes none that could not be shown.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && !name.chars().any(char::is_control)
}

/// Whether a name of a class still is a device: its link leads nowhere once the device is gone.
fn is_there(pass: &mut DiscoveryPass<'_>, class: &str, name: &str) -> bool {
    let there = pass.tree.at(&format!("{class}/{name}")).exists();
    if !there {
        pass.find(FindingKind::Vanished, name, "it went while it was read; the rest goes on");
    }
    there
}

/// A NIC for each Ethernet port of an RDMA device. The first has the device's name, others `NAME:PORT`, as NCCL writes them.
fn rdma_nics(pass: &mut DiscoveryPass<'_>, known: Known<'_>, device: &rdma::Device) -> Vec<Nic> {
    if !is_there(pass, "sys/class/infiniband", &device.name) {
        return Vec::new();
    }
    let mut found: Vec<Nic> = Vec::new();
    let mut ethernet = 0;
    for port in &device.ports {
        let layer = format!("sys/class/infiniband/{}/ports/{}/link_layer", device.name, port.number);
        if pass.tree.text(&layer).is_some_and(|layer| layer != "Ethernet") {
            continue;
        }
        ethernet += 1;
        let Some(netdev) = port.netdev.clone().filter(|name| is_name(name)) else { continue };
        if is_there(pass, "sys/class/net", &netdev) {
            let name = match found.is_empty() {
                true => device.name.clone(),
                false => format!("{}:{}", device.name, port.number),
            };
            let nic = rdma_nic(pass, known, device, port, (name, netdev));
            // What was read of a device that went meanwhile is half of it.
            if is_there(pass, "sys/class/infiniband", &device.name) {
                found.push(nic);
            }
        }
    }
    if found.is_empty() && ethernet > 0 {
        let text = "RDMA device without a network device; it is left out";
        pass.find(FindingKind::NoNetdev, &device.name, text);
    }
    found
}

fn rdma_nic(
    pass: &mut DiscoveryPass<'_>,
    known: Known<'_>,
    device: &rdma::Device,
    port: &rdma::Port,
    (name, netdev): (String, String),
) -> Nic {
    let base = format!("sys/class/infiniband/{}", device.name);
    let own: &[IpAddr] = known.addresses.get(&netdev).map_or(&[], Vec::as_slice);
    let table = gid::table(pass.tree, &device.name, port.number);
    let gid = gid::roce_v2(&table, &netdev, own).map(|gid| (gid.index, gid.address()));
    let net = plain(pass, known, netdev);
    let pci_address = pci::address(pass.tree, &format!("{base}/device"));
    let mut facts = net.facts.unwrap_or_default();
    if pci_address != net.pci_address {
        facts.pci = pci::device(pass, &pci_address, known.slots);
    }
    if facts.driver.is_empty() {
        facts.driver = pass.leads_to(&format!("{base}/device/driver"));
    }
    // Soft-RoCE has no driver of a bus, and names its network device here (drivers/infiniband/sw/rxe/rxe_verbs.c).
    if pci_address.is_empty() && pass.tree.text(&format!("{base}/parent")).is_some() {
        facts.driver = "rdma_rxe".to_owned();
    }
    let firmware = device.firmware.as_deref().unwrap_or_default();
    facts.firmware = pass.reported(&name, "its firmware's version", firmware);
    facts.port = Some(NicPort {
        number: port.number,
        state: port.state.and_then(PortState::from_kernel),
        physical: port.physical.and_then(PhysicalState::from_kernel),
    });
    if table.len() > GIDS_REPORTED {
        let text = format!("{} GIDs; the first {GIDS_REPORTED} are told", table.len());
        pass.find(FindingKind::TooMany, &name, text);
    }
    facts.gids = table.into_iter().take(GIDS_REPORTED).map(reported).collect();
    let state = facts.port.and_then(|port| port.state);
    let active = state.is_none_or(|state| state == PortState::Active);
    // What a port without a link says there is no speed of it: mlx5 40 Gb/s, others that of their slowest link.
    let rate = pass.tree.text(&format!("{base}/ports/{}/rate", port.number));
    let rate = rate.filter(|_| state == Some(PortState::Active)).and_then(|rate| rate_mbps(&rate));
    Nic {
        device: name,
        numa_node: numa(pass.tree, &format!("{base}/device/numa_node")),
        pci_address,
        address: gid.map(|(_, address)| address).or(net.address),
        gid_index: gid.map(|(index, _)| index),
        speed_mbps: if net.speed_mbps == 0 { rate.unwrap_or(0) } else { net.speed_mbps },
        up: net.up && active,
        facts: Some(facts),
        ..net
    }
}

fn reported(gid: gid::Gid) -> Gid {
    let kind = match gid.kind {
        gid::GidType::RoceV1 => GidKind::RoceV1,
        gid::GidType::RoceV2 => GidKind::RoceV2,
        gid::GidType::Other(_) => GidKind::Other,
    };
    let fits = |name: &String| name.len() <= 64 && !name.chars().any(char::is_control);
    Gid { index: gid.index, gid: gid.raw, kind, netdev: gid.netdev.filter(fits).unwrap_or_default() }
}

fn plain(pass: &mut DiscoveryPass<'_>, known: Known<'_>, netdev: String) -> Nic {
    let base = format!("sys/class/net/{netdev}");
    let tree = pass.tree;
    let state = tree.text(&format!("{base}/operstate")).unwrap_or_default();
    // Drivers without carrier detection say "unknown"; their flags say whether they are up (IFF_UP is bit 0).
    let flags = tree.text(&format!("{base}/flags"));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let up = state == "up" || (state == "unknown" && flags.is_none_or(|flags| flags & 1 == 1));
    // A link that is down says -1, or refuses.
    let speed: i64 = tree.number(&format!("{base}/speed")).unwrap_or(-1);
    let routable = |address: &&IpAddr| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let pci_address = pci::address(tree, &format!("{base}/device"));
    let facts = NicFacts {
        pci: pci::device(pass, &pci_address, known.slots),
        driver: pass.leads_to(&format!("{base}/device/driver")),
        ..NicFacts::default()
    };
    Nic {
        device: netdev.clone(),
        numa_node: numa(tree, &format!("{base}/device/numa_node")),
        pci_address,
        rail: 0,
        address: known.addresses.get(&netdev).and_then(|list| list.iter().find(routable)).copied(),
        mtu: pass.number(&netdev, &format!("{base}/mtu")).unwrap_or(0),
        speed_mbps: u64::try_from(speed).unwrap_or(0),
        up,
        gid_index: None,
        facts: Some(Box::new(facts)),
        netdev,
    }
}

/// `400 Gb/sec (4X NDR)` in Mbit/s.
fn rate_mbps(rate: &str) -> Option<u64> {
    let number: f64 = rate.split_whitespace().next()?.parse().ok()?;
    (number.is_finite() && (0.0..1e7).contains(&number)).then_some((number * 1000.0) as u64)
}
