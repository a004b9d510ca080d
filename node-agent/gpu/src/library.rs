//! NVML, loaded at run time, and its calls as safe functions.

use std::{
    ffi::{CStr, c_char, c_uint},
    path::Path,
    ptr::null_mut,
};

use node_agent_dylib::{LoadError, Loaded, functions, known};

use crate::ffi::{self, Code, Handle, Memory, PciInfo};

/// A call that NVML refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {words} ({code})")]
pub struct NvmlError {
    /// Name of the NVML function that was called.
    pub call: &'static str,
    /// The `nvmlReturn_t` that it returned.
    pub code: Code,
    /// What NVML says of that code.
    pub words: String,
}

functions! {
    struct Functions {
        init: ffi::Plain = "nvmlInit_v2",
        shutdown: ffi::Plain = "nvmlShutdown",
        error_string: ffi::ErrorString = "nvmlErrorString",
        driver_version: ffi::SystemText = "nvmlSystemGetDriverVersion",
        count: ffi::GetCount = "nvmlDeviceGetCount_v2",
        handle: ffi::GetHandle = "nvmlDeviceGetHandleByIndex_v2",
        pci_info: ffi::GetPciInfo = "nvmlDeviceGetPciInfo_v3",
        uuid: ffi::DeviceText = "nvmlDeviceGetUUID",
        name: ffi::DeviceText = "nvmlDeviceGetName",
        memory: ffi::GetMemory = "nvmlDeviceGetMemoryInfo",
    }
    maybe {
        link_state: ffi::LinkNumber = "nvmlDeviceGetNvLinkState",
        link_version: ffi::LinkNumber = "nvmlDeviceGetNvLinkVersion",
        link_remote_type: ffi::LinkNumber = "nvmlDeviceGetNvLinkRemoteDeviceType",
        link_remote_pci: ffi::LinkPciInfo = "nvmlDeviceGetNvLinkRemotePciInfo_v2",
        mig_mode: ffi::GetMigMode = "nvmlDeviceGetMigMode",
        mig_most: ffi::DeviceNumber = "nvmlDeviceGetMaxMigDeviceCount",
        mig_handle: ffi::GetMigHandle = "nvmlDeviceGetMigDeviceHandleByIndex",
        gpu_instance: ffi::DeviceNumber = "nvmlDeviceGetGpuInstanceId",
        compute_instance: ffi::DeviceNumber = "nvmlDeviceGetComputeInstanceId",
    }
}

/// NVML as it is loaded into this process, with the functions that are used of it.
pub struct Library {
    functions: Functions,
    /// Last, so that the functions are never there without it.
    _library: Loaded,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}

/// NVML between its start and its end. Handles of devices are valid as long as it lives, and are given out as `Gpu<'_>` only.
pub(crate) struct Session<'a> {
    library: &'a Library,
}

/// A device of a session.
#[derive(Clone, Copy)]
pub(crate) struct Gpu<'a> {
    session: &'a Session<'a>,
    handle: Handle,
}

impl Library {
    /// Loads the system's NVML, or another that stands in for it.
    ///
    /// # Errors
    /// It is not there, or too old.
    pub fn load(path: Option<&Path>) -> Result<Self, LoadError> {
        let library = Loaded::open(known::NVML, path)?;
        // SAFETY: the types are those of NVML's header, and a function with its name keeps its signature in every version of the driver;
        // the library is kept beside the table.
        let functions = unsafe { Functions::find(&library) }?;
        Ok(Self { functions, _library: library })
    }

    /// Begins; NVML finds the GPUs now.
    pub(crate) fn session(&self) -> Result<Session<'_>, NvmlError> {
        // SAFETY: the call has no conditions; NVML counts starts and ends.
        let code = unsafe { (self.functions.init)() };
        self.checked("nvmlInit_v2", code)?;
        Ok(Session { library: self })
    }

    fn checked(&self, call: &'static str, code: Code) -> Result<(), NvmlError> {
        if code == ffi::SUCCESS {
            return Ok(());
        }
        // SAFETY: it takes any number.
        let words = unsafe { (self.functions.error_string)(code) };
        let words = match words.is_null() {
            true => "no words for it".to_owned(),
            // SAFETY: NVML gives a text that ends with a zero and that it never changes.
            false => unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned(),
        };
        Err(NvmlError { call, code, words: line(&words) })
    }

    /// A text that NVML writes into a buffer.
    fn text(
        &self,
        call: &'static str,
        write: impl FnOnce(*mut c_char, c_uint) -> Code,
    ) -> Result<String, NvmlError> {
        let mut buffer = [0_u8; ffi::TEXT];
        self.checked(call, write(buffer.as_mut_ptr().cast(), ffi::TEXT as c_uint))?;
        let text = CStr::from_bytes_until_nul(&buffer).map(CStr::to_string_lossy);
        text.map(|text| line(&text)).map_err(|_| NvmlError {
            call,
            code: ffi::SUCCESS,
            words: "its answer is a text without an end".to_owned(),
        })
    }
}

