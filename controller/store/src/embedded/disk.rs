//! The file under the database: our own header page first, the database behind it. Behind a small trait, so that
//! tests can fill the disk, break it, or cut its power.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

use super::codec::{HEADER_BYTES, MAGIC, decode_header, encode_header};
use crate::error::StoreError;
use crate::hub::lock;

/// Format of the file that this release writes and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;

/// An open file, or what stands for one.
pub(crate) trait Disk: Debug + Send + Sync + 'static {
    fn len(&self) -> io::Result<u64>;
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

/// Where the file is; opened anew after each failure.
pub(crate) trait Medium: Debug + Send + Sync + 'static {
    fn open(&self) -> io::Result<Arc<dyn Disk>>;
    fn path(&self) -> &Path;
}

impl Disk for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_at(data, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A file in a directory. Never created by opening: a store that vanished must not come back empty.
#[derive(Debug)]
pub(crate) struct FileMedium {
    pub path: PathBuf,
}

impl Medium for FileMedium {
    fn open(&self) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(&self.path)?))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// A new, private file; fails when it exists.
pub(crate) fn create_file(path: &Path) -> io::Result<Arc<dyn Disk>> {
    Ok(Arc::new(OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?))
}

/// Writes our header page onto an empty disk.
pub(crate) fn write_header(disk: &dyn Disk) -> io::Result<()> {
    disk.set_len(HEADER_BYTES as u64)?;
    disk.write_at(0, &encode_header(FORMAT))?;
    disk.sync()
}

/// Looks at the header before anything else may touch the file.
pub(crate) fn check_header(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    let len = disk.len().map_err(|error| io_failure(&error))?;
    let mut header = vec![0; HEADER_BYTES.min(usize::try_from(len).unwrap_or(HEADER_BYTES))];
    disk.read_at(0, &mut header).map_err(|error| io_failure(&error))?;
    if !header.starts_with(MAGIC) {
        return Err(StoreError::Foreign { path: path.to_owned(), found: describe(&header) });
    }
    let corrupt = |reason: &str| StoreError::Corrupt {
        place: path.display().to_string(),
        key: "its header".to_owned(),
        reason: reason.to_owned(),
    };
    let found = decode_header(&header).map_err(corrupt)?;
    if found > FORMAT {
        return Err(StoreError::NewerFormat { path: path.to_owned(), found, supported: FORMAT });
    }
    if found == 0 || len <= HEADER_BYTES as u64 {
        return Err(corrupt("the file was cut off"));
    }
    Ok(())
}

/// The first bytes of a file in words.
fn describe(header: &[u8]) -> String {
    match header.get(..16.min(header.len())) {
        None | Some([]) => "the file is empty".to_owned(),
        Some(start) => format!("it begins with \"{}\"", start.escape_ascii()),
    }
}

/// A failure of the disk, sorted into "no space" and the rest.
pub(crate) fn io_failure(error: &io::Error) -> StoreError {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let cause = error.to_string();
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => StoreError::Full { cause },
        _ => StoreError::Io { cause },
    }
}

/// What went wrong on the disk during a commit. The database reports a failure only in its own words.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    first: Mutex<Option<FirstFault>>,
}

#[derive(Debug, Clone)]
struct FirstFault {
    error: StoreError,
    /// A page of the commit is missing on disk, so the commit cannot be there.
    nothing_stored: bool,
}

impl Fault {
    fn note<T>(
        &self,
        result: io::Result<T>,
        nothing_stored: impl FnOnce(&StoreError) -> bool,
    ) -> io::Result<T> {
        if let Err(error) = &result {
            let error = io_failure(error);
            let nothing_stored = nothing_stored(&error);
            lock(&self.first).get_or_insert(FirstFault { error, nothing_stored });
        }
        result
    }

    /// Starts a commit: forgets what was before.
    pub fn begin(&self) {
        *lock(&self.first) = None;
    }

    /// The disk's own first error of this commit.
    pub fn first(&self) -> Option<StoreError> {
        lock(&self.first).as_ref().map(|first| first.error.clone())
    }

    /// Whether it is certain that nothing of the failed commit is on disk. The database writes every page of a
    /// commit once and checks them all when it opens, so one missing page undoes the commit. The root page is the
    /// exception: half of it may be enough. A failed sync says nothing.
    pub fn nothing_stored(&self) -> bool {
        lock(&self.first).as_ref().is_some_and(|first| first.nothing_stored)
    }
}

/// The disk as the database sees it: without our header page.
#[derive(Debug)]
pub(crate) struct Backend {
    pub disk: Arc<dyn Disk>,
    pub fault: Arc<Fault>,
}

const SHIFT: u64 = HEADER_BYTES as u64;

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.fault.note(self.disk.len(), |_| true)?.saturating_sub(SHIFT))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.fault.note(self.disk.read_at(offset + SHIFT, out), |_| true)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        // The file is cut only after a commit that went well.
        let grows = self.disk.len().is_ok_and(|now| now <= len + SHIFT);
        self.fault.note(self.disk.set_len(len + SHIFT), |_| grows)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fault.note(self.disk.sync(), |_| false)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let written = self.disk.write_at(offset + SHIFT, data);
        self.fault.note(written, |error| offset != 0 || matches!(error, StoreError::Full { .. }))
    }
}
