//! CUDA's driver library, loaded at run time.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use node_agent_dylib::{Loaded, functions, known};

use super::ffi::{self, CuPointer, CuResult};
use super::{ExportError, Exported, page, window};

/// A PCI address such as `0000:1b:00.0`, and its end.
const ADDRESS: usize = 16;
/// Devices of a server at most.
const MOST: c_int = 64;

functions! {
    struct Functions {
        init: ffi::CuInit = "cuInit",
        version: ffi::CuNumber = "cuDriverGetVersion",
        count: ffi::CuNumber = "cuDeviceGetCount",
        device: ffi::CuDeviceGet = "cuDeviceGet",
        address: ffi::CuDeviceText = "cuDeviceGetPCIBusId",
        attribute: ffi::CuDeviceAttribute = "cuDeviceGetAttribute",
        pointer: ffi::CuPointerGet = "cuPointerGetAttribute",
        set_pointer: ffi::CuPointerSet = "cuPointerSetAttribute",
        words: ffi::CuErrorString = "cuGetErrorString",
        retain: ffi::CuRetain = "cuDevicePrimaryCtxRetain",
        release: ffi::CuRelease = "cuDevicePrimaryCtxRelease_v2",
        push: ffi::CuPush = "cuCtxPushCurrent_v2",
        pop: ffi::CuPop = "cuCtxPopCurrent_v2",
        fetch: ffi::CuFetch = "cuMemcpyDtoH_v2",
        store: ffi::CuStore = "cuMemcpyHtoD_v2",
        shift: ffi::CuMove = "cuMemcpyDtoD_v2",
        synchronize: ffi::CuSynchronize = "cuStreamSynchronize",
    }
    maybe {
        range: ffi::CuRangeHandle = "cuMemGetHandleForAddressRange",
    }
}

/// How a NIC is to reach exported memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mapping {
    /// As the driver chooses.
    #[default]
    Default,
    /// Over PCIe by the GPU's BAR1, where the default would be the coherent link to the processor (CUDA 12.8).
    Pcie,
}

/// What CUDA says of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaDevice {
    /// As sysfs writes it, for example `0000:1b:00.0`.
    pub pci_address: String,
    /// NICs can reach its memory at all.
    pub gpu_direct: bool,
    /// Its memory can be exported as dma-bufs; older drivers do not know the question, and so cannot.
    pub dma_buf: bool,
}

/// The library after its start. No context is made: exports are of memory that the caller allocated in its own.
pub struct Cuda {
    functions: Functions,
    /// Last, so that the functions are never there without it.
    _library: Loaded,
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cuda")
    }
}

impl Cuda {
    /// Loads the system's library, or another that stands in for it, and starts it. It may wake GPUs up and take seconds.
    ///
    /// # Errors
    /// It is not there, too old, or refuses to start.
    pub fn load(path: Option<&Path>) -> Result<Self, ExportError> {
        let library = Loaded::open(known::CUDA, path)?;
        // SAFETY: the types are those of `cuda.h`, whose functions keep their signature under a symbol's name; the library is kept
        // beside the table.
        let functions = unsafe { Functions::find(&library) }?;
        let cuda = Self { functions, _library: library };
        // SAFETY: it takes no flags but zero, and may be called more than once.
        cuda.checked("cuInit", unsafe { (cuda.functions.init)(0) })?;
        Ok(cuda)
    }

    fn checked(&self, call: &'static str, code: CuResult) -> Result<(), ExportError> {
        if code == ffi::CUDA_SUCCESS {
            return Ok(());
        }
        let mut words: *const c_char = std::ptr::null();
        // SAFETY: it takes any number and writes one pointer.
        let found = unsafe { (self.functions.words)(code, &raw mut words) };
        let words = match found != ffi::CUDA_SUCCESS || words.is_null() {
            true => "no words for it".to_owned(),
            // SAFETY: it gave a text that ends with a zero and that never changes.
            false => unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned(),
        };
        Err(ExportError::Refused { call, code, words })
    }

    /// The version of CUDA that the driver has, for example `(12, 8)`.
    ///
    /// # Errors
    /// The library's answer.
    pub fn version(&self) -> Result<(u32, u32), ExportError> {
        let mut version = 0;
        // SAFETY: it writes one number.
        self.checked("cuDriverGetVersion", unsafe { (self.functions.version)(&raw mut version) })?;
        let version = u32::try_from(version).unwrap_or(0);
        Ok((version / 1000, version % 1000 / 10))
    }

    /// All devices that this process may use.
    ///
    /// # Errors
    /// The library's answer.
    pub fn devices(&self) -> Result<Vec<CudaDevice>, ExportError> {
        let mut count = 0;
        // SAFETY: it writes one number.
        self.checked("cuDeviceGetCount", unsafe { (self.functions.count)(&raw mut count) })?;
        (0..count.min(MOST)).map(|ordinal| self.device(ordinal)).collect()
    }

