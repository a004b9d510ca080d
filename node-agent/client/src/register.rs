//! Registering memory of GPUs with the engine.

use std::os::fd::AsFd;
use std::path::PathBuf;

use node_agent_gpu::export::{GpuMemory, Gpus};
use node_agent_ipc::{Lent, Reply, Request};

use crate::{Client, Error, GpuBuffer};

/// In place of the system's libraries, for tests.
const CUDA: &str = "RAIL_CUDA_LIBRARY";
const HSA: &str = "RAIL_HSA_LIBRARY";

/// The system's libraries, or those that the environment names.
fn libraries() -> Gpus {
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    Gpus::new(named(CUDA), named(HSA))
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
        Ok(GpuBuffer::new(memory, lent, self.link.clone()))
    }

    /// Looks for memory of GPUs in these libraries; to be called before memory is first registered.
    pub fn use_gpus(&self, gpus: Gpus) {
        // Whoever registered before keeps what he found.
        let _ = self.gpus.set(gpus);
    }

    fn staged_only(&self, memory: GpuMemory, why: String) -> GpuBuffer {
        let lent = Lent { buffer: 0, why, here: Vec::new(), apart: false };
        GpuBuffer::new(memory, lent, self.link.clone())
    }
}
