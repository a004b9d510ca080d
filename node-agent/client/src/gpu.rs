//! Memory of GPUs as a rank registers it with its engine.
//!
//! A rank registers a range once and names places of it in calls. Where rails can send from the GPU, the engine gets a dma-buf of it and
//! the input of calls that need no arithmetic goes from there to the wire; everything else is staged: copied between the GPU and shared
//! memory by the rank's own calls. Either way the same calls give the same results, and each says which way it took ([`TransferPath`]).

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use node_agent_collective::{Call, Operation};
use node_agent_gpu::export::{GpuMemory, Gpus};
use node_agent_ipc::{Lent, Reply, Request, Span};

use crate::buffer::Buffer;
use crate::link::Link;
use crate::{Client, Error};

/// In place of the system's libraries, for tests.
const CUDA: &str = "RAIL_CUDA_LIBRARY";
const HSA: &str = "RAIL_HSA_LIBRARY";

/// The system's libraries, or those that the environment names.
pub(crate) fn libraries() -> Gpus {
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    Gpus::new(named(CUDA), named(HSA))
}

/// Which way the bytes of a call took between a GPU and the rails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferPath {
    /// NICs read the input from the GPU's memory; what came in was staged all the same. Else everything was staged in host memory.
    pub direct: bool,
    /// Why so, and where it is staged, what would change that.
    pub why: String,
}

impl std::fmt::Display for TransferPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", if self.direct { "dma-buf" } else { "staged" }, self.why)
    }
}

/// Memory of a GPU that is registered with the engine. Dropping it gives it back, after the calls that still use it.
#[derive(Debug, Clone)]
pub struct GpuBuffer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    memory: GpuMemory,
    lent: Lent,
    link: Arc<Link>,
}

/// A place in memory of a GPU where an operand begins.
#[derive(Debug, Clone, Copy)]
pub struct GpuPlace<'a> {
    /// The registered GPU memory in which the operand lies.
    pub buffer: &'a GpuBuffer,
    /// The operand's first byte, counted from the beginning of the registered memory.
    pub offset: u64,
}

impl Client {
    /// Registers `bytes` of a GPU's memory from `pointer`, as CUDA or HIP gave it. The first call loads their libraries.
    ///
    /// The memory must stay allocated until it is given back. The GPU must be done with what it does to operands before a call begins, and
    /// leave them alone until it is over.
    ///
    /// # Errors
    /// It is not memory of one GPU in one allocation, or no library is there that would know ([`Error::Gpu`] says what to install); or the
    /// engine's limits. That rails cannot send from it is no error: [`GpuBuffer::way`] says so.
    pub fn register(&self, pointer: u64, bytes: u64) -> Result<GpuBuffer, Error> {
        let memory = self.gpus.get_or_init(libraries).find(pointer, bytes)?;
        let exported = match memory.export() {
            Ok(exported) => exported,
            Err(error) => return Ok(self.staged_only(memory, format!("it cannot be exported: {error}"))),
        };
        let gpu = memory.pci_address().to_owned();
        let request = Request::Lend { offset: exported.offset, bytes, gpu };
        let id = self.link.submit_with(&request, exported.file.as_fd())?;
        let answer = self.link.wait(id, "register", self.link.control_timeout())?;
        let Reply::Lent(lent) = answer.reply else {
            return Err(Error::Engine { cause: "lent memory of a GPU, got something else".into() });
        };
        Ok(GpuBuffer { inner: Arc::new(Inner { memory, lent, link: self.link.clone() }) })
    }

    /// Looks for memory of GPUs in these libraries; to be called before memory is first registered.
    pub fn use_gpus(&self, gpus: Gpus) {
        // Whoever registered before keeps what he found.
        let _ = self.gpus.set(gpus);
    }

    fn staged_only(&self, memory: GpuMemory, why: String) -> GpuBuffer {
        let lent = Lent { buffer: 0, why, here: Vec::new(), apart: false };
        GpuBuffer { inner: Arc::new(Inner { memory, lent, link: self.link.clone() }) }
    }
}

impl GpuBuffer {
    /// The address in GPU memory at which the range begins.
    pub fn pointer(&self) -> u64 {
        self.inner.memory.pointer()
    }

