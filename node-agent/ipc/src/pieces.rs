//! Memory that the kernel reads and writes for this process: its own, and shared memory that another process may change at any
//! moment, several pieces in one call.
//!
//! A slice of shared memory must never be made, since its bytes do not stay still. The kernel does not mind: it copies each byte
//! once, and what it got it got. So a piece is a pointer and a length that borrows its memory, and all that can be done with it is a
//! system call, or a copy as `copy.rs` makes it.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use crate::copy;
use crate::region::{Region, RegionError};

/// Pieces that one call takes (the kernel's own bound is 1024).
const MOST: usize = 64;

/// Bytes to be read.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    base: *const u8,
    len: usize,
    /// Its owner, where a device may register it.
    owner: Option<&'a Arc<Region>>,
    memory: PhantomData<&'a [u8]>,
}

/// Room to be written.
#[derive(Debug)]
pub struct Target<'a> {
    base: *mut u8,
    len: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Source { base: bytes.as_ptr(), len: bytes.len(), owner: None, memory: PhantomData }
    }
}

impl<'a> From<&'a mut [u8]> for Target<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Target { base: bytes.as_mut_ptr(), len: bytes.len(), memory: PhantomData }
    }
}

impl Region {
    /// A range of the buffer, to be read by the kernel.
    ///
    /// # Errors
    /// The range goes past the end of the buffer.
    pub fn source(&self, offset: usize, bytes: usize) -> Result<Source<'_>, RegionError> {
        self.check(offset, bytes)?;
        let base = self.as_ptr().wrapping_add(offset);
        Ok(Source { base, len: bytes, owner: None, memory: PhantomData })
    }

    /// A range of the buffer, to be written by the kernel. Others may write the same at the same time.
    ///
    /// # Errors
    /// The range goes past the end of the buffer, or the buffer is memory of a GPU.
    pub fn target(&self, offset: usize, bytes: usize) -> Result<Target<'_>, RegionError> {
        self.check(offset, bytes)?;
        Ok(Target { base: self.as_ptr().wrapping_add(offset), len: bytes, memory: PhantomData })
    }
}

impl<'a> Source<'a> {
    /// A range of a buffer, as [`Region::source`] gives it, that knows whose it is. The buffer may be memory of a GPU: then only a device
    /// that has registered it can read it.
    ///
    /// # Errors
    /// It lies outside the buffer.
    pub fn of(memory: &'a Arc<Region>, offset: usize, bytes: usize) -> Result<Self, RegionError> {
        memory.within(offset, bytes)?;
        let base = memory.as_ptr().wrapping_add(offset);
        Ok(Source { base, len: bytes, owner: Some(memory), memory: PhantomData })
    }

    /// Whether it is memory of a GPU.
    #[must_use]
    pub fn is_on_device(&self) -> bool {
        self.owner.is_some_and(|memory| memory.device().is_some())
    }

    /// The buffer that it was made of by [`Source::of`], and where in it it begins.
    #[must_use]
    pub fn owner(&self) -> Option<(&'a Arc<Region>, usize)> {
        self.owner.map(|memory| (memory, self.base.addr() - memory.as_ptr().addr()))
    }

    /// Number of bytes to be read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What is left after the first `n` bytes, or after all.
    #[must_use]
    pub fn after(self, n: usize) -> Self {
        let n = n.min(self.len);
        Source { base: self.base.wrapping_add(n), len: self.len - n, ..self }
    }

    /// Only the first `n` bytes of it.
    #[must_use]
    pub fn first(self, n: usize) -> Self {
        Source { len: n.min(self.len), ..self }
    }

    /// Copies the first bytes; gives how many: none of memory of a GPU.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        if self.is_on_device() {
            return 0;
        }
        let n = self.len.min(to.len());
        // SAFETY: it is not on a device, so a source is made of a slice that it borrows, or of a checked range of a mapping that it
        // borrows, and of that only the end is left off; so `n` bytes from `base` can be read. `to` is exclusively borrowed, hence
        // disjoint from both. Shared memory is reached through `copy` only; for a slice that nobody writes it is an ordinary copy.
        unsafe { copy::from_shared(self.base.cast_mut(), &mut to[..n]) };
        n
    }

    /// A copy of all of it.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.copy_to(&mut bytes);
        bytes
    }
}

