//! Shared buffers as a rank holds them.

use std::sync::Arc;

use node_agent_ipc::{Element, Region, Reply, Request, Span};

use crate::Error;
use crate::link::Link;

/// Elements converted at a time between values and bytes: small enough for the nearest cache.
const STEP: usize = 4096;

/// Memory that this rank and its engine share. Dropping it gives it back, after the calls that still use it.
///
/// While a [`crate::Pending`] call uses a place of it, what is read there is whatever has arrived so far.
#[derive(Debug, Clone)]
pub struct Buffer {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) id: u32,
    pub(crate) region: Arc<Region>,
    link: Arc<Link>,
}

/// A place in a buffer where an operand begins.
#[derive(Debug, Clone, Copy)]
pub struct BufferOffset<'a> {
    /// The shared buffer in which the operand lies.
    pub buffer: &'a Buffer,
    /// The operand's first byte, counted from the beginning of the buffer.
    pub offset: u64,
}

impl Buffer {
    /// Asks the engine for a buffer of at least one byte.
    pub(crate) fn alloc(link: &Arc<Link>, bytes: u64) -> Result<Self, Error> {
        let id = link.submit(&Request::Alloc { bytes })?;
        let answer = link.wait(id, "alloc", link.control_timeout())?;
        let (Reply::Buffer { buffer, bytes: given }, Some(file)) = (answer.reply, answer.descriptor) else {
            return Err(Error::Engine { cause: "asked for a buffer, got something else".into() });
        };
        if given < bytes {
            return Err(Error::Engine { cause: format!("asked for {bytes} bytes, got {given}") });
        }
        let region = Region::open(file, given)?;
        Ok(Self { inner: Arc::new(Inner { id: buffer, region: Arc::new(region), link: link.clone() }) })
    }

    /// Bytes of the buffer.
    pub fn len(&self) -> usize {
        self.inner.region.len()
    }

    /// Always false: the engine gives no empty buffers.
    pub fn is_empty(&self) -> bool {
        self.inner.region.is_empty()
    }

    /// The beginning of the buffer, as an operand.
    pub fn start(&self) -> BufferOffset<'_> {
        self.at(0)
    }

    /// The place `offset` bytes into the buffer, as an operand.
    pub fn at(&self, offset: u64) -> BufferOffset<'_> {
        BufferOffset { buffer: self, offset }
    }

    /// Where the buffer is in this process, for foreign code that fills it in place. Valid while any clone lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.inner.region.as_ptr()
    }

    /// Copies bytes out, beginning at byte `offset`.
    ///
    /// # Errors
    /// [`Error::Memory`] where the range goes past the end of the buffer.
    pub fn read_bytes(&self, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        Ok(self.inner.region.read(offset, to)?)
    }

    /// Copies bytes in, beginning at byte `offset`.
    ///
    /// # Errors
    /// [`Error::Memory`] where the range goes past the end of the buffer.
    pub fn write_bytes(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
        Ok(self.inner.region.write(offset, from)?)
    }

    /// Copies values out, beginning at byte `offset`.
    ///
    /// # Errors
    /// [`Error::Memory`] where the range goes past the end of the buffer.
    pub fn read<T: Element>(&self, offset: usize, to: &mut [T]) -> Result<(), Error> {
        let mut step = vec![0; STEP.min(to.len()) * size_of::<T>()];
        for (n, values) in to.chunks_mut(STEP).enumerate() {
            let bytes = &mut step[..size_of_val(values)];
            self.read_bytes(offset + n * STEP * size_of::<T>(), bytes)?;
            T::load(bytes, values);
        }
        Ok(())
    }

    /// Copies values in, beginning at byte `offset`.
    ///
    /// # Errors
    /// [`Error::Memory`] where the range goes past the end of the buffer.
    pub fn write<T: Element>(&self, offset: usize, from: &[T]) -> Result<(), Error> {
        let mut step = vec![0; STEP.min(from.len()) * size_of::<T>()];
        for (n, values) in from.chunks(STEP).enumerate() {
            let bytes = &mut step[..size_of_val(values)];
            T::store(values, bytes);
            self.write_bytes(offset + n * STEP * size_of::<T>(), bytes)?;
        }
        Ok(())
    }
}

impl BufferOffset<'_> {
    pub(crate) fn span(&self) -> Span {
        Span { buffer: self.buffer.inner.id, offset: self.offset }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.link.note_freed(self.id);
        // Nobody waits for the answer; if the engine is gone, so is its side of the buffer.
        self.link.submit_ignored(&Request::Free { buffer: self.id });
    }
}
