//! The part of NVML's interface that is used here: types, constants and signatures as in NVIDIA's `nvml.h` (NVML API Reference).
//! Functions with a version in their name never change; the layouts are part of them.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// `nvmlReturn_t` of NVML (`nvml.h`): what every function returns.
pub type Code = c_int;
/// `nvmlDevice_t`: opaque, valid from `nvmlInit_v2` to `nvmlShutdown`.
pub type Handle = *mut c_void;

/// `NVML_SUCCESS`: the call succeeded.
pub const SUCCESS: Code = 0;
/// `NVML_ERROR_INVALID_ARGUMENT`: also for a link that the GPU does not have.
pub const INVALID_ARGUMENT: Code = 2;
/// `NVML_ERROR_NOT_SUPPORTED`: the GPU does not have what was asked for.
pub const NOT_SUPPORTED: Code = 3;
/// `NVML_ERROR_NOT_FOUND`: also for a MIG instance that is not there.
pub const NOT_FOUND: Code = 6;
/// `NVML_ERROR_DRIVER_NOT_LOADED`: NVIDIA's kernel driver is not loaded.
pub const DRIVER_NOT_LOADED: Code = 9;
/// `NVML_ERROR_GPU_IS_LOST`: the GPU has fallen off the bus or cannot be reached.
pub const GPU_IS_LOST: Code = 15;

/// `NVML_DEVICE_MIG_ENABLE`: the GPU is in MIG mode.
pub const MIG_ENABLE: c_uint = 1;

/// `NVML_NVLINK_DEVICE_TYPE_GPU`: the link ends at another GPU.
pub const LINK_TO_GPU: c_uint = 0;
/// `NVML_NVLINK_DEVICE_TYPE_SWITCH`: the link ends at an NVSwitch.
pub const LINK_TO_SWITCH: c_uint = 2;

/// `NVML_DEVICE_UUID_V2_BUFFER_SIZE` and `NVML_DEVICE_NAME_V2_BUFFER_SIZE`; the driver's version needs 80.
pub const TEXT: usize = 96;

/// `nvmlPciInfo_t`: where a device is on the PCI bus.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct PciInfo {
    /// The bus address in the form of old versions.
    pub bus_id_legacy: [c_char; 16],
    /// Number of the PCI domain.
    pub domain: c_uint,
    /// Number of the bus in its domain.
    pub bus: c_uint,
    /// Number of the device on its bus.
    pub device: c_uint,
    /// Device in the upper half, vendor in the lower.
    pub pci_device_id: c_uint,
    /// Device and vendor of the subsystem, likewise.
    pub pci_subsystem_id: c_uint,
    /// The bus address, for example `00000000:1B:00.0`.
    pub bus_id: [c_char; 32],
}

/// `nvmlMemory_t`: a GPU's memory, in bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// All memory of the GPU.
    pub total: c_ulonglong,
    /// Memory that is not allocated.
    pub free: c_ulonglong,
    /// Memory that is allocated or reserved by the driver.
    pub used: c_ulonglong,
}

/// Type of `nvmlInit_v2` and `nvmlShutdown`.
pub type Plain = unsafe extern "C" fn() -> Code;
/// Type of `nvmlErrorString`: the text for a code.
pub type ErrorString = unsafe extern "C" fn(Code) -> *const c_char;
/// Type of `nvmlSystemGetDriverVersion`: a buffer for text and its length.
pub type SystemText = unsafe extern "C" fn(*mut c_char, c_uint) -> Code;
/// Type of `nvmlDeviceGetCount_v2`: the number of GPUs.
pub type GetCount = unsafe extern "C" fn(*mut c_uint) -> Code;
/// Type of `nvmlDeviceGetHandleByIndex_v2`: the GPU with an index, counted from 0.
pub type GetHandle = unsafe extern "C" fn(c_uint, *mut Handle) -> Code;
/// Type of `nvmlDeviceGetPciInfo_v3`: where a GPU is on the PCI bus.
pub type GetPciInfo = unsafe extern "C" fn(Handle, *mut PciInfo) -> Code;
/// Type of `nvmlDeviceGetUUID` and `nvmlDeviceGetName`: a buffer for text and its length.
pub type DeviceText = unsafe extern "C" fn(Handle, *mut c_char, c_uint) -> Code;
/// Type of `nvmlDeviceGetMemoryInfo`: how much memory a GPU has.
pub type GetMemory = unsafe extern "C" fn(Handle, *mut Memory) -> Code;
/// Type of `nvmlDeviceGetNvLinkState`, `nvmlDeviceGetNvLinkVersion` and `nvmlDeviceGetNvLinkRemoteDeviceType`: a number of the link with
/// an index.
pub type LinkNumber = unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> Code;
/// Type of `nvmlDeviceGetNvLinkRemotePciInfo_v2`: where the other end of a link is on the PCI bus.
pub type LinkPciInfo = unsafe extern "C" fn(Handle, c_uint, *mut PciInfo) -> Code;
/// `nvmlDeviceGetMigMode`: the mode now, and the one after the next reset.
pub type GetMigMode = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint) -> Code;
/// Type of `nvmlDeviceGetMigDeviceHandleByIndex`: the MIG device with an index, counted from 0.
pub type GetMigHandle = unsafe extern "C" fn(Handle, c_uint, *mut Handle) -> Code;
/// Type of `nvmlDeviceGetMaxMigDeviceCount`, `nvmlDeviceGetGpuInstanceId` and `nvmlDeviceGetComputeInstanceId`: a number of a device.
pub type DeviceNumber = unsafe extern "C" fn(Handle, *mut c_uint) -> Code;