impl Target<'_> {
    /// Number of bytes that can be written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Only the first `n` bytes of it.
    #[must_use]
    pub fn first(self, n: usize) -> Self {
        Target { base: self.base, len: n.min(self.len), memory: PhantomData }
    }

    /// Fills it from its beginning; gives how many bytes that took.
    pub fn put(&mut self, from: &[u8]) -> usize {
        let n = self.len.min(from.len());
        // SAFETY: as in `Source::copy_to`, for writing; `from` is borrowed, and the target's memory is borrowed exclusively or
        // is a mapping that no slice lies in.
        unsafe { copy::to_shared(&from[..n], self.base) };
        n
    }

    /// Fills it from its byte `at` on; gives how many bytes that took.
    pub fn put_at(&mut self, at: usize, from: &[u8]) -> usize {
        let at = at.min(self.len);
        let mut rest = Target { base: self.base.wrapping_add(at), len: self.len - at, memory: PhantomData };
        rest.put(from)
    }

    /// Fills it from its byte `at` on with the first bytes of a source, as many as fit; gives how many. Both may be shared: the bytes
    /// pass through private memory.
    pub fn put_from(&mut self, at: usize, from: Source<'_>) -> usize {
        let at = at.min(self.len);
        let mut rest = Target { base: self.base.wrapping_add(at), len: self.len - at, memory: PhantomData };
        let (mut from, mut done, mut tile) = (from, 0, [0; 4096]);
        loop {
            let most = tile.len().min(rest.len);
            let n = from.copy_to(&mut tile[..most]);
            if n == 0 {
                return done;
            }
            rest.put(&tile[..n]);
            rest = Target { base: rest.base.wrapping_add(n), len: rest.len - n, memory: PhantomData };
            from = from.after(n);
            done += n;
        }
    }
}

