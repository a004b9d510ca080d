//! Files that nobody else may read.

use std::{os::unix::fs::PermissionsExt, path::Path};

use proto_rpc::files::{self, FileError};

use crate::error::KeyError;

/// Only the owner may read or change a secret.
///
/// # Errors
/// Its permissions say otherwise, or cannot be read.
pub fn check_mode(path: &Path) -> Result<(), KeyError> {
    let failed = |source| FileError::Io { action: "read", path: path.to_owned(), source };
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(KeyError::Loose { path: path.to_owned(), mode }) }
}

/// A text file that only its owner can read.
pub(crate) fn read_private(path: &Path) -> Result<String, KeyError> {
    let text = files::read_text(path)?;
    check_mode(path)?;
    Ok(text)
}
