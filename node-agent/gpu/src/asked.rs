//! What is asked of NVML in one go. A GPU that does not answer is reported, and the others go on.

use std::collections::BTreeMap;

use crate::{
    ffi,
    library::{Gpu, Library, NvmlError},
};

/// GPUs of one server at most.
const GPUS_MOST: u32 = 64;
/// MIG instances of one GPU at most (seven on all that there are).
const INSTANCES_MOST: u32 = 32;
/// Links of one GPU at most (`NVML_NVLINK_MAX_LINKS` is 18).
const LINKS_MOST: u32 = 64;

/// What NVML says of the driver and its GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Driver {
    /// The driver's version; empty if NVML does not say.
    pub version: String,
    /// The GPUs, by NVML's index.
    pub devices: Vec<Device>,
    /// What NVML did not answer.
    pub troubles: Vec<Trouble>,
}

/// A GPU as NVML describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// As sysfs writes it, for example `0000:1b:00.0`.
    pub pci_address: String,
    /// For example `GPU-257d8671-...`; empty if NVML does not say.
    pub uuid: String,
    /// For example `NVIDIA H100 80GB HBM3`; empty if NVML does not say.
    pub name: String,
    /// The GPU's memory in bytes; 0 if NVML does not say.
    pub memory_bytes: u64,
    /// NVLinks that are up, by their other end.
    pub links: Vec<Link>,
    /// In MIG mode: its instances, of which there may be none. `None`: it is whole.
    pub instances: Option<Vec<Instance>>,
}

/// A MIG instance, which is what programs see of a GPU in MIG mode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instance {
    /// For example `MIG-1f4e8ff4-...`; empty if NVML does not say.
    pub uuid: String,
    /// For example `NVIDIA H100 80GB HBM3 MIG 1g.10gb`; empty if NVML does not say.
    pub name: String,
    /// The instance's memory in bytes; 0 if NVML does not say.
    pub memory_bytes: u64,
    /// The driver's number of its GPU instance.
    pub gpu_instance: u32,
    /// The driver's number of its compute instance in that.
    pub compute_instance: u32,
}

/// Links with the same other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The device that these links end at.
    pub peer: Peer,
    /// Number of links of this GPU that end there.
    pub count: u32,
    /// NVLink's version; 0 if NVML does not say.
    pub version: u32,
}

/// The other end of a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// A GPU, by its PCI address.
    Gpu(String),
    /// An NVSwitch.
    Switch,
    /// Something else, or NVML does not say.
    Other,
}

/// A question that NVML did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// NVML's index of the GPU, where it is about one.
    pub gpu: Option<u32>,
    /// Its PCI address, where that is known.
    pub pci_address: Option<String>,
    /// What NVML answered.
    pub error: NvmlError,
}

/// Asks NVML for the driver's version and for everything that is kept of each GPU.
pub(crate) fn ask(library: &Library) -> Result<Driver, NvmlError> {
    let session = library.session()?;
    let mut driver = Driver::default();
    match session.driver_version() {
        Ok(version) => driver.version = version,
        Err(error) => driver.troubles.push(Trouble { gpu: None, pci_address: None, error }),
    }
    for index in 0..session.count()?.min(GPUS_MOST) {
        let about = |pci_address: Option<&str>, error| Trouble {
            gpu: Some(index),
            pci_address: pci_address.map(str::to_owned),
            error,
        };
        let gpu = session.gpu(index).and_then(|gpu| Ok((gpu, gpu.pci_address()?)));
        match gpu {
            Ok((gpu, address)) => {
                let mut errors = Vec::new();
                let device = device(gpu, &address, &mut errors);
                let troubles = errors.into_iter().map(|error| about(Some(&address), error));
                driver.troubles.extend(troubles);
                driver.devices.push(device);
            }
            Err(error) => driver.troubles.push(about(None, error)),
        }
    }
    Ok(driver)
}

fn device(gpu: Gpu<'_>, address: &str, errors: &mut Vec<NvmlError>) -> Device {
    let mut device = Device { pci_address: address.to_owned(), ..Device::default() };
    let mut take =
        |text: Result<String, NvmlError>| text.map_err(|error| errors.push(error)).unwrap_or_default();
    device.uuid = take(gpu.uuid());
    device.name = take(gpu.name());
    match gpu.memory() {
        Ok(bytes) => device.memory_bytes = bytes,
        // GPUs that share the processor's memory (GB10) have none of their own.
        Err(error) if error.code == ffi::NOT_SUPPORTED => {}
        Err(error) => errors.push(error),
    }
    device.links = links(gpu, errors);
    match gpu.is_partitioned() {
        Ok(false) => {}
        Ok(true) => device.instances = Some(instances(gpu, errors)),
        Err(error) => errors.push(error),
    }
    device
}

/// The instances of a GPU in MIG mode. One whose numbers are not known is of no use to a job, and left out with that as a trouble.
fn instances(gpu: Gpu<'_>, errors: &mut Vec<NvmlError>) -> Vec<Instance> {
    let most = gpu.instances_most().map_err(|error| errors.push(error)).unwrap_or_default();
    let mut found = Vec::new();
    for index in 0..most.min(INSTANCES_MOST) {
        let one = gpu.instance(index).and_then(|one| {
            let Some(one) = one else { return Ok(None) };
            let (gpu_instance, compute_instance) = one.instance_ids()?;
            let (uuid, name) = (one.uuid()?, one.name()?);
            Ok(Some(Instance { uuid, name, memory_bytes: one.memory()?, gpu_instance, compute_instance }))
        });
        match one {
            Ok(one) => found.extend(one),
            Err(error) => errors.push(error),
        }
    }
    found.sort_by_key(|one| (one.gpu_instance, one.compute_instance));
    found
}

fn links(gpu: Gpu<'_>, errors: &mut Vec<NvmlError>) -> Vec<Link> {
    let mut found: BTreeMap<(Peer, u32), u32> = BTreeMap::new();
    for link in 0..LINKS_MOST {
        match gpu.link_is_up(link) {
            Ok(true) => {
                let version = gpu.link_version(link).unwrap_or(0);
                *found.entry((peer(gpu, link), version)).or_default() += 1;
            }
            Ok(false) => {}
            // It has no more links, or none at all.
            Err(error) if [ffi::INVALID_ARGUMENT, ffi::NOT_SUPPORTED].contains(&error.code) => break,
            Err(error) => {
                errors.push(error);
                break;
            }
        }
    }
    found.into_iter().map(|((peer, version), count)| Link { peer, count, version }).collect()
}

fn peer(gpu: Gpu<'_>, link: u32) -> Peer {
    match gpu.link_remote_type(link) {
        Ok(ffi::LINK_TO_SWITCH) => Peer::Switch,
        // Drivers before 460 do not say the kind; then the address shows whether it is a GPU.
        Ok(ffi::LINK_TO_GPU) | Err(_) => gpu.link_remote_address(link).map_or(Peer::Other, Peer::Gpu),
        Ok(_) => Peer::Other,
    }
}
