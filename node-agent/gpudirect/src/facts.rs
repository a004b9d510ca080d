//! What the decision is made of.

use proto_model::Distance;

/// A library that is loaded at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Library {
    /// Whether it can be loaded has not been found out.
    #[default]
    Unknown,
    /// The library is not there.
    Absent,
    /// It is there, and has not what is needed.
    TooOld,
    /// It can be loaded and has the functions that are needed.
    Ready,
}

/// State of a peer-memory module: a kernel module by which the RDMA core registers memory of GPUs without a dma-buf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Peer {
    /// The module is not loaded.
    #[default]
    Absent,
    /// Loaded, but the RDMA core knows nothing of it.
    Unregistered,
    /// Loaded, and known to the RDMA core where it says so.
    Ready,
}

/// What an IOMMU does to a device's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Iommu {
    /// It cannot be found out.
    #[default]
    Unknown,
    /// There is none, or it passes addresses through (`iommu=pt`).
    Direct,
    /// It translates them: traffic between devices goes through the root complex.
    Translates,
}

/// Who made a GPU, as far as ways differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// NVIDIA: memory is exported by CUDA, or registered by the kernel module `nvidia_peermem`.
    Nvidia,
    /// AMD: HIP on the HSA runtime, with the kernel driver amdgpu.
    Amd,
    /// No way is known here.
    Other,
}

/// What is one for a whole server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Server {
    /// Version of the kernel, for example `(5, 15)`.
    pub kernel: Option<(u32, u32)>,
    /// State of libibverbs, which must have `ibv_reg_dmabuf_mr`.
    pub verbs: Library,
    /// State of libcuda, which must have `cuMemGetHandleForAddressRange`.
    pub cuda: Library,
    /// The HSA runtime, with `hsa_amd_portable_export_dmabuf`.
    pub hsa: Library,
    /// Whether NVIDIA's kernel module is the open one.
    pub nvidia_open: Option<bool>,
    /// State of the kernel module `nvidia_peermem`.
    pub nvidia_peer: Peer,
    /// amdgpu's peer in the RDMA core.
    pub amd_peer: Peer,
}

/// A GPU and its NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Who made the GPU.
    pub vendor: Vendor,
    /// The NIC's device, for example `mlx5_0`.
    pub nic: String,
    /// The NIC has an RDMA device.
    pub rdma: bool,
    /// Its RDMA is done in software (Soft-RoCE): there is no device that could reach a GPU.
    pub software: bool,
    /// How far the NIC is from the GPU on the PCI buses.
    pub distance: Distance,
    /// The worse of what the IOMMU does to both.
    pub iommu: Iommu,
    /// Bridges between them that send traffic between devices up to the root complex (ACS redirect).
    pub redirects: Vec<String>,
    /// Bytes of the GPU's largest window for memory (BAR1 of NVIDIA's), where known.
    pub window: Option<u64>,
    /// Bytes of its memory; 0 if not known.
    pub memory: u64,
}
