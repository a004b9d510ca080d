//! Inventory files: JSON in the shape of `rail.v1.Inventory`, strict.
//!
//! Field names are those of the canonical JSON mapping (`pciAddress`, `speedMbps`); 64-bit numbers may be numbers
//! or strings, as that mapping allows. Written by hand, so what is left out is "not known" (and `up` is true).

mod bounds;
mod facts;
mod shape;

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    net::IpAddr,
    path::{Path, PathBuf},
};

use proto_model::{Gpu, Inventory, Neighbor, Nic};
use thiserror::Error;

use bounds::INDEX_MAX;
use shape::{FileGpu, FileInventory, FileNeighbor, FileNic};

/// No server is described by more.
const FILE_MAX: u64 = 1024 * 1024;
/// Neighbours of one server at most, as the controller takes them.
const NEIGHBORS_MAX: usize = 256;
/// Bytes of a NIC's name; a controller takes no longer one.
const DEVICE_MAX: usize = 64;

/// Why a file is no inventory.
#[derive(Debug, Error)]
pub enum InventoryFileError {
    /// It cannot be read.
    #[error("cannot read the inventory file {}: {source}", path.display())]
    Read {
        /// Path of the inventory file.
        path: PathBuf,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// It is too large.
    #[error("the inventory is larger than {FILE_MAX} bytes; one file describes one server")]
    TooLarge,
    /// It is not JSON of this shape; the text names the line, the column and the field.
    #[error("the inventory is not valid: {0}")]
    Shape(#[from] serde_json::Error),
    /// Values that contradict each other; all of them.
    #[error("the inventory is not valid: {}", .0.join("; "))]
    Values(Vec<String>),
    /// One of the above, in this file.
    #[error("{}: {source}", path.display())]
    In {
        /// Path of the inventory file.
        path: PathBuf,
        /// What is wrong with the file.
        source: Box<InventoryFileError>,
    },
}

/// Reads and checks a file.
pub(crate) fn load(path: &Path) -> Result<Inventory, InventoryFileError> {
    let read = |source| InventoryFileError::Read { path: path.into(), source };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(read)?;
    file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(read)?;
    from_json(&text).map_err(|source| InventoryFileError::In { path: path.into(), source: Box::new(source) })
}

/// Reads and checks a text.
///
/// # Errors
/// [`InventoryFileError`] with line and column, or with every value that is wrong.
pub fn from_json(text: &str) -> Result<Inventory, InventoryFileError> {
    if text.len() as u64 > FILE_MAX {
        return Err(InventoryFileError::TooLarge);
    }
    let file: FileInventory = serde_json::from_str(text)?;
    let mut wrong = Vec::new();
    let mut gpus = checked_gpus(file.gpus, &mut wrong);
    let mut nics: Vec<Nic> = Vec::new();
    let mut devices = BTreeSet::new();
    for (at, nic) in file.nics.into_iter().enumerate() {
        let field = format!("nics[{at}]");
        if !devices.insert(nic.device.clone()) {
            wrong.push(format!("{field}.device: '{}' is there twice", nic.device));
        }
        nics.extend(checked_nic(&field, nic, &mut wrong));
    }
    let neighbors = neighbors(file.neighbors, &mut wrong);
    if !wrong.is_empty() {
        return Err(InventoryFileError::Values(wrong));
    }
    gpus.sort_by_key(|gpu| gpu.index);
    nics.sort_by(|a, b| (a.rail, &a.device).cmp(&(b.rail, &b.device)));
    let (numa_nodes, cpus, memory_bytes) = (file.numa_nodes, file.cpus, file.memory_bytes);
    Ok(Inventory { gpus, nics, numa_nodes, cpus, memory_bytes, neighbors, ..Inventory::default() })
}

fn neighbors(file: Vec<FileNeighbor>, wrong: &mut Vec<String>) -> Vec<Neighbor> {
    if file.len() > NEIGHBORS_MAX {
        wrong.push(format!("neighbors: {} are more than {NEIGHBORS_MAX}", file.len()));
    }
    let mut found = Vec::new();
    for (at, FileNeighbor { netdev, switch, port }) in file.into_iter().enumerate() {
        for (field, text) in [("netdev", &netdev), ("switch", &switch), ("port", &port)] {
            if text.is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
                wrong.push(format!("neighbors[{at}].{field}: must be printable, 1 to 128 bytes long"));
            }
        }
        found.push(Neighbor { netdev, switch, port });
    }
    found.sort();
    found
}

fn checked_gpus(gpus: Vec<FileGpu>, wrong: &mut Vec<String>) -> Vec<Gpu> {
    let mut indices = BTreeSet::new();
    let mut found = Vec::new();
    for (at, gpu) in gpus.into_iter().enumerate() {
        let field = format!("gpus[{at}]");
        if gpu.index >= INDEX_MAX {
            wrong.push(format!("{field}.index: {} is not below {INDEX_MAX}", gpu.index));
        }
        if !indices.insert(gpu.index) {
            wrong.push(format!("{field}.index: {} is there twice", gpu.index));
        }
        found.push(Gpu {
            index: gpu.index,
            uuid: gpu.uuid,
            model: gpu.model,
            pci_address: gpu.pci_address,
            numa_node: u32::try_from(gpu.numa_node).ok(),
            memory_bytes: gpu.memory_bytes,
            facts: gpu.facts.map(|facts| Box::new(facts.checked(&field, wrong))),
        });
    }
    found
}

fn checked_nic(field: &str, nic: FileNic, wrong: &mut Vec<String>) -> Option<Nic> {
    let before = wrong.len();
    if nic.device.is_empty() {
        wrong.push(format!("{field}.device: must not be empty"));
    } else if nic.device.len() > DEVICE_MAX || nic.device.chars().any(char::is_control) {
        wrong.push(format!("{field}.device: must be at most {DEVICE_MAX} printable bytes long"));
    }
    if nic.rail >= INDEX_MAX {
        wrong.push(format!("{field}.rail: {} is not below {INDEX_MAX}", nic.rail));
    }
    let address = match nic.address.as_str() {
        "" => None,
        text => match text.parse::<IpAddr>() {
            Ok(address) => Some(address),
            Err(_) => {
                wrong.push(format!("{field}.address: '{text}' is not an IP address"));
                None
            }
        },
    };
    let facts = nic.facts.map(|facts| Box::new(facts.checked(field, wrong)));
    (wrong.len() == before).then(|| Nic {
        netdev: if nic.netdev.is_empty() { nic.device.clone() } else { nic.netdev },
        device: nic.device,
        pci_address: nic.pci_address,
        numa_node: u32::try_from(nic.numa_node).ok(),
        rail: nic.rail,
        address,
        mtu: nic.mtu,
        speed_mbps: nic.speed_mbps,
        up: nic.up,
        gid_index: u32::try_from(nic.gid_index).ok(),
        facts,
    })
}

/// The text that [`from_json`] reads as this inventory; health is not in it, for it is no hardware.
#[must_use]
pub fn to_json(inventory: &Inventory) -> String {
    let number = |number: Option<u32>| number.and_then(|number| i32::try_from(number).ok()).unwrap_or(-1);
    let gpu = |gpu: &Gpu| FileGpu {
        index: gpu.index,
        uuid: gpu.uuid.clone(),
        model: gpu.model.clone(),
        pci_address: gpu.pci_address.clone(),
        numa_node: number(gpu.numa_node),
        memory_bytes: gpu.memory_bytes,
        facts: gpu.facts.as_deref().map(Into::into),
    };
    let nic = |nic: &Nic| FileNic {
        device: nic.device.clone(),
        netdev: nic.netdev.clone(),
        pci_address: nic.pci_address.clone(),
        numa_node: number(nic.numa_node),
        rail: nic.rail,
        address: nic.address.map(|address| address.to_string()).unwrap_or_default(),
        mtu: nic.mtu,
        speed_mbps: nic.speed_mbps,
        up: nic.up,
        gid_index: number(nic.gid_index),
        facts: nic.facts.as_deref().map(Into::into),
    };
    let neighbor = |one: &Neighbor| {
        let Neighbor { netdev, switch, port } = one.clone();
        FileNeighbor { netdev, switch, port }
    };
    let file = FileInventory {
        gpus: inventory.gpus.iter().map(gpu).collect(),
        nics: inventory.nics.iter().map(nic).collect(),
        neighbors: inventory.neighbors.iter().map(neighbor).collect(),
        numa_nodes: inventory.numa_nodes,
        cpus: inventory.cpus,
        memory_bytes: inventory.memory_bytes,
        health: None,
        findings: None,
        changes: None,
    };
    // Texts and numbers always have a JSON.
    serde_json::to_string_pretty(&file).unwrap_or_default()
}
