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

/// GPU memory of so many bytes; where it begins.
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
