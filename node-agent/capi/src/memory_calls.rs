//! Entries for memory that a rank and its engine share.

use std::ffi::{c_int, c_void};

use node_agent_client::Error;

use crate::error::{OK, guard};
use crate::handle::{Rail, handle};

/// Stores in `*memory` the address of `bytes` zeroed bytes that the engine shares; calls on them are not copied.
///
/// # Safety
/// `rail` is null (an error) or a live handle; `memory` is null (an error) or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_alloc(rail: *const Rail, bytes: usize, memory: *mut *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: the caller vouches that a pointer that is not null may be written.
        let Some(place) = (unsafe { memory.as_mut() }) else {
            return Err(Error::Argument("there is no place for the memory's address".into()));
        };
        *place = std::ptr::null_mut();
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        let buffer = rail.client.alloc(bytes as u64)?;
        *place = rail.buffers.keep(buffer).cast();
        Ok(OK)
    })
}

/// Gives memory of `rail_alloc` back. Null does nothing. Calls under way keep theirs until they end.
///
/// # Safety
/// `rail` is null (an error) or a live handle; nobody uses the memory afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_free(rail: *const Rail, memory: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        if memory.is_null() || rail.buffers.remove(memory.addr()).is_some() {
            return Ok(OK);
        }
        Err(Error::Argument(format!("{memory:p} is no memory that rail_alloc of this handle gave")))
    })
}
