//! Memory of GPUs: registered once, found by its address in calls, and which way its bytes took.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{PoisonError, RwLock};

use node_agent_client::{Error, GpuBuffer, TransferPath};

use crate::error::{OK, c_text, guard};
use crate::handle::{Rail, handle};
use crate::request::Request;

/// What `rail.h` calls `enum rail_way`.
const STAGED: c_int = 1;
const DMA_BUF: c_int = 2;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Makes it the latest way of this thread.
pub(crate) fn remember_way(way: &TransferPath) {
    // During the thread's own end there is nobody left to read it.
    let _ = LAST.try_with(|last| last.replace(way_text(way)));
}

/// A way as C gets it.
pub(crate) fn way_text(way: &TransferPath) -> CString {
    c_text(&way.to_string())
}

/// The ranges that a handle registered, by address.
#[derive(Debug, Default)]
pub(crate) struct GpuRanges {
    by_address: RwLock<BTreeMap<u64, GpuBuffer>>,
}

impl GpuRanges {
    /// The range that holds all of `bytes` at `address`, and where in it they begin.
    pub(crate) fn find(&self, address: usize, bytes: usize) -> Option<(GpuBuffer, u64)> {
        let ranges = self.by_address.read().unwrap_or_else(PoisonError::into_inner);
        let (base, memory) = ranges.range(..=address as u64).next_back()?;
        let offset = address as u64 - base;
        let fits = offset.checked_add(bytes as u64).is_some_and(|end| end <= memory.len());
        fits.then(|| (memory.clone(), offset))
    }

    /// Keeps a range, if it has no byte in common with another one.
    fn keep(&self, memory: GpuBuffer) -> Result<(), Error> {
        let mut ranges = self.by_address.write().unwrap_or_else(PoisonError::into_inner);
        let (from, to) = (memory.pointer(), memory.pointer().saturating_add(memory.len()));
        let before = ranges.range(..to).next_back();
        if let Some((base, other)) = before.filter(|(base, other)| base.saturating_add(other.len()) > from) {
            let text =
                format!("{:#x} lies in the {} bytes from {base:#x}, registered before", from, other.len());
            return Err(Error::Argument(text));
        }
        ranges.insert(from, memory);
        Ok(())
    }

    /// Lets go of the range that begins there, if no call uses it.
    fn release(&self, address: u64) -> Result<(), Error> {
        let mut ranges = self.by_address.write().unwrap_or_else(PoisonError::into_inner);
        let none = || Error::Argument(format!("no memory of a GPU is registered from {address:#x} on"));
        let memory = ranges.remove(&address).ok_or_else(none)?;
        memory.release().map_err(|(memory, error)| {
            ranges.insert(address, memory);
            error
        })
    }
}

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
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
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
