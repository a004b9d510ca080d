//! How memory of each GPU reaches its nearest NIC: facts from sysfs, /proc and the libraries that are installed, and what
//! [`node_agent_gpudirect`] makes of them.
//!
//! Libraries are looked into, never started: CUDA's start would hold the GPUs' device files open, and so stand in the way of who resets
//! them or changes the driver.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use node_agent_dylib::{About, Loaded, known};
use node_agent_gpudirect::{Iommu, Library, Pair, Peer, Server, Vendor, choose, config};
use proto_model::{Distance, Gpu, Nic};

use crate::{
    discovery::Discovery,
    sysfs::{Tree, is_pci_address},
};

/// How far a NIC may be: several PCIe switches, but not through the processor; NCCL's default too (`NCCL_NET_GDR_LEVEL`).
const FARTHEST: Distance = Distance::Pxb;
/// How long what was found of the libraries is taken as it is.
const GOOD_FOR: Duration = Duration::from_secs(300);
/// `IORESOURCE_MEM` and `IORESOURCE_PREFETCH` (`linux/ioport.h`).
const MEMORY: u64 = 0x200;
const PREFETCH: u64 = 0x2000;

/// What was found of the libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// State of libibverbs.
    pub verbs: Library,
    /// State of CUDA's driver library.
    pub cuda: Library,
    /// State of the HSA runtime, AMD's library.
    pub hsa: Library,
}

/// Finds out which libraries are there, and remembers that for a while.
#[derive(Debug, Default)]
pub struct Libraries {
    last: Mutex<Option<(Instant, Found)>>,
}

impl Libraries {
    /// What there is now, or was lately.
    pub fn pass(&self) -> Found {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((at, found)) if at.elapsed() < GOOD_FOR => found,
            _ => {
                let found = Found {
                    verbs: library(known::VERBS, "ibv_reg_dmabuf_mr"),
                    cuda: library(known::CUDA, "cuMemGetHandleForAddressRange"),
                    hsa: library(known::HSA, "hsa_amd_portable_export_dmabuf"),
                };
                *last = Some((Instant::now(), found));
                found
            }
        }
    }
}

fn library(about: About, symbol: &str) -> Library {
    match Loaded::open(about, None) {
        Err(_) => Library::Absent,
        Ok(library) if library.has(symbol) => Library::Ready,
        Ok(_) => Library::TooOld,
    }
}

/// Says of each GPU with a NIC how its memory reaches that.
#[must_use]
pub fn add(tree: &Tree, mut found: Discovery, libraries: Found) -> Discovery {
    let server = server(tree, libraries);
    let choices: Vec<_> = found
        .inventory
        .gpus
        .iter()
        .map(|gpu| Some(choose(&server, &pair(tree, &found, gpu)?, FARTHEST)))
        .collect();
    for (gpu, choice) in found.inventory.gpus.iter_mut().zip(choices) {
        if let Some(facts) = &mut gpu.facts {
            facts.gpu_direct = choice;
        }
    }
    found
}

/// What is one for the whole server.
fn server(tree: &Tree, libraries: Found) -> Server {
    Server {
        kernel: tree.text("proc/sys/kernel/osrelease").as_deref().and_then(kernel),
        verbs: libraries.verbs,
        cuda: libraries.cuda,
        hsa: libraries.hsa,
        nvidia_open: nvidia_open(tree),
        nvidia_peer: nvidia_peer(tree),
        amd_peer: match tree.at("sys/kernel/mm/memory_peers/amdkfd").exists() {
            true => Peer::Ready,
            false => Peer::Absent,
        },
    }
}

