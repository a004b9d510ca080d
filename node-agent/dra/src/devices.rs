//! The devices of a server: one for each NIC that serves a rail, with what a claim may select it by. [pure]

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use proto_model::{Inventory, Nic, Severity};
use serde::{Deserialize, Serialize};

/// The greatest length of a DNS label, which a device's name is.
const LABEL_MAX: usize = 63;

/// What is known of a server and of where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerView {
    /// Its hardware, and what is wrong with it.
    pub inventory: Inventory,
    /// Rails that the controller does not use here: not cabled as the fabric document says.
    pub cut: BTreeSet<u32>,
    /// Rails that an administrator has taken out of use here.
    pub drained: BTreeSet<u32>,
    /// Why no new job may come to this server at all: a code in UpperCamelCase.
    pub closed: Option<&'static str>,
    /// Its pod, where it is known.
    pub pod: Option<String>,
    /// The leaf of each NIC, by the NIC's device, where it is known.
    pub leaves: BTreeMap<String, String>,
}

/// How a rail of this server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fitness {
    /// Nothing is known against it.
    Healthy,
    /// Jobs suffer, but run.
    Degraded,
    /// No new job should use it; why, as a code in UpperCamelCase.
    Unfit(String),
}

impl Fitness {
    /// As attributes name it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unfit(_) => "unfit",
        }
    }
}

/// A NIC on its rail, as it is published and given out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailDevice {
    /// Its name in the pool: by where the NIC is plugged in, so that it stays the same whatever the NIC is cabled to.
    pub name: String,
    /// Index of the rail.
    pub rail: u32,
    /// Which of the server's NICs on this rail, where it has several: the planes of the rail.
    pub plane: Option<u32>,
    /// RDMA device, or the network device where there is none.
    pub nic: String,
    /// Network device.
    pub netdev: String,
    /// PCI address; may be empty.
    pub pci_address: String,
    /// Root complex of its PCI path, for example `pci0000:17`; may be empty.
    pub pcie_root: String,
    /// NUMA node, where it is known.
    pub numa_node: Option<u32>,
    /// In Mbit/s; 0 if not known.
    pub speed_mbps: u64,
    /// Number of the port on its RDMA device, from 1.
    pub port: u32,
    /// Index of its RoCEv2 GID; `None`: it has no RDMA.
    pub gid_index: Option<u32>,
    /// Its address on the rail.
    pub address: Option<IpAddr>,
    /// Its leaf, where it is known.
    pub leaf: Option<String>,
    /// Its pod, where it is known.
    pub pod: Option<String>,
    /// How it is.
    pub fitness: Fitness,
}

impl RailDevice {
    /// The RDMA device without its port; `None` where there is no RDMA.
    #[must_use]
    pub fn rdma(&self) -> Option<&str> {
        self.gid_index?;
        Some(self.nic.split_once(':').map_or(self.nic.as_str(), |(name, _)| name))
    }
}

/// The devices of a server, in the order of their rails.
#[must_use]
pub fn devices(view: &ServerView) -> Vec<RailDevice> {
    let mut nics: Vec<&Nic> = view.inventory.nics.iter().collect();
    nics.sort_by_key(|nic| (nic.rail, port(nic), &nic.pci_address, &nic.device));
    let mut names = BTreeSet::new();
    let mut devices = Vec::with_capacity(nics.len());
    for nic in &nics {
        let of_rail: Vec<&&Nic> = nics.iter().filter(|other| other.rail == nic.rail).collect();
        let at = of_rail.iter().position(|other| other.device == nic.device);
        let plane = at.filter(|_| of_rail.len() > 1).and_then(|at| u32::try_from(at).ok());
        let name = name(nic);
        // A pool has each name once.
        if !names.insert(name.clone()) {
            continue;
        }
        devices.push(RailDevice {
            name,
            rail: nic.rail,
            plane,
            nic: nic.device.clone(),
            netdev: nic.netdev.clone(),
            pci_address: nic.pci_address.clone(),
            pcie_root: pcie_root(nic),
            numa_node: nic.numa_node,
            speed_mbps: nic.speed_mbps,
            port: port(nic),
            gid_index: nic.gid_index,
            address: nic.address,
            leaf: view.leaves.get(&nic.device).cloned(),
            pod: view.pod.clone(),
            fitness: fitness(view, nic),
        });
    }
    devices
}

fn port(nic: &Nic) -> u32 {
    nic.facts.as_deref().and_then(|facts| facts.port).map_or(1, |port| port.number)
}

fn pcie_root(nic: &Nic) -> String {
    let path = nic.facts.as_deref().map(|facts| facts.pci.path.as_str()).unwrap_or_default();
    path.split('/').next().filter(|first| first.starts_with("pci")).unwrap_or_default().to_owned()
}

/// A DNS label: `nic-0000-18-00-0`, of the second port of a device `nic-0000-18-00-0-p2`.
fn name(nic: &Nic) -> String {
    let at = if nic.pci_address.is_empty() { &nic.device } else { &nic.pci_address };
    let fine = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let place: String = at.chars().map(fine).take(LABEL_MAX - "nic--p255".len()).collect();
    let second = port(nic) > 1 && !nic.pci_address.is_empty();
    let port = if second { format!("-p{}", port(nic)) } else { String::new() };
    format!("nic-{}{port}", place.trim_matches('-'))
}

