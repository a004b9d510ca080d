//! The `Host` trait: the real server, one that is described by a file, and a fake for tests.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use node_agent_netlink::{RealKernel, rdma, route::Route};
use proto_model::Inventory;

use crate::{
    discovery::{Discovery, PciLink},
    file::{InventoryFileError, from_json},
    finding::FindingKind,
    gpu,
    gpudirect::{self, Found, Libraries},
    nic,
    nvml::Nvml,
    pass::DiscoveryPass,
    pci,
    rails::{PreviousFindings, RailRule},
    sysfs::{Tree, list_len},
};

/// A server, as the agent sees it.
pub trait Host: Send + Sync {
    /// Reads the server now.
    ///
    /// # Errors
    /// Only where the whole pass is useless: an inventory file that cannot be read.
    fn discover(&self) -> Result<Discovery, InventoryFileError>;
}

/// This server, by sysfs, /proc and netlink.
#[derive(Debug, Clone)]
pub struct RealHost {
    tree: Tree,
    rule: RailRule,
    addresses: Option<nic::Addresses>,
    /// Rails that earlier passes found.
    held: Arc<Mutex<PreviousFindings>>,
    /// None for a recorded server: this machine's library knows nothing of it.
    nvml: Option<Arc<Nvml>>,
    /// Libraries for GPUDirect; `None` for a recorded server, as for `nvml`.
    libraries: Option<Arc<Libraries>>,
}

impl RealHost {
    /// The server that this process runs on (in its network namespace).
    #[must_use]
    pub fn new(rule: RailRule) -> Self {
        Self {
            tree: Tree::new("/"),
            rule,
            addresses: None,
            held: Arc::default(),
            nvml: Some(Arc::default()),
            libraries: Some(Arc::default()),
        }
    }

    /// A recorded tree and recorded addresses of its network devices.
    #[must_use]
    pub fn recorded(root: impl Into<PathBuf>, addresses: nic::Addresses, rule: RailRule) -> Self {
        Self {
            tree: Tree::new(root),
            rule,
            addresses: Some(addresses),
            held: Arc::default(),
            nvml: None,
            libraries: None,
        }
    }
}

impl Host for RealHost {
    fn discover(&self) -> Result<Discovery, InventoryFileError> {
        let mut findings = Vec::new();
        let mut pass = DiscoveryPass { tree: &self.tree, findings: &mut findings };
        let tree = pass.tree;
        let slots = pci::slots(tree);
        let mut gpus = gpu::discover(&mut pass, &slots);
        if let Some(nvml) = &self.nvml {
            nvml.add(&mut pass, &mut gpus);
        }
        let by_switch = matches!(self.rule, RailRule::Lldp(_));
        let neighbors = crate::lldp::discover(&mut pass, self.addresses.is_none(), by_switch);
        let (addresses, rdma) = match &self.addresses {
            Some(recorded) => (recorded.clone(), rdma::from_sysfs(tree)),
            None => (addresses(&mut pass), rdma::devices(&RealKernel::new())),
        };
        let known = nic::Known { addresses: &addresses, rdma: &rdma, neighbors: &neighbors, slots: &slots };
        let nics = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            nic::discover(&mut pass, known, &self.rule, &mut held)
        };
        if nics.is_empty() {
            let text =
                format!("no NIC serves a rail by the rule '{}'; give --rails or --inventory", self.rule);
            pass.find(FindingKind::NoRail, "rails", text);
        }
        let inventory = Inventory {
            gpus,
            nics,
            numa_nodes: numa_nodes(tree),
            cpus: tree.text("sys/devices/system/cpu/online").map_or(0, |text| list_len(&text)),
            memory_bytes: memory_bytes(tree).unwrap_or(0),
            neighbors,
            ..Inventory::default()
        };
        let (pci_paths, pci_links) = pci_of(tree, &inventory);
        let found = Discovery { inventory, pci_paths, pci_links, findings }.with_affinity();
        let libraries = self.libraries.as_ref().map_or_else(Found::default, |libraries| libraries.pass());
        Ok(gpudirect::add(&self.tree, found, libraries).with_findings())
    }
}

/// Addresses of this network namespace's devices.
fn addresses(pass: &mut DiscoveryPass<'_>) -> nic::Addresses {
    let all = Route::open(&RealKernel::new()).and_then(|mut route| route.addresses());
    all.unwrap_or_else(|error| {
        let text = format!("the kernel does not tell the addresses of network devices: {error}");
        pass.find(FindingKind::NetlinkFailed, "netlink", text);
        nic::Addresses::new()
    })
}

fn numa_nodes(tree: &Tree) -> u32 {
    let names = tree.names("sys/devices/system/node");
    let numbered = |name: &&String| {
        name.strip_prefix("node")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    u32::try_from(names.iter().filter(numbered).count()).unwrap_or(u32::MAX).max(1)
}

fn memory_bytes(tree: &Tree) -> Option<u64> {
    let text = tree.text("proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

type Pci = (BTreeMap<String, Vec<String>>, BTreeMap<String, PciLink>);

fn pci_of(tree: &Tree, inventory: &Inventory) -> Pci {
    let gpus = inventory.gpus.iter().map(|gpu| &gpu.pci_address);
    let nics = inventory.nics.iter().map(|nic| &nic.pci_address);
    let (mut paths, mut links) = (BTreeMap::new(), BTreeMap::new());
    for address in gpus.chain(nics).filter(|address| !address.is_empty()) {
        let Some(path) = tree.device_path(&format!("sys/bus/pci/devices/{address}")) else { continue };
        for part in &path {
            let base = format!("sys/bus/pci/devices/{part}");
            let Some(class) = tree.text(&format!("{base}/class")) else { continue };
            let which = pci::link_attributes(tree, &base, &class);
            let attribute = |name: &str| tree.text(&format!("{base}/{which}_link_{name}"));
            if let (Some(speed), Some(width)) = (attribute("speed"), attribute("width")) {
                links.insert(part.clone(), PciLink { class, speed, width });
            }
        }
        paths.insert(address.clone(), path);
    }
    (paths, links)
}

/// A server that an inventory file describes: where there is no such hardware, for development and tests.
#[derive(Debug, Clone)]
pub struct FileHost {
    path: PathBuf,
}

impl FileHost {
    /// The server that this file describes; the file is read at each pass.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl Host for FileHost {
    fn discover(&self) -> Result<Discovery, InventoryFileError> {
        crate::file::load(&self.path).map(Discovery::of_inventory)
    }
}

/// A server that a test describes and changes.
#[derive(Debug, Default)]
pub struct FakeHost {
    discovery: Mutex<Discovery>,
}

impl FakeHost {
    /// A server with this inventory.
    #[must_use]
    pub fn new(inventory: Inventory) -> Self {
        Self { discovery: Mutex::new(Discovery::of_inventory(inventory)) }
    }

    /// A server as an inventory file's text describes it.
    ///
    /// # Errors
    /// As [`from_json`].
    pub fn from_json(text: &str) -> Result<Self, InventoryFileError> {
        from_json(text).map(Self::new)
    }

    /// Changes what the next pass finds.
    pub fn change(&self, change: impl FnOnce(&mut Discovery)) {
        change(&mut self.discovery.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Host for FakeHost {
    fn discover(&self) -> Result<Discovery, InventoryFileError> {
        Ok(self.discovery.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}
