//! Buffers of the door: memory that a rank and its engine share, so that calls on it need no copy on this side.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use node_agent_client::Buffer;

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

    pub(crate) fn keep(&self, buffer: Buffer) -> *mut u8 {
        let pointer = buffer.as_ptr();
        let mut buffers = self.by_address.write().unwrap_or_else(PoisonError::into_inner);
        buffers.insert(pointer.addr(), buffer);
        pointer
    }

    pub(crate) fn remove(&self, address: usize) -> Option<Buffer> {
        self.by_address.write().unwrap_or_else(PoisonError::into_inner).remove(&address)
    }
}