fn fitness(view: &ServerView, nic: &Nic) -> Fitness {
    let of_nic = view.inventory.health.iter().filter(|health| health.device == nic.device);
    let worst = of_nic.flat_map(|health| &health.conditions).max_by_key(|condition| condition.severity);
    let code = match worst {
        _ if view.closed.is_some() => view.closed,
        _ if !nic.up => Some("LinkDown"),
        _ if view.cut.contains(&nic.rail) => Some("Cut"),
        _ if view.drained.contains(&nic.rail) => Some("Drained"),
        Some(condition) if condition.severity == Severity::Drain => Some(condition.code.as_str()),
        Some(condition) if condition.severity == Severity::Degraded => return Fitness::Degraded,
        _ => None,
    };
    code.map_or(Fitness::Healthy, |code| Fitness::Unfit(code.to_owned()))
}

#[cfg(test)]
pub(crate) mod tests {
    use node_agent_host::from_json;
    use proto_model::{NicCondition, NicConditionCode, NicHealth, Timestamp};

    use super::*;

    /// Four rails on two NUMA nodes, with RDMA.
    pub fn view() -> ServerView {
        let nic = |k: u32| {
            format!(
                r#"{{"device": "mlx5_{k}", "netdev": "rail{k}", "pciAddress": "0000:{k}8:00.0", "numaNode": {}, "rail": {k},
                "address": "10.{k}.0.1", "mtu": 9000, "speedMbps": 400000, "up": true, "gidIndex": 3}}"#,
                k / 2
            )
        };
        let nics: Vec<String> = (0..4).map(nic).collect();
        let text =
            format!(r#"{{"nics": [{}], "numaNodes": 2, "cpus": 64, "memoryBytes": 1024}}"#, nics.join(","));
        ServerView { inventory: from_json(&text).unwrap(), ..ServerView::default() }
    }

    fn condition(severity: Severity) -> NicHealth {
        let condition = NicCondition {
            code: NicConditionCode::from_text("Storm"),
            severity,
            message: String::new(),
            since: Timestamp(1),
            probe: false,
        };
        NicHealth { device: "mlx5_1".to_owned(), score: 0, conditions: vec![condition], probe: None }
    }

    #[test]
    fn a_device_is_named_by_its_slot_and_described_by_its_rail() {
        let mut view = view();
        view.pod = Some("p0".to_owned());
        view.leaves = [("mlx5_2".to_owned(), "r2-leaf0".to_owned())].into();
        let all = devices(&view);
        assert_eq!(all.len(), 4);
        let third = &all[2];
        assert_eq!((third.name.as_str(), third.rail, third.plane), ("nic-0000-28-00-0", 2, None));
        assert_eq!((third.leaf.as_deref(), third.pod.as_deref()), (Some("r2-leaf0"), Some("p0")));
        assert_eq!((third.numa_node, third.rdma()), (Some(1), Some("mlx5_2")));
        assert!(all.iter().all(|one| one.fitness == Fitness::Healthy));
        // Cabled to another rail, it is the same device.
        view.inventory.nics[2].rail = 3;
        view.inventory.nics[3].rail = 2;
        let names =
            |view: &ServerView| devices(view).into_iter().map(|one| one.name).collect::<BTreeSet<_>>();
        assert_eq!(names(&view), all.into_iter().map(|one| one.name).collect());
    }

    #[test]
    fn every_cause_against_a_rail_has_its_code_and_the_strongest_is_given() {
        let fitness = |change: &dyn Fn(&mut ServerView)| {
            let mut view = view();
            change(&mut view);
            devices(&view).swap_remove(1).fitness
        };
        let unfit = |code: &str| Fitness::Unfit(code.to_owned());
        assert_eq!(fitness(&|view| view.inventory.nics[1].up = false), unfit("LinkDown"));
        assert_eq!(fitness(&|view| view.cut = [1].into()), unfit("Cut"));
        assert_eq!(fitness(&|view| view.cut = [0].into()), Fitness::Healthy);
        assert_eq!(fitness(&|view| view.drained = [1].into()), unfit("Drained"));
        assert_eq!(fitness(&|view| view.closed = Some("Quarantined")), unfit("Quarantined"));
        let health = |severity| fitness(&|view| view.inventory.health = vec![condition(severity)]);
        assert_eq!(health(Severity::Drain), unfit("Storm"));
        assert_eq!(health(Severity::Degraded), Fitness::Degraded);
        assert_eq!(health(Severity::Note), Fitness::Healthy);
        let both = fitness(&|view| {
            view.inventory.nics[1].up = false;
            view.closed = Some("Cordoned");
        });
        assert_eq!(both, unfit("Cordoned"));
    }

    #[test]
    fn two_nics_of_a_rail_are_its_planes_and_names_are_labels() {
        let mut view = view();
        view.inventory.nics[1].rail = 0;
        let all = devices(&view);
        let planes: Vec<Option<u32>> = all.iter().map(|one| one.plane).collect();
        assert_eq!(planes, [Some(0), Some(1), None, None]);
        view.inventory.nics[0].pci_address.clear();
        view.inventory.nics[0].device = format!("Rail_{}", "x".repeat(200));
        let named = devices(&view);
        for name in named.iter().map(|one| one.name.as_str()) {
            assert!(crate::key::is_name(name) && name.len() <= LABEL_MAX, "{name}");
        }
        // A name twice is a device once.
        view.inventory.nics[3].pci_address = view.inventory.nics[2].pci_address.clone();
        assert_eq!(devices(&view).len(), 3);
    }
}
