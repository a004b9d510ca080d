//! GPUs, from the PCI bus and what the drivers show in /proc and sysfs. NVML comes with its issue.

use proto_model::Gpu;

use crate::sysfs::{Tree, is_pci_address, numa};

const NVIDIA: &str = "0x10de";
const AMD: &str = "0x1002";
/// PCI class 0x0300 is a VGA controller, 0x0302 a 3D controller (PCI Code and ID Assignment Specification).
const CLASSES: [&str; 2] = ["0x0300", "0x0302"];
/// AMD's data-centre parts say "processing accelerator" (class 0x1200).
const AMD_ACCELERATOR: &str = "0x1200";

/// All GPUs, numbered in PCI order, as `CUDA_DEVICE_ORDER=PCI_BUS_ID` numbers them.
#[must_use]
pub fn discover(tree: &Tree) -> Vec<Gpu> {
    let addresses = tree.names("sys/bus/pci/devices").into_iter().filter(|name| is_pci_address(name));
    let found = addresses.filter_map(|address| read(tree, address));
    found.zip(0..).map(|(gpu, index)| Gpu { index, ..gpu }).collect()
}

fn read(tree: &Tree, address: String) -> Option<Gpu> {
    let base = format!("sys/bus/pci/devices/{address}");
    let vendor = tree.text(&format!("{base}/vendor"))?;
    let class = tree.text(&format!("{base}/class"))?;
    let is = |wanted: &str| class.starts_with(wanted);
    let graphics = CLASSES.into_iter().any(is);
    let (uuid, model, memory_bytes) = match vendor.as_str() {
        NVIDIA if graphics => nvidia(tree, &address),
        AMD if graphics || is(AMD_ACCELERATOR) => amd(tree, &base),
        _ => return None,
    };
    let numa_node = numa(tree, &format!("{base}/numa_node"));
    Some(Gpu { index: 0, uuid, model, pci_address: address, numa_node, memory_bytes })
}

/// What NVIDIA's driver tells without NVML: model and UUID, not the memory.
fn nvidia(tree: &Tree, address: &str) -> (String, String, u64) {
    let text = tree.text(&format!("proc/driver/nvidia/gpus/{address}/information")).unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name));
        line.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let model = field("Model");
    (field("GPU UUID"), if model.is_empty() { "NVIDIA GPU".to_owned() } else { model }, 0)
}

/// amdgpu shows these beside the PCI device.
fn amd(tree: &Tree, base: &str) -> (String, String, u64) {
    let text = |name: &str| tree.text(&format!("{base}/{name}")).unwrap_or_default();
    let model = text("product_name");
    let memory = tree.number(&format!("{base}/mem_info_vram_total")).unwrap_or(0);
    (text("unique_id"), if model.is_empty() { "AMD GPU".to_owned() } else { model }, memory)
}
