//! A library that stands in for CUDA's driver library in tests, loaded by the same loader: two devices, and GPU memory whose dma-bufs are
//! memory files, so that a test sees what a NIC would read and write. It checks ranges and alignment as the driver does. Its own functions
//! begin with `fake_`.
#![allow(unsafe_code, reason = "it is a C library")]
#![allow(clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks, reason = "called as CUDA is")]
#![allow(clippy::unwrap_used, missing_docs, reason = "a part of tests")]

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use node_agent_gpu::export::{ffi::*, page};

/// What can be wrong; `fake_fault` sets it.
const NO_DEVICE: c_int = 1;
const NO_DMA_BUF: c_int = 2;
const OLD_DRIVER: c_int = 3;
const NO_FILE: c_int = 4;
const MANAGED: c_int = 5;

struct Allocation {
    bytes: u64,
    file: OwnedFd,
    synchronous: bool,
    device: c_int,
}

struct World {
    allocations: BTreeMap<u64, Allocation>,
    next: u64,
    fault: c_int,
    started: bool,
    flags: u64,
    /// Bytes copied to and from the processor's memory so far.
    copied: u64,
    /// The device of the allocations that follow.
    device: c_int,
}

thread_local! {
    /// Contexts that this thread has put on.
    static CURRENT: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

static WORLD: Mutex<World> = Mutex::new(World {
    allocations: BTreeMap::new(),
    next: 0x7f00_0000_0000,
    fault: 0,
    started: false,
    flags: 0,
    copied: 0,
    device: 0,
});

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    fn of(&mut self, pointer: u64) -> Option<(u64, &mut Allocation)> {
        let (base, found) = self.allocations.range_mut(..=pointer).next_back()?;
        (pointer - base < found.bytes).then_some((*base, found))
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn fake_fault(fault: c_int) {
    world().fault = fault;
}

/// GPU memory of this many bytes; where it begins.
#[unsafe(no_mangle)]
pub extern "C" fn fake_alloc(bytes: u64) -> u64 {
    let file = rustix::fs::memfd_create("gpu", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, bytes.next_multiple_of(page())).unwrap();
    let mut world = world();
    let base = world.next;
    world.next += bytes.next_multiple_of(1 << 21);
    let device = world.device;
    world.allocations.insert(base, Allocation { bytes, file, synchronous: false, device });
    base
}

/// On which device memory is allocated from now on.
#[unsafe(no_mangle)]
pub extern "C" fn fake_use(device: u64) -> u64 {
    world().device = device as c_int;
    device
}

#[unsafe(no_mangle)]
pub extern "C" fn fake_copied(_: u64) -> u64 {
    world().copied
}

/// As a kernel of the GPU would write it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_write(pointer: u64, bytes: *const u8, length: usize) {
    let mut world = world();
    let (base, found) = world.of(pointer).unwrap();
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    assert_eq!(rustix::io::pwrite(&found.file, bytes, pointer - base).unwrap(), length);
}

/// As a kernel of the GPU would read it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_read(pointer: u64, bytes: *mut u8, length: usize) {
    let mut world = world();
    let (base, found) = world.of(pointer).unwrap();
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, length) };
    assert_eq!(rustix::io::pread(&found.file, bytes, pointer - base).unwrap(), length);
}

