//! Copies between private memory and memory that another process may write at any moment.
//!
//! Ordinary loads would let the compiler assume that the bytes stay still: it could read one twice and act on two answers.
//! Here every shared byte is touched by exactly one relaxed atomic access (which costs what a plain one does), so a hostile
//! peer can change *which* bytes arrive but never break this process: the result is always some value of the plain type
//! `u8`, copied to private memory before anyone looks at it. Shared mappings lie outside every Rust allocation and are only
//! reached here. They begin at a page boundary in every process, so both sides cut a range into the same words; at the
//! ragged ends of two overlapping ranges a byte may meet a word, which every processor with coherent memory defines, and
//! which no correct pair of processes does (the protocol hands a range to one side at a time).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Bytes of a machine word, the unit of the fast part of a copy.
const WORD: usize = size_of::<u64>();

/// Copies `to.len()` bytes from shared memory.
///
/// # Safety
/// `from .. from + to.len()` must be mapped, readable and writable for the whole call, must not overlap `to`, and this
/// process must reach it through this module only.
pub(crate) unsafe fn from_shared(from: *mut u8, to: &mut [u8]) {
    let head = head_bytes(from.addr(), to.len());
    let (first, rest) = to.split_at_mut(head);
    // SAFETY: `first` covers the start of the range that the caller vouches for.
    unsafe { bytes_from_shared(from, first) };
    let mut words = rest.chunks_exact_mut(WORD);
    let mut at = head;
    for word in &mut words {
        // SAFETY: `at + WORD <= to.len()`, so the word lies in the caller's range; `from + at` is a multiple of the word
        // size, because `head` rounds it up and `at` advances by whole words. All accesses are atomic.
        let shared = unsafe { AtomicU64::from_ptr(from.add(at).cast()) };
        word.copy_from_slice(&shared.load(Relaxed).to_ne_bytes());
        at += WORD;
    }
    // SAFETY: the remainder ends where `to` ends, inside the caller's range.
    unsafe { bytes_from_shared(from.add(at), words.into_remainder()) };
}

/// Copies `from.len()` bytes into shared memory.
///
/// # Safety
/// `to .. to + from.len()` must be mapped, readable and writable for the whole call, must not overlap `from`, and this
/// process must reach it through this module only.
pub(crate) unsafe fn to_shared(from: &[u8], to: *mut u8) {
    let head = head_bytes(to.addr(), from.len());
    let (first, rest) = from.split_at(head);
    // SAFETY: `first` covers the start of the range that the caller vouches for.
    unsafe { bytes_to_shared(first, to) };
    let words = rest.chunks_exact(WORD);
    let last = words.remainder();
    let mut at = head;
    for word in words {
        let mut value = [0; WORD];
        value.copy_from_slice(word);
        // SAFETY: `at + WORD <= from.len()`, so the word lies in the caller's range; `to + at` is a multiple of the word
        // size, because `head` rounds it up and `at` advances by whole words. All accesses are atomic.
        unsafe { AtomicU64::from_ptr(to.add(at).cast()) }.store(u64::from_ne_bytes(value), Relaxed);
        at += WORD;
    }
    // SAFETY: the remainder ends where `from` ends, inside the caller's range.
    unsafe { bytes_to_shared(last, to.add(at)) };
}

/// Bytes before the first word boundary at or after `address`, at most `len`.
fn head_bytes(address: usize, len: usize) -> usize {
    (address.next_multiple_of(WORD) - address).min(len)
}

/// # Safety
/// As [`from_shared`].
unsafe fn bytes_from_shared(from: *mut u8, to: &mut [u8]) {
    for (at, byte) in to.iter_mut().enumerate() {
        // SAFETY: `at < to.len()`, inside the caller's range; a byte needs no alignment.
        *byte = unsafe { AtomicU8::from_ptr(from.add(at)) }.load(Relaxed);
    }
}

/// # Safety
/// As [`to_shared`].
unsafe fn bytes_to_shared(from: &[u8], to: *mut u8) {
    for (at, byte) in from.iter().enumerate() {
        // SAFETY: `at < from.len()`, inside the caller's range; a byte needs no alignment.
        unsafe { AtomicU8::from_ptr(to.add(at)) }.store(*byte, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every alignment and every length around the word size, in both directions; bytes outside stay untouched.
    #[test]
    fn copies_exactly_the_asked_bytes() {
        for offset in 0..9 {
            for len in 0..40 {
                let pattern: Vec<u8> = (0..len).map(|n: u8| n ^ 0x5a).collect();
                let mut shared = vec![0xee_u8; 64];
                let base = shared.as_mut_ptr();
                // SAFETY: 8 + 39 bytes fit in the vector, which nothing else touches meanwhile.
                unsafe { to_shared(&pattern, base.add(offset)) };
                let mut back = vec![0; pattern.len()];
                // SAFETY: as above.
                unsafe { from_shared(base.add(offset), &mut back) };
                assert_eq!(back, pattern, "offset {offset} len {len}");
                assert!(shared[..offset].iter().all(|byte| *byte == 0xee));
                assert!(shared[offset + pattern.len()..].iter().all(|byte| *byte == 0xee));
            }
        }
    }

    /// Two threads stand for two processes; Miri reports any access that is not atomic.
    #[test]
    fn a_concurrent_writer_is_no_data_race() {
        let mut shared = vec![0_u64; 16];
        let base = shared.as_mut_ptr().cast::<u8>().expose_provenance();
        std::thread::scope(|scope| {
            for value in 1..=3_u8 {
                scope.spawn(move || {
                    let base = std::ptr::with_exposed_provenance_mut(base);
                    // SAFETY: the vector outlives the scope and is only reached through this module meanwhile.
                    unsafe { to_shared(&[value; 128], base) };
                    let mut seen = [0; 128];
                    // SAFETY: as above.
                    unsafe { from_shared(base, &mut seen) };
                    assert!(seen.iter().all(|byte| (1..=3).contains(byte)));
                });
            }
        });
    }
}
