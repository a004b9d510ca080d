//! What NVML adds to the GPUs that the PCI bus shows: UUID, memory, the driver's version, NVLinks that are up. Where it cannot be asked,
//! what sysfs says stays, and the reason is a finding.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use node_agent_gpu::{Driver, Peer, ReadError, Reader};
use proto_model::{Gpu, GpuFacts, GpuLink, LinkPeer, MigInstance};

use crate::{finding::FindingKind, pass::DiscoveryPass};

/// NVIDIA, as PCI devices are named.
const NVIDIA: &str = "10de:";
/// How long is waited for an answer. A GPU without persistence mode wakes up in this time.
const LIMIT: Duration = Duration::from_secs(5);
/// How long an answer is good while the GPUs on the bus stay the same: asking may wake GPUs up.
const GOOD_FOR: Duration = Duration::from_secs(300);

#[derive(Debug)]
struct Last {
    gpus: Vec<String>,
    at: Instant,
    driver: Driver,
}

/// Asks NVML, and remembers for a while what it said.
#[derive(Debug, Default)]
pub struct Nvml {
    reader: Reader,
    last: Mutex<Option<Last>>,
}

impl Nvml {
    /// Asks NVML by this reader.
    #[must_use]
    pub fn new(reader: Reader) -> Self {
        Self { reader, last: Mutex::default() }
    }

