//! What NCCL is given: environment and topology file, from inventory and placement.
//!
//! Names and values as in NCCL's documentation ("Environment Variables"). Whatever the user sets wins; that is
//! decided where the environments are joined, not here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::Path,
};

use node_agent_qos::DataClass;
use proto_model::{Gpu, Nic, NicPlace, NodePlace};

use crate::{
    affinity::{Distance, distance, nearest},
    discovery::Discovery,
};

/// NCCL's environment for the ranks of one job on one server. `data_class` is what they are to send in; `topology` is where
/// [`nccl_topology`]'s text lies.
#[must_use]
pub fn nccl_environment(
    discovery: &Discovery,
    place: &NodePlace,
    data_class: DataClass,
    topology: Option<&Path>,
) -> BTreeMap<String, String> {
    let nics = placed_nics(discovery, &place.nics);
    let rdma: Vec<&Nic> = nics.iter().filter(|nic| nic.gid_index.is_some()).collect();
    let mut environment = BTreeMap::new();
    let mut set = |name: &str, value: String| environment.insert(name.to_owned(), value);
    // '=' asks for exact names instead of prefixes.
    let netdevs: Vec<&str> = nics.iter().map(|nic| nic.netdev.as_str()).collect();
    if !netdevs.is_empty() {
        set("NCCL_SOCKET_IFNAME", format!("={}", netdevs.join(",")));
    }
    if rdma.is_empty() {
        set("NCCL_IB_DISABLE", "1".to_owned());
    } else {
        set("NCCL_IB_DISABLE", "0".to_owned());
        let devices: Vec<String> = rdma.iter().map(|nic| hca(nic)).collect();
        set("NCCL_IB_HCA", format!("={}", devices.join(",")));
        set("NCCL_IB_TC", data_class.traffic_class.to_string());
        // One index for all devices: only where they agree; else NCCL finds a RoCE v2 GID by itself.
        let indices: BTreeSet<u32> = rdma.iter().filter_map(|nic| nic.gid_index).collect();
        if let (1, Some(index)) = (indices.len(), indices.first()) {
            set("NCCL_IB_GID_INDEX", index.to_string());
        }
    }
    set("NCCL_NET_GDR_LEVEL", gdr_level(discovery, place, &rdma));
    if let Some(path) = topology {
        set("NCCL_TOPO_FILE", path.display().to_string());
    }
    environment
}

/// An RDMA device with its port, as `NCCL_IB_HCA` takes it.
fn hca(nic: &Nic) -> String {
    let (name, port) = rdma_port(nic);
    format!("{name}:{port}")
}

/// Name and port of the RDMA device: ports after the first are in the name of the NIC.
fn rdma_port(nic: &Nic) -> (&str, u32) {
    let port = nic.facts.as_deref().and_then(|facts| facts.port).map_or(1, |port| port.number);
    (nic.device.split_once(':').map_or(nic.device.as_str(), |(name, _)| name), port)
}

/// A NIC as a placement alone describes it: its names, rail and address.
#[must_use]
pub fn placed_nic(place: &NicPlace) -> Nic {
    Nic {
        device: place.device.clone(),
        netdev: place.netdev.clone(),
        pci_address: String::new(),
        numa_node: None,
        rail: place.rail,
        address: place.address,
        mtu: 0,
        speed_mbps: 0,
        up: true,
        gid_index: None,
        facts: None,
    }
}

/// NICs of the placement as the inventory knows them now; what it does not know is taken from the placement.
fn placed_nics(discovery: &Discovery, places: &[NicPlace]) -> Vec<Nic> {
    let known = |place: &NicPlace| discovery.inventory.nics.iter().find(|nic| nic.device == place.device);
    places.iter().map(|place| known(place).cloned().unwrap_or_else(|| placed_nic(place))).collect()
}

/// How far GPUDirect may reach: as far as the worst pair of a placed GPU and its nearest NIC, but never across
/// processors; `LOC` (never) without RDMA or GPUs.
fn gdr_level(discovery: &Discovery, place: &NodePlace, rdma: &[&Nic]) -> String {
    let gpus = placed_gpus(discovery, place);
    let pairs = gpus.iter().filter_map(|gpu| {
        let nic = nearest(discovery, gpu, rdma)?;
        Some(distance(discovery, gpu, nic))
    });
    match pairs.max() {
        None => "LOC".to_owned(),
        Some(worst) => worst.min(Distance::Phb).as_str().to_owned(),
    }
}

