//! What rules out a way, or makes it slow. Texts fit what a controller takes (256 bytes).

use proto_model::{Distance, GpuPath, PathCause, PathCauseCode};

use crate::facts::{Iommu, Library, Pair, Peer, Server, Vendor};

/// The first kernel whose RDMA core registers dma-bufs (`IB_UVERBS_METHOD_REG_DMABUF_MR`).
const DMA_BUF_SINCE: (u32, u32) = (5, 12);
/// Bridges that are named; there are two between devices of one switch.
const BRIDGES_NAMED: usize = 4;

/// Collects causes about one way.
struct About {
    path: GpuPath,
    causes: Vec<PathCause>,
}

impl About {
    fn say(&mut self, code: PathCauseCode, message: impl Into<String>, fix: impl Into<String>) {
        let (message, fix) = (message.into(), fix.into());
        self.causes.push(PathCause { path: self.path, code, message, fix });
    }
}

/// What rules out a way; nothing rules out host staging.
pub(crate) fn against(path: GpuPath, server: &Server, pair: &Pair, farthest: Distance) -> Vec<PathCause> {
    let mut about = About { path, causes: Vec::new() };
    match path {
        GpuPath::HostStaging => return Vec::new(),
        GpuPath::DmaBuf => dma_buf(&mut about, server, pair),
        GpuPath::PeerMemory => peer_memory(&mut about, server, pair),
    }
    reach(&mut about, pair, farthest);
    about.causes
}

/// What rules out any way between the two devices.
fn reach(about: &mut About, pair: &Pair, farthest: Distance) {
    let nic = &pair.nic;
    if pair.vendor == Vendor::Other {
        about.say(
            PathCauseCode::UnknownVendor,
            "no way to this GPU's memory is known",
            "use GPUs of NVIDIA or AMD for RDMA from GPU memory",
        );
    }
    if !pair.rdma {
        let fix = "load the NIC's RDMA driver (mlx5_ib, bnxt_re, irdma), or use a NIC that has RDMA";
        about.say(PathCauseCode::NoRdma, format!("{nic} has no RDMA"), fix);
    } else if pair.software {
        let text = format!("{nic} does RDMA in software: no device reaches the GPU");
        about.say(PathCauseCode::SoftwareRdma, text, "use a NIC that does RDMA itself");
    }
    if pair.distance > farthest {
        let (distance, farthest) = (pair.distance.as_str(), farthest.as_str());
        let text = format!(
            "{nic} is too far: {distance}, beyond {farthest}, so that traffic would cross the processor"
        );
        about.say(
            PathCauseCode::TooFar,
            text,
            "put a NIC behind the GPU's PCIe switch, and give its rail to the GPU",
        );
    }
}

fn dma_buf(about: &mut About, server: &Server, pair: &Pair) {
    if let Some(kernel) = server.kernel.filter(|kernel| *kernel < DMA_BUF_SINCE) {
        let text =
            format!("Linux {}.{} registers no dma-bufs; 5.12 is the first that does", kernel.0, kernel.1);
        about.say(PathCauseCode::KernelTooOld, text, "run Linux 5.12 or newer");
    }
    match server.verbs {
        Library::Absent => about.say(
            PathCauseCode::LibraryMissing,
            "libibverbs.so.1 is not there",
            "install rdma-core (Debian: libibverbs1 ibverbs-providers)",
        ),
        Library::TooOld => {
            about.say(
                PathCauseCode::LibraryTooOld,
                "libibverbs has no ibv_reg_dmabuf_mr",
                "install rdma-core 34 or newer",
            );
        }
        Library::Ready | Library::Unknown => {}
    }
    let (library, call, names, fix) = match pair.vendor {
        Vendor::Nvidia => {
            let fix = "install NVIDIA's driver 515 or newer, with its CUDA part";
            (server.cuda, "cuMemGetHandleForAddressRange", "libcuda.so.1", fix)
        }
        Vendor::Amd => {
            let fix = "install ROCm 5.6 or newer (hsa-rocr)";
            (server.hsa, "hsa_amd_portable_export_dmabuf", "libhsa-runtime64.so.1", fix)
        }
        Vendor::Other => return,
    };
    match library {
        Library::Absent => about.say(PathCauseCode::ExporterMissing, format!("{names} is not there"), fix),
        Library::TooOld => about.say(PathCauseCode::ExporterTooOld, format!("{names} has no {call}"), fix),
        Library::Ready | Library::Unknown => {}
    }
    if pair.vendor == Vendor::Nvidia && server.nvidia_open == Some(false) {
        about.say(
            PathCauseCode::OpenModuleNeeded,
            "NVIDIA's kernel module is the proprietary one, which exports no dma-bufs",
            "install the open kernel modules (nvidia-open), or load nvidia_peermem",
        );
    }
}