/// As one printable line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: each session has begun once, and no handle outlives it: a `Gpu` borrows it.
        let _ = unsafe { (self.library.functions.shutdown)() };
    }
}

impl Session<'_> {
    pub(crate) fn driver_version(&self) -> Result<String, NvmlError> {
        let call = self.library.functions.driver_version;
        // SAFETY: it writes at most as many bytes as the length that it is given.
        self.library.text("nvmlSystemGetDriverVersion", |buffer, length| unsafe { call(buffer, length) })
    }

    pub(crate) fn count(&self) -> Result<u32, NvmlError> {
        let mut count = 0;
        // SAFETY: it writes one number to the pointer that it is given.
        let code = unsafe { (self.library.functions.count)(&raw mut count) };
        self.library.checked("nvmlDeviceGetCount_v2", code)?;
        Ok(count)
    }

    pub(crate) fn gpu(&self, index: u32) -> Result<Gpu<'_>, NvmlError> {
        let mut handle = null_mut();
        // SAFETY: it writes one handle to the pointer that it is given, and takes any index.
        let code = unsafe { (self.library.functions.handle)(index, &raw mut handle) };
        self.library.checked("nvmlDeviceGetHandleByIndex_v2", code)?;
        Ok(Gpu { session: self, handle })
    }
}

