//! The HSA runtime, on which HIP rests, loaded at run time: a pointer of HIP is one of HSA.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use node_agent_dylib::{Loaded, functions, known};

use super::ffi::{self, HsaStatus};
use super::{ExportError, Exported};

functions! {
    struct Functions {
        init: ffi::HsaPlain = "hsa_init",
        shut_down: ffi::HsaPlain = "hsa_shut_down",
        words: ffi::HsaStatusString = "hsa_status_string",
        system_info: ffi::HsaSystemInfo = "hsa_system_get_info",
        pointer: ffi::HsaPointerInfo = "hsa_amd_pointer_info",
        agent: ffi::HsaAgentInfo = "hsa_agent_get_info",
        copy: ffi::HsaCopy = "hsa_memory_copy",
    }
    maybe {
        export: ffi::HsaExport = "hsa_amd_portable_export_dmabuf",
    }
}

/// The runtime between its start and its end.
pub struct Hsa {
    functions: Functions,
    /// Last, so that the functions are never there without it.
    _library: Loaded,
}

impl std::fmt::Debug for Hsa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hsa")
    }
}

impl Hsa {
    /// Loads the system's runtime, or another that stands in for it, and starts it.
    ///
    /// # Errors
    /// It is not there, too old, or refuses to start.
    pub fn load(path: Option<&Path>) -> Result<Self, ExportError> {
        let library = Loaded::open(known::HSA, path)?;
        // SAFETY: the types are those of `hsa.h` and `hsa_ext_amd.h`, whose ABI is stable under the major version that the name asks for;
        // the library is kept beside the table.
        let functions = unsafe { Functions::find(&library) }?;
        // SAFETY: it has no conditions; the runtime counts starts and ends.
        let code = unsafe { (functions.init)() };
        if code != ffi::HSA_SUCCESS {
            // What did not start is not ended, so there is no `Self` yet.
            return Err(refused(&functions, "hsa_init", code));
        }
        Ok(Self { functions, _library: library })
    }

    /// Whether kernel and runtime can export memory as dma-bufs. Runtimes that do not know the question cannot.
    #[must_use]
    pub fn dma_buf(&self) -> bool {
        let mut supported = 0_u64;
        // SAFETY: the attribute is a `bool`; there is room for more. A runtime that does not know it writes nothing.
        let code =
            unsafe { (self.functions.system_info)(ffi::HSA_DMABUF_SUPPORTED, (&raw mut supported).cast()) };
        code == ffi::HSA_SUCCESS && supported.to_ne_bytes()[0] != 0 && self.functions.export.is_some()
    }