/// `5.15.0-91-generic` as two numbers.
fn kernel(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// NVIDIA's driver says in its first line which of its kernel modules is loaded.
fn nvidia_open(tree: &Tree) -> Option<bool> {
    let text = tree.text("proc/driver/nvidia/version")?;
    let first = text.lines().next()?;
    first.contains("Kernel Module").then(|| first.contains("Open Kernel Module"))
}

/// The module by its two names; an RDMA core with peer memory lists who registered, where it has that folder.
fn nvidia_peer(tree: &Tree) -> Peer {
    let loaded =
        ["nvidia_peermem", "nv_peer_mem"].iter().any(|name| tree.at(&format!("sys/module/{name}")).exists());
    let peers = tree.at("sys/kernel/mm/memory_peers").exists();
    let registered = ["nv_mem", "nv_mem_nc"]
        .iter()
        .any(|name| tree.at(&format!("sys/kernel/mm/memory_peers/{name}")).exists());
    match (loaded, peers && !registered) {
        (false, _) => Peer::Absent,
        (true, true) => Peer::Unregistered,
        (true, false) => Peer::Ready,
    }
}

/// A GPU and its nearest NIC; nothing where it has none.
fn pair(tree: &Tree, found: &Discovery, gpu: &Gpu) -> Option<Pair> {
    let facts = gpu.facts.as_deref()?;
    let nic = found.inventory.nics.iter().find(|nic| nic.device == facts.nic)?;
    let vendor = match facts.pci.id.split(':').next() {
        Some("10de") => Vendor::Nvidia,
        Some("1002") => Vendor::Amd,
        _ => Vendor::Other,
    };
    let redirects = bridges(found, gpu, nic)
        .into_iter()
        .filter(|bridge| {
            let config = tree.bytes(&format!("sys/bus/pci/devices/{bridge}/config"));
            config.as_deref().and_then(config::redirects) == Some(true)
        })
        .collect();
    Some(Pair {
        vendor,
        nic: nic.device.clone(),
        rdma: nic.facts.as_deref().is_some_and(|facts| facts.port.is_some()),
        software: is_software(tree, nic),
        distance: facts.nic_distance.unwrap_or(Distance::Sys),
        iommu: worse(iommu(tree, &gpu.pci_address), iommu(tree, &nic.pci_address)),
        redirects,
        window: window(tree, &gpu.pci_address),
        memory: gpu.memory_bytes,
    })
}

/// Soft-RoCE and siw name the network device below them; others have no such attribute.
fn is_software(tree: &Tree, nic: &Nic) -> bool {
    let device = nic.device.split(':').next().unwrap_or_default();
    tree.at(&format!("sys/class/infiniband/{device}/parent")).exists()
}

/// The ports above each of the two, below what they share: ACS acts where traffic would turn round.
fn bridges(found: &Discovery, gpu: &Gpu, nic: &Nic) -> Vec<String> {
    let (Some(a), Some(b)) = (found.pci_paths.get(&gpu.pci_address), found.pci_paths.get(&nic.pci_address))
    else {
        return Vec::new();
    };
    let shared = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let own = |path: &[String]| {
        let above = path.split_last().map_or(&[][..], |(_, above)| above);
        above.iter().skip(shared).filter(|part| is_pci_address(part)).cloned().collect::<Vec<_>>()
    };
    [own(a), own(b)].concat()
}

/// What the kernel's IOMMU group says of a device (`Documentation/ABI/testing/sysfs-kernel-iommu_groups`).
fn iommu(tree: &Tree, address: &str) -> Iommu {
    match tree.text(&format!("sys/bus/pci/devices/{address}/iommu_group/type")).as_deref() {
        Some("identity") => Iommu::Direct,
        Some(kind) if kind.starts_with("DMA") => Iommu::Translates,
        Some(_) => Iommu::Unknown,
        // The folder is there on every kernel that could have an IOMMU, and empty without one.
        None if tree.at("sys/class/iommu").exists() && tree.names("sys/class/iommu").is_empty() => {
            Iommu::Direct
        }
        None => Iommu::Unknown,
    }
}

fn worse(a: Iommu, b: Iommu) -> Iommu {
    match (a, b) {
        (Iommu::Translates, _) | (_, Iommu::Translates) => Iommu::Translates,
        (Iommu::Direct, Iommu::Direct) => Iommu::Direct,
        _ => Iommu::Unknown,
    }
}

/// Bytes of a GPU's largest prefetchable window: `resource` has a line `START END FLAGS` for each.
fn window(tree: &Tree, address: &str) -> Option<u64> {
    let text = tree.text(&format!("sys/bus/pci/devices/{address}/resource"))?;
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let size = |line: &str| {
        let mut parts = line.split_whitespace().map(hex);
        let (start, end, flags) = (parts.next()??, parts.next()??, parts.next()??);
        let wanted = flags & MEMORY != 0 && flags & PREFETCH != 0 && end > start;
        wanted.then(|| (end - start).saturating_add(1))
    };
    text.lines().filter_map(size).max()
}

#[cfg(test)]
mod tests {
    use proto_model::GpuPath;

    use super::*;
    use crate::{Host, RealHost, recorded::Recording};

    const READY: Found = Found { verbs: Library::Ready, cuda: Library::Ready, hsa: Library::Ready };
    /// The H100 of the recording, its NIC, and the ports above both.
    const GPU: &str = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0";
    const PORTS: [&str; 2] = ["0000:17:00.0", "0000:17:01.0"];

    /// The recorded H100 with more files, and what is told of its first GPU.
    fn reported(more: &str, config: Option<[u8; 4096]>) -> (GpuPath, Vec<String>) {
        let base = include_str!("../recorded/hgx-h100.host");
        let recording = Recording::parse(&format!("{base}\n{more}\n")).unwrap();
        let room = tempfile::tempdir().unwrap();
        recording.write(room.path()).unwrap();
        if let Some(config) = config {
            for port in PORTS {
                std::fs::write(room.path().join(format!("sys/bus/pci/devices/{port}/config")), config)
                    .unwrap();
            }
        }
        let host =
            RealHost::recorded(room.path(), recording.addresses.clone(), "lldp:leaf-r{k}".parse().unwrap());
        let mut found = host.discover().unwrap();
        found.inventory.gpus.iter_mut().for_each(|gpu| gpu.memory_bytes = 80 << 30);
        let found = add(&Tree::new(room.path()), found, READY);
        let direct = found.inventory.gpus[0].facts.as_deref().unwrap().gpu_direct.clone().unwrap();
        (
            direct.path,
            direct.causes.iter().map(|cause| format!("{}: {}", cause.code, cause.message)).collect(),
        )
    }

    const OPEN: &str = "[proc/driver/nvidia]\nversion = NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07\n";
    const CLOSED: &str =
        "[proc/driver/nvidia]\nversion = NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07\n";
    const KERNEL: &str = "[proc/sys/kernel]\nosrelease = 5.15.0-91-generic\n";

    #[test]
    fn an_open_driver_on_a_new_kernel_exports() {
        assert_eq!(reported(&format!("{OPEN}{KERNEL}"), None), (GpuPath::DmaBuf, vec![]));
    }

    #[test]
    fn a_proprietary_driver_needs_its_peer_module() {
        let (path, causes) = reported(&format!("{CLOSED}{KERNEL}"), None);
        assert_eq!(path, GpuPath::HostStaging);
        assert!(
            causes[0].starts_with("OpenModuleNeeded") && causes[1].starts_with("ModuleMissing"),
            "{causes:?}"
        );
        let loaded = "[sys/module/nvidia_peermem]\nversion = 550.90.07\n";
        assert_eq!(reported(&format!("{CLOSED}{KERNEL}{loaded}"), None).0, GpuPath::PeerMemory);
        let others = "[sys/kernel/mm/memory_peers/other]\nversion = 1\n";
        let (path, causes) = reported(&format!("{CLOSED}{KERNEL}{loaded}{others}"), None);
        assert!(path == GpuPath::HostStaging && causes[1].starts_with("ModuleUnregistered"), "{causes:?}");
        let known = "[sys/kernel/mm/memory_peers/nv_mem]\nversion = 1\n";
        assert_eq!(reported(&format!("{CLOSED}{KERNEL}{loaded}{known}"), None).0, GpuPath::PeerMemory);
    }

    #[test]
    fn iommu_acs_and_window_are_read_from_the_tree() {
        let group = format!("[{GPU}/iommu_group]\ntype = DMA-FQ\n");
        let (path, causes) = reported(&format!("{OPEN}{KERNEL}{group}"), None);
        assert!(path == GpuPath::DmaBuf && causes[0].starts_with("IommuTranslates"), "{causes:?}");
        // BAR0 of 16 MiB, BAR1 of 256 MiB, prefetchable and of 64 bits.
        let bars = format!(
            "[{GPU}]\nresource = 0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200\\n\
             0x0000200000000000 0x000020000fffffff 0x000000000014220c\\n0x0 0x0 0x0\n"
        );
        let (_, causes) = reported(&format!("{OPEN}{KERNEL}{bars}"), None);
        assert_eq!(
            causes,
            [
                "SmallWindow: the GPU shows 256 of its 81920 MiB to other devices at once: no more can be registered"
            ]
        );
        let mut config = [0; 4096];
        (config[0x100], config[0x102], config[0x106]) = (0x0d, 1, 0x1d);
        let (path, causes) = reported(&format!("{OPEN}{KERNEL}"), Some(config));
        assert_eq!(path, GpuPath::DmaBuf);
        let text =
            "AcsRedirect: ACS of 0000:17:01.0 0000:17:00.0 sends traffic between the two up to the processor";
        assert_eq!(causes, [text]);
    }

    #[test]
    fn numbers_of_kernels_are_read_or_not_known() {
        for (text, right) in [
            ("5.15.0-91-generic", Some((5, 15))),
            ("6.18-rc1", Some((6, 18))),
            ("6.1+", Some((6, 1))),
            ("", None),
            ("six.one", None),
        ] {
            assert_eq!(kernel(text), right, "{text}");
        }
    }
}
