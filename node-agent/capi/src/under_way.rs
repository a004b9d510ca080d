//! A call under way, and where its result goes.

use node_agent_client::{Begun, Error};

/// Where a result goes when it is complete: ordinary memory of the caller.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) pointer: *mut u8,
    pub(crate) len: usize,
}

// SAFETY: the caller gives the memory to the call, on whichever thread it is completed, until the call is over.
unsafe impl Send for Output {}

/// A call under way with the place of its result.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) begun: Begun,
    pub(crate) output: Option<Output>,
}

impl UnderWay {
    /// Copies the result of a call that has succeeded to where the caller wants it.
    pub(crate) fn deliver(&mut self) -> Result<(), Error> {
        self.begun.store()?;
        let Some(Output { pointer, len }) = self.output.take() else { return Ok(()) };
        // SAFETY: not null, `len` bytes long and this call's alone, as the caller of the entry vouched; `len` is at most
        // `isize::MAX`, and bytes need no alignment.
        self.begun.fetch(unsafe { std::slice::from_raw_parts_mut(pointer, len) })
    }
}