    fn handle(&self, ordinal: c_int) -> Result<ffi::CuDevice, ExportError> {
        let mut device = 0;
        // SAFETY: it takes any ordinal and writes one device.
        self.checked("cuDeviceGet", unsafe { (self.functions.device)(&raw mut device, ordinal) })?;
        Ok(device)
    }

    fn device(&self, ordinal: c_int) -> Result<CudaDevice, ExportError> {
        let (device, mut address) = (self.handle(ordinal)?, [0_u8; ADDRESS]);
        let call = self.functions.address;
        // SAFETY: the device was just given; it writes at most as many bytes as the length that it is given.
        let code = unsafe { call(address.as_mut_ptr().cast(), ADDRESS as c_int, device) };
        self.checked("cuDeviceGetPCIBusId", code)?;
        let address = CStr::from_bytes_until_nul(&address).map(CStr::to_string_lossy).unwrap_or_default();
        let has = |attribute: c_int| {
            let mut value = 0;
            // SAFETY: the device was just given; it takes any attribute and writes one number.
            let code = unsafe { (self.functions.attribute)(&raw mut value, attribute, device) };
            // A driver that does not know the attribute does not have what it is about.
            code == ffi::CUDA_SUCCESS && value != 0
        };
        Ok(CudaDevice {
            pci_address: address.to_lowercase(),
            gpu_direct: has(ffi::GPU_DIRECT_RDMA_SUPPORTED),
            dma_buf: has(ffi::DMA_BUF_SUPPORTED) && self.functions.range.is_some(),
        })
    }

    /// The allocation that a pointer is in: where it begins, and its bytes.
    ///
    /// # Errors
    /// It is not memory of a GPU, or the library's answer.
    pub fn allocation(&self, pointer: u64) -> Result<(u64, u64), ExportError> {
        let (mut kind, mut base, mut bytes): (c_uint, CuPointer, usize) = (0, 0, 0);
        let get = |attribute, into: *mut c_void| {
            // SAFETY: each attribute below writes a value of the type that `into` is made of (`cuda.h`: an enum, a device pointer and a
            // size); any pointer may be asked about.
            unsafe { (self.functions.pointer)(into, attribute, pointer) }
        };
        let code = get(ffi::POINTER_MEMORY_TYPE, (&raw mut kind).cast());
        if code == ffi::CUDA_ERROR_INVALID_VALUE || (code == ffi::CUDA_SUCCESS && kind != ffi::MEMORY_DEVICE)
        {
            return Err(ExportError::NotOfGpu { pointer });
        }
        self.checked("cuPointerGetAttribute", code)?;
        self.checked("cuPointerGetAttribute", get(ffi::POINTER_RANGE_START, (&raw mut base).cast()))?;
        self.checked("cuPointerGetAttribute", get(ffi::POINTER_RANGE_SIZE, (&raw mut bytes).cast()))?;
        Ok((base, bytes as u64))
    }

    /// The device that `length` bytes from `pointer` are on, if all of them are in one allocation that only that device has: memory that
    /// wanders between GPU and processor (`cuMemAllocManaged`) is the processor's as well.
    ///
    /// # Errors
    /// They are not, or the library's answer.
    pub fn locate(&self, pointer: u64, length: u64) -> Result<CudaDevice, ExportError> {
        let (base, allocated) = self.allocation(pointer)?;
        let end = pointer.checked_add(length).zip(base.checked_add(allocated));
        if length == 0 || pointer < base || end.is_none_or(|(end, limit)| end > limit) {
            return Err(ExportError::Outside { pointer, length, base, allocated });
        }
        let mut managed: c_uint = 0;
        // SAFETY: the attribute is a `bool`, for which there is room; any pointer may be asked about.
        let code =
            unsafe { (self.functions.pointer)((&raw mut managed).cast(), ffi::POINTER_IS_MANAGED, pointer) };
        self.checked("cuPointerGetAttribute", code)?;
        if managed.to_ne_bytes()[0] != 0 {
            return Err(ExportError::Managed { pointer });
        }
        self.device(self.ordinal(pointer)?)
    }

    fn ordinal(&self, pointer: u64) -> Result<c_int, ExportError> {
        let mut ordinal: c_int = 0;
        let into = (&raw mut ordinal).cast();
        // SAFETY: the attribute is an `int`; any pointer may be asked about.
        let code = unsafe { (self.functions.pointer)(into, ffi::POINTER_DEVICE_ORDINAL, pointer) };
        self.checked("cuPointerGetAttribute", code)?;
        Ok(ordinal)
    }

