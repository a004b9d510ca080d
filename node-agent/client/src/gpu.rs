//! Memory of GPUs as a rank registers it with its engine.
//!
//! A rank registers a range once and names places of it in calls. Where rails can send from the GPU, the engine gets a dma-buf of it and
//! the input of calls that need no arithmetic goes from there to the wire; everything else is staged: copied between the GPU and shared
//! memory by the rank's own calls. Either way the same calls give the same results, and each says which way it took ([`TransferPath`]).

use std::sync::Arc;

use node_agent_collective::{Call, Operation};
use node_agent_gpu::export::GpuMemory;
use node_agent_ipc::{Lent, Request, Span};

use crate::Error;
use crate::buffer::Buffer;
use crate::link::Link;

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

impl GpuBuffer {
    /// Memory that the engine has been lent, or knows nothing of.
    pub(crate) fn new(memory: GpuMemory, lent: Lent, link: Arc<Link>) -> Self {
        Self { inner: Arc::new(Inner { memory, lent, link }) }
    }

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
