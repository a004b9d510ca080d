//! Memory of GPUs that a handle registered, found by its address in calls; and which way the bytes of a thread's latest call took.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::{PoisonError, RwLock};

use node_agent_client::{Error, GpuBuffer, TransferPath};

use crate::error::c_text;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Makes it the latest way of this thread.
pub(crate) fn remember_way(way: &TransferPath) {
    // During the thread's own end there is nobody left to read it.
    let _ = LAST.try_with(|last| last.replace(way_text(way)));
}

/// The way of this thread's latest call on memory of a GPU; valid until the next one.
pub(crate) fn last_way() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
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
    pub(crate) fn keep(&self, memory: GpuBuffer) -> Result<(), Error> {
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
    pub(crate) fn release(&self, address: u64) -> Result<(), Error> {
        let mut ranges = self.by_address.write().unwrap_or_else(PoisonError::into_inner);
        let none = || Error::Argument(format!("no memory of a GPU is registered from {address:#x} on"));
        let memory = ranges.remove(&address).ok_or_else(none)?;
        memory.release().map_err(|(memory, error)| {
            ranges.insert(address, memory);
            error
        })
    }
}
