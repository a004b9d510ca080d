//! One shared buffer: a sealed memory file, mapped into this process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags, SeekFrom};
use rustix::mm::{MapFlags, ProtFlags};

use crate::copy;

/// Why a shared buffer could not be made, mapped or reached.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// A buffer of no bytes cannot be mapped.
    #[error("a shared buffer needs at least one byte")]
    Empty,
    /// More bytes than an address space offset can name.
    #[error("a shared buffer of {bytes} bytes is larger than this machine can map")]
    TooLarge {
        /// Length that was asked for, in bytes.
        bytes: u64,
    },
    /// The memory file could shrink under the mapping, which would turn an access into SIGBUS.
    #[error("the memory file received for a buffer is not sealed against shrinking; refuse to map it")]
    NotSealed,
    /// The memory file is shorter than the buffer that it should hold.
    #[error("the memory file holds {found} bytes, the buffer needs {wanted}")]
    Short {
        /// Bytes of the file.
        found: u64,
        /// Length that the other side says the buffer has, in bytes.
        wanted: u64,
    },
    /// A dma-buf that is shorter than the buffer that it should hold, or has no length.
    #[error("the dma-buf holds {found} bytes, the buffer needs {wanted} from byte {offset}")]
    ShortDevice {
        /// Bytes of the dma-buf.
        found: u64,
        /// Where the buffer begins in it.
        offset: u64,
        /// Bytes of the buffer.
        wanted: u64,
    },
    /// The processor was to read or write memory that only devices reach.
    #[error("memory of a GPU is not read or written by the processor")]
    OnDevice,
    /// An access past the end of the buffer.
    #[error("bytes {offset}..{offset}+{bytes} lie outside the buffer of {len} bytes")]
    OutOfBounds {
        /// First byte asked for.
        offset: usize,
        /// Length of the range asked for, in bytes.
        bytes: usize,
        /// Bytes of the buffer.
        len: usize,
    },
    /// A system call failed.
    #[error("could not {action} a shared buffer: {source}")]
    System {
        /// What was attempted, as a verb: `create`, `size`, `seal`, `map`, ...
        action: &'static str,
        /// What the kernel answered.
        source: std::io::Error,
    },
}

/// A shared buffer mapped into this process, unmapped on drop.
///
/// Another process maps the same memory and may write it at any moment. So there is deliberately no way to get a slice:
/// bytes are copied in and out, each touched once, atomically (see `copy.rs`), or moved by the kernel (see `pieces.rs`).
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    device: Option<DeviceMemory>,
}

/// Memory of a GPU, as a file that devices can register. The processor never reads or writes it.
#[derive(Debug)]
pub struct DeviceMemory {
    file: OwnedFd,
    offset: u64,
}

impl DeviceMemory {
    /// The dma-buf that holds the memory, kept open as long as the region lives.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Where the region's bytes begin in it.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

// SAFETY: the mapping belongs to the process, not to a thread, and lives until `Region` is dropped.
unsafe impl Send for Region {}
// SAFETY: concurrent access is part of the contract already (another process does it): all accesses are atomic and their
// result is never trusted, so accesses from two threads of this process are no different.
unsafe impl Sync for Region {}

impl Region {
    /// Makes a zeroed memory file of exactly `bytes` and maps it. The file is sealed against shrinking and growing before
    /// anyone else sees it, so no holder of the descriptor can make an access fault.
    ///
    /// # Errors
    /// `bytes` is 0 or more than can be mapped, or the kernel refuses to make, seal or map the file.
    pub fn create(bytes: u64) -> Result<(Self, OwnedFd), RegionError> {
        let len = mappable(bytes)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("rail-buffer", flags).map_err(|e| system("create", e))?;
        rustix::fs::ftruncate(&file, bytes).map_err(|e| system("size", e))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(|e| system("seal", e))?;
        Ok((Self::map_file(&file, len)?, file))
    }

    /// Maps a memory file made by [`Region::create`] in another process, after checking its size and seals.
    ///
    /// # Errors
    /// The file is not sealed against shrinking or shorter than `bytes`, or cannot be mapped.
    pub fn open(file: impl AsFd, bytes: u64) -> Result<Self, RegionError> {
        let len = mappable(bytes)?;
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(|e| system("inspect", e))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(RegionError::NotSealed);
        }
        let stat = rustix::fs::fstat(&file).map_err(|e| system("inspect", e))?;
        let found = u64::try_from(stat.st_size).unwrap_or(0);
        if found < bytes {
            return Err(RegionError::Short { found, wanted: bytes });
        }
        Self::map_file(file, len)
    }