/// Whether its copies wait for each other, and the flags of the last export.
#[unsafe(no_mangle)]
pub extern "C" fn fake_state(pointer: u64) -> u64 {
    let mut world = world();
    let flags = world.flags;
    flags << 1 | u64::from(world.of(pointer).is_some_and(|(_, found)| found.synchronous))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_: c_uint) -> CuResult {
    let mut world = world();
    world.started = true;
    if world.fault == NO_DEVICE { CUDA_ERROR_NO_DEVICE } else { CUDA_SUCCESS }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CuResult {
    unsafe { *version = 12080 };
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CuResult {
    assert!(world().started);
    unsafe { *count = 2 };
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut CuDevice, ordinal: c_int) -> CuResult {
    unsafe { *device = 10 + ordinal };
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(into: *mut c_char, length: c_int, device: CuDevice) -> CuResult {
    let text = if device == 10 { c"0000:1B:00.0" } else { c"0000:2B:00.0" };
    assert!(text.to_bytes_with_nul().len() <= length as usize);
    unsafe { text.as_ptr().copy_to(into, text.to_bytes_with_nul().len()) };
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(into: *mut c_int, attribute: c_int, _: CuDevice) -> CuResult {
    let fault = world().fault;
    let value = match attribute {
        GPU_DIRECT_RDMA_SUPPORTED => 1,
        DMA_BUF_SUPPORTED if fault == OLD_DRIVER => return CUDA_ERROR_INVALID_VALUE,
        DMA_BUF_SUPPORTED => c_int::from(fault != NO_DMA_BUF),
        _ => return CUDA_ERROR_INVALID_VALUE,
    };
    unsafe { *into = value };
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(
    into: *mut c_void,
    attribute: c_int,
    pointer: CuPointer,
) -> CuResult {
    let mut world = world();
    let managed = world.fault == MANAGED;
    let Some((base, found)) = world.of(pointer) else { return CUDA_ERROR_INVALID_VALUE };
    match attribute {
        POINTER_IS_MANAGED => unsafe { *into.cast::<bool>() = managed },
        POINTER_DEVICE_ORDINAL => unsafe { *into.cast::<c_int>() = found.device },
        POINTER_MEMORY_TYPE => unsafe { *into.cast::<c_uint>() = MEMORY_DEVICE },
        POINTER_RANGE_START => unsafe { *into.cast::<CuPointer>() = base },
        POINTER_RANGE_SIZE => unsafe { *into.cast::<usize>() = found.bytes as usize },
        _ => return CUDA_ERROR_INVALID_VALUE,
    }
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerSetAttribute(
    value: *const c_void,
    attribute: c_int,
    pointer: CuPointer,
) -> CuResult {
    let mut world = world();
    let Some((_, found)) = world.of(pointer) else { return CUDA_ERROR_INVALID_VALUE };
    assert_eq!(attribute, POINTER_SYNC_MEMOPS);
    found.synchronous = unsafe { *value.cast::<c_uint>() } == 1;
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(into: *mut CuOpaque, device: CuDevice) -> CuResult {
    unsafe { *into = device as usize as CuOpaque };
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(_: CuDevice) -> CuResult {
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: CuOpaque) -> CuResult {
    assert!(!context.is_null());
    CURRENT.set(CURRENT.get() + 1);
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPopCurrent_v2(_: *mut CuOpaque) -> CuResult {
    CURRENT.set(CURRENT.get() - 1);
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(_: CuOpaque) -> CuResult {
    if CURRENT.get() == 0 { CUDA_ERROR_INVALID_CONTEXT } else { CUDA_SUCCESS }
}

/// Copies within an allocation only, as the driver does.
fn copied(pointer: CuPointer, length: usize, copy: impl FnOnce(&OwnedFd, u64) -> usize) -> CuResult {
    let mut world = world();
    if CURRENT.get() == 0 {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    world.copied += length as u64;
    let Some((base, found)) = world.of(pointer) else { return CUDA_ERROR_INVALID_VALUE };
    if pointer - base + length as u64 > found.bytes {
        return CUDA_ERROR_INVALID_VALUE;
    }
    assert_eq!(copy(&found.file, pointer - base), length);
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: CuPointer, length: usize) -> CuResult {
    let bytes = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), length) };
    copied(from, length, |file, at| rustix::io::pread(file, bytes, at).unwrap())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: CuPointer, from: *const c_void, length: usize) -> CuResult {
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) };
    copied(to, length, |file, at| rustix::io::pwrite(file, bytes, at).unwrap())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoD_v2(to: CuPointer, from: CuPointer, length: usize) -> CuResult {
    let mut bytes = vec![0; length];
    let before = world().copied;
    let code = unsafe { cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), from, length) };
    if code != CUDA_SUCCESS {
        return code;
    }
    let code = unsafe { cuMemcpyHtoD_v2(to, bytes.as_ptr().cast(), length) };
    // No byte went to the processor's memory.
    world().copied = before;
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: CuResult, into: *mut *const c_char) -> CuResult {
    let text = match code {
        CUDA_ERROR_INVALID_VALUE => c"invalid argument",
        CUDA_ERROR_NO_DEVICE => c"no CUDA-capable device is detected",
        CUDA_ERROR_INVALID_CONTEXT => c"invalid device context",
        CUDA_ERROR_NOT_SUPPORTED => c"operation not supported",
        _ => return CUDA_ERROR_INVALID_VALUE,
    };
    unsafe { *into = text.as_ptr() };
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetHandleForAddressRange(
    into: *mut c_void,
    pointer: CuPointer,
    length: usize,
    kind: c_int,
    flags: c_ulonglong,
) -> CuResult {
    let mut world = world();
    if world.fault == NO_DMA_BUF {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if world.fault == NO_FILE {
        return CUDA_SUCCESS;
    }
    if kind != RANGE_DMA_BUF || !pointer.is_multiple_of(page()) || !(length as u64).is_multiple_of(page()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    world.flags = flags;
    let Some((base, found)) = world.of(pointer) else { return CUDA_ERROR_INVALID_VALUE };
    let start = pointer - base;
    if start + length as u64 > found.bytes {
        return CUDA_ERROR_INVALID_VALUE;
    }
    // The file of a range begins with it. This one is of all: tests export from the beginning, or look at the offset.
    assert_eq!(start, 0, "a stand-in exports from the beginning of an allocation");
    unsafe { *into.cast::<c_int>() = found.file.try_clone().unwrap().into_raw_fd() };
    CUDA_SUCCESS
}