fn placed_gpus<'a>(discovery: &'a Discovery, place: &NodePlace) -> Vec<&'a Gpu> {
    discovery.inventory.gpus.iter().filter(|gpu| place.gpus.contains(&gpu.index)).collect()
}

enum Leaf {
    Gpu(String),
    Net(String),
}

#[derive(Default)]
struct Branch {
    children: BTreeMap<String, Branch>,
    gpu: Option<String>,
    /// Ports of one PCI device are one NIC.
    nets: Vec<String>,
}

/// NCCL's topology file (`NCCL_TOPO_FILE`): processors, PCIe switches, GPUs and NICs of the placement, as NCCL's own
/// `NCCL_TOPO_DUMP_FILE` writes them; what is left out NCCL detects. None where no PCIe path is known.
#[must_use]
pub fn nccl_topology(discovery: &Discovery, place: &NodePlace) -> Option<String> {
    let mut processors: BTreeMap<u32, Branch> = BTreeMap::new();
    let mut add = |numa: Option<u32>, address: &str, leaf: Leaf| {
        let Some(path) = discovery.pci_paths.get(address) else { return };
        let mut branch = processors.entry(numa.unwrap_or(0)).or_default();
        // The host bridge itself is no PCI device.
        for part in path.iter().filter(|part| crate::sysfs::is_pci_address(part)) {
            branch = branch.children.entry(part.clone()).or_default();
        }
        match leaf {
            Leaf::Gpu(gpu) => branch.gpu = Some(gpu),
            Leaf::Net(net) => branch.nets.push(net),
        }
    };
    // NCCL knows no MIG instances: it finds the one that its process sees by itself.
    let whole = |gpu: &&Gpu| !gpu.is_partition();
    for gpu in placed_gpus(discovery, place).into_iter().filter(whole) {
        let text = format!("<gpu dev=\"{}\"/>", gpu.index);
        add(gpu.numa_node, &gpu.pci_address, Leaf::Gpu(text));
    }
    for (dev, nic) in placed_nics(discovery, &place.nics).iter().enumerate() {
        let (name, port) = rdma_port(nic);
        let (name, speed) = (escape(name), nic.speed_mbps);
        let net = format!("<net name=\"{name}\" dev=\"{dev}\" speed=\"{speed}\" port=\"{port}\"/>");
        add(nic.numa_node, &nic.pci_address, Leaf::Net(net));
    }
    if processors.is_empty() {
        return None;
    }
    let mut text = String::from("<system version=\"1\">\n");
    for (numa, branch) in &processors {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  <cpu numaid=\"{numa}\" arch=\"{}\">", std::env::consts::ARCH);
        for (address, child) in &branch.children {
            write_branch(discovery, address, child, 2, &mut text);
        }
        text.push_str("  </cpu>\n");
    }
    text.push_str("</system>\n");
    Some(text)
}

fn write_branch(discovery: &Discovery, address: &str, branch: &Branch, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let _ = write!(text, "{indent}<pci busid=\"{}\"", escape(address));
    if let Some(link) = discovery.pci_links.get(address) {
        let (class, speed, width) = (escape(&link.class), escape(&link.speed), escape(&link.width));
        let _ = write!(text, " class=\"{class}\" link_speed=\"{speed}\" link_width=\"{width}\"");
    }
    text.push_str(">\n");
    if let Some(gpu) = &branch.gpu {
        let _ = writeln!(text, "{indent}  {gpu}");
    }
    if !branch.nets.is_empty() {
        let _ = writeln!(text, "{indent}  <nic>{}</nic>", branch.nets.concat());
    }
    for (address, child) in &branch.children {
        write_branch(discovery, address, child, depth + 1, text);
    }
    let _ = writeln!(text, "{indent}</pci>");
}

fn escape(text: &str) -> String {
    let safe = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        c if c.is_control() => String::new(),
        c => c.to_string(),
    };
    text.chars().map(safe).collect()
}