    /// `len` is positive, and the file is at least `len` bytes and sealed against shrinking.
    fn map_file(file: impl AsFd, len: usize) -> Result<Self, RegionError> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address (null hint, no MAP_FIXED), so no existing mapping is replaced, and the
        // fresh range is known to nobody but the `Region` made from it.
        let base = unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) }
            .map_err(|e| system("map", e))?;
        match NonNull::new(base.cast::<u8>()) {
            Some(base) => Ok(Self { base, len, device: None }),
            None => Err(system("map", rustix::io::Errno::NOMEM)),
        }
    }

    /// Memory of a GPU: `bytes` from `offset` of a dma-buf, which is kept open until the region is dropped. It has addresses in this
    /// process, by which its parts are told apart, but nothing is there: only devices can send from it
    /// ([`crate::pieces::Source::of`]), and every other access is [`RegionError::OnDevice`].
    ///
    /// # Errors
    /// The dma-buf is shorter.
    pub fn of_device(file: OwnedFd, offset: u64, bytes: u64) -> Result<Self, RegionError> {
        let len = mappable(bytes)?;
        // A dma-buf has no size in its inode; its end is where seeking says (kernel `drivers/dma-buf/dma-buf.c`, dma_buf_llseek).
        let found = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|e| system("measure", e))?;
        if offset.checked_add(bytes).is_none_or(|end| end > found) {
            return Err(RegionError::ShortDevice { found, offset, wanted: bytes });
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: as in `map_file`; nothing can be read or written there.
        let base = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), flags) }
            .map_err(|e| system("reserve addresses for", e))?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| system("map", rustix::io::Errno::NOMEM))?;
        Ok(Self { base, len, device: Some(DeviceMemory { file, offset }) })
    }

    /// The GPU's memory that it is, if it is that.
    pub fn device(&self) -> Option<&DeviceMemory> {
        self.device.as_ref()
    }

    /// Bytes of the buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: an empty buffer cannot be made.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the buffer begins in this process, for foreign code that fills it in place. Valid while the `Region` lives; where it is
    /// memory of a GPU, a name only.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Copies `to.len()` bytes out, beginning at `offset`.
    ///
    /// # Errors
    /// The range goes past the end of the buffer, or the buffer is memory of a GPU.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), RegionError> {
        self.check(offset, to.len())?;
        // SAFETY: `check` proved that the range lies in the mapping, which lives as long as `self`; its file cannot shrink.
        // `to` is ordinary memory: no reference into the mapping is ever made.
        unsafe { copy::from_shared(self.base.as_ptr().add(offset), to) };
        Ok(())
    }

    /// Copies `from` in, beginning at `offset`.
    ///
    /// # Errors
    /// The range goes past the end of the buffer, or the buffer is memory of a GPU.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), RegionError> {
        self.check(offset, from.len())?;
        // SAFETY: as in `read`; the mapping is writable.
        unsafe { copy::to_shared(from, self.base.as_ptr().add(offset)) };
        Ok(())
    }

    /// As [`Self::write`], past the caches: for what nobody reads soon. Whoever then lets others know that it is there calls
    /// [`crate::settle`] first.
    ///
    /// # Errors
    /// As of [`Self::write`].
    pub fn write_far(&self, offset: usize, from: &[u8]) -> Result<(), RegionError> {
        self.check(offset, from.len())?;
        // SAFETY: as in `write`.
        unsafe { copy::to_shared_far(from, self.base.as_ptr().add(offset)) };
        Ok(())
    }

    /// Asks the processor to bring a range near that is going to be read. Bytes outside the buffer do not matter.
    pub fn prefetch(&self, offset: usize, bytes: usize) {
        // A hint for addresses that nothing is at does nothing.
        copy::prefetch(self.base.as_ptr().wrapping_add(offset), bytes);
    }

    /// Copies `bytes` bytes from `offset` on to `to_offset` of `to`, which may be the same region if the ranges are disjoint.
    ///
    /// # Errors
    /// A range goes past the end of its buffer, or a buffer is memory of a GPU. Bytes before that point are copied by then.
    pub fn copy_to(
        &self,
        offset: usize,
        to: &Region,
        to_offset: usize,
        bytes: usize,
    ) -> Result<(), RegionError> {
        let mut tile = [0; 8192];
        for at in (0..bytes).step_by(tile.len()) {
            let tile = &mut tile[..(bytes - at).min(8192)];
            self.read(offset.saturating_add(at), tile)?;
            to.write(to_offset.saturating_add(at), tile)?;
        }
        Ok(())
    }

    /// The range is in the buffer, and the processor may reach it.
    pub(crate) fn check(&self, offset: usize, bytes: usize) -> Result<(), RegionError> {
        if self.device.is_some() { Err(RegionError::OnDevice) } else { self.within(offset, bytes) }
    }

    /// The range is in the buffer.
    pub(crate) fn within(&self, offset: usize, bytes: usize) -> Result<(), RegionError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(RegionError::OutOfBounds { offset, bytes, len: self.len }),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are exactly what `mmap` gave, unmapped once, and `&mut self` says nobody uses it. The
        // result is ignored because the arguments are valid, and a leaked mapping would harm nobody.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Pointer offsets are signed, so a mapping may have at most `isize::MAX` bytes.
