//! Shared memory through which calls over other memory go: made when it is first needed, and kept for later calls.

use std::sync::{Mutex, PoisonError};

use crate::buffer::Buffer;

/// Smallest staging buffer, in bytes; a smaller need gets one of this size.
const LEAST: u64 = 64 << 10;
/// Bytes of idle staging buffers that are kept for later calls.
const KEEP_BYTES: u64 = 512 << 20;
/// Idle staging buffers that are kept; the engine allows 256 in all unless it is configured otherwise.
const KEEP: usize = 64;
/// An idle buffer may be this many times larger than a call needs.
const WASTE: u64 = 4;

/// The staging memory of a client, made when it is first needed and kept. A call has a buffer for itself while it lasts.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    /// Those that nobody uses, the longest unused first.
    idle: Mutex<Vec<Buffer>>,
}

impl Staging {
    /// The smallest idle buffer that fits.
    pub(crate) fn take(&self, bytes: u64) -> Option<Buffer> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let most = bytes.saturating_mul(WASTE).max(LEAST);
        let fits = |buffer: &Buffer| (bytes..=most).contains(&(buffer.len() as u64));
        let fitting = idle.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        let at = fitting.min_by_key(|(_, buffer)| buffer.len())?.0;
        Some(idle.remove(at))
    }

    /// Keeps a buffer for a later call.
    pub(crate) fn put(&self, buffer: Buffer) {
        let mut dropped = Vec::new();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(buffer);
        let bytes = |idle: &[Buffer]| idle.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        while idle.len() > KEEP || (idle.len() > 1 && bytes(&idle) > KEEP_BYTES) {
            dropped.push(idle.remove(0));
        }
        // Giving a buffer back sends a request: not under the lock.
        drop(idle);
    }

    /// Gives all idle buffers back.
    pub(crate) fn clear(&self) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        drop(idle);
    }
}

/// How large a buffer for this many bytes is: a few sizes for all calls, so that later ones find theirs.
pub(crate) fn rounded(bytes: u64) -> u64 {
    let step = (bytes.max(LEAST).next_power_of_two() / 8).max(1);
    bytes.max(LEAST).next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_sizes_are_few_and_waste_little() {
        assert_eq!(rounded(1), LEAST);
        for bytes in [LEAST, LEAST + 1, 1_000_000, 25 << 20, (64 << 20) + 1] {
            let given = rounded(bytes);
            assert!(given >= bytes && given <= bytes + bytes / 4 + 1, "{bytes}: {given}");
        }
        let sizes: std::collections::BTreeSet<u64> = (1..=1 << 20).map(rounded).collect();
        assert!(sizes.len() < 20, "{sizes:?}");
    }
}
