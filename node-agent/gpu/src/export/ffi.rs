//! The part of CUDA's driver interface (`cuda.h`) and of the HSA runtime's (`hsa.h`, `hsa_ext_amd.h`) that is used here.
#![allow(missing_docs, reason = "the names are those of the headers, which document them")]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// `CUresult`.
pub type CuResult = c_int;
/// `CUdevice`.
pub type CuDevice = c_int;
/// `CUdeviceptr` of a 64-bit machine.
pub type CuPointer = c_ulonglong;

pub const CUDA_SUCCESS: CuResult = 0;
pub const CUDA_ERROR_INVALID_VALUE: CuResult = 1;
pub const CUDA_ERROR_NO_DEVICE: CuResult = 100;
pub const CUDA_ERROR_NOT_SUPPORTED: CuResult = 801;
/// `CUdevice_attribute`.
pub const GPU_DIRECT_RDMA_SUPPORTED: c_int = 116;
pub const DMA_BUF_SUPPORTED: c_int = 124;
/// `CUpointer_attribute`.
pub const POINTER_MEMORY_TYPE: c_int = 2;
pub const POINTER_SYNC_MEMOPS: c_int = 6;
pub const POINTER_RANGE_START: c_int = 11;
pub const POINTER_RANGE_SIZE: c_int = 12;
/// `CU_MEMORYTYPE_DEVICE`.
pub const MEMORY_DEVICE: c_uint = 2;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
pub const RANGE_DMA_BUF: c_int = 1;
/// `CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE` (CUDA 12.8).
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

/// `hsa_status_t`.
pub type HsaStatus = c_int;

pub const HSA_SUCCESS: HsaStatus = 0;
pub const HSA_ERROR: HsaStatus = 0x1000;
pub const HSA_INVALID_ARGUMENT: HsaStatus = 0x1001;
pub const HSA_INVALID_ALLOCATION: HsaStatus = 0x1003;
/// `HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED`: a `bool`.
pub const HSA_DMABUF_SUPPORTED: c_int = 0x204;

pub type HsaPlain = unsafe extern "C" fn() -> HsaStatus;
pub type HsaStatusString = unsafe extern "C" fn(HsaStatus, *mut *const c_char) -> HsaStatus;
pub type HsaSystemInfo = unsafe extern "C" fn(c_int, *mut c_void) -> HsaStatus;
pub type HsaExport = unsafe extern "C" fn(*const c_void, usize, *mut c_int, *mut u64) -> HsaStatus;
