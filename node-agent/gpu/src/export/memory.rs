//! Memory of a GPU, found by its address: exported, and copied to and from memory that this process shares.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use node_agent_ipc::Region;

use super::{Cuda, ExportError, Exported, Hsa, Mapping};

/// What becomes of a library that is loaded when it is first needed: itself, or why it cannot be had.
type Once<T> = OnceLock<Result<Arc<T>, String>>;

/// The libraries that know memory of GPUs, each loaded when it is first needed.
#[derive(Debug, Default)]
pub struct Gpus {
    cuda_path: Option<PathBuf>,
    hsa_path: Option<PathBuf>,
    cuda: Once<Cuda>,
    hsa: Once<Hsa>,
}

#[derive(Debug, Clone)]
enum Maker {
    Cuda(Arc<Cuda>),
    Hsa(Arc<Hsa>),
}

/// A range of a GPU's memory that its maker's library knows.
#[derive(Debug, Clone)]
pub struct GpuMemory {
    maker: Maker,
    pointer: u64,
    length: u64,
    pci_address: String,
}

impl Gpus {
    /// The system's libraries, or others that stand in for them.
    #[must_use]
    pub fn new(cuda: Option<PathBuf>, hsa: Option<PathBuf>) -> Self {
        Self { cuda_path: cuda, hsa_path: hsa, ..Self::default() }
    }

    /// The `length` bytes from `pointer`. The first call loads libraries, which may take seconds.
    ///
    /// # Errors
    /// They are not in one allocation of one GPU, or no library is there that would know.
    pub fn find(&self, pointer: u64, length: u64) -> Result<GpuMemory, ExportError> {
        let cuda = self.cuda.get_or_init(|| reported(Cuda::load(self.cuda_path.as_deref())));
        let mut here = None;
        if let Ok(cuda) = cuda {
            match cuda.locate(pointer, length) {
                Ok(device) => {
                    let maker = Maker::Cuda(Arc::clone(cuda));
                    return Ok(GpuMemory { maker, pointer, length, pci_address: device.pci_address });
                }
                Err(error @ ExportError::NotOfGpu { .. }) => here = Some(error),
                Err(error) => return Err(error),
            }
        }
        let hsa = self.hsa.get_or_init(|| reported(Hsa::load(self.hsa_path.as_deref())));
        match (hsa, cuda, here) {
            (Ok(hsa), ..) => {
                let pci_address = hsa.locate(pointer, length)?;
                Ok(GpuMemory { maker: Maker::Hsa(Arc::clone(hsa)), pointer, length, pci_address })
            }
            (Err(_), _, Some(error)) => Err(error),
            (Err(hsa), Err(cuda), None) => {
                Err(ExportError::NoLibrary { cuda: cuda.clone(), hsa: hsa.clone() })
            }
            (Err(_), Ok(_), None) => Err(ExportError::NotOfGpu { pointer }),
        }
    }
}

fn reported<T>(loaded: Result<T, ExportError>) -> Result<Arc<T>, String> {
    loaded.map(Arc::new).map_err(|error| error.to_string())
}

impl GpuMemory {
    /// The address at which the range begins, in GPU memory.
    #[must_use]
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// Length of the range in bytes, at least one.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The GPU, as sysfs writes its address: `0000:1b:00.0`.
    #[must_use]
    pub fn pci_address(&self) -> &str {
        &self.pci_address
    }

    /// A dma-buf of it.
    ///
    /// # Errors
    /// See [`Cuda::export`] and [`Hsa::export`].
    pub fn export(&self) -> Result<Exported, ExportError> {
        match &self.maker {
            Maker::Cuda(cuda) => cuda.export(self.pointer, self.length, Mapping::Default),
            Maker::Hsa(hsa) => hsa.export(self.pointer, self.length),
        }
    }

    /// Copies `bytes` from byte `from` of it to byte `to` of shared memory.
    ///
    /// # Errors
    /// One of both is too short, or the library's answer.
    pub fn fetch(&self, from: u64, into: &Region, to: usize, bytes: usize) -> Result<(), ExportError> {
        let pointer = self.check(from, bytes, to, into.len())?;
        let to = into.as_ptr().wrapping_add(to);
        match &self.maker {
            // SAFETY: the range lies in the mapping, which lives as long as `into`; whatever others read or write there meanwhile, a
            // region has no references into it. The same holds below.
            Maker::Cuda(cuda) => unsafe { cuda.fetch(pointer, to, bytes) },
            // SAFETY: as above.
            Maker::Hsa(hsa) => unsafe { hsa.copy(to.expose_provenance() as u64, pointer, bytes) },
        }
    }

    /// Copies `bytes` from byte `from` of shared memory to byte `to` of it. They are there when it returns.
    ///
    /// # Errors
    /// As for [`GpuMemory::fetch`].
    pub fn store(&self, to: u64, source: &Region, from: usize, bytes: usize) -> Result<(), ExportError> {
        let pointer = self.check(to, bytes, from, source.len())?;
        let from = source.as_ptr().wrapping_add(from);
        match &self.maker {
            // SAFETY: as in `fetch`, for reading.
            Maker::Cuda(cuda) => unsafe { cuda.store(pointer, from, bytes) },
            // SAFETY: as in `fetch`, for reading.
            Maker::Hsa(hsa) => unsafe { hsa.copy(pointer, from.expose_provenance() as u64, bytes) },
        }
    }

    /// Copies `bytes` from byte `at` of another range to byte `to` of this one, on the GPUs.
    ///
    /// # Errors
    /// One of both is too short, they are of different makers, or the library's answer.
    pub fn take(&self, to: u64, from: &Self, at: u64, bytes: usize) -> Result<(), ExportError> {
        let there = usize::try_from(from.length).unwrap_or(usize::MAX);
        let target = self.check(to, bytes, usize::try_from(at).unwrap_or(usize::MAX), there)?;
        let source = from.pointer + at;
        match (&self.maker, &from.maker) {
            (Maker::Cuda(cuda), Maker::Cuda(_)) => cuda.shift(target, source, bytes),
            // SAFETY: both ranges are memory of GPUs, in allocations that the runtime knows.
            (Maker::Hsa(hsa), Maker::Hsa(_)) => unsafe { hsa.copy(target, source, bytes) },
            _ => Err(ExportError::NotOfGpu { pointer: source }),
        }
    }

    /// The address of byte `at`, if `bytes` from there are in it and `bytes` from `beside` in a memory of `room` bytes.
    fn check(&self, at: u64, bytes: usize, beside: usize, room: usize) -> Result<u64, ExportError> {
        let inside = at.checked_add(bytes as u64).is_some_and(|end| end <= self.length)
            && beside.checked_add(bytes).is_some_and(|end| end <= room);
        if inside {
            Ok(self.pointer + at)
        } else {
            Err(ExportError::Beyond { at, bytes, length: self.length })
        }
    }
}
