//! Copies between private memory and memory that another process may write at any moment.
//!
//! Ordinary loads would let the compiler assume that the bytes stay still: it could read one twice and act on two answers.
//! Here every shared byte is touched by exactly one access that the compiler does not understand as an ordinary one, so a
//! hostile peer can change *which* bytes arrive but never break this process: the result is always some value of the plain
//! type `u8`, copied to private memory before anyone looks at it. Shared mappings lie outside every Rust allocation and are
//! only reached here.
//!
//! Two ways to make such accesses, by what the machine has:
//! - relaxed atomics, word by word: any machine, and what Miri checks. They cannot be made into vector code.
//! - inline assembly (x86-64): vector moves where the processor has AVX, else a string move. To the compiler the block is
//!   opaque; what it does is explained by byte-wise relaxed atomic accesses, since processors with coherent memory give each
//!   byte of a wider access some value that was stored there. Two to three times as fast, also where memory is the limit.
//!
//! Mappings begin at a page boundary in every process, so both sides cut a range into the same words; where accesses of
//! different sizes meet, which no correct pair of processes does at the same time, the above holds byte by byte.

/// Copies `to.len()` bytes from shared memory.
///
/// # Safety
/// `from .. from + to.len()` must be mapped, readable and writable for the whole call, must not overlap `to`, and this
/// process must reach it through this module only.
#[inline]
pub(crate) unsafe fn from_shared(from: *mut u8, to: &mut [u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller vouches for the shared range; `to` is exclusively borrowed and as long.
    unsafe {
        assembly::copy(from, to.as_mut_ptr(), to.len());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: passed on to the caller.
    unsafe {
        words::from_shared(from, to);
    }
}

/// Copies `from.len()` bytes into shared memory.
///
/// # Safety
/// `to .. to + from.len()` must be mapped, readable and writable for the whole call, must not overlap `from`, and this
/// process must reach it through this module only.
#[inline]
pub(crate) unsafe fn to_shared(from: &[u8], to: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller vouches for the shared range; `from` is borrowed and as long.
    unsafe {
        assembly::copy(from.as_ptr(), to, from.len());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: passed on to the caller.
    unsafe {
        words::to_shared(from, to);
    }
}

/// As [`to_shared`], past the caches: for bytes that nobody reads before much else has been written. Lines that are to be
/// overwritten as a whole need not be read first then, which is a third of what an ordinary write moves. What others are
/// announced after such a copy must come after [`settle`].
///
/// # Safety
/// As [`to_shared`].
#[inline]
pub(crate) unsafe fn to_shared_far(from: &[u8], to: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller vouches for the shared range; `from` is borrowed and as long.
    unsafe {
        assembly::copy_far(from.as_ptr(), to, from.len());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: passed on to the caller.
    unsafe {
        words::to_shared(from, to);
    }
}

/// What was copied past the caches so far is seen by others before whatever this thread stores next.
#[inline]
pub fn settle() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the fence orders stores and does nothing else; every x86-64 has it.
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags));
    }
}

