//! What the hardware of a server says of itself: the parts of an inventory that people look at, and that placement does not need.

use std::net::{IpAddr, Ipv6Addr};

use crate::PathCauseCode;

/// A PCI device, as sysfs shows it (kernel `Documentation/ABI/testing/sysfs-bus-pci`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PciDevice {
    /// Vendor and device in hexadecimal, for example `15b3:1021`; may be empty.
    pub id: String,
    /// Class code, for example `0x020000`; may be empty.
    pub class: String,
    /// From the host bridge down, for example `pci0000:17/0000:17:01.0/0000:18:00.0`; may be empty.
    pub path: String,
    /// Speed of its link, for example `32.0 GT/s PCIe`: now for a NIC; what it was built for for a GPU, which slows its link down while
    /// idle. May be empty.
    pub speed: String,
    /// Lanes of its link, likewise; 0 if not known.
    pub width: u32,
    /// The physical slot's name, where the firmware tells it.
    pub slot: String,
}

/// What a NIC is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NicFacts {
    /// The NIC's PCI device: where it sits and what it says of itself.
    pub pci: PciDevice,
    /// The kernel's driver of its network device, for example `mlx5_core`; may be empty.
    pub driver: String,
    /// The firmware's version; may be empty.
    pub firmware: String,
    /// Its RDMA port, where it has RDMA.
    pub port: Option<NicPort>,
    /// GIDs of that port, by index.
    pub gids: Vec<Gid>,
    /// By which rule it serves its rail, in words.
    pub rail_reason: String,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicPort {
    /// Number of the port on its device, from 1.
    pub number: u32,
    /// What its logic says, where that is known.
    pub state: Option<PortState>,
    /// What its cable says, where that is known.
    pub physical: Option<PhysicalState>,
}

/// `enum ib_port_state` of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortState {
    /// The port has no link.
    Down,
    /// The link is trained, and the port is not configured yet.
    Init,
    /// Configured, and not yet active.
    Armed,
    /// The port is up and carries data.
    Active,
    /// Was active, and waits for its link to come back.
    ActiveDefer,
}

impl PortState {
    /// From the kernel's number; `None` for one that this program does not know.
    #[must_use]
    pub const fn from_kernel(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Down,
            2 => Self::Init,
            3 => Self::Armed,
            4 => Self::Active,
            5 => Self::ActiveDefer,
            _ => return None,
        })
    }
}

/// `enum ib_port_phys_state` of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhysicalState {
    /// The port is asleep to save power.
    Sleep,
    /// The port looks for the other end.
    Polling,
    /// The port is switched off.
    Disabled,
    /// The port trains the link with the other end.
    Training,
    /// The physical link is up.
    LinkUp,
    /// The port recovers the link from errors.
    ErrorRecovery,
    /// The port is in a test of its physical layer.
    PhyTest,
}

impl PhysicalState {
    /// From the kernel's number; `None` for one that this program does not know.
    #[must_use]
    pub const fn from_kernel(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Sleep,
            2 => Self::Polling,
            3 => Self::Disabled,
            4 => Self::Training,
            5 => Self::LinkUp,
            6 => Self::ErrorRecovery,
            7 => Self::PhyTest,
            _ => return None,
        })
    }
}

/// An entry of a port's GID table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gid {
    /// Its place in the table now; it moves when addresses do.
    pub index: u32,
    /// The 128 bits as an IPv6 address; a GID of an IPv4 address is mapped.
    pub gid: Ipv6Addr,
    /// The kind of RoCE that the GID is for.
    pub kind: GidKind,
    /// The network device whose address it is; may be empty.
    pub netdev: String,
}

impl Gid {
    /// The address that it stands for: IPv4 where it is mapped.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.gid.to_ipv4_mapped().map_or(IpAddr::V6(self.gid), IpAddr::V4)
    }
}

/// The kind of RoCE that a GID is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GidKind {
    /// An ethertype of its own, not routed.
    RoceV1,
    /// RoCE v2: in UDP to port 4791, routed over IPv4 or IPv6.
    RoceV2,
    /// A type of GID that this release does not know.
    Other,
}

