//! The part of CUDA's driver interface (`cuda.h`) and of the HSA runtime's (`hsa.h`, `hsa_ext_amd.h`) that is used here.
#![allow(missing_docs, reason = "the names are those of the headers, which document them")]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// `CUresult` of CUDA's driver API (`cuda.h`): 0 is success.
pub type CuResult = c_int;
/// `CUdevice`: the number of a GPU in this process.
pub type CuDevice = c_int;
/// `CUdeviceptr` of a 64-bit machine.
pub type CuPointer = c_ulonglong;

pub const CUDA_SUCCESS: CuResult = 0;
pub const CUDA_ERROR_INVALID_VALUE: CuResult = 1;
pub const CUDA_ERROR_NO_DEVICE: CuResult = 100;
pub const CUDA_ERROR_INVALID_CONTEXT: CuResult = 201;
pub const CUDA_ERROR_NOT_SUPPORTED: CuResult = 801;
/// `CUdevice_attribute`: what `cuDeviceGetAttribute` is asked for.
pub const GPU_DIRECT_RDMA_SUPPORTED: c_int = 116;
pub const DMA_BUF_SUPPORTED: c_int = 124;
/// `CUpointer_attribute`: what `cuPointerGetAttribute` is asked for.
pub const POINTER_MEMORY_TYPE: c_int = 2;
pub const POINTER_SYNC_MEMOPS: c_int = 6;
pub const POINTER_IS_MANAGED: c_int = 8;
pub const POINTER_DEVICE_ORDINAL: c_int = 9;
pub const POINTER_RANGE_START: c_int = 11;
pub const POINTER_RANGE_SIZE: c_int = 12;
/// `CU_MEMORYTYPE_DEVICE` of `CUmemorytype`: memory of a GPU.
pub const MEMORY_DEVICE: c_uint = 2;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`: a range is exported as the file descriptor of a dma-buf.
pub const RANGE_DMA_BUF: c_int = 1;
/// `CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE` (CUDA 12.8): the dma-buf is reached over the GPU's PCIe BAR.
pub const RANGE_PCIE: c_ulonglong = 1;

pub type CuInit = unsafe extern "C" fn(c_uint) -> CuResult;
pub type CuNumber = unsafe extern "C" fn(*mut c_int) -> CuResult;
pub type CuDeviceGet = unsafe extern "C" fn(*mut CuDevice, c_int) -> CuResult;
pub type CuDeviceText = unsafe extern "C" fn(*mut c_char, c_int, CuDevice) -> CuResult;
pub type CuDeviceAttribute = unsafe extern "C" fn(*mut c_int, c_int, CuDevice) -> CuResult;
pub type CuPointerGet = unsafe extern "C" fn(*mut c_void, c_int, CuPointer) -> CuResult;
pub type CuPointerSet = unsafe extern "C" fn(*const c_void, c_int, CuPointer) -> CuResult;
pub type CuErrorString = unsafe extern "C" fn(CuResult, *mut *const c_char) -> CuResult;
pub type CuRangeHandle = unsafe extern "C" fn(*mut c_void, CuPointer, usize, c_int, c_ulonglong) -> CuResult;
/// `CUcontext` and `CUstream`, both opaque pointers.
pub type CuOpaque = *mut c_void;
pub type CuRetain = unsafe extern "C" fn(*mut CuOpaque, CuDevice) -> CuResult;
pub type CuRelease = unsafe extern "C" fn(CuDevice) -> CuResult;
pub type CuPush = unsafe extern "C" fn(CuOpaque) -> CuResult;
pub type CuPop = unsafe extern "C" fn(*mut CuOpaque) -> CuResult;
pub type CuFetch = unsafe extern "C" fn(*mut c_void, CuPointer, usize) -> CuResult;
pub type CuStore = unsafe extern "C" fn(CuPointer, *const c_void, usize) -> CuResult;
pub type CuMove = unsafe extern "C" fn(CuPointer, CuPointer, usize) -> CuResult;
pub type CuSynchronize = unsafe extern "C" fn(CuOpaque) -> CuResult;

/// `hsa_status_t` of the HSA runtime (`hsa.h`): 0 is success.
pub type HsaStatus = c_int;

pub const HSA_SUCCESS: HsaStatus = 0;
pub const HSA_ERROR: HsaStatus = 0x1000;
pub const HSA_INVALID_ARGUMENT: HsaStatus = 0x1001;
pub const HSA_INVALID_ALLOCATION: HsaStatus = 0x1003;
/// `HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED` of `hsa_ext_amd.h`: a `bool`, whether memory can be exported as a dma-buf.
pub const HSA_DMABUF_SUPPORTED: c_int = 0x204;

/// `HSA_AGENT_INFO_DEVICE`: an agent's `hsa_device_type_t`.
pub const HSA_AGENT_DEVICE: c_int = 17;
/// `HSA_DEVICE_TYPE_GPU` of `hsa_device_type_t`: the agent is a GPU.
pub const HSA_GPU: u32 = 1;
/// `HSA_AMD_AGENT_INFO_BDFID`: bus, device and function in one `uint32_t`.
pub const HSA_AGENT_BDF: c_int = 0xA006;
/// `HSA_AMD_AGENT_INFO_DOMAIN`: the PCI domain, a `uint32_t`.
pub const HSA_AGENT_DOMAIN: c_int = 0xA00F;
/// `HSA_EXT_POINTER_TYPE_HSA`: the pointer is to memory that the HSA runtime has allocated.
pub const HSA_POINTER_HSA: c_int = 1;

/// `hsa_agent_t`: the opaque handle of a CPU or a GPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct HsaAgent {
    pub handle: u64,
}

/// `hsa_amd_pointer_info_t` as far as it is used; the runtime writes no more than `size` bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct HsaPointer {
    pub size: u32,
    pub kind: c_int,
    pub agent_base: *mut c_void,
    pub host_base: *mut c_void,
    pub bytes: usize,
    pub user_data: *mut c_void,
    pub owner: HsaAgent,
}

pub type HsaPointerInfo = unsafe extern "C" fn(
    *const c_void,
    *mut HsaPointer,
    Option<unsafe extern "C" fn(usize) -> *mut c_void>,
    *mut u32,
    *mut *mut HsaAgent,
) -> HsaStatus;
pub type HsaAgentInfo = unsafe extern "C" fn(HsaAgent, c_int, *mut c_void) -> HsaStatus;
pub type HsaCopy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> HsaStatus;

pub type HsaPlain = unsafe extern "C" fn() -> HsaStatus;
pub type HsaStatusString = unsafe extern "C" fn(HsaStatus, *mut *const c_char) -> HsaStatus;
pub type HsaSystemInfo = unsafe extern "C" fn(c_int, *mut c_void) -> HsaStatus;
pub type HsaExport = unsafe extern "C" fn(*const c_void, usize, *mut c_int, *mut u64) -> HsaStatus;