/// Asks the processor to bring shared memory near. It has no other effect, whatever the address.
#[inline]
pub(crate) fn prefetch(from: *const u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for at in (0..bytes).step_by(64) {
        // SAFETY: a prefetch reads nothing and never faults.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                from.wrapping_add(at).cast(),
            )
        };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (from, bytes);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod assembly {
    use std::arch::asm;

    /// Bytes that one turn of the vector loop moves.
    const TURN: usize = 128;

    /// Bytes of a line of the caches.
    const LINE: usize = 64;

    /// Copies `bytes` bytes, each by one access.
    ///
    /// # Safety
    /// Both ranges must be mapped for the whole call, and must not overlap. One of them may be changed by another process.
    #[inline]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        let whole = if std::arch::is_x86_feature_detected!("avx") { bytes / TURN * TURN } else { 0 };
        if whole > 0 {
            // SAFETY: the processor has AVX; `whole` is a positive multiple of TURN within the range.
            unsafe { vectors(from, to, whole) };
        }
        if whole < bytes {
            // SAFETY: the rest of the range.
            unsafe { string(from.add(whole), to.add(whole), bytes - whole) };
        }
    }

    /// As [`copy`], but what is aligned in `to` goes past the caches.
    ///
    /// # Safety
    /// As [`copy`].
    #[inline]
    pub(super) unsafe fn copy_far(from: *const u8, to: *mut u8, bytes: usize) {
        let head = (to.addr().next_multiple_of(LINE) - to.addr()).min(bytes);
        let has_avx = std::arch::is_x86_feature_detected!("avx");
        let whole = if has_avx { (bytes - head) / TURN * TURN } else { 0 };
        // SAFETY: the three parts are the range that the caller vouches for; the middle one is a multiple of TURN, begins in
        // `to` at a multiple of the width of a vector, and the processor has AVX if it is not empty.
        unsafe {
            string(from, to, head);
            if whole > 0 {
                vectors_far(from.add(head), to.add(head), whole);
            }
            string(from.add(head + whole), to.add(head + whole), bytes - head - whole);
        }
    }

    /// # Safety
    /// As [`vectors`]; `to` is a multiple of 32.
    unsafe fn vectors_far(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: as in `vectors`; `vmovntdq` asks for aligned addresses, which the caller vouches for.
        unsafe {
            asm!(
                "2:",
                "vmovdqu ymm0, [{from}]",
                "vmovdqu ymm1, [{from} + 32]",
                "vmovdqu ymm2, [{from} + 64]",
                "vmovdqu ymm3, [{from} + 96]",
                "vmovntdq [{to}], ymm0",
                "vmovntdq [{to} + 32], ymm1",
                "vmovntdq [{to} + 64], ymm2",
                "vmovntdq [{to} + 96], ymm3",
                "add {from}, 128",
                "add {to}, 128",
                "sub {left}, 128",
                "jnz 2b",
                "vzeroupper",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                left = inout(reg) bytes => _,
                out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack),
            );
        }
    }

    /// # Safety
    /// As [`copy`]; the processor has AVX, and `bytes` is a positive multiple of TURN.
    unsafe fn vectors(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the loop reads and writes exactly `bytes` bytes, which the caller vouches for. Registers that it changes are
        // named, upper halves are cleared as the calling convention wants, and the stack is not used.
        unsafe {
            asm!(
                "2:",
                "vmovdqu ymm0, [{from}]",
                "vmovdqu ymm1, [{from} + 32]",
                "vmovdqu ymm2, [{from} + 64]",
                "vmovdqu ymm3, [{from} + 96]",
                "vmovdqu [{to}], ymm0",
                "vmovdqu [{to} + 32], ymm1",
                "vmovdqu [{to} + 64], ymm2",
                "vmovdqu [{to} + 96], ymm3",
                "add {from}, 128",
                "add {to}, 128",
                "sub {left}, 128",
                "jnz 2b",
                "vzeroupper",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                left = inout(reg) bytes => _,
                out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack),
            );
        }
    }

    /// # Safety
    /// As [`copy`].
    unsafe fn string(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: moves exactly `bytes` bytes forward (the direction flag is clear, as the calling convention wants).
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") bytes => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg_attr(all(target_arch = "x86_64", not(miri)), allow(dead_code, reason = "the tests compare both ways"))]
mod words {
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

    /// Bytes of a machine word, the unit of the fast part of a copy.
    const WORD: usize = size_of::<u64>();

    /// # Safety
    /// As [`super::from_shared`].
    pub(super) unsafe fn from_shared(from: *mut u8, to: &mut [u8]) {
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

    /// # Safety
    /// As [`super::to_shared`].
    pub(super) unsafe fn to_shared(from: &[u8], to: *mut u8) {
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
    /// As [`super::from_shared`].
    unsafe fn bytes_from_shared(from: *mut u8, to: &mut [u8]) {
        for (at, byte) in to.iter_mut().enumerate() {
            // SAFETY: `at < to.len()`, inside the caller's range; a byte needs no alignment.
            *byte = unsafe { AtomicU8::from_ptr(from.add(at)) }.load(Relaxed);
        }
    }

    /// # Safety
    /// As [`super::to_shared`].
    unsafe fn bytes_to_shared(from: &[u8], to: *mut u8) {
        for (at, byte) in from.iter().enumerate() {
            // SAFETY: `at < from.len()`, inside the caller's range; a byte needs no alignment.
            unsafe { AtomicU8::from_ptr(to.add(at)) }.store(*byte, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type From = unsafe fn(*mut u8, &mut [u8]);
    type To = unsafe fn(&[u8], *mut u8);

    /// Every alignment and every length around the word and vector sizes, in both directions; bytes outside stay untouched.
    fn copies_exactly_the_asked_bytes(from_shared: From, to_shared: To) {
        let lengths = if cfg!(miri) { 40 } else { 300 };
        for offset in 0..9 {
            for len in 0..lengths {
                let pattern: Vec<u8> = (0..len).map(|n: u16| (n % 251) as u8 ^ 0x5a).collect();
                let mut shared = vec![0xee_u8; usize::from(lengths) + 16];
                let base = shared.as_mut_ptr();
                // SAFETY: 8 + `lengths` bytes fit in the vector, which nothing else touches meanwhile.
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

    #[test]
    fn both_ways_copy_exactly_the_asked_bytes() {
        copies_exactly_the_asked_bytes(from_shared, to_shared);
        copies_exactly_the_asked_bytes(words::from_shared, words::to_shared);
        copies_exactly_the_asked_bytes(from_shared, |from, to| {
            // SAFETY: passed on to the caller.
            unsafe { to_shared_far(from, to) };
            settle();
        });
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

    #[test]
    fn a_prefetch_may_name_any_address() {
        prefetch(std::ptr::null(), 4096);
        prefetch(std::ptr::without_provenance(usize::MAX - 100), 4096);
    }
}