    /// Adds what NVML says; it is not asked where there is no GPU of NVIDIA.
    pub fn add(&self, pass: &mut DiscoveryPass<'_>, gpus: &mut Vec<Gpu>) {
        let own: Vec<String> =
            gpus.iter().filter(|gpu| is_nvidia(gpu)).map(|gpu| gpu.pci_address.clone()).collect();
        if own.is_empty() {
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let good = |last: &Last| last.gpus == own && last.at.elapsed() < GOOD_FOR;
        if !last.as_ref().is_some_and(good) {
            match self.reader.read(LIMIT) {
                // What is not whole is asked again at the next pass.
                Ok(driver) => *last = Some(Last { gpus: own, at: Instant::now(), driver }),
                Err(error) => {
                    *last = None;
                    let kind = match error {
                        ReadError::Load(_) => FindingKind::LibraryMissing,
                        _ => FindingKind::LibraryFailed,
                    };
                    let text = format!("{error}; GPUs are known from sysfs only, without memory and NVLinks");
                    pass.find(kind, "nvml", text);
                }
            }
        }
        if let Some(last) = &*last {
            merge(pass, gpus, &last.driver);
        }
        if last.as_ref().is_some_and(|last| !last.driver.troubles.is_empty()) {
            *last = None;
        }
    }
}

fn is_nvidia(gpu: &Gpu) -> bool {
    gpu.facts.as_deref().is_some_and(|facts| facts.pci.id.starts_with(NVIDIA))
}

/// Puts the instances of a GPU in MIG mode in its place, each a GPU of its own, and renumbers all: programs can use nothing else of
/// such a GPU. One without instances is no use to anybody until it has some.
fn partition(pass: &mut DiscoveryPass<'_>, gpus: &mut Vec<Gpu>, driver: &Driver) {
    if driver.devices.iter().all(|device| device.instances.is_none()) {
        return;
    }
    let mut parts = Vec::new();
    for gpu in gpus.drain(..) {
        let device = driver.devices.iter().find(|device| device.pci_address == gpu.pci_address);
        let Some(instances) = device.and_then(|device| device.instances.as_ref()) else {
            parts.push(gpu);
            continue;
        };
        if instances.is_empty() {
            let text = "it is in MIG mode and has no instances, so no job gets it: create some (nvidia-smi mig -cgi PROFILE -C), or end MIG mode (nvidia-smi -mig 0)";
            pass.find(FindingKind::GpuUnusable, &gpu.pci_address, text);
        }
        parts.extend(instances.iter().map(|instance| {
            let mig = MigInstance {
                gpu_instance: instance.gpu_instance,
                compute_instance: instance.compute_instance,
            };
            let facts = gpu.facts.clone().map(|facts| Box::new(GpuFacts { mig: Some(mig), ..*facts }));
            let (uuid, model) = (instance.uuid.clone(), instance.name.clone());
            Gpu { uuid, model, memory_bytes: instance.memory_bytes, facts, ..gpu.clone() }
        }));
    }
    for (gpu, index) in parts.iter_mut().zip(0..) {
        gpu.index = index;
    }
    *gpus = parts;
}

/// Adds an answer to the GPUs that the PCI bus shows, by their address.
pub fn merge(pass: &mut DiscoveryPass<'_>, gpus: &mut Vec<Gpu>, driver: &Driver) {
    partition(pass, gpus, driver);
    let index = |address: &str| gpus.iter().find(|gpu| gpu.pci_address == address).map(|gpu| gpu.index);
    let links = |device: &node_agent_gpu::Device| -> Vec<GpuLink> {
        let link = |link: &node_agent_gpu::Link| {
            let peer = match &link.peer {
                Peer::Gpu(address) => index(address).map_or(LinkPeer::Other, LinkPeer::Gpu),
                Peer::Switch => LinkPeer::Switch,
                Peer::Other => LinkPeer::Other,
            };
            GpuLink { peer, count: link.count, version: link.version }
        };
        let mut links: Vec<GpuLink> = device.links.iter().map(link).collect();
        links.sort_by_key(|link| (link.peer, link.version));
        links
    };
    let reported: Vec<_> = driver.devices.iter().map(|device| (device, links(device))).collect();
    for gpu in gpus.iter_mut().filter(|gpu| is_nvidia(gpu)) {
        let Some((device, links)) = reported.iter().find(|(device, _)| device.pci_address == gpu.pci_address)
        else {
            let text = "NVML does not tell of it: it is not the NVIDIA driver's, or it has failed (see the kernel's log for Xid)";
            pass.find(FindingKind::LibraryFailed, &gpu.pci_address, text);
            continue;
        };
        let whole = !gpu.is_partition();
        let take = |old: &mut String, new: &String| {
            if !new.is_empty() {
                old.clone_from(new);
            }
        };
        if whole {
            take(&mut gpu.uuid, &device.uuid);
            take(&mut gpu.model, &device.name);
            if device.memory_bytes > 0 {
                gpu.memory_bytes = device.memory_bytes;
            }
        }
        if let Some(facts) = &mut gpu.facts {
            take(&mut facts.driver_version, &driver.version);
            // Instances have no NVLink to others (NVIDIA MIG User Guide, "Application Considerations").
            if whole {
                facts.links.clone_from(links);
            }
        }
    }
    for trouble in &driver.troubles {
        let subject = match (&trouble.pci_address, trouble.gpu) {
            (Some(address), _) => address.clone(),
            (None, Some(gpu)) => format!("nvml GPU {gpu}"),
            (None, None) => "nvml".to_owned(),
        };
        pass.find(FindingKind::LibraryFailed, &subject, trouble.error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use node_agent_gpu::{Device, Instance, Link, NvmlError, Trouble};
    use proto_model::PciDevice;

    use super::*;
    use crate::{finding::Finding, sysfs::Tree};

    fn gpu(index: u32, id: &str) -> Gpu {
        let facts =
            GpuFacts { pci: PciDevice { id: id.into(), ..PciDevice::default() }, ..GpuFacts::default() };
        Gpu {
            index,
            uuid: "GPU-proc".into(),
            model: "NVIDIA GPU".into(),
            pci_address: format!("0000:{index:02x}:00.0"),
            numa_node: None,
            memory_bytes: 0,
            facts: Some(Box::new(facts)),
        }
    }

    fn pass(
        gpus: &mut Vec<Gpu>,
        act: impl FnOnce(&mut DiscoveryPass<'_>, &mut Vec<Gpu>),
    ) -> Vec<(FindingKind, String)> {
        let mut findings: Vec<Finding> = Vec::new();
        act(&mut DiscoveryPass { tree: &Tree::new("/nowhere"), findings: &mut findings }, gpus);
        findings.into_iter().map(|finding| (finding.kind, finding.subject)).collect()
    }

    #[test]
    fn what_nvml_tells_is_added_by_address_and_the_rest_stands() {
        let device = |index: u32| Device {
            pci_address: format!("0000:{index:02x}:00.0"),
            uuid: format!("GPU-{index}"),
            memory_bytes: 80 << 30,
            ..Device::default()
        };
        let link = |peer| Link { peer, count: 2, version: 4 };
        let peers = [Peer::Switch, Peer::Gpu("0000:02:00.0".into()), Peer::Gpu("0000:ff:00.0".into())];
        let with_links = Device { links: peers.map(link).into(), ..device(1) };
        let lost = NvmlError { call: "nvmlDeviceGetUUID", code: 15, words: "GPU is lost".into() };
        let trouble = Trouble { gpu: Some(1), pci_address: Some("0000:02:00.0".into()), error: lost };
        let driver = Driver {
            version: "550.90.07".into(),
            devices: vec![Device { uuid: String::new(), ..device(2) }, with_links],
            troubles: vec![trouble],
        };
        let mut gpus =
            vec![gpu(1, "10de:2330"), gpu(2, "10de:2330"), gpu(3, "10de:2330"), gpu(4, "1002:74a1")];
        let reported = pass(&mut gpus, |pass, gpus| merge(pass, gpus, &driver));
        let failed = |address: &str| (FindingKind::LibraryFailed, address.to_owned());
        assert_eq!(reported, [failed("0000:03:00.0"), failed("0000:02:00.0")]);
        let uuids: Vec<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        assert_eq!(uuids, ["GPU-1", "GPU-proc", "GPU-proc", "GPU-proc"]);
        assert_eq!(gpus.iter().map(|gpu| gpu.memory_bytes >> 30).collect::<Vec<_>>(), [80, 80, 0, 0]);
        let facts = gpus[0].facts.as_deref().unwrap();
        let peers: Vec<LinkPeer> = facts.links.iter().map(|link| link.peer).collect();
        assert_eq!(peers, [LinkPeer::Gpu(2), LinkPeer::Switch, LinkPeer::Other]);
        assert_eq!(facts.driver_version, "550.90.07");
    }

    #[test]
    fn instances_stand_in_the_place_of_their_gpu() {
        let device = |index: u32| Device {
            pci_address: format!("0000:{index:02x}:00.0"),
            uuid: format!("GPU-{index}"),
            name: "NVIDIA H100".into(),
            memory_bytes: 80 << 30,
            links: vec![Link { peer: Peer::Gpu("0000:03:00.0".into()), count: 18, version: 4 }],
            instances: None,
        };
        let instance = |gpu_instance| Instance {
            uuid: format!("MIG-{gpu_instance}"),
            name: "NVIDIA H100 MIG 1g.10gb".into(),
            memory_bytes: 10 << 30,
            gpu_instance,
            compute_instance: 1,
        };
        let driver = Driver {
            devices: vec![
                Device { instances: Some(vec![instance(7), instance(9)]), ..device(0) },
                Device { instances: Some(Vec::new()), ..device(1) },
                device(2),
                device(3),
            ],
            ..Driver::default()
        };
        let mut gpus = (0..4).map(|index| gpu(index, "10de:2330")).collect();
        let reported = pass(&mut gpus, |pass, gpus| merge(pass, gpus, &driver));
        assert_eq!(reported, [(FindingKind::GpuUnusable, "0000:01:00.0".to_owned())]);
        let seen: Vec<_> =
            gpus.iter().map(|gpu| (gpu.index, gpu.uuid.as_str(), gpu.memory_bytes >> 30)).collect();
        assert_eq!(seen, [(0, "MIG-7", 10), (1, "MIG-9", 10), (2, "GPU-2", 80), (3, "GPU-3", 80)]);
        let facts: Vec<&GpuFacts> = gpus.iter().filter_map(|gpu| gpu.facts.as_deref()).collect();
        let mig = |gpu_instance| Some(MigInstance { gpu_instance, compute_instance: 1 });
        assert_eq!(facts.iter().map(|facts| facts.mig).collect::<Vec<_>>(), [mig(7), mig(9), None, None]);
        assert!(facts[..2].iter().all(|facts| facts.links.is_empty()));
        assert_eq!(facts[2].links[0].peer, LinkPeer::Gpu(3), "by the new numbers");
        assert!(gpus[..2].iter().all(|gpu| gpu.pci_address == "0000:00:00.0"));
    }

    #[test]
    fn an_absent_library_is_told_where_it_would_tell_more() {
        let nvml = Nvml::new(Reader::of("/nowhere/libnvidia-ml.so.1"));
        let mut gpus = vec![gpu(0, "10de:2330")];
        let reported = pass(&mut gpus, |pass, gpus| nvml.add(pass, gpus));
        assert_eq!(reported, [(FindingKind::LibraryMissing, "nvml".to_owned())]);
        assert_eq!(gpus[0], gpu(0, "10de:2330"));
        let reported = pass(&mut vec![gpu(0, "1002:74a1")], |pass, gpus| nvml.add(pass, gpus));
        assert_eq!(reported, []);
    }
}