/// What a GPU is, and what is near it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuFacts {
    /// The GPU's PCI device: where it sits and what it says of itself.
    pub pci: PciDevice,
    /// The kernel's driver, for example `nvidia`; may be empty.
    pub driver: String,
    /// The driver's version; may be empty.
    pub driver_version: String,
    /// Device of the NIC that is nearest to it; empty if no NIC serves a rail.
    pub nic: String,
    /// How far that NIC is from the GPU; `None`: there is no such NIC, or it is not known.
    pub nic_distance: Option<Distance>,
    /// Its links to other GPUs that carry data now (NVLink, xGMI), one entry for each other end.
    pub links: Vec<GpuLink>,
    /// How its memory reaches that NIC; `None` where its agent does not tell.
    pub gpu_direct: Option<GpuDirect>,
    /// Where it is a partition of a GPU and not a whole one: which.
    pub mig: Option<MigInstance>,
}

/// A partition of a GPU (NVIDIA Multi-Instance GPU): one compute instance of one GPU instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MigInstance {
    /// The driver's number of the GPU instance, which has the memory.
    pub gpu_instance: u32,
    /// The driver's number of the compute instance in it, which has the multiprocessors.
    pub compute_instance: u32,
}

/// A way between a GPU's memory and a NIC. Better is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuPath {
    /// The GPU's driver exports memory as a dma-buf, and the NIC registers that (`ibv_reg_dmabuf_mr`).
    DmaBuf,
    /// A kernel module tells the NIC's driver where GPU memory is (`nvidia_peermem`, amdgpu's peer).
    PeerMemory,
    /// Payloads are copied through host memory.
    HostStaging,
}

impl GpuPath {
    /// All paths, the best first.
    pub const ALL: [Self; 3] = [Self::DmaBuf, Self::PeerMemory, Self::HostStaging];

    /// The name of the path that commands and messages show.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DmaBuf => "dma-buf",
            Self::PeerMemory => "peer memory",
            Self::HostStaging => "host staging",
        }
    }
}

/// Which way a GPU's memory takes to its nearest NIC, and why not a better one: that of programs that hold NICs themselves (NCCL), which is
/// Railyard's own engine's too but for peer memory ([`GpuDirect::engine`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuDirect {
    /// The best path of those that can be taken.
    pub path: GpuPath,
    /// What speaks for it, in one line.
    pub reason: String,
    /// About better ways: why they cannot be taken. About the way taken: what makes it slow.
    pub causes: Vec<PathCause>,
}

impl GpuDirect {
    /// The way that Railyard's engine takes. Peer memory is registered by addresses of the process that allocated it, and NICs are the
    /// engine's.
    #[must_use]
    pub fn engine(&self) -> GpuPath {
        match self.path {
            GpuPath::DmaBuf => GpuPath::DmaBuf,
            GpuPath::PeerMemory | GpuPath::HostStaging => GpuPath::HostStaging,
        }
    }
}

/// One thing that is wrong with a way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathCause {
    /// The path that cannot be taken, or that is slow.
    pub path: GpuPath,
    /// What it is.
    pub code: PathCauseCode,
    /// What is wrong, in words.
    pub message: String,
    /// What an administrator can do about it.
    pub fix: String,
}

/// Links between GPUs with the same other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuLink {
    /// What these links lead to.
    pub peer: LinkPeer,
    /// Number of links to that end.
    pub count: u32,
    /// The generation, for example 4 for NVLink 4; 0 if not known.
    pub version: u32,
}

/// The other end of a link between GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkPeer {
    /// A GPU of this server, by index.
    Gpu(u32),
    /// An NVSwitch, through which the GPU reaches those of the same switch.
    Switch,
    /// Something else, or not known.
    Other,
}

/// How far apart two PCI devices are, in the words of NCCL and `nvidia-smi topo`. Nearer is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// One PCIe switch at most between them.
    Pix,
    /// Several PCIe switches, no host bridge.
    Pxb,
    /// Through one host bridge (the processor).
    Phb,
    /// Through the connection between processors, or not known.
    Sys,
}

impl Distance {
    /// The word that `NCCL_NET_GDR_LEVEL` takes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
        }
    }
}
