//! A library that stands in for NVML in tests, loaded by the same loader: a board of eight GPUs, each with eighteen NVLinks to
//! switches, with faults that no machine has on demand. It checks that handles are used between start and end only, and counts both.
//! Its own functions begin with `fake_`.
#![allow(unsafe_code, reason = "it is a C library")]
#![allow(clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks, reason = "called as NVML is")]
#![allow(clippy::unwrap_used, missing_docs, reason = "a part of tests")]

use std::{
    ffi::{c_char, c_int, c_uint},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use node_agent_gpu::ffi::{
    Code, DRIVER_NOT_LOADED, GPU_IS_LOST, Handle, INVALID_ARGUMENT, LINK_TO_GPU, LINK_TO_SWITCH, MIG_ENABLE,
    Memory, NOT_FOUND, NOT_SUPPORTED, PciInfo, SUCCESS,
};

/// `NVML_ERROR_UNINITIALIZED`: what every call answers before `nvmlInit_v2`.
const UNINITIALIZED: Code = 1;
/// `NVML_ERROR_INSUFFICIENT_SIZE`: the caller's buffer is too short for the text.
const INSUFFICIENT_SIZE: Code = 7;
const GPUS: c_uint = 8;
const LINKS: c_uint = 18;
/// Buses of the GPUs, as on a recorded board.
const BUSES: [c_uint; 8] = [0x1b, 0x2b, 0x3b, 0x4b, 0x9b, 0xab, 0xbb, 0xcb];

/// What can be wrong; `fake_fault` sets it for the next sessions.
const NOTHING: c_int = 0;
const NO_DRIVER: c_int = 1;
const GPU_3_LOST: c_int = 2;
const LINK_5_DOWN: c_int = 3;
const TO_GPUS: c_int = 4;
const ENDLESS_NAME: c_int = 5;
const HANGS: c_int = 6;
const NO_MEMORY_OF_ITS_OWN: c_int = 7;
/// The first GPU has two instances, the second is in MIG mode without any, the last knows no MIG mode.
const PARTITIONED: c_int = 8;

struct World {
    sessions: i64,
    begun: i64,
    fault: c_int,
}

static WORLD: Mutex<World> = Mutex::new(World { sessions: 0, begun: 0, fault: NOTHING });
static CHANGED: Condvar = Condvar::new();

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets what is wrong; who hangs goes on when that is over.
#[unsafe(no_mangle)]
pub extern "C" fn fake_fault(fault: c_int) {
    world().fault = fault;
    CHANGED.notify_all();
}

/// Sessions that have not ended, and those that have begun.
#[unsafe(no_mangle)]
pub extern "C" fn fake_sessions(begun: c_int) -> i64 {
    if begun == 0 { world().sessions } else { world().begun }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Code {
    let mut world = world();
    while world.fault == HANGS {
        world = CHANGED.wait(world).unwrap_or_else(PoisonError::into_inner);
    }
    if world.fault == NO_DRIVER {
        return DRIVER_NOT_LOADED;
    }
    world.sessions += 1;
    world.begun += 1;
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Code {
    world().sessions -= 1;
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: Code) -> *const c_char {
    match code {
        DRIVER_NOT_LOADED => c"Driver Not Loaded".as_ptr(),
        GPU_IS_LOST => c"GPU is lost".as_ptr(),
        _ => std::ptr::null(),
    }
}

unsafe fn text(text: &str, buffer: *mut c_char, length: c_uint) -> Code {
    if text.len() >= length as usize {
        return INSUFFICIENT_SIZE;
    }
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len());
        *buffer.add(text.len()) = 0;
    }
    SUCCESS
}

/// The instance of a handle: those of the first GPU have numbers from 0x2000 on.
fn instance(handle: Handle) -> Option<c_uint> {
    let index = (handle as usize).wrapping_sub(0x2000) as c_uint;
    (world().fault == PARTITIONED && [0, 2].contains(&index)).then_some(index)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    handle: Handle,
    now: *mut c_uint,
    pending: *mut c_uint,
) -> Code {
    match gpu(handle) {
        Err(code) => code,
        Ok(7) => NOT_SUPPORTED,
        Ok(index) => {
            let on = world().fault == PARTITIONED && index < 2;
            unsafe { (*now, *pending) = (if on { MIG_ENABLE } else { 0 }, MIG_ENABLE) };
            SUCCESS
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(handle: Handle, out: *mut c_uint) -> Code {
    match gpu(handle) {
        Err(code) => code,
        Ok(_) => {
            unsafe { *out = 7 };
            SUCCESS
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    handle: Handle,
    index: c_uint,
    out: *mut Handle,
) -> Code {
    match gpu(handle) {
        Err(code) => code,
        Ok(0) if [0, 2].contains(&index) => {
            unsafe { *out = (0x2000 + index as usize) as Handle };
            SUCCESS
        }
        Ok(_) if index < 7 => NOT_FOUND,
        Ok(_) => INVALID_ARGUMENT,
    }
}

/// Instances are numbered from 7 on, the later one first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceId(handle: Handle, out: *mut c_uint) -> Code {
    match instance(handle) {
        None => INVALID_ARGUMENT,
        Some(index) => {
            unsafe { *out = 9 - index };
            SUCCESS
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeInstanceId(handle: Handle, out: *mut c_uint) -> Code {
    match instance(handle) {
        None => INVALID_ARGUMENT,
        Some(_) => {
            unsafe { *out = 0 };
            SUCCESS
        }
    }
}

/// The index of a handle, if NVML has begun and the GPU is there.
fn gpu(handle: Handle) -> Result<c_uint, Code> {
    let world = world();
    if world.sessions == 0 {
        return Err(UNINITIALIZED);
    }
    let index = (handle as usize).wrapping_sub(0x1000) as c_uint;
    match index {
        3 if world.fault == GPU_3_LOST => Err(GPU_IS_LOST),
        0..GPUS => Ok(index),
        _ => Err(INVALID_ARGUMENT),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(buffer: *mut c_char, length: c_uint) -> Code {
    unsafe { text("550.90.07", buffer, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> Code {
    if world().sessions == 0 {
        return UNINITIALIZED;
    }
    unsafe { *count = GPUS };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: *mut Handle) -> Code {
    if index >= GPUS {
        return INVALID_ARGUMENT;
    }
    unsafe { *handle = (0x1000 + index as usize) as Handle };
    SUCCESS
}

fn info(bus: c_uint) -> PciInfo {
    PciInfo { bus, pci_device_id: 0x2330_10de, ..PciInfo::default() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(handle: Handle, out: *mut PciInfo) -> Code {
    match gpu(handle) {
        // A lost GPU still has the place where it was.
        Err(GPU_IS_LOST) => unsafe { *out = info(BUSES[3]) },
        Err(code) => return code,
        Ok(index) => unsafe { *out = info(BUSES[index as usize]) },
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(handle: Handle, buffer: *mut c_char, length: c_uint) -> Code {
    if let Some(index) = instance(handle) {
        return unsafe { text(&format!("MIG-0000000{index}"), buffer, length) };
    }
    match gpu(handle) {
        Err(code) => code,
        Ok(index) => unsafe { text(&format!("GPU-0000000{index}"), buffer, length) },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(handle: Handle, buffer: *mut c_char, length: c_uint) -> Code {
    if instance(handle).is_some() {
        return unsafe { text("NVIDIA H100 80GB HBM3 MIG 1g.10gb", buffer, length) };
    }
    match gpu(handle) {
        Err(code) => code,
        Ok(_) if world().fault == ENDLESS_NAME => {
            unsafe { std::ptr::write_bytes(buffer, b'x', length as usize) };
            SUCCESS
        }
        Ok(_) => unsafe { text("NVIDIA H100 80GB HBM3", buffer, length) },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(handle: Handle, out: *mut Memory) -> Code {
    if instance(handle).is_some() {
        unsafe { *out = Memory { total: 10 << 30, free: 10 << 30, used: 0 } };
        return SUCCESS;
    }
    match gpu(handle) {
        Err(code) => code,
        Ok(_) if world().fault == NO_MEMORY_OF_ITS_OWN => NOT_SUPPORTED,
        Ok(_) => {
            unsafe { *out = Memory { total: 80 << 30, free: 79 << 30, used: 1 << 30 } };
            SUCCESS
        }
    }
}

/// A number of a link.
unsafe fn link(
    handle: Handle,
    link: c_uint,
    out: *mut c_uint,
    number: impl FnOnce(&World) -> c_uint,
) -> Code {
    match gpu(handle) {
        Err(code) => code,
        Ok(_) if link >= LINKS => INVALID_ARGUMENT,
        Ok(_) => {
            unsafe { *out = number(&world()) };
            SUCCESS
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(handle: Handle, number: c_uint, out: *mut c_uint) -> Code {
    unsafe { link(handle, number, out, |world| u32::from(world.fault != LINK_5_DOWN || number != 5)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkVersion(
    handle: Handle,
    number: c_uint,
    out: *mut c_uint,
) -> Code {
    unsafe { link(handle, number, out, |_| 4) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemoteDeviceType(
    handle: Handle,
    number: c_uint,
    out: *mut c_uint,
) -> Code {
    let kind = |world: &World| if world.fault == TO_GPUS { LINK_TO_GPU } else { LINK_TO_SWITCH };
    unsafe { link(handle, number, out, kind) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    handle: Handle,
    number: c_uint,
    out: *mut PciInfo,
) -> Code {
    match gpu(handle) {
        Err(code) => code,
        Ok(_) if number >= LINKS => INVALID_ARGUMENT,
        // Without switches: links go to the other GPUs in turn.
        Ok(index) => {
            let other = (index + 1 + number % (GPUS - 1)) % GPUS;
            unsafe { *out = info(BUSES[other as usize]) };
            SUCCESS
        }
    }
}
