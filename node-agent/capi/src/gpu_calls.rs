//! Entries for memory of GPUs.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::error::{OK, guard};
use crate::gpu::{last_way, remember_way};
use crate::handle::{Rail, handle};
use crate::request::Request;

/// What `rail.h` calls `enum rail_way`.
const STAGED: c_int = 1;
const DMA_BUF: c_int = 2;

/// Registers memory of a GPU for calls; gives the way that its bytes can take.
///
/// # Safety
/// `rail` is null (an error) or a live handle. The memory stays allocated until it is released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_gpu_register(rail: *const Rail, memory: *const c_void, bytes: usize) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        let memory = rail.client.register(memory.addr() as u64, bytes as u64)?;
        let way = memory.way();
        rail.gpus.keep(memory)?;
        remember_way(&way);
        Ok(if way.direct { DMA_BUF } else { STAGED })
    })
}

/// Gives registered memory of a GPU back. Null does nothing; memory that a call uses is refused.
///
/// # Safety
/// `rail` is null (an error) or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_gpu_release(rail: *const Rail, memory: *const c_void) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        if !memory.is_null() {
            rail.gpus.release(memory.addr() as u64)?;
        }
        Ok(OK)
    })
}

/// The way of this thread's latest registration or waiting call on memory of a GPU; "" if there was none. Valid until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn rail_last_way() -> *const c_char {
    last_way()
}

/// The way of a request's operands on GPUs; "" if it has none. Valid until the request is freed.
///
/// # Safety
/// `request` is null or one that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_request_way(request: *const Request) -> *const c_char {
    // SAFETY: the caller vouches that it is null or live.
    let way = unsafe { request.as_ref() }.and_then(Request::way);
    way.map_or(c"".as_ptr(), CStr::as_ptr)
}
