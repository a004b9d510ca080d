//! The part of NVML's interface that is used here: types, constants and signatures as in NVIDIA's `nvml.h` (NVML API Reference).
//! Functions with a version in their name never change; the layouts are part of them.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// `nvmlReturn_t`.
pub type Code = c_int;
/// `nvmlDevice_t`: opaque, valid from `nvmlInit_v2` to `nvmlShutdown`.
pub type Handle = *mut c_void;

/// `NVML_SUCCESS`.
pub const SUCCESS: Code = 0;
/// `NVML_ERROR_INVALID_ARGUMENT`: also for a link that the GPU does not have.
pub const INVALID_ARGUMENT: Code = 2;
/// `NVML_ERROR_NOT_SUPPORTED`.
pub const NOT_SUPPORTED: Code = 3;
/// `NVML_ERROR_NOT_FOUND`: also for a MIG instance that is not there.
pub const NOT_FOUND: Code = 6;
/// `NVML_ERROR_DRIVER_NOT_LOADED`.
pub const DRIVER_NOT_LOADED: Code = 9;
/// `NVML_ERROR_GPU_IS_LOST`.
pub const GPU_IS_LOST: Code = 15;

/// `NVML_DEVICE_MIG_ENABLE`.
pub const MIG_ENABLE: c_uint = 1;

/// `NVML_NVLINK_DEVICE_TYPE_GPU`.
pub const LINK_TO_GPU: c_uint = 0;
/// `NVML_NVLINK_DEVICE_TYPE_SWITCH`.
pub const LINK_TO_SWITCH: c_uint = 2;

/// `NVML_DEVICE_UUID_V2_BUFFER_SIZE` and `NVML_DEVICE_NAME_V2_BUFFER_SIZE`; the driver's version needs 80.
pub const TEXT: usize = 96;

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct PciInfo {
    /// The bus address in the form of old versions.
    pub bus_id_legacy: [c_char; 16],
    /// PCI domain.
    pub domain: c_uint,
    /// PCI bus.
    pub bus: c_uint,
    /// PCI device.
    pub device: c_uint,
    /// Device in the upper half, vendor in the lower.
    pub pci_device_id: c_uint,
    /// The same of the subsystem.
    pub pci_subsystem_id: c_uint,
    /// The bus address, for example `00000000:1B:00.0`.
    pub bus_id: [c_char; 32],
}

/// `nvmlMemory_t`, in bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// All of it.
    pub total: c_ulonglong,
    /// What is free.
    pub free: c_ulonglong,
    /// What is used.
    pub used: c_ulonglong,
}

/// `nvmlInit_v2`, `nvmlShutdown`.
pub type Plain = unsafe extern "C" fn() -> Code;
/// `nvmlErrorString`.
pub type ErrorString = unsafe extern "C" fn(Code) -> *const c_char;
/// `nvmlSystemGetDriverVersion`.
pub type SystemText = unsafe extern "C" fn(*mut c_char, c_uint) -> Code;
/// `nvmlDeviceGetCount_v2`.
pub type GetCount = unsafe extern "C" fn(*mut c_uint) -> Code;
/// `nvmlDeviceGetHandleByIndex_v2`.
pub type GetHandle = unsafe extern "C" fn(c_uint, *mut Handle) -> Code;
/// `nvmlDeviceGetPciInfo_v3`.
pub type GetPciInfo = unsafe extern "C" fn(Handle, *mut PciInfo) -> Code;
/// `nvmlDeviceGetUUID`, `nvmlDeviceGetName`.
pub type DeviceText = unsafe extern "C" fn(Handle, *mut c_char, c_uint) -> Code;
/// `nvmlDeviceGetMemoryInfo`.
pub type GetMemory = unsafe extern "C" fn(Handle, *mut Memory) -> Code;
/// `nvmlDeviceGetNvLinkState`, `nvmlDeviceGetNvLinkVersion`, `nvmlDeviceGetNvLinkRemoteDeviceType`.
pub type LinkNumber = unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> Code;
/// `nvmlDeviceGetNvLinkRemotePciInfo_v2`.
pub type LinkPciInfo = unsafe extern "C" fn(Handle, c_uint, *mut PciInfo) -> Code;
/// `nvmlDeviceGetMigMode`: the mode now, and the one after the next reset.
pub type GetMigMode = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint) -> Code;
/// `nvmlDeviceGetMigDeviceHandleByIndex`.
pub type GetMigHandle = unsafe extern "C" fn(Handle, c_uint, *mut Handle) -> Code;
/// `nvmlDeviceGetMaxMigDeviceCount`, `nvmlDeviceGetGpuInstanceId`, `nvmlDeviceGetComputeInstanceId`.
pub type DeviceNumber = unsafe extern "C" fn(Handle, *mut c_uint) -> Code;
