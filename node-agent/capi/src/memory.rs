//! Buffers of the door: memory that a rank and its engine share, so that calls on it need no copy on this side.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{PoisonError, RwLock};

use node_agent_client::{Buffer, Error};

use crate::error::{OK, guard};
use crate::handle::{Rail, handle};

/// The buffers that a handle gave out, by address.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    by_address: RwLock<BTreeMap<usize, Buffer>>,
}

impl Buffers {
    /// The buffer that holds all of `bytes` at `address`, and where in it they begin.
    pub(crate) fn find(&self, address: usize, bytes: usize) -> Option<(Buffer, u64)> {
        let buffers = self.by_address.read().unwrap_or_else(PoisonError::into_inner);
        let (base, buffer) = buffers.range(..=address).next_back()?;
        let offset = address - base;
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= buffer.len());
        fits.then(|| (buffer.clone(), offset as u64))
    }

    fn keep(&self, buffer: Buffer) -> *mut u8 {
        let pointer = buffer.as_ptr();
        let mut buffers = self.by_address.write().unwrap_or_else(PoisonError::into_inner);
        buffers.insert(pointer.addr(), buffer);
        pointer
    }

    fn remove(&self, address: usize) -> Option<Buffer> {
        self.by_address.write().unwrap_or_else(PoisonError::into_inner).remove(&address)
    }
}

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
