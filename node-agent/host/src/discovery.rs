//! What a pass over a server found.

use std::collections::BTreeMap;

use proto_model::Inventory;

use crate::finding::Finding;

/// Findings that are reported to a controller; a server with more has one cause for most of them.
const FINDINGS_REPORTED: usize = 32;

/// What a pass over the server found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discovery {
    /// GPUs, NICs and the rest.
    pub inventory: Inventory,
    /// PCI address -> path from the root complex, for example `pci0000:17`, `0000:17:01.0`, `0000:18:00.0`.
    pub pci_paths: BTreeMap<String, Vec<String>>,
    /// PCI address -> what NCCL's topology file says of its link; only where known.
    pub pci_links: BTreeMap<String, PciLink>,
    /// What a person should know.
    pub findings: Vec<Finding>,
}

/// A PCIe link as sysfs writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciLink {
    /// The PCI class code, for example `0x030200`.
    pub class: String,
    /// For example `32.0 GT/s PCIe`.
    pub speed: String,
    /// The number of lanes in use, for example `16`.
    pub width: String,
}

impl Discovery {
    /// What an inventory has by itself: the paths and links of its devices too.
    #[must_use]
    pub fn of_inventory(inventory: Inventory) -> Self {
        let (mut pci_paths, mut pci_links) = (BTreeMap::new(), BTreeMap::new());
        let gpus =
            inventory.gpus.iter().map(|gpu| (&gpu.pci_address, gpu.facts.as_deref().map(|facts| &facts.pci)));
        let nics =
            inventory.nics.iter().map(|nic| (&nic.pci_address, nic.facts.as_deref().map(|facts| &facts.pci)));
        for (address, device) in gpus.chain(nics) {
            let Some(device) = device.filter(|device| !device.path.is_empty()) else { continue };
            pci_paths.insert(address.clone(), device.path.split('/').map(str::to_owned).collect());
            if !device.speed.is_empty() {
                let (class, speed) = (device.class.clone(), device.speed.clone());
                let link = PciLink { class, speed, width: device.width.to_string() };
                pci_links.insert(address.clone(), link);
            }
        }
        Self { inventory, pci_paths, pci_links, findings: Vec::new() }
    }

    /// Puts what was odd into the inventory, for a controller to show.
    #[must_use]
    pub fn with_findings(mut self) -> Self {
        self.inventory.findings = self.findings.iter().take(FINDINGS_REPORTED).map(Finding::reason).collect();
        self
    }
}
