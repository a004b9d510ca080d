//! Where bytes live: buffers that the caller owns, reached by region. The machine holds no data itself, so that
//! buffers can be shared memory or registered memory.

use std::collections::BTreeMap;

use crate::call::{Dtype, ReduceOp};
use crate::fold;

/// Names a buffer of the caller's [`Memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u64);

/// A range of bytes of one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region {
    /// The buffer that the range lies in.
    pub buffer: BufferId,
    /// The range's first byte, counted from the beginning of the buffer.
    pub offset: usize,
    /// Length of the range, in bytes.
    pub len: usize,
}

impl Region {
    /// A region of no bytes, for ranks that give no input or want no output.
    pub const EMPTY: Region = Region { buffer: BufferId(u64::MAX), offset: 0, len: 0 };

    /// The range of `len` bytes from `offset` of `buffer`.
    #[must_use]
    pub const fn new(buffer: BufferId, offset: usize, len: usize) -> Self {
        Region { buffer, offset, len }
    }

    /// `len` bytes from `at` bytes inside this region. The caller keeps `at + len` within the region.
    #[must_use]
    pub const fn part(self, at: usize, len: usize) -> Self {
        Region { buffer: self.buffer, offset: self.offset + at, len }
    }

    /// Whether both have a byte in common.
    #[must_use]
    pub fn overlaps(self, other: Region) -> bool {
        self.buffer == other.buffer
            && self.len > 0
            && other.len > 0
            && self.offset < other.offset + other.len
            && other.offset < self.offset + self.len
    }
}

/// The caller's buffers. `None` from [`Memory::read`] and [`Memory::write`] means that the region does not exist (any more): the
/// operation that needs it fails with [`crate::Failure::BufferGone`].
pub trait Memory {
    /// The bytes of a region, if they can be had in place: memory that others may write at any moment can only be read and
    /// written.
    fn bytes(&self, region: Region) -> Option<&[u8]>;

    /// The bytes of a region, to be written in place.
    fn bytes_mut(&mut self, region: Region) -> Option<&mut [u8]>;

    /// Whether the processor can read a region. What it cannot (memory of a device) is only ever sent from where it lies; nothing can be
    /// kept of it, so an operation that has sent it ends when its arrival is known.
    fn is_readable(&self, _region: Region) -> bool {
        true
    }

    /// Copies the bytes of a region, which is as long as `to`.
    fn read(&self, region: Region, to: &mut [u8]) -> Option<()> {
        to.copy_from_slice(self.bytes(region)?);
        Some(())
    }

    /// Overwrites a region, which is as long as `from`.
    fn write(&mut self, region: Region, from: &[u8]) -> Option<()> {
        self.bytes_mut(region)?.copy_from_slice(from);
        Some(())
    }

    /// The CRC32C of a region after bytes whose CRC32C is `before`.
    fn checksum(&self, region: Region, before: u32) -> Option<u32> {
        let mut tile = [0u8; 4096];
        let mut sum = before;
        for at in (0..region.len).step_by(tile.len()) {
            let tile = &mut tile[..(region.len - at).min(4096)];
            self.read(region.part(at, tile.len()), tile)?;
            sum = crc32c::crc32c_append(sum, tile);
        }
        Some(sum)
    }

    /// [`fold::fold`], to the bit; a caller that knows its processor may have a faster one.
    fn fold(&self, dtype: Dtype, op: ReduceOp, acc: &mut [u8], src: &[u8]) {
        fold::fold(dtype, op, acc, src);
    }

    /// Copies `from` to `to`, which have equal lengths and are equal or disjoint.
    fn copy(&mut self, from: Region, to: Region) -> Option<()> {
        if from == to { Some(()) } else { self.copy_bytes(from, to) }
    }

    /// [`Memory::copy`] of what is disjoint, by reading and writing.
    fn copy_bytes(&mut self, from: Region, to: Region) -> Option<()> {
        let mut tile = [0u8; 8192];
        let mut at = 0;
        while at < from.len {
            let n = tile.len().min(from.len - at);
            self.read(from.part(at, n), &mut tile[..n])?;
            self.write(to.part(at, n), &tile[..n])?;
            at += n;
        }
        Some(())
    }
}

/// A plain [`Memory`]: buffers on the heap. For tests, and for an engine's scratch.
#[derive(Debug, Clone, Default)]
pub struct Arena {
    buffers: BTreeMap<BufferId, Vec<u8>>,
    next: u64,
}

impl Arena {
    /// An arena without buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a buffer in and gives the region that covers it.
    pub fn insert(&mut self, bytes: Vec<u8>) -> Region {
        let id = BufferId(self.next);
        self.next += 1;
        let region = Region::new(id, 0, bytes.len());
        self.buffers.insert(id, bytes);
        region
    }

    /// Gives a buffer back; its regions do not exist any more.
    pub fn remove(&mut self, id: BufferId) -> Option<Vec<u8>> {
        self.buffers.remove(&id)
    }
}

impl Memory for Arena {
    fn bytes(&self, region: Region) -> Option<&[u8]> {
        if region.len == 0 {
            return Some(&[]);
        }
        self.buffers.get(&region.buffer)?.get(region.offset..region.offset.checked_add(region.len)?)
    }

    fn bytes_mut(&mut self, region: Region) -> Option<&mut [u8]> {
        if region.len == 0 {
            return Some(&mut []);
        }
        self.buffers.get_mut(&region.buffer)?.get_mut(region.offset..region.offset.checked_add(region.len)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_is_not_there_is_none() {
        let mut arena = Arena::new();
        let r = arena.insert(vec![1, 2, 3]);
        assert_eq!(arena.bytes(r.part(1, 2)), Some(&[2u8, 3][..]));
        assert_eq!(arena.bytes(r.part(2, 2)), None);
        assert_eq!(arena.bytes(Region::new(r.buffer, usize::MAX, 2)), None);
        arena.remove(r.buffer);
        assert_eq!(arena.bytes(r), None);
        assert_eq!(arena.bytes(Region::EMPTY), Some(&[][..]));
    }

    #[test]
    fn copy_crosses_tiles() {
        let mut arena = Arena::new();
        let from = arena.insert((0..20_000u32).map(|i| (i % 251) as u8).collect());
        let to = arena.insert(vec![0; 20_000]);
        arena.copy(from, to).unwrap();
        assert_eq!(arena.bytes(from).unwrap().to_vec(), arena.bytes(to).unwrap());
    }
}
