//! GPU memory as dma-bufs: files of the kernel that a NIC can register, so that it reads and writes GPU memory without a copy through
//! the processor's (GPUDirect RDMA by `ibv_reg_dmabuf_mr`). Two makers of them: [`Cuda`] and [`Hsa`]. [`Gpus`] finds out whose a pointer
//! is; the [`GpuMemory`] that it gives is exported, or copied to and from shared memory (host staging).
//!
//! An export is of whole pages. [`window`] says which for a range, and where the range begins in them.

mod cuda;
#[doc(hidden)]
pub mod ffi;
mod hsa;
mod memory;
mod window;

use std::os::fd::OwnedFd;

pub use cuda::{Cuda, CudaDevice, Mapping};
pub use hsa::Hsa;
pub use memory::{GpuMemory, Gpus};
use node_agent_dylib::LoadError;
pub use window::{Window, window};

/// Memory of a GPU that a NIC can register.
#[derive(Debug)]
pub struct Exported {
    /// The dma-buf. A registration keeps it alive by itself: the descriptor may be closed afterwards.
    pub file: OwnedFd,
    /// Where the range begins in it, in bytes.
    pub offset: u64,
    /// Bytes of the range.
    pub length: u64,
}

/// Why memory cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no library.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The library is too old.
    #[error("{library} has no {symbol}: {needs}; payloads are staged in host memory")]
    TooOld {
        /// The library that is too old.
        library: &'static str,
        /// The function that it lacks.
        symbol: &'static str,
        /// The version that has the function.
        needs: &'static str,
    },
    /// A call of the vendor's library failed.
    #[error("{call}: {words} ({code})")]
    Refused {
        /// Name of the function that was called.
        call: &'static str,
        /// What it returned: a `CUresult` or a `hsa_status_t`.
        code: i32,
        /// What the library says of that code.
        words: String,
    },
    /// The range is not GPU memory.
    #[error("{pointer:#x} is not memory of a GPU")]
    NotOfGpu {
        /// The address at which the range begins.
        pointer: u64,
    },
    /// It wanders between GPU and processor.
    #[error(
        "{pointer:#x} is managed memory, which wanders between GPU and processor; allocate it by cuMemAlloc or cudaMalloc"
    )]
    Managed {
        /// The address at which the range begins.
        pointer: u64,
    },
    /// No library knows memory of GPUs.
    #[error("no library knows memory of GPUs: {cuda}; {hsa}")]
    NoLibrary {
        /// Why CUDA knows none.
        cuda: String,
        /// Why ROCm knows none.
        hsa: String,
    },
    /// A copy would leave its memories.
    #[error("{bytes} bytes from {at} lie outside the range of {length} bytes, or of the memory beside it")]
    Beyond {
        /// First byte in the range.
        at: u64,
        /// Bytes to be copied.
        bytes: usize,
        /// Bytes of the range.
        length: u64,
    },
    /// The range is not inside one allocation.
    #[error(
        "{length} bytes from {pointer:#x} are not inside the allocation of {allocated} bytes from {base:#x}"
    )]
    Outside {
        /// Where the range begins.
        pointer: u64,
        /// Length of the range, in bytes.
        length: u64,
        /// Where the allocation begins.
        base: u64,
        /// Length of the allocation, in bytes.
        allocated: u64,
    },
    /// The allocation does not fill its last page.
    #[error(
        "the last page of the range ends {beyond} bytes beyond its allocation; allocate whole pages of {page} bytes, or register less"
    )]
    PartPage {
        /// Number of bytes by which the last page of the range goes beyond the allocation.
        beyond: u64,
        /// Size of a page, in bytes.
        page: u64,
    },
    /// The library said that it succeeded, and gave no file.
    #[error("{call} gave no file")]
    NoFile {
        /// Name of the function that was called.
        call: &'static str,
    },
}

/// Bytes of a page of this machine.
#[must_use]
pub fn page() -> u64 {
    // SAFETY: it only answers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}
