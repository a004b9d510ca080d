//! GPUs, from the PCI bus and what the drivers show in /proc and sysfs; NVML adds to it where it can be loaded ([`crate::nvml`]).

use proto_model::{Gpu, GpuFacts};

use crate::{
    finding::FindingKind,
    pass::DiscoveryPass,
    pci::{self, Slots},
    sysfs::{is_pci_address, numa},
};

const NVIDIA: &str = "0x10de";
const AMD: &str = "0x1002";
/// PCI vendor id of Habana Labs, which makes Gaudi accelerators.
const HABANA: &str = "0x1da3";
/// PCI class 0x0300 is a VGA controller, 0x0302 a 3D controller (PCI Code and ID Assignment Specification).
const CLASSES: [&str; 2] = ["0x0300", "0x0302"];
/// A 3D controller is a GPU, whoever made it; a VGA controller may be a management board's.
const CONTROLLER_3D: &str = "0x0302";
/// AMD's and Habana's data-centre parts say "processing accelerator" (class 0x1200).
const ACCELERATOR: &str = "0x1200";

/// All GPUs, numbered in PCI order, as `CUDA_DEVICE_ORDER=PCI_BUS_ID` numbers them.
pub fn discover(pass: &mut DiscoveryPass<'_>, slots: &Slots) -> Vec<Gpu> {
    let addresses: Vec<String> =
        pass.tree.names("sys/bus/pci/devices").into_iter().filter(|name| is_pci_address(name)).collect();
    let found: Vec<Gpu> = addresses.into_iter().filter_map(|address| read(pass, address, slots)).collect();
    found.into_iter().zip(0..).map(|(gpu, index)| Gpu { index, ..gpu }).collect()
}

fn read(pass: &mut DiscoveryPass<'_>, address: String, slots: &Slots) -> Option<Gpu> {
    let base = format!("sys/bus/pci/devices/{address}");
    let vendor = pass.tree.text(&format!("{base}/vendor"))?;
    let class = pass.tree.text(&format!("{base}/class"))?;
    let is = |wanted: &str| class.starts_with(wanted);
    let graphics = CLASSES.into_iter().any(is);
    let own = match vendor.as_str() {
        NVIDIA if graphics => nvidia(pass, &address),
        AMD if graphics || is(ACCELERATOR) => amd(pass, &address, &base),
        HABANA if is(ACCELERATOR) => habana(pass, &address),
        _ => {
            if is(ACCELERATOR) || is(CONTROLLER_3D) {
                let text =
                    format!("an accelerator of vendor {vendor}, which is not known here: no job gets it");
                pass.find(FindingKind::UnknownVendor, &address, text);
            }
            return None;
        }
    };
    let numa_node = numa(pass.tree, &format!("{base}/numa_node"));
    let facts = GpuFacts {
        pci: pci::device(pass, &address, slots),
        driver: pass.leads_to(&format!("{base}/driver")),
        driver_version: own.driver_version,
        ..GpuFacts::default()
    };
    Some(Gpu {
        index: 0,
        uuid: own.uuid,
        model: own.model,
        pci_address: address,
        numa_node,
        memory_bytes: own.memory_bytes,
        facts: Some(Box::new(facts)),
    })
}

/// What a vendor's driver says of a GPU.
#[derive(Debug, Default)]
struct Own {
    uuid: String,
    model: String,
    memory_bytes: u64,
    driver_version: String,
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

/// What NVIDIA's driver says without NVML: model and UUID, not the memory.
fn nvidia(pass: &mut DiscoveryPass<'_>, address: &str) -> Own {
    let path = format!("proc/driver/nvidia/gpus/{address}/information");
    let text = pass.tree.text(&path).unwrap_or_default();
    let mut field = |name: &str| {
        let line = text.lines().find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name));
        pass.reported(address, name, line.map_or("", |(_, value)| value))
    };
    Own {
        model: or(field("Model"), "NVIDIA GPU"),
        uuid: field("GPU UUID"),
        memory_bytes: 0,
        driver_version: pass.line(address, "sys/module/nvidia/version"),
    }
}

/// amdgpu shows these beside the PCI device (kernel `Documentation/gpu/amdgpu/driver-misc.rst`).
fn amd(pass: &mut DiscoveryPass<'_>, address: &str, base: &str) -> Own {
    Own {
        uuid: pass.line(address, &format!("{base}/unique_id")),
        model: or(pass.line(address, &format!("{base}/product_name")), "AMD GPU"),
        memory_bytes: pass.number(address, &format!("{base}/mem_info_vram_total")).unwrap_or(0),
        driver_version: pass.line(address, "sys/module/amdgpu/version"),
    }
}

/// habanalabs shows these below its class (kernel `Documentation/ABI/testing/sysfs-driver-habanalabs`).
fn habana(pass: &mut DiscoveryPass<'_>, address: &str) -> Own {
    let names = pass.tree.names("sys/class/accel");
    let device = names.into_iter().map(|name| format!("sys/class/accel/{name}/device"));
    let mut own =
        device.filter(|device| pass.tree.text(&format!("{device}/pci_addr")).as_deref() == Some(address));
    let Some(device) = own.next() else {
        return Own { model: "Habana accelerator".to_owned(), ..Own::default() };
    };
    Own {
        uuid: String::new(),
        model: or(pass.line(address, &format!("{device}/device_type")), "Habana accelerator"),
        memory_bytes: 0,
        driver_version: pass.line(address, "sys/module/habanalabs/version"),
    }
}
