//! From one version of rows to the next: each step is a function of one row, kept for as long as stores of the version before it may be
//! about. Who goes from row to row, and remembers how far it came, is the leader.

mod tables;
mod to_2;
mod to_3;

use bytes::Bytes;
use thiserror::Error;

use crate::format::{CURRENT, Format};

/// A row that cannot be brought to the next version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MigrateError {
    /// Its key is none of that version.
    #[error("its key is none of version {version} of the rows")]
    Unknown {
        /// The version that is being left.
        version: u32,
    },
    /// Its value cannot be read.
    #[error("it cannot be brought from version {version} of the rows to the next: {cause}")]
    Unreadable {
        /// The version that is being left.
        version: u32,
        /// What is wrong with the value.
        cause: String,
    },
}

/// The row at `key` as the next version after `version` has it.
///
/// # Errors
/// [`MigrateError`]: nothing of the store is to be written then.
pub fn step(version: u32, key: &[u8], value: &Bytes) -> Result<Bytes, MigrateError> {
    let row = match version {
        1 => to_2::row(key, value),
        2 => to_3::knows(key).then(|| Ok(value.clone())),
        _ => None,
    };
    row.ok_or(MigrateError::Unknown { version })?.map_err(|cause| MigrateError::Unreadable { version, cause })
}

/// The row at `key` as this program writes it, whatever `format` the store has.
///
/// # Errors
/// As [`step`].
pub fn current(format: &Format, key: &[u8], value: &Bytes) -> Result<Bytes, MigrateError> {
    let mut value = value.clone();
    for version in format.of_row(key)..CURRENT {
        value = step(version, key, &value)?;
    }
    Ok(value)
}
