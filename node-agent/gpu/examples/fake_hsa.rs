//! A library that stands in for the HSA runtime in tests, loaded by the same loader: GPU memory whose dma-bufs are memory files. Exports
//! are of whole allocations, as the runtime's are. Its own functions begin with `fake_`.
#![allow(unsafe_code, reason = "it is a C library")]
#![allow(clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks, reason = "called as HSA is")]
#![allow(clippy::unwrap_used, missing_docs, reason = "a part of tests")]

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use node_agent_gpu::export::ffi::*;

/// What can be wrong; `fake_fault` sets it.
const NO_START: c_int = 1;
const NO_DMA_BUF: c_int = 2;
const OLD: c_int = 3;
const OF_PROCESSOR: c_int = 4;

struct World {
    allocations: Vec<(u64, u64, OwnedFd)>,
    fault: c_int,
    started: i64,
}

static WORLD: Mutex<World> = Mutex::new(World { allocations: Vec::new(), fault: 0, started: 0 });

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
pub extern "C" fn fake_fault(fault: c_int) {
    world().fault = fault;
}

#[unsafe(no_mangle)]
pub extern "C" fn fake_started() -> i64 {
    world().started
}

/// GPU memory of this many bytes; where it begins.
#[unsafe(no_mangle)]
pub extern "C" fn fake_alloc(bytes: u64) -> u64 {
    let file = rustix::fs::memfd_create("gpu", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    let mut world = world();
    let base = 0x7e00_0000_0000 + ((world.allocations.len() as u64) << 32);
    world.allocations.push((base, bytes, file));
    base
}

#[unsafe(no_mangle)]
pub extern "C" fn hsa_init() -> HsaStatus {
    let mut world = world();
    if world.fault == NO_START {
        return HSA_ERROR;
    }
    world.started += 1;
    HSA_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn hsa_shut_down() -> HsaStatus {
    world().started -= 1;
    HSA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_status_string(code: HsaStatus, into: *mut *const c_char) -> HsaStatus {
    let text = match code {
        HSA_ERROR => c"HSA_STATUS_ERROR: A generic error has occurred.",
        _ => return HSA_INVALID_ARGUMENT,
    };
    unsafe { *into = text.as_ptr() };
    HSA_SUCCESS
}

/// An agent that is no GPU has the other number.
const GPU_AGENT: u64 = 7;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_pointer_info(
    pointer: *const c_void,
    info: *mut HsaPointer,
    _: Option<unsafe extern "C" fn(usize) -> *mut c_void>,
    _: *mut u32,
    _: *mut *mut HsaAgent,
) -> HsaStatus {
    let (world, pointer) = (world(), pointer as u64);
    let info = unsafe { &mut *info };
    assert!(info.size as usize >= size_of::<HsaPointer>());
    let inside = |(base, length, _): &&(u64, u64, OwnedFd)| pointer >= *base && pointer < base + length;
    info.kind = 0;
    if let Some((base, length, _)) = world.allocations.iter().find(inside) {
        (info.kind, info.bytes) = (HSA_POINTER_HSA, *length as usize);
        info.agent_base = *base as usize as *mut c_void;
        info.owner = HsaAgent { handle: GPU_AGENT + u64::from(world.fault == OF_PROCESSOR) };
    }
    HSA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_agent_get_info(agent: HsaAgent, what: c_int, into: *mut c_void) -> HsaStatus {
    let number = match what {
        HSA_AGENT_DEVICE => u32::from(agent.handle == GPU_AGENT),
        HSA_AGENT_BDF => 0x83 << 8 | 1 << 3,
        HSA_AGENT_DOMAIN => 1,
        _ => return HSA_INVALID_ARGUMENT,
    };
    unsafe { *into.cast::<u32>() = number };
    HSA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_memory_copy(to: *mut c_void, from: *const c_void, length: usize) -> HsaStatus {
    let world = world();
    let on_gpu = |address: u64| {
        let inside = |(base, bytes, _): &&(u64, u64, OwnedFd)| address >= *base && address < base + bytes;
        world.allocations.iter().find(inside).map(|(base, bytes, file)| {
            assert!(address - base + length as u64 <= *bytes);
            (file, address - base)
        })
    };
    let mut bytes = vec![0; length];
    match on_gpu(from as u64) {
        Some((file, at)) => assert_eq!(rustix::io::pread(file, &mut bytes, at).unwrap(), length),
        None => unsafe { from.cast::<u8>().copy_to(bytes.as_mut_ptr(), length) },
    }
    match on_gpu(to as u64) {
        Some((file, at)) => assert_eq!(rustix::io::pwrite(file, &bytes, at).unwrap(), length),
        None => unsafe { to.cast::<u8>().copy_from(bytes.as_ptr(), length) },
    }
    HSA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_system_get_info(what: c_int, into: *mut c_void) -> HsaStatus {
    let fault = world().fault;
    if what != HSA_DMABUF_SUPPORTED || fault == OLD {
        return HSA_INVALID_ARGUMENT;
    }
    unsafe { *into.cast::<bool>() = fault != NO_DMA_BUF };
    HSA_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_portable_export_dmabuf(
    pointer: *const c_void,
    bytes: usize,
    file: *mut c_int,
    offset: *mut u64,
) -> HsaStatus {
    let (world, pointer) = (world(), pointer as u64);
    if world.fault == NO_DMA_BUF {
        return HSA_ERROR;
    }
    let inside = |(base, length, _): &&(u64, u64, OwnedFd)| {
        pointer >= *base && pointer + bytes as u64 <= base + length
    };
    let Some((base, _, own)) = world.allocations.iter().find(inside) else { return HSA_INVALID_ALLOCATION };
    unsafe { *file = own.try_clone().unwrap().into_raw_fd() };
    unsafe { *offset = pointer - base };
    HSA_SUCCESS
}
