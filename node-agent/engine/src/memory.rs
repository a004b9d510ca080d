//! The engine's private copies of operands.
//!
//! The collective core reduces and sends from plain slices, which memory that a rank can write at any moment must never be.
//! So inputs are copied from shared memory when a call is posted, and outputs are copied back when it has succeeded: one copy
//! each, and a hostile rank can only spoil its own data. Freed copies are kept for the next call, up to a bound.

use std::collections::BTreeMap;

use node_agent_collective::{BufferId, Memory, Region};

/// Bytes of freed copies that are kept: two operands of 64 MiB for each of two ranks.
const KEEP: usize = 256 << 20;

/// Private buffers by name.
#[derive(Debug, Default)]
pub(crate) struct Private {
    live: BTreeMap<BufferId, Vec<u8>>,
    spare: BTreeMap<usize, Vec<Vec<u8>>>,
    spare_bytes: usize,
    next: u64,
}

impl Private {
    /// A buffer of `len` bytes with any content.
    pub(crate) fn take(&mut self, len: usize) -> Region {
        if len == 0 {
            return Region::EMPTY;
        }
        let bytes = self.reuse(len).unwrap_or_else(|| vec![0; len]);
        let id = BufferId(self.next);
        self.next += 1;
        self.live.insert(id, bytes);
        Region::new(id, 0, len)
    }

    /// Gives a buffer back.
    pub(crate) fn release(&mut self, region: Region) {
        let Some(bytes) = self.live.remove(&region.buffer) else { return };
        if self.spare_bytes + bytes.len() > KEEP {
            // Better keep the sizes in use now than those of an earlier phase.
            self.spare.clear();
            self.spare_bytes = 0;
        }
        if bytes.len() <= KEEP {
            self.spare_bytes += bytes.len();
            self.spare.entry(bytes.len()).or_default().push(bytes);
        }
    }

    fn reuse(&mut self, len: usize) -> Option<Vec<u8>> {
        let list = self.spare.get_mut(&len)?;
        let bytes = list.pop()?;
        if list.is_empty() {
            self.spare.remove(&len);
        }
        self.spare_bytes -= len;
        Some(bytes)
    }
}

impl Memory for Private {
    fn bytes(&self, region: Region) -> Option<&[u8]> {
        if region.len == 0 {
            return Some(&[]);
        }
        self.live.get(&region.buffer)?.get(region.offset..region.offset.checked_add(region.len)?)
    }

    fn bytes_mut(&mut self, region: Region) -> Option<&mut [u8]> {
        if region.len == 0 {
            return Some(&mut []);
        }
        self.live.get_mut(&region.buffer)?.get_mut(region.offset..region.offset.checked_add(region.len)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_and_what_is_kept_is_bounded() {
        let mut private = Private::default();
        let first = private.take(1000);
        private.bytes_mut(first).unwrap().fill(7);
        private.release(first);
        assert_eq!(private.bytes(first), None);
        let again = private.take(1000);
        assert_ne!(again.buffer, first.buffer);
        assert_eq!(private.bytes(again).unwrap(), [7; 1000]);
        for _ in 0..5 {
            let regions: Vec<Region> = (0..4).map(|n| private.take((100 << 20) + n)).collect();
            regions.into_iter().for_each(|region| private.release(region));
            assert!(private.spare_bytes <= KEEP);
            assert_eq!(
                private.spare_bytes,
                private.spare.iter().map(|(len, list)| len * list.len()).sum::<usize>()
            );
        }
        assert_eq!(private.take(0), Region::EMPTY);
    }
}
