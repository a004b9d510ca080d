//! One process per store: a lock file beside it that names its holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::disk::io_failure;
use crate::error::StoreError;

/// Held as long as the store is open; the system releases it when the process dies, however it dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Takes the lock at `path`, a file that is made if it is not there.
///
/// # Errors
/// [`StoreError::InUse`] names the process that has it.
pub fn acquire(path: &Path) -> Result<Lock, StoreError> {
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let mut file = open.map_err(|error| at(path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(StoreError::InUse { path: path.to_owned(), pid });
        }
        Err(TryLockError::Error(error)) => return Err(at(path, &error)),
    }
    // The pid is for the message only; on a full disk the lock works without it.
    let _ =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(Lock { _file: file })
}

/// A disk failure with the path in its cause.
pub(crate) fn at(path: &Path, error: &std::io::Error) -> StoreError {
    match io_failure(error) {
        StoreError::Full { cause } => StoreError::Full { cause: format!("{}: {cause}", path.display()) },
        StoreError::Io { cause } => StoreError::Io { cause: format!("{}: {cause}", path.display()) },
        other => other,
    }
}