fn peer_memory(about: &mut About, server: &Server, pair: &Pair) {
    let (peer, module, fix) = match pair.vendor {
        Vendor::Nvidia => (
            server.nvidia_peer,
            "nvidia_peermem",
            "modprobe nvidia_peermem (it needs the RDMA core of DOCA or MLNX_OFED, or a kernel with peer memory)",
        ),
        Vendor::Amd => {
            (server.amd_peer, "amdgpu's peer", "install amdgpu-dkms after the RDMA core of DOCA or MLNX_OFED")
        }
        Vendor::Other => return,
    };
    match peer {
        Peer::Absent => about.say(PathCauseCode::ModuleMissing, format!("{module} is not loaded"), fix),
        Peer::Unregistered => about.say(
            PathCauseCode::ModuleUnregistered,
            format!(
                "{module} is loaded, but the RDMA core knows nothing of it: it was built for another one"
            ),
            "build the module again for the RDMA core that runs, and load it after that",
        ),
        Peer::Ready => {}
    }
    if pair.iommu == Iommu::Translates {
        about.say(
            PathCauseCode::IommuTranslates,
            "an IOMMU translates the addresses of devices, which peer memory does not know of",
            "boot with iommu=pt, or switch the IOMMU off in the firmware",
        );
    }
}

/// What makes a way slow that can be taken.
pub(crate) fn slow(path: GpuPath, pair: &Pair) -> Vec<PathCause> {
    let mut about = About { path, causes: Vec::new() };
    if path == GpuPath::HostStaging {
        return Vec::new();
    }
    if !pair.redirects.is_empty() {
        let named: Vec<&str> = pair.redirects.iter().take(BRIDGES_NAMED).map(String::as_str).collect();
        let more = pair.redirects.len() - named.len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let named = named.join(" ");
        about.say(
            PathCauseCode::AcsRedirect,
            format!("ACS of {named}{more} sends traffic between the two up to the processor"),
            "switch ACS off in the firmware, or boot with pci=disable_acs_redir=ADDRESS;... (see linux kernel-parameters)",
        );
    }
    if pair.iommu == Iommu::Translates {
        about.say(
            PathCauseCode::IommuTranslates,
            "an IOMMU translates: traffic between the two goes up to the root complex",
            "boot with iommu=pt, or switch the IOMMU off in the firmware",
        );
    }
    if pair.distance >= Distance::Phb {
        let text = format!("{} is {}: traffic crosses the processor", pair.nic, pair.distance.as_str());
        about.say(
            PathCauseCode::ThroughProcessor,
            text,
            "put a NIC behind the GPU's PCIe switch, and give its rail to the GPU",
        );
    }
    if let Some(window) = pair.window.filter(|window| *window < pair.memory) {
        let (window, memory) = (window >> 20, pair.memory >> 20);
        about.say(
            PathCauseCode::SmallWindow,
            format!("the GPU shows {window} of its {memory} MiB to other devices at once: no more can be registered"),
            "switch on Above 4G Decoding and Resizable BAR in the firmware",
        );
    }
    about.causes
}