/// Has the kernel read from the pieces, in order, as many bytes as the file takes; only the first 64 pieces count.
///
/// # Errors
/// The kernel's; or a piece is memory of a GPU, which the kernel does not read.
pub fn write(file: impl AsFd, pieces: &[Source<'_>]) -> io::Result<usize> {
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST];
    let count = pieces.len().min(MOST);
    if pieces.iter().take(count).any(Source::is_on_device) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, RegionError::OnDevice));
    }
    for (vector, piece) in vectors.iter_mut().zip(pieces) {
        *vector = libc::iovec { iov_base: piece.base.cast_mut().cast(), iov_len: piece.len };
    }
    // SAFETY: the first `count` vectors name memory that the pieces borrow for longer than this call; the kernel only reads it, and
    // the vectors themselves live on this stack. `count` is at most 64, so it fits.
    let result = unsafe { libc::writev(file.as_fd().as_raw_fd(), vectors.as_ptr(), count as libc::c_int) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Has the kernel fill the pieces, in order, with what the file gives; only the first 64 pieces count.
///
/// # Errors
/// The kernel's.
pub fn read(file: impl AsFd, pieces: &mut [Target<'_>]) -> io::Result<usize> {
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST];
    let count = pieces.len().min(MOST);
    for (vector, piece) in vectors.iter_mut().zip(pieces.iter()) {
        *vector = libc::iovec { iov_base: piece.base.cast(), iov_len: piece.len };
    }
    // SAFETY: as in `write`, but the kernel writes: each piece borrows its memory exclusively, or it is a mapping in which no slice
    // lies, and any bytes are valid there.
    let result = unsafe { libc::readv(file.as_fd().as_raw_fd(), vectors.as_ptr(), count as libc::c_int) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

// Miri has neither memory files nor vectored calls; it checks the copies in `copy.rs`.
#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_range_outside_the_buffer_is_no_piece() {
        let (region, _file) = Region::create(100).unwrap();
        for (offset, bytes) in [(0, 101), (100, 1), (usize::MAX, 2), (1, usize::MAX)] {
            assert!(matches!(region.source(offset, bytes), Err(RegionError::OutOfBounds { .. })));
            assert!(matches!(region.target(offset, bytes), Err(RegionError::OutOfBounds { .. })));
        }
        assert!(region.source(100, 0).unwrap().is_empty());
    }

    #[test]
    fn a_source_knows_whose_it_is_and_where() {
        let (memory, _file) = Region::create(100).unwrap();
        let memory = Arc::new(memory);
        let part = Source::of(&memory, 10, 50).unwrap().after(7).first(3);
        let (owner, at) = part.owner().unwrap();
        assert!(Arc::ptr_eq(owner, &memory));
        assert_eq!((at, part.len(), part.first(9).len()), (17, 3, 3));
        assert!(Source::of(&memory, 60, 50).is_err());
        assert!(memory.source(0, 1).unwrap().owner().is_none());
    }

    #[test]
    fn a_closed_file_is_an_error() {
        let (one, other) = UnixStream::pair().unwrap();
        drop(other);
        assert_eq!(write(&one, &[Source::from(&[1u8][..])]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(read(&one, &mut [Target::from(&mut [0u8; 4][..])]).unwrap(), 0);
    }

    proptest! {
        /// What goes out of private and shared pieces comes in in others, in order, however both are cut.
        #[test]
        fn pieces_pass_through_the_kernel(
            out in prop::collection::vec((any::<bool>(), 0usize..3000), 1..70),
            into in prop::collection::vec((any::<bool>(), 0usize..3000), 1..70), skip in 0usize..100,
        ) {
            let room = 70 * 3000;
            let (shared, _file) = Region::create(room as u64).unwrap();
            let own: Vec<u8> = (0..room).map(|i| (i * 31 % 251) as u8).collect();
            shared.write(0, &own.iter().map(|b| b ^ 0x80).collect::<Vec<_>>()).unwrap();
            let (mut at, mut pieces, mut want) = (0, Vec::new(), Vec::new());
            for &(is_shared, len) in &out {
                let piece = if is_shared { shared.source(at, len).unwrap() } else { Source::from(&own[at..at + len]) };
                let piece = piece.after(skip);
                prop_assert_eq!(piece.len(), len.saturating_sub(skip));
                let bytes = piece.to_vec();
                if pieces.len() < MOST {
                    want.extend(bytes);
                }
                pieces.push(piece);
                at += len;
            }
            let (one, other) = UnixStream::pair().unwrap();
            one.set_nonblocking(true).unwrap();
            other.set_nonblocking(true).unwrap();
            let sent = write(&one, &pieces).unwrap_or(0);
            prop_assert!(sent <= want.len());
            let (landed, _file) = Region::create(room as u64).unwrap();
            let mut private = vec![0u8; room];
            let (mut rest, mut at, mut targets) = (&mut private[..], 0, Vec::new());
            for &(is_shared, len) in &into {
                targets.push(if is_shared { landed.target(at, len).unwrap() } else {
                    let (first, tail) = std::mem::take(&mut rest).split_at_mut(len);
                    rest = tail;
                    Target::from(first)
                });
                at += len;
            }
            let got = read(&other, &mut targets).unwrap_or(0);
            drop(targets);
            prop_assert!(got <= sent);
            let (mut at, mut shared_at, mut private_at) = (0, 0, 0);
            for &(is_shared, len) in into.iter().take(MOST) {
                let n = len.min(got - at);
                let mut bytes = vec![0; n];
                if is_shared { landed.read(shared_at, &mut bytes).unwrap() } else { bytes.copy_from_slice(&private[private_at..private_at + n]) }
                prop_assert_eq!(&bytes[..], &want[at..at + n]);
                at += n;
                shared_at += len;
                private_at += if is_shared { 0 } else { len };
            }
            prop_assert_eq!(at, got);
        }

        #[test]
        fn a_target_is_filled_from_a_source(
            room in 0usize..20_000, at in 0usize..22_000, from in 0usize..20_000, shared in any::<bool>(),
        ) {
            let (into, _file) = Region::create(20_000).unwrap();
            let (out, _file) = Region::create(20_000).unwrap();
            let bytes: Vec<u8> = (0..from).map(|i| (i * 31 % 251) as u8 | 1).collect();
            out.write(0, &bytes).unwrap();
            let source = if shared { out.source(0, from).unwrap() } else { Source::from(&bytes[..]) };
            let n = into.target(0, room).unwrap().put_from(at, source);
            prop_assert_eq!(n, from.min(room.saturating_sub(at)));
            let mut seen = vec![0; 20_000];
            into.read(0, &mut seen).unwrap();
            let start = at.min(20_000);
            prop_assert_eq!(&seen[start..start + n], &bytes[..n]);
            prop_assert!(seen[..start].iter().chain(&seen[start + n..]).all(|byte| *byte == 0));
        }

        #[test]
        fn a_target_takes_what_fits(len in 0usize..200, first in 0usize..300, from in prop::collection::vec(any::<u8>(), 0..300)) {
            let (shared, _file) = Region::create(200).unwrap();
            let n = shared.target(0, len).unwrap().first(first).put(&from);
            prop_assert_eq!(n, len.min(first).min(from.len()));
            let mut seen = [0; 200];
            shared.read(0, &mut seen).unwrap();
            prop_assert_eq!(&seen[..n], &from[..n]);
            prop_assert!(seen[n..].iter().all(|b| *b == 0));
        }
    }
}