    /// Length of the registered memory, in bytes.
    pub fn len(&self) -> u64 {
        self.inner.memory.length()
    }

    /// Always false: no memory of no bytes is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The GPU's PCI address.
    pub fn pci_address(&self) -> &str {
        self.inner.memory.pci_address()
    }

    /// Whether rails can send from it, and why or why not.
    pub fn way(&self) -> TransferPath {
        TransferPath { direct: self.inner.lent.buffer != 0, why: self.inner.lent.why.clone() }
    }

    /// The place `offset` bytes into it, as an operand.
    pub fn at(&self, offset: u64) -> GpuPlace<'_> {
        GpuPlace { buffer: self, offset }
    }

    /// Gives it back, if no call uses it: afterwards it may be freed.
    ///
    /// # Errors
    /// Calls use it ([`Error::InUse`]); then it stays registered, and is what comes back.
    pub fn release(self) -> Result<(), (Self, Error)> {
        match Arc::strong_count(&self.inner) - 1 {
            0 => Ok(()),
            calls => {
                let error = Error::InUse { pointer: self.pointer(), calls };
                Err((self, error))
            }
        }
    }

    pub(crate) fn memory(&self) -> &GpuMemory {
        &self.inner.memory
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.lent.buffer != 0 {
            // Nobody waits for the answer; if the engine is gone, so is its side.
            self.link.submit_ignored(&Request::Free { buffer: self.lent.buffer });
        }
    }
}

impl GpuPlace<'_> {
    /// The same place, held as long as a call needs it.
    pub(crate) fn held(&self) -> HeldPlace {
        HeldPlace { buffer: self.buffer.clone(), offset: self.offset }
    }

    /// Whether the input of `call` of `rank` goes from here to the wire, or why it is staged. `output` is where the result goes.
    pub(crate) fn way(&self, call: &Call, rank: u32, output: Option<&GpuPlace<'_>>) -> TransferPath {
        let lent = &self.buffer.inner.lent;
        let staged = |why: &str| TransferPath { direct: false, why: why.to_owned() };
        if lent.buffer == 0 {
            return staged(&lent.why);
        }
        if let Err(why) = lent.sends(call.operation, rank) {
            return staged(why);
        }
        let fits = match call.operation {
            Operation::Send { .. } => true,
            // The root's own result is its input.
            Operation::Broadcast { .. } => output.is_some_and(|output| output.is(self)),
            // What the rank has of its own in the result it copies itself, on the GPU.
            _ => output.is_some_and(|output| !output.is(self)),
        };
        match fits {
            true => TransferPath { direct: true, why: lent.why.clone() },
            false => staged("input and output are not both on a GPU as this operation needs them"),
        }
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.buffer.inner, &other.buffer.inner) && self.offset == other.offset
    }

    /// As the engine names it, where rails send from it.
    pub(crate) fn span(&self) -> Span {
        Span { buffer: self.buffer.inner.lent.buffer, offset: self.offset }
    }

    /// Copies `bytes` from here into a shared buffer.
    pub(crate) fn fetch(&self, into: &Buffer, to: usize, bytes: usize) -> Result<(), Error> {
        Ok(self.buffer.memory().fetch(self.offset, &into.inner.region, to, bytes)?)
    }
}

/// A place that a call holds.
#[derive(Debug, Clone)]
pub(crate) struct HeldPlace {
    buffer: GpuBuffer,
    offset: u64,
}

impl HeldPlace {
    /// Copies `bytes` from a shared buffer to byte `at` from here.
    pub(crate) fn store(&self, at: usize, from: &Buffer, source: usize, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        let to = self.offset.saturating_add(at as u64);
        Ok(self.buffer.memory().store(to, &from.inner.region, source, bytes)?)
    }

    /// Copies `bytes` from byte `from` of another place to byte `at` from here, on the GPU.
    pub(crate) fn take(&self, at: usize, other: &Self, from: usize, bytes: usize) -> Result<(), Error> {
        let (to, source) = (self.offset.saturating_add(at as u64), other.offset.saturating_add(from as u64));
        if bytes == 0 || (Arc::ptr_eq(&self.buffer.inner, &other.buffer.inner) && to == source) {
            return Ok(());
        }
        Ok(self.buffer.memory().take(to, other.buffer.memory(), source, bytes)?)
    }
}