impl<'a> Gpu<'a> {
    fn functions(&self) -> &'a Functions {
        &self.session.library.functions
    }

    /// Whether it is in MIG mode now; false of a GPU, or of a driver, that has none.
    pub(crate) fn is_partitioned(&self) -> Result<bool, NvmlError> {
        let Some(function) = self.functions().mig_mode else { return Ok(false) };
        let (mut now, mut pending) = (0, 0);
        // SAFETY: the handle is of this session; it writes two numbers to the pointer that it is given.
        let code = unsafe { function(self.handle, &raw mut now, &raw mut pending) };
        if code == ffi::NOT_SUPPORTED {
            return Ok(false);
        }
        self.checked("nvmlDeviceGetMigMode", code)?;
        Ok(now == ffi::MIG_ENABLE)
    }

    fn number(&self, call: &'static str, function: Option<ffi::DeviceNumber>) -> Result<u32, NvmlError> {
        let function = function.ok_or_else(|| too_old(call))?;
        let mut number = 0;
        // SAFETY: the handle is of this session; it writes one number to the pointer that it is given.
        let code = unsafe { function(self.handle, &raw mut number) };
        self.checked(call, code)?;
        Ok(number)
    }

    /// Instances that it can have at most; the indices of [`Self::instance`] are below.
    pub(crate) fn instances_most(&self) -> Result<u32, NvmlError> {
        self.number("nvmlDeviceGetMaxMigDeviceCount", self.functions().mig_most)
    }

    /// A MIG instance as a device; `None` where there is none with this index, which need not be in a row.
    pub(crate) fn instance(&self, index: u32) -> Result<Option<Self>, NvmlError> {
        let call = "nvmlDeviceGetMigDeviceHandleByIndex";
        let function = self.functions().mig_handle.ok_or_else(|| too_old(call))?;
        let mut handle = null_mut();
        // SAFETY: the handle is of this session; it takes any index and writes one handle to the pointer that it is given.
        let code = unsafe { function(self.handle, index, &raw mut handle) };
        if [ffi::NOT_FOUND, ffi::INVALID_ARGUMENT].contains(&code) {
            return Ok(None);
        }
        self.checked(call, code)?;
        Ok(Some(Self { session: self.session, handle }))
    }

    /// Of an instance: the numbers of its GPU instance and of the compute instance in that.
    pub(crate) fn instance_ids(&self) -> Result<(u32, u32), NvmlError> {
        let gpu = self.number("nvmlDeviceGetGpuInstanceId", self.functions().gpu_instance)?;
        let compute = self.number("nvmlDeviceGetComputeInstanceId", self.functions().compute_instance)?;
        Ok((gpu, compute))
    }

    fn checked(&self, call: &'static str, code: Code) -> Result<(), NvmlError> {
        self.session.library.checked(call, code)
    }

    /// Its PCI address as sysfs writes it.
    pub(crate) fn pci_address(&self) -> Result<String, NvmlError> {
        let mut info = PciInfo::default();
        // SAFETY: the handle is of this session; it writes one structure of this layout to the pointer that it is given.
        let code = unsafe { (self.functions().pci_info)(self.handle, &raw mut info) };
        self.checked("nvmlDeviceGetPciInfo_v3", code)?;
        Ok(address(&info))
    }

    pub(crate) fn uuid(&self) -> Result<String, NvmlError> {
        let (call, handle) = (self.functions().uuid, self.handle);
        // SAFETY: the handle is of this session; it writes at most as many bytes as the length that it is given.
        self.session
            .library
            .text("nvmlDeviceGetUUID", |buffer, length| unsafe { call(handle, buffer, length) })
    }

    pub(crate) fn name(&self) -> Result<String, NvmlError> {
        let (call, handle) = (self.functions().name, self.handle);
        // SAFETY: the handle is of this session; it writes at most as many bytes as the length that it is given.
        self.session
            .library
            .text("nvmlDeviceGetName", |buffer, length| unsafe { call(handle, buffer, length) })
    }

    /// The GPU's memory in bytes.
    pub(crate) fn memory(&self) -> Result<u64, NvmlError> {
        let mut memory = Memory::default();
        // SAFETY: the handle is of this session; it writes one structure of this layout to the pointer that it is given.
        let code = unsafe { (self.functions().memory)(self.handle, &raw mut memory) };
        self.checked("nvmlDeviceGetMemoryInfo", code)?;
        Ok(memory.total)
    }

    fn link_number(
        &self,
        call: &'static str,
        function: Option<ffi::LinkNumber>,
        link: u32,
    ) -> Result<u32, NvmlError> {
        let function = function.ok_or_else(|| too_old(call))?;
        let mut number = 0;
        // SAFETY: the handle is of this session; it takes any link and writes one number to the pointer that it is given.
        let code = unsafe { function(self.handle, link, &raw mut number) };
        self.checked(call, code)?;
        Ok(number)
    }

    pub(crate) fn link_is_up(&self, link: u32) -> Result<bool, NvmlError> {
        Ok(self.link_number("nvmlDeviceGetNvLinkState", self.functions().link_state, link)? == 1)
    }

    pub(crate) fn link_version(&self, link: u32) -> Result<u32, NvmlError> {
        self.link_number("nvmlDeviceGetNvLinkVersion", self.functions().link_version, link)
    }

    pub(crate) fn link_remote_type(&self, link: u32) -> Result<u32, NvmlError> {
        let function = self.functions().link_remote_type;
        self.link_number("nvmlDeviceGetNvLinkRemoteDeviceType", function, link)
    }

    /// The PCI address of a link's other end.
    pub(crate) fn link_remote_address(&self, link: u32) -> Result<String, NvmlError> {
        let call = "nvmlDeviceGetNvLinkRemotePciInfo_v2";
        let function = self.functions().link_remote_pci.ok_or_else(|| too_old(call))?;
        let mut info = PciInfo::default();
        // SAFETY: the handle is of this session; it takes any link and writes one structure of this layout to the pointer that it is given.
        let code = unsafe { function(self.handle, link, &raw mut info) };
        self.checked(call, code)?;
        Ok(address(&info))
    }
}

fn too_old(call: &'static str) -> NvmlError {
    let words = "this version of the library does not have it".to_owned();
    NvmlError { call, code: ffi::NOT_SUPPORTED, words }
}

/// A GPU is function 0 of its device.
fn address(info: &PciInfo) -> String {
    format!("{:04x}:{:02x}:{:02x}.0", info.domain, info.bus, info.device)
}