fn mappable(bytes: u64) -> Result<usize, RegionError> {
    match isize::try_from(bytes) {
        Ok(0) => Err(RegionError::Empty),
        Ok(len) => Ok(len.unsigned_abs()),
        Err(_) => Err(RegionError::TooLarge { bytes }),
    }
}

fn system(action: &'static str, error: rustix::io::Errno) -> RegionError {
    RegionError::System { action, source: error.into() }
}

// Miri has no memory files; it checks the copies in `copy.rs` instead.
#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_share_bytes() {
        let (one, file) = Region::create(10_000).unwrap();
        let two = Region::open(&file, 10_000).unwrap();
        drop(file);
        one.write(9_990, b"0123456789").unwrap();
        let mut seen = [0; 10];
        two.read(9_990, &mut seen).unwrap();
        assert_eq!(&seen, b"0123456789");
    }

    #[test]
    fn bounds_are_checked() {
        let (region, _file) = Region::create(16).unwrap();
        for (offset, bytes) in [(0, 17), (16, 1), (17, 0), (usize::MAX, 1), (1, usize::MAX / 2)] {
            let mut room = vec![0; bytes.min(32)];
            if bytes <= 32 {
                assert!(matches!(region.read(offset, &mut room), Err(RegionError::OutOfBounds { .. })));
                assert!(matches!(region.write(offset, &room), Err(RegionError::OutOfBounds { .. })));
            }
        }
        region.write(16, &[]).unwrap();
    }

    #[test]
    fn nonsense_sizes_are_refused() {
        assert!(matches!(Region::create(0), Err(RegionError::Empty)));
        assert!(matches!(Region::create(u64::MAX), Err(RegionError::TooLarge { .. })));
    }

    #[test]
    fn the_file_cannot_change_size_under_the_mapping() {
        let (_region, file) = Region::create(8192).unwrap();
        assert!(rustix::fs::ftruncate(&file, 0).is_err());
        assert!(rustix::fs::ftruncate(&file, 1 << 20).is_err());
        assert!(rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE).is_err());
    }

    #[test]
    fn an_unsealed_or_short_file_is_refused() {
        let file = rustix::fs::memfd_create("t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        assert!(matches!(Region::open(&file, 4096), Err(RegionError::NotSealed)));
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        assert!(matches!(Region::open(&file, 8192), Err(RegionError::Short { .. })));
        Region::open(&file, 4096).unwrap();
    }

    /// What is on a GPU has a place and a length here, and no bytes.
    #[test]
    fn the_processor_never_touches_memory_of_a_gpu() {
        let file = rustix::fs::memfd_create("gpu", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 8192).unwrap();
        let open = |offset, bytes| Region::of_device(file.try_clone().unwrap(), offset, bytes);
        for (offset, bytes) in [(8192, 1), (0, 8193), (u64::MAX, 2)] {
            assert!(matches!(open(offset, bytes), Err(RegionError::ShortDevice { found: 8192, .. })));
        }
        assert!(matches!(open(0, 0), Err(RegionError::Empty)));
        let (pipe, _end) = rustix::pipe::pipe().unwrap();
        assert!(matches!(Region::of_device(pipe, 0, 1), Err(RegionError::System { .. })), "no bytes at all");
        let memory = std::sync::Arc::new(open(4096, 4096).unwrap());
        let on_device = |result| assert!(matches!(result, Err(RegionError::OnDevice)));
        on_device(memory.read(0, &mut [0; 4]));
        on_device(memory.write(0, &[0; 4]));
        on_device(memory.write_far(0, &[0; 4]));
        on_device(memory.source(0, 4).map(drop));
        on_device(memory.target(0, 4).map(drop));
        memory.prefetch(0, 4096);
        let (other, _file) = Region::create(4096).unwrap();
        on_device(memory.copy_to(0, &other, 0, 16));
        on_device(other.copy_to(0, &memory, 0, 16));
        let part = crate::pieces::Source::of(&memory, 100, 50).unwrap().after(10);
        assert_eq!(part.owner().map(|(_, at)| at), Some(110));
        assert_eq!((part.len(), part.copy_to(&mut [0; 50])), (40, 0), "nothing to be copied");
        assert!(matches!(crate::pieces::Source::of(&memory, 4000, 97), Err(RegionError::OutOfBounds { .. })));
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let error = crate::pieces::write(&end, &[part]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "nor by the kernel");
    }

    /// A peer that scribbles during a copy changes bytes and nothing else.
    #[test]
    fn reading_under_a_concurrent_writer_is_harmless() {
        let (ours, file) = Region::create(1 << 16).unwrap();
        let theirs = Region::open(&file, 1 << 16).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..=255_u8).for_each(|value| theirs.write(0, &[value; 1 << 16]).unwrap()));
            let mut seen = vec![0; 1 << 16];
            for _ in 0..100 {
                ours.read(0, &mut seen).unwrap();
            }
        });
        let mut last = [0; 8];
        ours.read(1 << 15, &mut last).unwrap();
        assert_eq!(last, [255; 8]);
    }
}