    /// Does something with the primary context of a pointer's device as the thread's own, which is that of CUDA's runtime and of whoever
    /// uses it; copies need some context. It is held no longer than that.
    fn in_context<T>(
        &self,
        pointer: u64,
        body: impl FnOnce() -> Result<T, ExportError>,
    ) -> Result<T, ExportError> {
        let device = self.handle(self.ordinal(pointer)?)?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the device was just given; it writes one context, which is released below.
        self.checked("cuDevicePrimaryCtxRetain", unsafe {
            (self.functions.retain)(&raw mut context, device)
        })?;
        // SAFETY: the context was just retained.
        let pushed = self.checked("cuCtxPushCurrent", unsafe { (self.functions.push)(context) });
        let done = pushed.and_then(|()| {
            let done = body();
            // SAFETY: it takes off what was put on above, whatever `body` did: it calls copies only.
            let popped = unsafe { (self.functions.pop)(&raw mut context) };
            done.and_then(|done| self.checked("cuCtxPopCurrent", popped).map(|()| done))
        });
        // SAFETY: it was retained once above.
        let released = unsafe { (self.functions.release)(device) };
        done.and_then(|done| self.checked("cuDevicePrimaryCtxRelease", released).map(|()| done))
    }

    /// Copies `length` bytes of GPU memory to this process's.
    ///
    /// # Errors
    /// The library's answer.
    ///
    /// # Safety
    /// `length` bytes may be written at `to`, by whoever and as they like while this runs.
    pub unsafe fn fetch(&self, pointer: u64, to: *mut u8, length: usize) -> Result<(), ExportError> {
        self.in_context(pointer, || {
            // SAFETY: passed on to the caller; the driver checks the range of the GPU's memory.
            let code = unsafe { (self.functions.fetch)(to.cast(), pointer, length) };
            self.checked("cuMemcpyDtoH", code)
        })
    }

    /// Copies `length` bytes of this process's memory to a GPU's; they are there when it returns.
    ///
    /// # Errors
    /// The library's answer.
    ///
    /// # Safety
    /// `length` bytes may be read at `from`.
    pub unsafe fn store(&self, pointer: u64, from: *const u8, length: usize) -> Result<(), ExportError> {
        self.in_context(pointer, || {
            // SAFETY: passed on to the caller; the driver checks the range of the GPU's memory.
            let code = unsafe { (self.functions.store)(pointer, from.cast(), length) };
            self.checked("cuMemcpyHtoD", code)?;
            self.settle()
        })
    }

    /// Copies within a GPU's memory, or from one GPU's to another's.
    ///
    /// # Errors
    /// The library's answer.
    pub fn shift(&self, to: u64, from: u64, length: usize) -> Result<(), ExportError> {
        self.in_context(to, || {
            // SAFETY: only memory of GPUs is named, whose ranges the driver checks.
            let code = unsafe { (self.functions.shift)(to, from, length) };
            self.checked("cuMemcpyDtoD", code)?;
            self.settle()
        })
    }

    /// Copies from pageable memory return when the driver has taken the bytes (CUDA's "API synchronization behavior"): this waits until
    /// they have arrived.
    fn settle(&self) -> Result<(), ExportError> {
        // SAFETY: null is the context's default stream, which those copies go through.
        let code = unsafe { (self.functions.synchronize)(std::ptr::null_mut()) };
        self.checked("cuStreamSynchronize", code)
    }

    /// Exports `length` bytes of GPU memory from `pointer`. CUDA's own synchronous copies of that memory wait for each other from now on
    /// (`CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`), as GPUDirect RDMA asks for.
    ///
    /// # Errors
    /// The driver is too old, the range is not inside one allocation of a GPU, or the library's answer.
    pub fn export(&self, pointer: u64, length: u64, mapping: Mapping) -> Result<Exported, ExportError> {
        const CALL: &str = "cuMemGetHandleForAddressRange";
        let needs = "NVIDIA's driver 515 (CUDA 11.7) or newer is needed";
        let call = self.functions.range;
        let call = call.ok_or(ExportError::TooOld { library: "libcuda.so.1", symbol: CALL, needs })?;
        let window = window(pointer, length, self.allocation(pointer)?, page())?;
        let on: c_uint = 1;
        // SAFETY: the attribute is read as one `unsigned int`.
        let code = unsafe {
            (self.functions.set_pointer)((&raw const on).cast(), ffi::POINTER_SYNC_MEMOPS, pointer)
        };
        self.checked("cuPointerSetAttribute", code)?;
        let flags = if mapping == Mapping::Pcie { ffi::RANGE_PCIE } else { 0 };
        let mut file: c_int = -1;
        // SAFETY: for a handle of this kind it writes one descriptor; the range was checked to be inside one allocation, and the driver
        // checks it again.
        let code = unsafe {
            call((&raw mut file).cast(), window.start, window.length as usize, ffi::RANGE_DMA_BUF, flags)
        };
        self.checked(CALL, code)?;
        if file < 0 {
            return Err(ExportError::NoFile { call: CALL });
        }
        // SAFETY: the driver has just opened it for this process, and nobody else knows it.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        Ok(Exported { file, offset: window.offset, length })
    }
}