    /// The PCI address of the GPU that `length` bytes from `pointer` are on, if all of them are in one allocation there.
    ///
    /// # Errors
    /// They are not, or the runtime's answer.
    pub fn locate(&self, pointer: u64, length: u64) -> Result<String, ExportError> {
        let mut info = ffi::HsaPointer {
            size: size_of::<ffi::HsaPointer>() as u32,
            kind: 0,
            agent_base: std::ptr::null_mut(),
            host_base: std::ptr::null_mut(),
            bytes: 0,
            user_data: std::ptr::null_mut(),
            owner: ffi::HsaAgent::default(),
        };
        let at = std::ptr::without_provenance::<c_void>(pointer as usize);
        // SAFETY: it reads nothing at the address, only looks it up, and writes at most `size` bytes; nobody asks for the list of agents.
        let code = unsafe {
            (self.functions.pointer)(at, &raw mut info, None, std::ptr::null_mut(), std::ptr::null_mut())
        };
        self.checked("hsa_amd_pointer_info", code)?;
        if info.kind != ffi::HSA_POINTER_HSA
            || self.number(info.owner, ffi::HSA_AGENT_DEVICE)? != ffi::HSA_GPU
        {
            return Err(ExportError::NotOfGpu { pointer });
        }
        let (base, allocated) = (info.agent_base as u64, info.bytes as u64);
        let end = pointer.checked_add(length).zip(base.checked_add(allocated));
        if length == 0 || pointer < base || end.is_none_or(|(end, limit)| end > limit) {
            return Err(ExportError::Outside { pointer, length, base, allocated });
        }
        let place = self.number(info.owner, ffi::HSA_AGENT_BDF)?;
        let domain = self.number(info.owner, ffi::HSA_AGENT_DOMAIN)?;
        let (bus, device, function) = (place >> 8 & 0xff, place >> 3 & 0x1f, place & 7);
        Ok(format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
    }

    fn number(&self, agent: ffi::HsaAgent, attribute: c_int) -> Result<u32, ExportError> {
        let mut number = 0_u32;
        // SAFETY: the runtime gave the agent; each attribute asked for here is of four bytes.
        let code = unsafe { (self.functions.agent)(agent, attribute, (&raw mut number).cast()) };
        self.checked("hsa_agent_get_info", code)?;
        Ok(number)
    }

    fn checked(&self, call: &'static str, code: HsaStatus) -> Result<(), ExportError> {
        if code == ffi::HSA_SUCCESS { Ok(()) } else { Err(refused(&self.functions, call, code)) }
    }

    /// Copies between memories of GPUs and of this process; the bytes are there when it returns.
    ///
    /// # Errors
    /// The runtime's answer.
    ///
    /// # Safety
    /// What of both is this process's memory may be written, or read, over `length` bytes.
    pub unsafe fn copy(&self, to: u64, from: u64, length: usize) -> Result<(), ExportError> {
        let to = std::ptr::with_exposed_provenance_mut::<c_void>(to as usize);
        let from = std::ptr::with_exposed_provenance::<c_void>(from as usize);
        // SAFETY: passed on to the caller.
        self.checked("hsa_memory_copy", unsafe { (self.functions.copy)(to, from, length) })
    }

    /// Exports `length` bytes of GPU memory from `pointer`. The runtime exports the whole allocation and says where the range begins.
    ///
    /// # Errors
    /// The runtime is too old, the range is not GPU memory, or the runtime's answer.
    pub fn export(&self, pointer: u64, length: u64) -> Result<Exported, ExportError> {
        const CALL: &str = "hsa_amd_portable_export_dmabuf";
        let needs = "ROCm 5.6 or newer is needed";
        let call = self.functions.export;
        let call =
            call.ok_or(ExportError::TooOld { library: "libhsa-runtime64.so.1", symbol: CALL, needs })?;
        let bytes = usize::try_from(length).ok().filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or(ExportError::NotOfGpu { pointer })?;
        let (mut file, mut offset): (c_int, u64) = (-1, 0);
        let at = std::ptr::without_provenance::<c_void>(pointer as usize);
        // SAFETY: it reads nothing at the address, only looks it up among its allocations; it writes one descriptor and one number.
        let code = unsafe { call(at, bytes, &raw mut file, &raw mut offset) };
        match code {
            ffi::HSA_SUCCESS if file >= 0 => {}
            ffi::HSA_SUCCESS => return Err(ExportError::NoFile { call: CALL }),
            ffi::HSA_INVALID_ALLOCATION => return Err(ExportError::NotOfGpu { pointer }),
            code => return Err(refused(&self.functions, CALL, code)),
        }
        // SAFETY: the runtime has just opened it for this process, and nobody else knows it.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        Ok(Exported { file, offset, length })
    }
}

fn refused(functions: &Functions, call: &'static str, code: HsaStatus) -> ExportError {
    let mut words: *const c_char = std::ptr::null();
    // SAFETY: it takes any number and writes one pointer.
    let found = unsafe { (functions.words)(code, &raw mut words) };
    let words = match found != ffi::HSA_SUCCESS || words.is_null() {
        true => "no words for it".to_owned(),
        // SAFETY: it gave a text that ends with a zero and that never changes.
        false => unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned(),
    };
    ExportError::Refused { call, code, words }
}

impl Drop for Hsa {
    fn drop(&mut self) {
        // SAFETY: it has begun once. Exported memory lives on by its files.
        let _ = unsafe { (self.functions.shut_down)() };
    }
}
